"""Reading one key index file: chains of entries from a slot, newest first, and the entries in the order of the log.

Nothing in a file is trusted: whatever bytes it holds, a read ends, stays within the file and raises no error of its
own. Results from a damaged file may be wrong, so the caller checks them against the records.

A search reads single words and entries all over the file, so it uses a mapping that stays open, as reads of the log do.
Sequential reads of a file use read calls.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from .index_file import (
    ENTRY,
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    MAX_TIME_DIFF_S,
    SLOT_SIZE,
    Entries,
    IndexGeometry,
    IndexHeader,
    decode_entries,
    decode_header,
)

SLOT = struct.Struct(">i")
PIECE_ENTRIES = 65_536
"""Entries read at once from a whole file: 1.25 MiB."""

INSPECT_TRIES = 3

ENTRY_MARGIN_MS = 2000
"""Entries keep whole seconds: one is passed over only if it is out of the range by more than this."""
FILE_MARGIN_MS = 3_600_000
"""RocketMQ's store times step back with the clock, so its header's times are not the least and the greatest of a file:
one is passed over only if it is out of the range by more than this."""


class IndexFile:
    """One file of the index. Any number of threads may read."""

    def __init__(self, disk: Disk, path: Path, geometry: IndexGeometry) -> None:
        self._disk, self.path, self.geometry = disk, path, geometry
        self.number = int(path.name)
        self._entries_position, self._size = geometry.entries_position, geometry.file_size
        self._mapping: mmap.mmap | None = None
        """Created by the first search; closed with this object or earlier."""

    @contextmanager
    def opened(self) -> Iterator[DiskFile]:
        """The file, open for reading. Raises FileNotFoundError."""
        file = self._disk.open(self.path)
        try:
            yield file
        finally:
            file.close()

    def header(self) -> IndexHeader:
        """The header as it is on disk. Raises FileNotFoundError."""
        with self.opened() as file:
            return read_header(file)

    def inspect(self) -> tuple[IndexHeader, str | None]:
        """The header on disk, and why this file cannot be used, if it cannot. Raises FileNotFoundError."""
        with self.opened() as file:
            for _ in range(INSPECT_TRIES):
                header = read_header(file)
                problem = header.problem(self.geometry) or _last_entry_problem(file, self.geometry, header)
                if problem is None:
                    break  # else a RocketMQ may be within a put: it sets one field after the other
            return header, problem

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets of entries with this hash, newest first, whose times may lie within [begin, end].

        Raises FileNotFoundError, unless the file was searched before: then it is searched to its end, though it has
        gone.
        """
        data, geometry = self._mapping or self._mapped(), self.geometry
        begin_of_file = 0
        if begin_ms > 0 or end_ms is not None:
            header = self._header_of(data)
            if _is_out_of_range(header, begin_ms, end_ms):
                return
            begin_of_file = header.begin_timestamp_ms
        slot = key_hash % geometry.slots
        number = self._head_of(data, slot)
        entries_at, stop = self._entries_position, self._size if self._size < len(data) else len(data)
        while number >= FIRST_ENTRY:
            at = entries_at + ENTRY_SIZE * number
            if at + ENTRY_SIZE > stop:
                return  # no entry has this number, or the file was cut off
            found, physical_offset, time_diff_s, previous = ENTRY.unpack_from(data, at)
            if found == key_hash:
                if begin_of_file <= 0 or _may_be_within(number, time_diff_s, begin_of_file, begin_ms, end_ms):
                    yield physical_offset
            elif found % geometry.slots != slot:
                return  # damage: an entry of another slot's chain
            if previous >= number:
                return  # damage: a chain only leads to older entries
            number = previous

    def _mapped(self) -> mmap.mmap | bytes:
        with self.opened() as file:
            if not file.size():
                return b""  # cut off; nothing can be mapped
            mapping = file.map_for_read()
        if hasattr(mmap, "MADV_RANDOM"):
            mapping.madvise(mmap.MADV_RANDOM)
        self._mapping = mapping
        return mapping

    def release(self) -> None:
        """Unmap the file; running searches finish on their mappings."""
        self._mapping = None

    def pieces(self, first: int, stop: int) -> Iterator[Entries]:
        """Entries [first, stop) in order, a bounded number at a time; fewer where the file is cut off.

        Raises FileNotFoundError.
        """
        with self.opened() as file:
            yield from read_pieces(file, self.geometry, first, stop)

    def first_at_or_after(self, physical_offset: int, next_entry: int) -> int:
        """Number of the first entry of a record at or after `physical_offset`, or `next_entry`, by binary search.

        Raises FileNotFoundError.
        """
        with self.opened() as file:
            low, high = FIRST_ENTRY, next_entry
            while low < high:
                middle = (low + high) // 2
                entry = read_entries(file, self.geometry, middle, 1)
                if not len(entry) or int(entry["physical_offset"][0]) >= physical_offset:
                    high = middle
                else:
                    low = middle + 1
            return low

    def _header_of(self, data: mmap.mmap | bytes) -> IndexHeader:
        return decode_header(data[:HEADER_SIZE].ljust(HEADER_SIZE, b"\0"))

    def _head_of(self, data: mmap.mmap | bytes, slot: int) -> int:
        at = HEADER_SIZE + SLOT_SIZE * slot
        if at + SLOT_SIZE > len(data):
            return 0  # cut off
        head: int = SLOT.unpack_from(data, at)[0]
        return head


def _last_entry_problem(file: DiskFile, geometry: IndexGeometry, header: IndexHeader) -> str | None:
    """A header that is wrong about its last entry would make a writer pass over keys that are to be put."""
    if not header.has_entries:
        return None
    last = read_entries(file, geometry, header.next_entry - 1, 1)
    found = int(last["physical_offset"][0]) if len(last) else None
    if found == header.end_physical_offset:
        return None
    return (
        f"its header says that entry {header.next_entry - 1} is the last one, of the record at physical offset "
        f"{header.end_physical_offset}; found one of {found}"
    )


def _is_out_of_range(header: IndexHeader, begin_ms: int, end_ms: int | None) -> bool:
    """Whether the header excludes every entry from the range. A header without times, or with impossible ones, excludes
    none."""
    if not 0 < header.begin_timestamp_ms <= header.end_timestamp_ms:
        return False
    if end_ms is not None and header.begin_timestamp_ms > end_ms + FILE_MARGIN_MS:
        return True
    return header.end_timestamp_ms < begin_ms - FILE_MARGIN_MS


def _may_be_within(number: int, time_diff_s: int, begin_of_file_ms: int, begin_ms: int, end_ms: int | None) -> bool:
    """Whether an entry's record can have been stored in [begin_ms, end_ms]."""
    # The first entry is timed against the file before. 0 also stands for every time before the file's begin.
    if number == FIRST_ENTRY or not 0 < time_diff_s < MAX_TIME_DIFF_S:
        return True
    time_ms = begin_of_file_ms + 1000 * time_diff_s
    if end_ms is not None and time_ms > end_ms + ENTRY_MARGIN_MS:
        return False
    return time_ms >= begin_ms - ENTRY_MARGIN_MS


def read_header(file: DiskFile) -> IndexHeader:
    """The header of an open file; that of an empty one if the file is cut off within it."""
    return decode_header(file.read(0, HEADER_SIZE).ljust(HEADER_SIZE, b"\0"))


def read_entries(file: DiskFile, geometry: IndexGeometry, first: int, count: int) -> Entries:
    """Entries [first, first + count) of an open file; fewer where it is cut off."""
    return decode_entries(file.read(geometry.entry_position(first), count * ENTRY_SIZE))


def read_pieces(file: DiskFile, geometry: IndexGeometry, first: int, stop: int) -> Iterator[Entries]:
    """Entries [first, stop) of an open file, PIECE_ENTRIES at a time; fewer where it is cut off."""
    while first < stop:
        piece = read_entries(file, geometry, first, min(PIECE_ENTRIES, stop - first))
        if not len(piece):
            return
        yield piece
        first += len(piece)
