"""Several stores that are read as one, as a producer writes to several: one per disk, to spread load and to isolate
failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime

from ..engine.documented import documented_by
from ..index.filter.sql_filter import SqlFilter
from ..index.filter.wanted import Wanted
from ..store.arguments import check_group, check_text, check_topic, check_type, check_whole
from ..store.disk.clock import Clock
from ..store.errors import WrongTypeError
from ..store.message_queue import MessageQueue
from ..store.settings import INTERVAL_MS
from .allocate.allocate import AllocationStrategy
from .deliver.failures import OnDeadLetter
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .group.group import Change
from .group.initial_offset import StartFrom
from .group_coordinator import GroupCoordinator
from .store import Store


class Stores:
    """Open stores by name, the names a producer has for them; closes none of them. A context manager; its thread runs
    while there are members. Thread-safe.

        stores = flightlog.Stores({"disk-a": flightlog.open("a"), "disk-b": flightlog.open("b")})
        for message in stores.subscribe("orders", group="billing"):
            ...

    The queues of all stores are allocated together; each store has its own number of queues of a topic, and keeps the
    offsets of its own queues. If a store is closed or poisoned, its queues are revoked: their unacknowledged messages
    are redelivered when the queues are read again, and the other stores continue. `add_store` under the name of a
    closed store continues with it.
    """

    def __init__(
        self,
        stores: Mapping[str, Store],
        *,
        clock: Clock | None = None,
        offset_save_interval_ms: int = 5_000,
        rebalance_interval_ms: int = 20_000,
    ) -> None:
        """The intervals are those of StoreSettings, for the groups of these stores."""
        if not isinstance(stores, Mapping):
            raise WrongTypeError("stores", stores, "open stores by name, as in {'disk-a': store}")
        for name, store in stores.items():
            _check_store(name, store)
        intervals_s = (
            check_whole("offset_save_interval_ms", offset_save_interval_ms, *INTERVAL_MS) / 1_000,
            check_whole("rebalance_interval_ms", rebalance_interval_ms, *INTERVAL_MS) / 1_000,
        )
        self._coordinator = GroupCoordinator(clock, *intervals_s)
        for name, store in stores.items():
            self.add_store(name, store)

    def __repr__(self) -> str:
        return f"<Stores {', '.join(map(repr, self.names))}>"

    @documented_by(GroupCoordinator.subscribe)
    def subscribe(
        self,
        topics: str | Mapping[str, Wanted],
        group: str | int,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        start: StartFrom | int | datetime = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        ordered: bool = False,
        idle_s: float | None = None,
        broadcast_folder: str | os.PathLike[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        must_exist: bool = False,
        max_attempts: int | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        consume_timeout_s: float | None = None,
    ) -> Subscription:
        return self._coordinator.subscribe(
            *(topics, group),
            tags=tags,
            filter=filter,
            start=start,
            member=member,
            strategy=strategy,
            limits=limits,
            ordered=ordered,
            idle_s=idle_s,
            broadcast_folder=broadcast_folder,
            on_change=on_change,
            must_exist=must_exist,
            max_attempts=max_attempts,
            on_dead_letter=on_dead_letter,
            consume_timeout_s=consume_timeout_s,
        )

    @documented_by(GroupCoordinator.change_subscription)
    def change_subscription(
        self,
        group: str | int,
        topics: str | Mapping[str, Wanted] | None = None,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        strategy: AllocationStrategy | None = None,
    ) -> None:
        self._coordinator.change_subscription(group, topics, tags=tags, filter=filter, strategy=strategy)

    def add_store(self, name: str, store: Store) -> None:
        """Read this store, too, from now on; it replaces one of the same name. Raises InconsistentGroupError if a group
        here is balanced elsewhere in that store, StoreClosedError, ForkedStoreError."""
        _check_store(name, store)
        store.be_read_by(self._coordinator, name)

    def remove_store(self, name: str) -> None:
        """Stop reading it; its acknowledgements are on the disk when this returns. Raises InvalidSettingsError if there
        is none, DiskError, StoreClosedError after `close`."""
        check_text("name", name)
        self._coordinator.remove_store(name)

    @property
    def names(self) -> list[str]:
        """Names of the stores that are being read; closed stores are left out."""
        return self._coordinator.store_names

    def group_offsets(self, group: str | int, topic: str) -> dict[MessageQueue, int]:
        """The group's offset in each queue in which it has one. Raises StoreClosedError after `close`."""
        group = check_group(group)
        check_topic(topic)
        return self._coordinator.group_offsets(group, topic)

    def close(self) -> None:
        """End every subscription, and write what was acknowledged. The stores stay open. Raises DiskError."""
        self._coordinator.close()

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_store(name: object, store: object) -> None:
    check_text("name", name)
    check_type("store", store, Store, "a Store that is open for writing, as flightlog.open gives")
