"""Those who wait for the messages of one subscription. What wakes them is an arrival in its stores, or itself."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager

from ...engine.services.wake_up import Notifiable
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

    def __init__(self, stores: StoresNow, queues: Container[MessageQueue], wake_up: Notifiable) -> None:
        self._stores, self._queues, self._wake_up = stores, queues, wake_up
        self._asked: set[ConsumedStore] = set()

    def expect(self) -> None:
        """Have the wake-up notified when something new can be read in these queues. Look what there is after this call,
        then wait."""
        for store in self._stores().values():
            if store.is_usable:
                self._asked.add(store)
                store.arrivals.expect(self._wake_up, _QueuesOfStore(store.name, self._queues))

    def forget(self) -> None:
        for store in self._asked:
            store.arrivals.forget(self._wake_up)


class Waiters:
    """Thread-safe."""

    def __init__(self, stores: StoresNow, queues: Container[MessageQueue]) -> None:
        self._stores, self._queues = stores, queues
        self._lock = threading.Lock()
        self._wake_ups: set[Notifiable] = set()

    @contextmanager
    def with_wake_up(self, wake_up: Notifiable) -> Iterator[Waiter]:
        """Register a waiter for the duration of the block."""
        waiter = Waiter(self._stores, self._queues, wake_up)
        with self._lock:
            self._wake_ups.add(wake_up)
        try:
            yield waiter
        finally:
            waiter.forget()
            with self._lock:
                self._wake_ups.discard(wake_up)

    def notify(self) -> None:
        """Have everybody look again."""
        if not self._wake_ups:  # who comes now looks after this
            return
        with self._lock:
            wake_ups = list(self._wake_ups)
        for wake_up in wake_ups:
            wake_up.notify()
