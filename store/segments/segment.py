"""One commit-log segment: a file of fixed length whose name is the physical offset of its first byte.

    00000000000000000000   00000000001073741824   00000000002147483648

Invariants:
- Reads and appends use different mappings: appends are advised random, reads are left to the kernel's read-ahead.
- Blocks below `allocated` exist, so a store into the append mapping below it cannot fail. It is a multiple of
  FOLIO_SIZE or the end of the segment, once something was appended.
- `fast_path_limit` is never above `allocated`.
- Bytes that were never written are zero.
"""

from __future__ import annotations

import mmap
import threading
from pathlib import Path

from ...store import native
from ..disk.disk import Disk, DiskFile, MappedPart
from ..errors import (
    DiskError,
    DiskFullError,
    FileGoneError,
    SegmentGoneError,
    SegmentRemovedError,
    StoreClosedError,
    SyncFailedError,
)

NAME_DIGITS = 20
HEAD_SIZE = 8
"""Bytes of a record's size and magic; a filler has no more."""
BASE_BELOW = 1 << 62
"""No file is named so by a writer; offsets in what lies below fit into 64 bits."""

FOLIO_SIZE = 2 << 20
"""The page cache holds a file in pieces of one page up to this size, at multiples of their size. When one byte of a
piece is stored, the file system asks for blocks for all of it: a piece that is half allocated is a SIGBUS on a full
disk."""

RELEASE_SIZE = 1 << 20
"""Pages of less than that are left to the sync."""
PART_SIZE = 48 << 10
"""Below so many bytes the whole file is synced: that writes no more than these bytes."""
DEEP_SIZE = 64 << 20
"""Unless pages are prepared further ahead than that: then the file's sync would write all of them for a few bytes."""

KEPT_FREE_SIZE = 1 << 20
"""Bytes of disk that the log leaves free for small files and their folders."""
RECORD_BYTES_A_QUEUE_BYTE = 4
"""The smallest records are some 90 bytes long, with entries of 20. A log that took the last blocks would hold messages
that no queue can name."""


def segment_name(base: int) -> str:
    """The file name of the segment that starts at physical offset `base`."""
    return f"{base:0{NAME_DIGITS}d}"


def segment_base(name: str) -> int | None:
    """The physical offset that a name stands for, or None if it is no segment's name."""
    base = int(name) if len(name) == NAME_DIGITS and name.isascii() and name.isdigit() else None
    return base if base is not None and base < BASE_BELOW else None


class Segment:
    """Reads of one segment; see AppendSegment for writes."""

    def __init__(self, disk: Disk, path: Path, base: int, size: int) -> None:
        self.disk, self.path, self.base, self.size = disk, path, base, size
        self._open_lock = threading.Lock()
        """Held while files and mappings come and go; nothing else is locked under it."""
        self._is_closed = False
        self._file: DiskFile | None = None
        self._mapping: mmap.mmap | None = None

    @property
    def end(self) -> int:
        """The physical offset one past the last byte."""
        return self.base + self.size

    @property
    def file(self) -> DiskFile:
        """The file, opened for reading at first use. Raises SegmentGoneError, and StoreClosedError after `close`."""
        file = self._file
        if file is None:
            with self._open_lock:
                file = self._open_for_read()
        return file

    def mapping(self) -> mmap.mmap:
        """The bytes through a read mapping: fast; a bad sector or another's truncation kills the process.

        Raises SegmentGoneError, and StoreClosedError after `close`.
        """
        mapping = self._mapping
        if mapping is None:
            with self._open_lock:
                mapping = self._mapping
                if mapping is None:
                    mapping = self._mapping = self._open_for_read().map_for_read()
        return mapping

    def warm_mapping(self) -> mmap.mmap:
        """The bytes that were appended last, through the mapping that has their pages already. Raises as `mapping`."""
        return self.mapping()

    @property
    def is_mapped(self) -> bool:
        """Whether it is being read through its mapping."""
        return self._mapping is not None

    def copy(self, position: int, size: int) -> bytes:
        """The bytes through the mapping, or through a read call where files cannot be mapped. Raises as `mapping`."""
        return self.mapping()[position : position + size] if self.disk.maps_files else self.read(position, size)

    def expect_scattered_reads(self, are_scattered: bool) -> None:
        """Whether the kernel is to read nothing ahead for reads through the mapping: each may bring in many mebibytes
        else. Raises as `mapping` does."""
        if hasattr(mmap, "MADV_RANDOM") and self.disk.maps_files:
            self.mapping().madvise(mmap.MADV_RANDOM if are_scattered else mmap.MADV_NORMAL)

    def _open_for_read(self) -> DiskFile:
        self._check_open()
        if self._file is None:
            try:
                self._file = self.disk.open(self.path)
            except FileNotFoundError as e:
                raise SegmentGoneError(self.path) from e
        return self._file

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(f"{self.path}: the store was closed; open it again")

    def read(self, position: int, size: int) -> bytes:
        """The bytes through a read call: where damage is expected, it comes back as an error."""
        try:
            return self.file.read(position, size)
        except DiskError:
            self._check_open()  # closed by another thread in between: that is the reason then
            raise

    def close(self) -> None:
        """Close the file for good. A mapping that a caller still holds lives until the caller drops it."""
        with self._open_lock:
            self._is_closed = True
            self._mapping = None
            file, self._file = self._file, None
            if file is not None:
                file.close()


class AppendSegment(Segment):
    """The segment that appends go to.

    One thread appends at a time, and another one may prepare what the appends will need; the lock of the room is held
    by both while they ask for blocks.
    """

    maps_appends = True
    """Whether appends are stored through a mapping; see CallSegment."""

    def __init__(self, disk: Disk, path: Path, base: int, size: int) -> None:
        super().__init__(disk, path, base, size)
        self._write_file: DiskFile | None = None
        self._append_mapping: mmap.mmap | None = None
        self.allocated = 0
        """Position below which blocks exist."""
        self.fast_path_limit = 0
        """Position up to which an append needs no preparation and no call; never above `allocated`."""
        self.populated = 0
        """Position below which pages were made present for appends, or need not be."""
        self._room_lock = threading.Lock()
        """Held while blocks are allocated; nothing else is locked under it, but for opening the file."""
        self._has_unsynced_name = self._expects_bulk = False

    @property
    def write_file(self) -> DiskFile:
        """The file, opened for writing at first use, by an append or by a sync."""
        file = self._write_file
        if file is None:
            with self._open_lock:
                self._check_open()
                file = self._write_file
                if file is None:
                    file = self._write_file = self.disk.open(self.path, writable=True)
        return file

    def create(self) -> None:
        """Make the file at full length, as a hole, and its name durable. A file that is there already is kept.

        A new one gets its name last, where the file system can do that: a RocketMQ that is started beside this store
        removes a last segment without bytes (MappedFileQueue.doLoad), before it finds the store in use and gives up.
        """
        if not self._is_made_without_name():
            file = self._write_file = self.disk.open(self.path, writable=True, create=True)
            if file.size() != self.size:
                file.resize(self.size)
            file.sync()
        self._has_unsynced_name = True
        self.sync_name()

    def _is_made_without_name(self) -> bool:
        # Listed, since `exists` raises inside: an interrupt that came upon that would be taken for a failing disk's.
        is_there = self.path.name in [entry.name for entry in self.disk.list(self.path.parent)]
        if is_there or not self.open_unnamed():
            return False
        try:
            self.link()
        except DiskError:  # as where /proc is not mounted: with its name from the start, it is made or says why not
            self.write_file.close()
            self._write_file = None
            return False
        return True

    def open_unnamed(self) -> bool:
        """Make the file at full length, as a hole, durable but without a name; False where that cannot be."""
        file = self.disk.open_unnamed(self.path)
        if file is None:
            return False
        self._write_file = file
        file.resize(self.size)
        file.sync()  # no name may reach the disk before its length
        return True

    def link(self) -> None:
        """Give the file its name. `sync` makes it durable, before it calls any record durable."""
        self._has_unsynced_name = True  # first: an interrupt may come after the link
        self.disk.link(self.write_file)

    def sync_name(self) -> None:
        """Return once the name is durable. Raises SyncFailedError."""
        if self._has_unsynced_name:
            self.disk.sync_folder(self.path.parent)
            self._has_unsynced_name = False

    def allocate_up_to(self, position: int, step: int, undispatched_size: int) -> None:
        """Have blocks below `position`, and a step more if there is room. Raises DiskFullError if there is none.

        `undispatched_size` bytes of records have no queue entries yet: room for those, too, is left on the disk.
        """
        with self._room_lock:
            if position <= self.allocated:
                return
            needed = self._whole_folios(position)
            wished = max(needed, self._whole_folios(self.allocated + step))
            try:
                self._allocate(wished, undispatched_size)
            except DiskFullError:
                if wished == needed:
                    raise
                self._allocate(needed, undispatched_size)

    def prepare(self, position: int, step: int, ahead: int, undispatched_size: int) -> None:
        """Have blocks for `step` bytes from the append position on, and pages for `ahead` bytes. Raises DiskError if
        there are no blocks; no append has asked for them yet."""
        with self._room_lock:
            wished = self._whole_folios(position + step)
            if wished > self.allocated:
                self._allocate(wished, undispatched_size)
        self._populate(position, ahead)

    def _populate(self, position: int, ahead: int) -> None:
        start = max(self.populated, position - position % mmap.PAGESIZE)
        stop = min(-(-(position + ahead) // mmap.PAGESIZE) * mmap.PAGESIZE, self.allocated, self.size)
        if stop > start:
            is_done = native.populate(self.append_mapping(), start, stop - start)
            self.populated = stop if is_done else self.size

    def expect_bulk(self, is_bulk: bool) -> None:
        """Whether the kernel may hold pages that are not there yet in large pieces, when appends come to them: that is
        five times as fast, but a sync of one record can then write a mebibyte. Raises as `append_mapping`."""
        if self._expects_bulk != is_bulk and hasattr(mmap, "MADV_RANDOM"):
            self.append_mapping().madvise(mmap.MADV_NORMAL if is_bulk else mmap.MADV_RANDOM)
            self._expects_bulk = is_bulk

    def call_again_at(self, position: int) -> None:
        """Allow the fast path up to `position`, or up to the end of the allocated blocks."""
        self.fast_path_limit = min(position, self.allocated)

    def _whole_folios(self, position: int) -> int:
        return min(self.size, -(-position // FOLIO_SIZE) * FOLIO_SIZE)

    def _allocate(self, position: int, undispatched_size: int) -> None:
        size = position - self.allocated
        free = self.disk.free_size(self.path.parent)
        kept = KEPT_FREE_SIZE + (undispatched_size + size) // RECORD_BYTES_A_QUEUE_BYTE
        if free < size + kept:
            raise DiskFullError(self.path, size, f"{free} bytes are free, of which {kept} are kept for queue entries")
        self.write_file.allocate(self.allocated, size)
        self.allocated = position

    def append_mapping(self) -> mmap.mmap:
        mapping = self._append_mapping
        if mapping is None:
            made = self.write_file.map_for_append()
            with self._open_lock:  # preparation must populate the mapping that appends store into
                mapping = self._append_mapping
                if mapping is None:
                    mapping = self._append_mapping = made
        return mapping

    def store(self, position: int, data: bytes | bytearray) -> None:
        """Append these bytes; a record's size and magic last, so that a half-written one is none. Raises DiskError."""
        mapping = self.append_mapping()
        mapping[position + HEAD_SIZE : position + len(data)] = data[HEAD_SIZE:]
        mapping[position : position + HEAD_SIZE] = data[:HEAD_SIZE]

    def wipe(self, start: int, stop: int) -> None:
        """Make [start, stop) zeros again, of what an append left there. Raises DiskError."""
        self.append_mapping()[start:stop] = bytes(stop - start)

    def warm_mapping(self) -> mmap.mmap:
        mapping = self._append_mapping
        return self.mapping() if mapping is None else mapping

    def sync(self, start: int = 0, stop: int | None = None) -> None:
        """Return once all bytes of this segment, and its name, are on the disk; with a `stop`, at least those of
        positions [start, stop). Raises SyncFailedError.

        A sync of all of it writes the pages that are prepared for appends, too, as they are. For a few bytes that is
        right: it is spared the journal's work next time. Many bytes would be written twice, and many pages for nothing.
        """
        try:
            file = self.write_file
        except FileGoneError as e:
            raise SyncFailedError(self.path, "it is gone, or its disk is") from e
        mapping, first = self._append_mapping, start // mmap.PAGESIZE * mmap.PAGESIZE
        is_small = stop is None or (stop - first < PART_SIZE and self.populated - stop <= DEEP_SIZE)
        if mapping is None or stop is None or is_small:
            file.sync()
        else:
            file.sync(MappedPart(mapping, first, stop))
        self.sync_name()

    def check_in_place(self) -> None:
        """Raises SegmentRemovedError if its path no longer leads to the file that appends go to."""
        if not self.write_file.is_in_place():
            raise SegmentRemovedError(self.path)

    def release_pages(self, start: int, stop: int) -> None:
        """Release the append mapping's pages of [start, stop), which no append reaches any more, before a sync that
        would take them one by one, and interrupt appends for each. A few pages are not worth a call."""
        mapping, first = self._append_mapping, max(start, 0) // mmap.PAGESIZE * mmap.PAGESIZE
        size = min(stop, self.size) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if mapping is not None and size >= RELEASE_SIZE:
            native.release_pages(mapping, first, size)

    def finish_appends(self) -> None:
        """Release what only appends and syncs need."""
        self._append_mapping = None
        file, self._write_file = self._write_file, None
        if file is not None:
            file.close()

    def close(self) -> None:
        super().close()
        self.finish_appends()


class CallSegment(AppendSegment):
    """Appends by write calls, for file systems where a store through a mapping may end the process.

    Nothing of it is mapped for writing; reads are as on any other segment. Blocks are allocated ahead here too, for an
    early DiskFullError. If they run out all the same, the write call fails: the append raises DiskFullError, and the
    next append, or the close, wipes what it left.
    """

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
