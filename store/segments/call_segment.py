"""A segment that is appended to by write calls, on file systems where a store through a mapping may end the process.

Blocks are allocated ahead there, too, for the sake of an early DiskFullError. Where they run out all the same, the
write call fails: the append raises DiskFullError, and the next one, or the close, wipes what it left.

Reads are as on any other segment; the kernel keeps what is written and what is mapped for reading the same.
"""

from __future__ import annotations

from .segment import AppendSegment


class CallSegment(AppendSegment):
    """Nothing of it is ever mapped for writing."""

    maps_appends = False

    def store(self, position: int, data: bytes | bytearray) -> None:
        self.write_file.write(position, memoryview(data))

    def wipe(self, start: int, stop: int) -> None:
        """Nothing is written where zeros are already: a full disk may have no block even for those."""
        left = self.write_file.read(start, stop - start).rstrip(b"\0")
        if left:
            self.write_file.write(start, bytes(len(left)))

    def expect_bulk(self, is_bulk: bool) -> None:
        """There are no mapped pages to expect."""

    def _populate(self, position: int, ahead: int) -> None:
        self.populated = self.size
