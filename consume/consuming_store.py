"""A store that can be subscribed to: what `flightlog.open` gives."""

from __future__ import annotations

import threading
from pathlib import Path
from weakref import WeakKeyDictionary

from ..engine.documented import documented_by
from ..engine.message_store import MessageStore
from ..engine.write.delay_hook import PrePutHook
from ..store.arguments import check_group, check_topic
from ..store.disk.clock import Clock
from ..store.disk.disk import Disk
from ..store.settings import StoreSettings
from .group.consumed_store import ConsumedStore, Owner
from .group_coordinator import GroupCoordinator
from .subscribing import Subscribing

STORE_NAME = "store"
"""Of a store that is read alone; RocketMQ's broker name."""


class Store(Subscribing, MessageStore):
    """A MessageStore with consumer groups. Their offsets are kept in `config/consumerOffset.json`.

    Nothing of this runs before the first subscription, but that offsets are read when the store is opened.
    """

    _coordinator: GroupCoordinator | None = None

    def __init__(
        self, path: Path, settings: StoreSettings, disk: Disk, clock: Clock, pre_put_hook: PrePutHook | None
    ) -> None:
        self._subscribing = threading.Lock()
        self._readers: WeakKeyDictionary[GroupCoordinator, ConsumedStore] = WeakKeyDictionary()
        self._owners: dict[str, Owner] = {}
        super().__init__(path, settings, disk, clock, pre_put_hook)

    def _consuming(self) -> GroupCoordinator:
        with self._subscribing:
            self._check_usable()
            if self._coordinator is None:
                made = GroupCoordinator(self._clock)
                self._read_by(made, STORE_NAME)
                self._coordinator = made
            return self._coordinator

    def be_read_by(self, coordinator: GroupCoordinator, name: str) -> None:
        """See Stores.add_store."""
        with self._subscribing:
            self._check_usable()
            self._read_by(coordinator, name)

    def _read_by(self, coordinator: GroupCoordinator, name: str) -> None:
        commit_log = self._log
        consumed = ConsumedStore(
            *(name, self, self._arrivals, self._offsets, self._owners),
            poison=lambda: commit_log.poison,
            poison_wake_ups=commit_log.poison_wake_ups,
        )
        coordinator.add_store(consumed)
        self._readers[coordinator] = consumed

    def group_offsets(self, group: str | int, topic: str) -> dict[int, int]:
        """Queue id -> the offset that the group goes on at, of the queues it has begun in."""
        self._check_usable()
        group = check_group(group)
        check_topic(topic)
        return self._offsets.of(group, topic)

    @documented_by(MessageStore.delete_topic)
    def delete_topic(self, name: str) -> None:
        super().delete_topic(name)
        for coordinator, consumed in tuple(self._readers.items()):
            coordinator.forget_topic(consumed, name)

    def close(self) -> None:
        """End every subscription to this store alone, drop its queues from those to several, write what was
        acknowledged, then close as MessageStore does."""
        if self._forked or self._closed:
            super().close()
            return
        with self._subscribing:
            try:
                for coordinator, consumed in tuple(self._readers.items()):
                    if coordinator is self._coordinator:
                        coordinator.close()
                    else:
                        coordinator.forget_store(consumed)
            finally:
                super().close()


open_store = Store.open
