"""What one client, and all of them together, may have the server hold and do.

Bytes that wait, of requests and of answers, are counted for each connection and for the server. Frames that carry no
call are counted by the second, as other servers do since CVE-2019-9512 and CVE-2023-44487.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import time
import weakref

log = logging.getLogger("flightlog.serve")

MAX_HELD_OF_CONNECTION = 64 << 20
MAX_HELD_OF_ADDRESS = 256 << 20
MAX_HELD = 512 << 20
"""Limit of the server: incomplete requests, and answers that wait to be read."""
RESETS, RESETS_PER_S = 1000, 100.0
"""Calls that a client may open and reset at once, and those that it may go on to reset."""
CONTROLS, CONTROLS_PER_S = 10_000, 1000.0
"""The same for pings, settings, priorities and empty data. Java's and Go's clients send a ping with the data that they
read, to measure the way."""
WANTED_FILES = 16_384
"""Descriptors for 10,000 connections, the store and its files."""


class HeldBytes:
    """Bytes that wait. In one event loop."""

    def __init__(self, most: int = MAX_HELD, all_held: HeldBytes | None = None) -> None:
        """`all_held` counts them as well."""
        self.size, self._most, self._all_held = 0, most, all_held

    def has_room(self, count: int) -> bool:
        return self.size + count <= self._most and (self._all_held is None or self._all_held.has_room(count))

    def add(self, count: int) -> None:
        """More, or fewer if negative."""
        self.size += count
        if self._all_held is not None:
            self._all_held.add(count)

    def clear(self) -> None:
        self.add(-self.size)


class HeldByAddress:
    """What waits in all connections of an address, and of a server. In one event loop."""

    def __init__(self) -> None:
        self._all = HeldBytes()
        self._known: weakref.WeakValueDictionary[str, HeldBytes] = weakref.WeakValueDictionary()

    def of(self, address: str) -> HeldBytes:
        """It is kept as long as a connection counts by it."""
        found = self._known.get(address)
        if found is None:
            found = self._known[address] = HeldBytes(MAX_HELD_OF_ADDRESS, self._all)
        return found


class Rate:
    """So many at once, and so many a second from then on."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._left, self._burst, self._per_s = float(burst), burst, per_s
        self._seen_s = time.monotonic()

    def allows(self) -> bool:
        """Count one."""
        now_s = time.monotonic()
        self._left = min(self._left + (now_s - self._seen_s) * self._per_s, self._burst) - 1
        self._seen_s = now_s
        return self._left >= 0


def raise_file_limit() -> None:
    """Take as many descriptors as this process may have, and say when those are few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < WANTED_FILES:
        text = "only %d files can be open at a time (ulimit -Hn), so not all of 10,000 clients can connect"
        log.warning(text, limit, extra={"limit": limit})
