"""Writing the newest key index file: entries go to disk at once, slots and header live in memory until a flush.

Order on disk, which is what makes a crash harmless:

    put      entries are written behind those that are there; slots and header change in memory only
    flush    sync (entries) → write the changed slot pages and the header → sync

So no slot on disk ever points at an entry that is not durable, and between flushes the file is the consistent, older
index of the last flush; the entries behind it are not part of it yet. What a cut in the middle of a flush leaves,
slots of two flushes, is brought back by index_rewind.py.
"""

from __future__ import annotations

import mmap
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store import native
from ...store.disk.disk import Disk, DiskFile
from ...store.errors import IndexFileGoneError
from .index_file import (
    ENTRY_DTYPE,
    FIRST_ENTRY,
    IndexGeometry,
    IndexHeader,
    IndexState,
    time_difference_s,
)
from .index_reader import IndexFile
from .index_slots import (
    HEADER_SLOTS,
    Slots,
    encode_slots,
    load_slots,
    page_range,
    pages_in,
)
from .key_entries import KeyEntries


@dataclass
class FlushRound:
    """The changes that one flush makes durable: copied under the writer's lock, written without it."""

    file: ActiveIndexFile | None
    state: IndexState
    """The state that is durable once this round is written."""
    header: bytes = b""
    runs: list[tuple[int, bytes]] = field(default_factory=list)
    """Position in the file, and slots as they are to be there."""

    def write(self) -> None:
        """Return once the index is durable as it was when this round was taken, or later. Any thread may call this,
        beside puts and other rounds. Raises SyncFailedError, DiskFullError and DiskError; after the latter two the next
        round writes the rest."""
        if self.file is not None:
            self.file.write_round(self)


class _Put(NamedTuple):
    """Entries that are on disk: what memory is to say of them."""

    header: IndexHeader
    in_slot: NDArray[np.int32]
    """The slot of each entry."""
    first: int
    """Number of the first of them."""


class ActiveIndexFile(IndexFile):
    """The file that takes new entries. One thread at a time may put; any number may read, flush rounds may run.

    Invariants:
    - An entry is on disk before a slot in memory names it, and memory names it before `put` returns.
    - A slot page in memory differs from the disk only if its stamp is at or above `flushed_next`.
    - A put counts from the one store to `_noted` on; `settle` carries it out, again if an interrupt came between.
    """

    def __init__(self, disk: Disk, path: Path, geometry: IndexGeometry, header: IndexHeader, *, is_new: bool) -> None:
        super().__init__(disk, path, geometry)
        self.live = header
        """The header as of the last put."""
        self.flushed_next = header.next_entry
        """The next entry's number as the header on disk has it."""
        self._flush_lock = threading.Lock()
        self._file: DiskFile | None = None
        self._slots: Slots | None = None
        """None until the first put into a file that was there: a store that only reads never loads them."""
        self._slots_view = memoryview(b"")
        self._stamps: NDArray[np.int32] = np.zeros(pages_in(geometry), np.int32)
        """By page of the file: the newest entry that a slot in it was set to."""
        self._stamps_view = memoryview(self._stamps)
        self._noted: _Put | None = None
        if is_new:
            self._set_slots(np.zeros(geometry.slots, np.int32))

    def header(self) -> IndexHeader:
        """The header as of the last put; that on disk is of the last flush."""
        return self.live

    # -- putting

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return self.geometry.entries - self.live.next_entry

    def put(self, keys: KeyEntries) -> None:
        """Append entries, at most `room`, to a settled file. Raises DiskFullError and DiskError; none is put then."""
        self._ensure_slots()
        self._noted = self._write(keys)
        self.settle()

    def settle(self) -> None:
        """Apply the entries of the last put to slots and header in memory."""
        noted = self._noted
        if noted is None:
            return
        self.live = noted.header
        native.set_heads(noted.first, HEADER_SLOTS, noted.in_slot, self._slots_view, self._stamps_view)
        self._noted = None

    def _write(self, keys: KeyEntries) -> _Put:
        header, first, count = self.live, self.live.next_entry, len(keys)
        begin_ms, begin_offset = header.begin_timestamp_ms, header.begin_physical_offset
        first_ms, last_ms = int(keys.store_timestamp_ms[0]), int(keys.store_timestamp_ms[-1])
        if first == FIRST_ENTRY:
            begin_ms, begin_offset = first_ms, int(keys.physical_offset[0])
        entries: NDArray[Any] = np.empty(count, ENTRY_DTYPE)
        in_slot = np.empty(count, np.int32)
        used = header.slot_count + native.link_keys(
            *(first, begin_ms, self._slots_view, keys.key_hash, keys.physical_offset, keys.store_timestamp_ms),
            *(entries, in_slot),
        )
        if first == FIRST_ENTRY:  # its time counts from what the header said before
            entries["time_diff_s"][0] = time_difference_s(first_ms, header.begin_timestamp_ms)
        self._open_writable().write(self.geometry.entry_position(first), entries.tobytes())
        last_offset = int(keys.physical_offset[-1])
        return _Put(IndexHeader(begin_ms, last_ms, begin_offset, last_offset, used, first + count), in_slot, first)

    def _open_writable(self) -> DiskFile:
        if self._file is None:
            try:
                self._file = self._disk.open(self.path, writable=True)
            except FileNotFoundError as e:
                raise index_file_gone(self.path) from e
        return self._file

    # -- slots

    def _ensure_slots(self) -> None:
        if self._slots is None:
            slots = load_slots(self._open_writable(), self.geometry)
            # As RocketMQ does at each put: a head that no entry can have is none.
            slots[(slots < 0) | (slots >= self.live.next_entry)] = 0
            self._set_slots(slots)

    def _set_slots(self, slots: Slots) -> None:
        self._slots_view = memoryview(slots)
        self._slots = slots

    def take_over(self, file: DiskFile, slots: Slots, header: IndexHeader) -> None:
        """The file on disk is what these say: index_rewind.py has just written and synced it."""
        self._file, self._noted = file, None
        self._stamps[:] = 0
        self.live, self.flushed_next = header, header.next_entry
        self._set_slots(slots)

    def _head_of(self, data: mmap.mmap | bytes, slot: int) -> int:
        return super()._head_of(data, slot) if self._slots is None else self._slots_view[slot]

    def _header_of(self, data: mmap.mmap | bytes) -> IndexHeader:
        return self.live

    # -- flushing

    def prepare_flush(self) -> FlushRound:
        """Copy what differs from the disk. Called by the one who puts, or under their lock."""
        self.settle()
        header, slots = self.live, self._slots
        round_ = FlushRound(self, IndexState(self.number, header.next_entry))
        if header.next_entry == self.flushed_next or slots is None:
            return round_
        round_.header = header.encode()
        pages = np.flatnonzero(self._stamps >= max(self.flushed_next, FIRST_ENTRY))
        for run in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            first, stop = page_range(int(run[0]), int(run[-1]) + 1)
            round_.runs.append((self.geometry.slot_position(first), encode_slots(slots[first:stop])))
        return round_

    def write_round(self, round_: FlushRound) -> None:
        """See FlushRound.write."""
        with self._flush_lock:
            if round_.state.next_entry <= self.flushed_next:
                return  # a later round has been written already
            if not self._disk.exists(self.path):
                raise index_file_gone(self.path)
            file = self._open_writable()
            file.sync()
            for position, raw in round_.runs:
                file.write(position, raw)
            file.write(0, round_.header)
            file.sync()
            self.flushed_next = round_.state.next_entry

    def close(self) -> None:
        """Close the file, after a running round. Does not flush."""
        with self._flush_lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def index_file_gone(path: Path) -> IndexFileGoneError:
    """The error for an index file of an open store that was deleted."""
    return IndexFileGoneError(
        f"{path}: this index file is gone although its store is open; a RocketMQ that tries to start here deletes "
        "index files before it looks at the lock. No message is lost: the index is rebuilt from the log. If that "
        "fails, close the store and open it again"
    )
