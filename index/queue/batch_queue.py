"""A batch consume queue: entries of 46 bytes, one for each inner batch, in files of fixed length.

    batchconsumequeue/TOPIC/QUEUE_ID/00000000000000000000, 00000000000013800000, ...

To readers it is a queue like any other: indexes are queue offsets of messages, and it returns an entry for each
message; those of one batch have the same offset and size. Only the record has a message's tag.

Invariants:
- The entries are in memory, 46 bytes a batch, and on disk the same; in memory mode (a read-only view) nothing is
  written.
- Everything behind the last entry is zero. Derived from the log, and rebuilt where it disagrees.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import Disk
from ...store.errors import SegmentLengthError
from ...store.segments.segment import segment_base, segment_name
from .batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE, BatchUnits, same_batches, valid_count
from .queue_extension import QueueExtension
from .queue_sync import Unsynced, open_writable
from .queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_DTYPE, Units

ASK_THE_RECORD = HIGHEST_EXTENSION_ADDRESS
"""The tags code of a message in a batch: none, so that filters look at the message."""
LEAST_ROOM = 64
READ_SIZE = BATCH_UNIT_SIZE << 14
"""Bytes read at once: a damaged length must not make it allocate too much memory."""


class BatchQueue:
    """One queue of one topic. Only the dispatcher writes, under its lock; any thread may read."""

    def __init__(self, disk: Disk, folder: Path, file_entries: int, unsynced: Unsynced, *, in_memory: bool) -> None:
        self._disk, self.folder, self._file_entries, self._in_memory = disk, folder, file_entries, in_memory
        self._unsynced = unsynced
        self._first = 0
        """Number of the first entry that is there; files are named by numbers."""
        self._file_count = 0
        self._room: BatchUnits = np.empty(0, BATCH_UNIT_DTYPE)
        self._batches: BatchUnits = self._room
        """The entries, the first ones of `_room`. Replaced as a whole, so that a reader sees them all or not."""
        self.min_index = 0
        """Queue offset of the first message that still exists."""
        self.end = 0
        """One past the queue offset of the last message."""
        self.seen_last: tuple[int, bytes] | None = None
        """Nothing is read again anyway: every entry is in memory."""

    def load(self) -> None:
        """Read every entry. Raises SegmentLengthError for a file that is not `file_entries` long."""
        file_size = self._file_entries * BATCH_UNIT_SIZE
        bases: list[int] = []
        for entry in self._disk.list(self.folder):
            base = segment_base(entry.name)
            if base is None or entry.is_folder or entry.size == 0:
                continue
            if entry.size != file_size:
                raise SegmentLengthError(self.folder / entry.name, entry.size, file_size)
            bases.append(base // BATCH_UNIT_SIZE)
        pieces: list[bytes] = []
        is_whole = True
        for i, base in enumerate(bases):
            if base != bases[0] + i * self._file_entries:
                break  # what lies behind a missing file is rebuilt from the log
            self._file_count = i + 1
            path = self.folder / segment_name(base * BATCH_UNIT_SIZE)
            is_whole = is_whole and self._read_file(path, file_size, pieces)
        self._first = bases[0] if bases else 0
        raw = b"".join(pieces)
        units = np.frombuffer(raw, BATCH_UNIT_DTYPE, len(raw) // BATCH_UNIT_SIZE)
        self._room = units[: valid_count(units)].copy() if len(units) else self._room
        self._set(self._room)
        self.min_index = int(self._batches["base"][0]) if len(self._batches) else 0

    def _read_file(self, path: Path, file_size: int, pieces: list[bytes]) -> bool:
        """Add the written part of a file; returns whether the file is full."""
        file = self._disk.open(path)
        try:
            position = 0
            while position < file_size:
                raw = file.read(position, min(READ_SIZE, file_size - position))
                pieces.append(raw)
                position += len(raw)
                units = np.frombuffer(raw, BATCH_UNIT_DTYPE, len(raw) // BATCH_UNIT_SIZE)
                if len(raw) < READ_SIZE or valid_count(units) < len(units):
                    break
            return position == file_size
        finally:
            file.close()

    def _set(self, batches: BatchUnits) -> None:
        """The end moves after the entries below it can be read, and before those above it cannot."""
        end = int(batches["base"][-1]) + int(batches["count"][-1]) if len(batches) else self.min_index
        if end < self.end:
            self.end = end
        self._batches = batches
        self.end = end

    @property
    def batches(self) -> BatchUnits:
        """The entries as they stand on disk."""
        return self._batches

    # -- as any queue

    def units(self, index: int, count: int) -> Units:
        """Entries of the messages [index, index + count), cut at the end; one that is in no batch points at nothing."""
        batches = self._batches
        stop = min(index + count, int(batches["base"][-1]) + int(batches["count"][-1]) if len(batches) else 0)
        places = np.arange(index, max(stop, index), dtype=np.int64)
        found = np.zeros(len(places), UNIT_DTYPE)
        if not len(places):
            return found
        which = np.searchsorted(batches["base"].astype(np.int64), places, side="right") - 1
        batch = batches[np.maximum(which, 0)]
        inside = (which >= 0) & (places < batch["base"].astype(np.int64) + batch["count"])
        for name in ("physical_offset", "size"):
            found[name][inside] = batch[name][inside]
        found["tags_code"][inside] = ASK_THE_RECORD
        return found

    def resolved(self, units: Units) -> Units:
        return units

    @property
    def extension(self) -> QueueExtension | None:
        return None

    def put(self, index: int, units: Units, store_timestamps_ms: NDArray[np.int64] | None = None) -> None:
        raise AssertionError("records that are no inner batches have no entries in a batch queue")

    def restart(self) -> None:
        raise AssertionError("batch queues have gaps in place of filler")

    def first_at_or_after(self, physical_offset: int) -> int:
        """Queue offset of the first message whose record starts at or after `physical_offset`; `end` if none does."""
        return self._index_of(int(np.searchsorted(self._batches["physical_offset"].astype(np.int64), physical_offset)))

    def next_file_index(self, index: int) -> int:
        """Queue offset of the first message in the file behind the one that holds `index`."""
        batches = self._batches
        number = int(np.searchsorted(batches["base"].astype(np.int64), index, side="right")) - 1 + self._first
        next_number = number + self._file_entries - number % self._file_entries
        return max(self._index_of(next_number - self._first), index + 1)

    def next_listed(self, index: int) -> int:
        """Queue offset of the first message in a batch at or behind `index`; the end if there is none."""
        batches = self._batches
        place = int(np.searchsorted(batches["base"].astype(np.int64), index, side="right"))
        if place and index < int(batches["base"][place - 1]) + int(batches["count"][place - 1]):
            return index
        return self._index_of(place)

    def _index_of(self, place: int) -> int:
        batches = self._batches
        return int(batches["base"][place]) if place < len(batches) else self.end

    def set_min_offset(self, min_physical_offset: int) -> None:
        """Skip batches that the log no longer holds; a queue may end up empty with its offsets kept."""
        self.min_index = max(self.min_index, self.first_at_or_after(min_physical_offset))

    def truncate(self, end: int) -> None:
        """Forget the batches that reach beyond queue offset `end`; what stood there is zero afterwards."""
        batches = self._batches
        ends = batches["base"].astype(np.int64) + batches["count"]
        keep = int(np.searchsorted(ends, end, side="right"))
        last_end = int(ends[keep - 1]) if keep else min(self.min_index, end)
        self.min_index = min(self.min_index, last_end)
        self._set(batches[:keep])
        self.end = max(self.end, last_end)
        if not self._in_memory:
            self._zero_behind(self._first + keep)

    def continue_in_memory(self) -> None:
        """Keep further entries in memory only."""
        self._in_memory = True

    # -- batches

    def put_batches(self, units: BatchUnits) -> BatchUnits:
        """Have these entries, ascending and without gaps, as the last ones; those that are there already are left
        alone. Returns what was put."""
        batches = self._batches
        place = int(np.searchsorted(batches["base"].astype(np.int64), int(units["base"][0])))
        there = batches[place : place + len(units)]
        same = same_batches(there, units[: len(there)])
        known = len(there) if same.all() else int(same.argmin())
        missing = units[known:]
        if not len(missing):
            return missing
        if len(batches) and int(missing["base"][0]) < self.end:
            self.truncate(int(missing["base"][0]))
            batches = self._batches
        if not self._in_memory:
            self._write(self._first + len(batches), missing.tobytes())
        count = len(batches) + len(missing)
        if count > len(self._room):
            room = np.empty(max(2 * count, LEAST_ROOM), BATCH_UNIT_DTYPE)
            room[: len(batches)] = batches
            self._room = room
        self._room[len(batches) : count] = missing
        if not len(batches):
            self.min_index = int(missing["base"][0])
        self._set(self._room[:count])
        return missing

    def _write(self, number: int, raw: bytes) -> None:
        view = memoryview(raw)
        if self._file_count == 0:
            self._disk.make_folder(self.folder, syncs=False)
            number = self._first = 0
        while view:
            file_number, at = divmod(number - self._first_file, self._file_entries)
            here = min(len(view), (self._file_entries - at) * BATCH_UNIT_SIZE)
            path, is_new = self._path(file_number), file_number >= self._file_count
            file = open_writable(self._disk, path, create=is_new)
            try:
                if is_new:
                    file.resize(self._file_entries * BATCH_UNIT_SIZE)
                file.write(at * BATCH_UNIT_SIZE, view[:here])
            finally:
                file.close()
            self._file_count = max(self._file_count, file_number + 1)
            self._unsynced.note(path, is_new=is_new)
            number += here // BATCH_UNIT_SIZE
            view = view[here:]

    def _zero_behind(self, number: int) -> None:
        """Remove the files behind the one of entry `number`, newest first, and zero the rest of that one."""
        keep = -(-(number - self._first_file) // self._file_entries)
        for file_number in range(self._file_count - 1, keep - 1, -1):
            path = self._path(file_number)
            self._disk.remove(path)
            self._unsynced.files.discard(path)
            self._file_count = file_number
            self._disk.sync_folder(self.folder)
        at = (number - self._first_file) % self._file_entries
        if not at or not self._file_count:
            return
        path = self._path(self._file_count - 1)
        file = open_writable(self._disk, path)
        try:
            position: int | None = at * BATCH_UNIT_SIZE
            while position is not None and (position := file.next_data(position)) is not None:
                raw = file.read(position, 1 << 20)
                if np.frombuffer(raw, np.uint8).any():
                    file.write(position, bytes(len(raw)))
                    self._unsynced.note(path)
                position += len(raw)
        finally:
            file.close()

    # -- files

    @property
    def _first_file(self) -> int:
        """Number of the first entry of the oldest file."""
        return self._first - self._first % self._file_entries

    def _path(self, file_number: int) -> Path:
        return self.folder / segment_name((self._first_file + file_number * self._file_entries) * BATCH_UNIT_SIZE)

    def expire(self) -> list[Path]:
        """Remove the oldest files whose messages all lie before `min_index`, but never the last file; returns what was
        removed. Not synced: a file that comes back is removed again."""
        removed: list[Path] = []
        while self._file_count > 1 and self._index_of(self._file_entries) <= self.min_index:
            path = self._path(0)
            with suppress(FileNotFoundError):
                self._disk.remove(path)
            self._unsynced.files.discard(path)
            removed.append(path)
            self._room = self._batches = self._batches[self._file_entries :].copy()
            self._first += self._file_entries
            self._file_count -= 1
        return removed

    def remove_all(self) -> None:
        """Remove the queue from the disk, its folder too, and forget everything; see `ConsumeQueue.remove_all`."""
        self._batches = self._room = np.empty(0, BATCH_UNIT_DTYPE)
        self.min_index = self.end = self._first = self._file_count = 0
        self._unsynced.forget(self.folder)
        for entry in self._disk.list(self.folder):
            if not entry.is_folder:
                self._disk.remove(self.folder / entry.name)
        self._disk.remove_folder(self.folder)

    def skip_removed(self) -> None:
        """Nothing: what was read of files that are gone stays in memory, and its messages are gone from the log."""

    def filler_count(self) -> int:
        return 0

    def write_again(self, index: int) -> None:
        """Write the entries from queue offset `index` on as they are; see `ConsumeQueue.write_again`."""
        batches = self._batches
        place = int(np.searchsorted(batches["base"].astype(np.int64), index))
        if self._file_count and place < len(batches):
            for number in range((self._first + place - self._first_file) // self._file_entries, self._file_count):
                self._unsynced.note(self._path(number), is_new=True)
            self._write(self._first + place, batches[place:].tobytes())
