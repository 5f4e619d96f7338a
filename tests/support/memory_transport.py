"""A transport that keeps what is written to it."""

from __future__ import annotations

import asyncio


class MemoryTransport(asyncio.Transport):
    """Notes whether it is read from, and whether it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read, self.is_closed = True, False
        self._written: list[bytes] = []

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True

    def taken(self) -> bytes:
        """What was written since the last call of this."""
        found, self._written = b"".join(self._written), []
        return found
