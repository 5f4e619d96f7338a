"""The keys of a store that is open for writing, as its queries find them."""

from __future__ import annotations

from collections.abc import Iterator

from ...index.key.key_index import KeyIndex
from ...store.errors import IndexFileGoneError
from .dispatcher import Dispatcher


class LiveKeys:
    """Candidates for a query by key, see key_query.py. If an index file was deleted, the index is rebuilt
    during the query, by this thread or another one, and the query starts again: it remembers what it has
    returned."""

    def __init__(self, index: KeyIndex, dispatcher: Dispatcher) -> None:
        self._index, self._dispatcher = index, dispatcher

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets, newest first."""
        while True:
            clear_count = self._index.clear_count
            self._dispatcher.catch_up()  # waits for an index that is being rebuilt
            try:
                for physical_offset in self._index.candidates(key_hash, begin_ms, end_ms):
                    if self._index.clear_count != clear_count:
                        break  # before an older one than those that may be missing
                    yield physical_offset
            except IndexFileGoneError:
                self._dispatcher.restart_index(self._index)
                continue
            if self._index.clear_count == clear_count:
                return

    def release(self) -> None:
        """Nothing: the index itself is closed with the store."""
