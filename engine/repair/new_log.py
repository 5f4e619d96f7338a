"""Writes a commit log by records, segment by segment, for a store that was not opened yet."""

from __future__ import annotations

from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import DamagedStoreError
from ...store.format.record import BLANK_SIZE, encode_blank
from ...store.segments.segment import segment_name

PIECE_SIZE = 4 << 20


class NewLog:
    """Ask `place` for the physical offset of the next record, then `append` it. `finish` makes all of it durable."""

    def __init__(self, disk: Disk, folder: Path, segment_size: int, start: int) -> None:
        self._disk, self._folder, self._size = disk, folder, segment_size
        self._base, self._written, self._piece = start, 0, bytearray()
        self._file: DiskFile | None = None
        disk.make_folder(folder)

    def place(self, size: int) -> int:
        """The physical offset that a record of `size` bytes gets: the next one, or that of a new segment."""
        if size + BLANK_SIZE > self._size:
            raise DamagedStoreError(
                f"{self._folder}: a record of {size} bytes does not fit into a segment of {self._size}. Name the "
                "segment_size of the damaged store in the settings"
            )
        at = self._written + len(self._piece)
        if at + size + BLANK_SIZE > self._size:
            self._piece += encode_blank(self._size - at)
            self._end_segment()
        return self._base + self._written + len(self._piece)

    def append(self, record: bytes) -> None:
        self._piece += record
        if len(self._piece) >= PIECE_SIZE:
            self._write()

    def finish(self) -> None:
        """Durable when it returns."""
        if self._piece or self._written:
            self._end_segment()
        self._disk.sync_folder(self._folder)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _end_segment(self) -> None:
        self._write()
        assert self._file is not None
        self._file.sync()
        self.close()
        self._base, self._written = self._base + self._size, 0

    def _write(self) -> None:
        if self._file is None:
            self._file = self._disk.open(self._folder / segment_name(self._base), writable=True, create=True)
            self._file.resize(self._size)
        self._file.write(self._written, bytes(self._piece))
        self._written += len(self._piece)
        self._piece.clear()
