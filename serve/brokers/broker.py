"""A store that is served, under the name that routes and handles give it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...consume.store import Store
from ...store.errors import FlightlogError, StoreClosedError
from ..metrics.traffic import Traffic

log = logging.getLogger("flightlog.serve")


class Broker:
    """Thread-safe.

    Invariant: `store` is another object after the store was lost and opened again. Nothing else of the server keeps it.
    """

    def __init__(self, name: str, path: Path, opening: Callable[[], Store] | None = None) -> None:
        """`opening` opens the store, and opens it again after it was lost; None: the store is somebody else's, who
        opened it and closes it."""
        self.name, self.path, self.traffic = name, path, Traffic()
        self._opening = opening
        self._store: Store | None = None
        self._reason = "it was not opened yet"

    @classmethod
    def of(cls, store: Store) -> Broker:
        """The broker of an open store. Once the store is lost, it stays lost."""
        broker = cls(store.settings.broker_name, store.path)
        broker._store = store
        return broker

    def __repr__(self) -> str:
        return f"<Broker {self.name!r}, {'up' if self.is_up else self.reason}>"

    @property
    def store(self) -> Store:
        """The store as it was opened last: it may be closed by now, or poisoned. Raises StoreClosedError before it was
        opened for the first time."""
        if self._store is None:
            raise StoreClosedError(f"broker {self.name!r}: {self.path} is not open: {self._reason}")
        return self._store

    def current(self) -> Store:
        """The same, for those who ask again and again."""
        return self.store

    @property
    def was_opened(self) -> bool:
        return self._store is not None

    @property
    def is_up(self) -> bool:
        """Whether it takes messages: it is open, and no sync has failed."""
        store = self._store
        return store is not None and not store.is_closed and store.message_store.poison is None

    @property
    def reason(self) -> str:
        """Why it is not up."""
        store = self._store
        poison = None if store is None else store.message_store.poison
        return self._reason if poison is None else str(poison)

    @property
    def comes_back(self) -> bool:
        """Whether `open` may open it again after it was lost."""
        return self._opening is not None

    def open(self) -> None:
        """Open it, a lost one anew. Raises what opening raises. By a thread, one at a time: it waits for the disk."""
        if self._opening is None:
            return
        if self._store is not None:
            with suppress(FlightlogError):  # it says again why it was lost
                self._store.close()
        try:
            self._store = self._opening()
        except FlightlogError as e:
            self._reason = str(e)
            raise

    def close(self) -> None:
        """Close the store, if it was opened here. Raises DiskError."""
        if self._opening is not None and self._store is not None:
            self._store.close()
