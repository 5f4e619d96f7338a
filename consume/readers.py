"""Who reads one store: its own coordinator of groups, made when it is first needed, and those of `Stores`.

Invariants:
- No coordinator comes while the store is being closed.
- Each knows the store by one name, and all of them share who balances which group.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from weakref import WeakKeyDictionary

from ..engine.message_store import MessageStore
from .group.consumed_store import ConsumedStore, NoPop, Owner
from .group.group_table import GroupTable
from .group_coordinator import GroupCoordinator
from .outside_groups import OutsideGroups
from .retry.sent_back import SentBack
from .retry.starts import Starts


@contextmanager
def without_joins(coordinators: Iterable[GroupCoordinator]) -> Iterator[None]:
    """No member of these joins or leaves during the block, unless it has died."""
    with ExitStack() as held:
        for coordinator in sorted(coordinators, key=id):  # one order for all: other stores may share them
            held.enter_context(coordinator.without_joins())
        yield


class Readers:
    """Thread-safe."""

    def __init__(
        self,
        store: MessageStore,
        table: GroupTable,
        starts: Starts,
        sent_back: SentBack,
        owners: dict[str, Owner],
        no_pop: NoPop,
    ) -> None:
        self._store, self._owners, self._no_pop = store, owners, no_pop
        self._kept = table, starts, sent_back, owners, no_pop
        self._lock = threading.Lock()
        self._all: WeakKeyDictionary[GroupCoordinator, ConsumedStore] = WeakKeyDictionary()
        """The store as each coordinator reads it."""
        self.made: GroupCoordinator | None = None
        """The store's own, from the first call of `own` on."""

    def own(self) -> GroupCoordinator:
        """The store's own coordinator. Raises StoreClosedError, ForkedStoreError."""
        with self._lock:
            self._store.check_usable()
            if self.made is None:
                settings = self._store.settings
                intervals_s = settings.offset_save_interval_ms / 1_000, settings.rebalance_interval_ms / 1_000
                made = GroupCoordinator(self._store.clock, *intervals_s)
                self._add(made, settings.broker_name)
                self.made = made
            return self.made

    def add(self, coordinator: GroupCoordinator, name: str) -> None:
        """See Stores.add_store."""
        with self._lock:
            self._store.check_usable()
            self._add(coordinator, name)

    def _add(self, coordinator: GroupCoordinator, name: str) -> None:
        consumed = ConsumedStore(name, self._store, *self._kept)
        coordinator.add_store(consumed)
        self._all[coordinator] = consumed

    def outside(self, owner: Owner) -> OutsideGroups:
        """See Store.outside_groups."""
        self.own()  # so that no other coordinator is made while a group is claimed
        return OutsideGroups(self._store, self._owners, owner, self._no_pop, lambda: without_joins(self.now()))

    def now(self) -> Mapping[GroupCoordinator, ConsumedStore]:
        return dict(self._all)

    def forget_topic(self, name: str) -> None:
        """It was deleted."""
        for coordinator, consumed in self.now().items():
            coordinator.forget_topic(consumed, name)

    def wake(self, group: str) -> None:
        """Have the group's members see its settings, which have changed."""
        for coordinator in self.now():
            coordinator.wake(group)

    def without_new(self) -> AbstractContextManager[object]:
        """No coordinator comes during the block."""
        return self._lock

    def end(self) -> None:
        """End the groups of the store alone, and have those of several let go of it. Raises DiskError."""
        for coordinator, consumed in self.now().items():
            if coordinator is self.made:
                coordinator.close()
            else:
                coordinator.forget_store(consumed)
