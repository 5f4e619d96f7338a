"""RocketMQ's timer log: one unit for each timer that was put on the wheel, in the order in which that was done.

    at   field                width
    0    size                 i32   52
    4    previous position    i64   the unit before it in the same second of the wheel; -1: there is none
    12   magic                i32   bits: 1 always, 2 to be rolled, 4 a cancellation
    16   written              i64   ms: when it was put on the wheel
    24   delay                i32   ms from then to the second of the wheel that it stands in
    28   physical offset      i64   of the parked record in the commit log
    36   record size          i32
    40   topic hash           i32   Java's hash of the real topic
    44   zeros                i64

Files of one size in `timerlog/`, named by the position of their first byte. A file's tail is blank where a unit and 16
bytes more do not fit: i32 what remains, i64 zero, i32 CBD43194. Behind the last unit everything is zero, because a
reader continues while units look valid.

The log is derived from the timer topic's queue: timers that are cut off here are put on the wheel again from there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..store.disk.disk import Disk, DiskFile
from ..store.errors import SegmentLengthError, StrayFileError

TIMER_LOG_FOLDER: Final = "timerlog"
DEFAULT_FILE_SIZE: Final = 100 << 20
"""Bytes of a file (`mappedFileSizeTimerLog`)."""

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_SIZE: Final = UNIT.size
assert UNIT_SIZE == 52
UNIT_DTYPE: Final = np.dtype(
    [
        ("size", ">i4"),
        ("previous", ">i8"),
        ("magic", ">i4"),
        ("written_ms", ">i8"),
        ("delay_ms", ">i4"),
        ("physical_offset", ">i8"),
        ("record_size", ">i4"),
        ("topic_hash", ">i4"),
        ("reserved", ">i8"),
    ]
)
assert UNIT_DTYPE.itemsize == UNIT_SIZE

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
MAGIC_CANCEL: Final = 4
MAGIC_BITS: Final = 0xF
"""RocketMQ accepts a unit if it has no other bits."""

BLANK: Final = struct.Struct(">iqi")
BLANK_MAGIC: Final = 0xCBD43194 - (1 << 32)
NO_POSITION: Final = -1
BLOCK_UNITS: Final = 1260
"""Units read at once while a chain is walked: 64 KiB. Units of one second are mostly close to each other."""
SCAN_UNITS: Final = 1 << 16
NAME_DIGITS: Final = 20

TimerUnits = NDArray[Any]
"""An array of UNIT_DTYPE."""


class TimerUnit(NamedTuple):
    """One timer on the wheel."""

    size: int
    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    physical_offset: int
    record_size: int
    topic_hash: int
    reserved: int = 0

    @property
    def is_rolled(self) -> bool:
        """Whether to park it again when its second is due: its time is beyond the reach of the wheel."""
        return bool(self.magic & MAGIC_ROLL)

    @property
    def is_cancellation(self) -> bool:
        return bool(self.magic & MAGIC_CANCEL)

    @property
    def is_sound(self) -> bool:
        return self.size == UNIT_SIZE and self.magic & ~MAGIC_BITS == 0


class TimerLog:
    """The timer log of one store. Not thread-safe. `open` finds its end."""

    def __init__(self, disk: Disk, root: Path, file_size: int = DEFAULT_FILE_SIZE) -> None:
        self._disk, self.folder, self.file_size = disk, root / TIMER_LOG_FOLDER, file_size
        self._files: dict[int, DiskFile] = {}
        """Position of a file's first byte -> the file."""
        self.start = self.end = 0
        """Positions of the first unit, and one past the last byte."""
        self._unwritten = bytearray()
        """Units from `_written` on, all in one file."""
        self._written = 0
        self._block = (0, b"")
        self._unsynced: set[int] = set()

    def open(self) -> None:
        """Find the files; all have the length of the first. The end is not known yet: call `scan` and `cut`.

        Raises StrayFileError and SegmentLengthError for files that RocketMQ would not load either, and DiskError.
        """
        entries = [entry for entry in self._disk.list(self.folder) if not entry.is_folder]
        if entries and entries[-1].size == 0:  # created and still empty: RocketMQ removes such a last file, too
            self._disk.remove(self.folder / entries.pop().name)
        if entries:
            self.file_size = entries[0].size
        for entry in entries:
            path = self.folder / entry.name
            if len(entry.name) != NAME_DIGITS or not entry.name.isdecimal() or int(entry.name) % self.file_size:
                raise StrayFileError(path)
            if entry.size != self.file_size:
                raise SegmentLengthError(path, entry.size, self.file_size)
            self._files[int(entry.name)] = self._disk.open(path, writable=True)
        if self._files:
            self.start = min(self._files)
            self.end = self._written = max(self._files) + self.file_size

    def scan(self, start: int | None = None) -> Iterator[tuple[int, TimerUnits]]:
        """Yield (position, units): runs of valid units, from the file of `start` on, up to the first invalid one."""
        begin = self.start if start is None else start - start % self.file_size
        for base in sorted(base for base in self._files if base >= begin):
            capacity = (self.file_size - BLANK.size) // UNIT_SIZE
            at = 0
            while at < capacity:
                count = min(SCAN_UNITS, capacity - at)
                raw = self._files[base].read(at * UNIT_SIZE, count * UNIT_SIZE)
                units = np.frombuffer(raw[: len(raw) // UNIT_SIZE * UNIT_SIZE], UNIT_DTYPE)
                is_sound = (units["size"] == UNIT_SIZE) & (units["magic"] & ~MAGIC_BITS == 0)
                sound = len(units) if is_sound.all() else int(is_sound.argmin())
                if sound:
                    yield base + at * UNIT_SIZE, units[:sound]
                if sound < count:
                    is_blank = len(raw) >= sound * UNIT_SIZE + BLANK.size and (
                        BLANK.unpack_from(raw, sound * UNIT_SIZE)[2] == BLANK_MAGIC
                    )
                    if not is_blank:
                        return
                    break
                at += count

    def cut(self, position: int) -> None:
        """Truncate the log at this position: remove later files, and write zeros behind it. Durable on return."""
        self._block = (0, b"")
        self._unwritten.clear()
        for base in sorted((base for base in self._files if base > position), reverse=True):
            self._drop(base)
        base = position - position % self.file_size
        file = self._files.get(base)
        if file is not None:
            if position == base:
                self._drop(base)
            elif self._zero(file, position - base):
                file.sync()
        if self._files:
            self._disk.sync_folder(self.folder)
        self.end = self._written = position
        self.start = min(self._files, default=position)

    def _zero(self, file: DiskFile, at: int) -> bool:
        """Write zeros from the position to the end of the file. Returns whether anything was there. The length never
        changes, so that a crash leaves a file that can be loaded."""
        was_any = False
        while (at := self.file_size if (found := file.next_data(at)) is None else found) < self.file_size:
            raw = file.read(at, 1 << 20)
            if raw.count(0) < len(raw):
                file.write(at, bytes(len(raw)))
                was_any = True
            at += len(raw)
        return was_any

    def _drop(self, base: int) -> None:
        file = self._files.pop(base)
        self._unsynced.discard(base)
        file.close()
        self._disk.remove(self._path(base))

    def _path(self, base: int) -> Path:
        return self.folder / f"{base:0{NAME_DIGITS}d}"

    def place(self) -> int:
        """Position of the next unit. Starts a new file if the last one is full."""
        left = self.file_size - self.end % self.file_size
        if self.end - self.end % self.file_size not in self._files:
            self._begin_file(self.end)
        elif UNIT_SIZE + BLANK.size > left:
            blank = BLANK.pack(left, 0, BLANK_MAGIC)
            self.write()
            self._files[self.end - self.end % self.file_size].write(self.end % self.file_size, blank)
            self.end += left
            self._begin_file(self.end)
        return self.end

    def _begin_file(self, base: int) -> None:
        self.write()
        self._disk.make_folder(self.folder)
        file = self._disk.open(self._path(base), writable=True, create=True)
        try:
            file.resize(self.file_size)
        except BaseException:
            file.close()
            raise
        file.sync()
        self._disk.sync_folder(self.folder)
        self._files[base] = file
        if len(self._files) == 1:
            self.start = base
        self._written = base

    def add(self, unit: TimerUnit) -> None:
        """Append a unit at the position that `place` returned last. It stays in memory until `write`."""
        self._unwritten += UNIT.pack(*unit)
        self.end += UNIT_SIZE

    def write(self) -> None:
        """Write added units to the page cache: then they survive the end of this process."""
        if self._unwritten:
            base = self._written - self._written % self.file_size
            self._files[base].write(self._written - base, bytes(self._unwritten))
            self._unsynced.add(base)
            self._unwritten.clear()
            self._block = (0, b"")
        self._written = self.end

    def sync(self) -> None:
        """Sync the log. Raises SyncFailedError."""
        self.write()
        for base in sorted(self._unsynced):
            self._files[base].sync()
        self._unsynced.clear()

    def unit(self, position: int) -> TimerUnit | None:
        """The unit at this position; None if there is no valid one."""
        if not self.start <= position <= self.end - UNIT_SIZE:
            return None
        if position >= self._written:
            return TimerUnit._make(UNIT.unpack_from(self._unwritten, position - self._written))
        start, block = self._block
        if not start <= position <= start + len(block) - UNIT_SIZE:
            base = position - position % self.file_size
            file = self._files.get(base)
            if file is None:
                return None
            # Follow the chain back to its first unit, then yield from there: both ways in blocks.
            ahead = BLOCK_UNITS if position > start else 1
            start = max(base, position - (BLOCK_UNITS - ahead) * UNIT_SIZE)
            block = file.read(start - base, min(position + ahead * UNIT_SIZE, base + self.file_size) - start)
            self._block = start, block
            if len(block) < position + UNIT_SIZE - start:
                return None
        found = TimerUnit._make(UNIT.unpack_from(block, position - start))
        return found if found.is_sound else None

    def last_unit_of(self, base: int) -> TimerUnit | None:
        """The last unit of a full file."""
        return self.unit(base + (self.file_size - BLANK.size) // UNIT_SIZE * UNIT_SIZE - UNIT_SIZE)

    def remove_before(self, written_ms: int) -> int:
        """Remove full files whose units were all put on the wheel before this time. Returns how many."""
        removed = 0
        for base in sorted(self._files)[:-1]:
            last = self.last_unit_of(base)
            if last is None or last.written_ms >= written_ms:
                break
            self._drop(base)
            self.start = min(self._files)
            removed += 1
        return removed

    def close(self) -> None:
        """Close the files. What was not written is rebuilt by recovery."""
        for file in self._files.values():
            file.close()
        self._files.clear()
