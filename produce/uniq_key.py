"""The id that a sender gives a message, so that a store can be asked whether it has it.

    4 address | 2 pid | 4 of this process | 4 ms since the month began | 2 counter     in hexadecimal, 32 digits

As RocketMQ's clients make it (`MessageClientIDSetter#createUniqID`); in place of the hash of a class loader there are
random bytes, which a forked child replaces.
"""

from __future__ import annotations

import itertools
import os
import secrets
import socket
import struct
import time

from ..store.disk.lock import watch_fork

ID = struct.Struct(">4sHIIH")
DATAGRAM_TO = ("192.0.2.1", 9)  # nothing is sent: it says which of its addresses this machine would send from


class UniqKeys:
    """Makes ids, each once. Thread-safe."""

    def __init__(self) -> None:
        self._begin()
        watch_fork(self)

    def mark_forked(self) -> None:
        """Called in a forked child: from here on its ids are others than the parent's."""
        self._begin()

    def _begin(self) -> None:
        self._address, self._process = _own_address(), secrets.randbits(32)
        self._counter = itertools.count(1)

    def make(self, now_s: float | None = None) -> str:
        """An id; `now_s` is a time since 1970 in place of the machine's."""
        now = time.time() if now_s is None else now_s
        local = time.localtime(now)
        month_began = time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1))
        passed_ms = int((now - month_began) * 1000)
        count = next(self._counter)
        # The counter comes round after 65,536 ids of one millisecond at the earliest: its high part goes with the
        # random bytes.
        process = (self._process + (count >> 16)) & 0xFFFFFFFF
        found = ID.pack(self._address, os.getpid() & 0xFFFF, process, passed_ms & 0xFFFFFFFF, count & 0xFFFF)
        return found.hex().upper()


def _own_address() -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        try:
            datagram.connect(DATAGRAM_TO)
            address: str = datagram.getsockname()[0]
        except OSError:  # a machine without a network
            address = "127.0.0.1"
    return socket.inet_aton(address)
