"""Those who wait for the messages of one subscription. What wakes them is an arrival in its stores, or itself."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager

from ...engine.services.bell import Ringable
from ...store.message_queue import MessageQueue
from ..group.consumed_store import ConsumedStore, StoresNow


class _QueuesOfStore:
    """Those of a member's queues that lie in one store, as the store names them; always as they are now."""

    def __init__(self, store: str, queues: Container[MessageQueue]) -> None:
        self._store, self._queues = store, queues

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple)
        topic, queue_id = key
        return MessageQueue(topic, self._store, queue_id) in self._queues


class Waiter:
    """One of them."""

    def __init__(self, stores: StoresNow, queues: Container[MessageQueue], bell: Ringable) -> None:
        self._stores, self._queues, self._bell = stores, queues, bell
        self._asked: set[ConsumedStore] = set()

    def expect(self) -> None:
        """Have the bell rung when something new can be read in these queues. Look what there is after this call, then
        wait."""
        for store in self._stores().values():
            if store.is_usable:
                self._asked.add(store)
                store.arrivals.expect(self._bell, _QueuesOfStore(store.name, self._queues))

    def forget(self) -> None:
        for store in self._asked:
            store.arrivals.forget(self._bell)


class Waiting:
    """Safe from many threads."""

    def __init__(self, stores: StoresNow, queues: Container[MessageQueue]) -> None:
        self._stores, self._queues = stores, queues
        self._lock = threading.Lock()
        self._bells: set[Ringable] = set()

    @contextmanager
    def with_bell(self, bell: Ringable) -> Iterator[Waiter]:
        """Somebody waits, in the block."""
        waiter = Waiter(self._stores, self._queues, bell)
        with self._lock:
            self._bells.add(bell)
        try:
            yield waiter
        finally:
            waiter.forget()
            with self._lock:
                self._bells.discard(bell)

    def ring(self) -> None:
        """Have everybody look again."""
        if not self._bells:  # who comes now looks after this
            return
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.ring()
