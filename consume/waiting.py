"""Those who wait for the messages of one subscription. What wakes them is an arrival in its stores, or itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..engine.bell import Bell
from .consumed_store import ConsumedStore, StoresNow


class Waiter:
    """One of them."""

    def __init__(self, stores: StoresNow, bell: Bell) -> None:
        self._stores, self.bell = stores, bell
        self._asked: set[ConsumedStore] = set()

    def expect(self) -> None:
        """Have the bell rung when something new can be read. Look what there is after this call, then wait."""
        for store in self._stores().values():
            if store.is_usable:
                self._asked.add(store)
                store.arrivals.expect(self.bell)

    def forget(self) -> None:
        for store in self._asked:
            store.arrivals.forget(self.bell)


class Waiting:
    """Safe from many threads."""

    def __init__(self, stores: StoresNow) -> None:
        self._stores = stores
        self._lock = threading.Lock()
        self._bells: set[Bell] = set()

    @contextmanager
    def with_bell(self, bell: Bell) -> Iterator[Waiter]:
        """Somebody waits, in the block."""
        waiter = Waiter(self._stores, bell)
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
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.ring()
