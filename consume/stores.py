"""Several stores that are read as one, as a producer writes to several: one a disk, for spread and for isolation."""

from __future__ import annotations

from collections.abc import Mapping

from ..store.arguments import check_group, check_text, check_topic, check_type
from ..store.disk.clock import Clock
from ..store.errors import WrongTypeError
from ..store.message_queue import MessageQueue
from .consuming_store import Store
from .group_coordinator import GroupCoordinator
from .subscribing import Subscribing


class Stores(Subscribing):
    """Open stores by name, the names a producer has for them; closes none of them. A context manager; its thread runs
    while there are members. Safe from many threads.

        stores = flightlog.Stores({"disk-a": flightlog.open("a"), "disk-b": flightlog.open("b")})
        for message in stores.subscribe("orders", group="billing"):
            ...

    The queues of all stores are shared out together, those of a topic in each being as many as that store has. Each
    store keeps the offsets of its own queues. A store that is closed or poisoned takes its queues with it: what of them
    is at work comes again where they are read next, and the others go on. `add_store` with the name of one that was
    closed reads it on.
    """

    def __init__(self, stores: Mapping[str, Store], *, clock: Clock | None = None) -> None:
        if not isinstance(stores, Mapping):
            raise WrongTypeError("stores", stores, "open stores by name, as in {'disk-a': store}")
        for name, store in stores.items():
            _check_store(name, store)
        self._coordinator = GroupCoordinator(clock)
        for name, store in stores.items():
            self.add_store(name, store)

    def __repr__(self) -> str:
        return f"<Stores {', '.join(map(repr, self.names))}>"

    def _consuming(self) -> GroupCoordinator:
        return self._coordinator

    def add_store(self, name: str, store: Store) -> None:
        """Read this one, too, from now on; in place of the one of that name, if there is one. Raises
        InconsistentGroupError if a group here is balanced elsewhere in that store, StoreClosedError, ForkedStoreError.
        """
        _check_store(name, store)
        store.be_read_by(self._coordinator, name)

    def remove_store(self, name: str) -> None:
        """Read it no more; what was acknowledged there is on its disk when this returns. Raises InvalidSettingsError if
        there is none, DiskError, StoreClosedError after `close`."""
        check_text("name", name)
        self._coordinator.remove_store(name)

    @property
    def names(self) -> list[str]:
        """Of the stores that are read now: one that was closed is not."""
        return self._coordinator.store_names

    def group_offsets(self, group: str | int, topic: str) -> dict[MessageQueue, int]:
        """The offset that the group goes on at, of each queue it has begun in. Raises StoreClosedError after
        `close`."""
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
