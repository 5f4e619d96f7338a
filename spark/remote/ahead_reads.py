"""Reading a range of a remote file from its start to its end: large blocks, each fetched while the one before it is
decoded, nothing twice and nothing behind the range."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

BLOCK_SIZE = 16 << 20
"""Ranges of 8 to 64 MiB make the most of a connection; three of them are held at most."""


class AheadReads:
    """In place of a file's read calls.

    Invariants: what is held begins at or before what was asked for last; the block behind what is held is being
    fetched, unless the range ends there.
    """

    def __init__(self, read: Callable[[int, int], bytes], stop: int, block_size: int = BLOCK_SIZE) -> None:
        self._read, self._stop, self._block_size = read, stop, block_size
        self._start, self._held = 0, b""
        self._ahead: Future[bytes] | None = None
        self._pool = ThreadPoolExecutor(1, "flightlog-read-ahead")

    def read(self, position: int, size: int) -> memoryview:
        """The bytes there; fewer where the range ends."""
        stop = min(position + size, self._stop)
        if not self._start <= position <= self._start + len(self._held):
            self._drop_ahead()
            self._start, self._held = position, b""
        if stop > self._start + len(self._held):
            parts = [self._held[position - self._start :]]
            at = self._start + len(self._held)
            self._start = position
            while at < stop:
                part = self._next(at)
                if not part:
                    break  # the file is shorter than the range
                parts.append(part)
                at += len(part)
                self._fetch(at)
            self._held = b"".join(parts)
        return memoryview(self._held)[position - self._start : stop - self._start]

    def _next(self, at: int) -> bytes:
        if self._ahead is None:
            self._fetch(at)
        assert self._ahead is not None
        ahead, self._ahead = self._ahead, None
        return ahead.result()

    def _fetch(self, at: int) -> None:
        if at < self._stop:
            self._ahead = self._pool.submit(self._read, at, min(self._block_size, self._stop - at))

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def close(self) -> None:
        """Fetch nothing more; what is being fetched is let go of when it is there."""
        self._drop_ahead()
        self._pool.shutdown(wait=False, cancel_futures=True)
