"""RocketMQ's timer wheel: two times seven days of seconds, and for each the timers that are due when it is over.

    at   field      width
    0    second     i64   since 1970: a slot whose second is not the one that is asked for is empty
    8    first      i64   position of its first unit in the timer log
    16   last       i64   of its last one, from which the chain leads back
    24   count      i32   timers, less cancellations
    28   zeros      i32

The second s stands in slot s mod 1,209,600 of the file `timerwheel`. The whole wheel is in memory (39 MB at most, and
only pages that were ever used); a flush writes the pages that have changed. It is derived from the timer log.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ..store.disk.disk import Disk, DiskFile
from ..store.settings import PAGE_SIZE
from .timer_log import NO_POSITION, TimerUnits

TIMER_WHEEL_FILE: Final = "timerwheel"
DAY_S: Final = 86_400
SLOT_COUNT: Final = 2 * 7 * DAY_S

SLOT: Final = struct.Struct(">qqqii")
SLOT_SIZE: Final = SLOT.size
SLOT_DTYPE: Final = np.dtype([("second", ">i8"), ("first", ">i8"), ("last", ">i8"), ("count", ">i4"), ("magic", ">i4")])
assert SLOT_SIZE == SLOT_DTYPE.itemsize == 32
assert PAGE_SIZE % SLOT_SIZE == 0

FIRST_STRIDE: Final = 64
LARGEST_STRIDE: Final = 1 << 16
"""Slots checked per step of a search for the next non-empty one: few at first, then more."""


class Slot(NamedTuple):
    """One slot: the timers of one second."""

    second: int
    first: int
    last: int
    timers: int
    magic: int = 0


class TimerWheel:
    """The wheel. One thread uses it; other threads may read counts."""

    def __init__(self, disk: Disk, root: Path, slot_count: int = SLOT_COUNT) -> None:
        self._disk, self._path, self.slot_count = disk, root / TIMER_WHEEL_FILE, slot_count
        self._file: DiskFile | None = None
        self._bytes = mmap.mmap(-1, -(-slot_count * SLOT_SIZE // PAGE_SIZE) * PAGE_SIZE)
        self._slots = np.frombuffer(self._bytes, SLOT_DTYPE, slot_count)
        self._dirty: set[int] = set()
        """Numbers of changed pages, not yet in the file."""

    def get(self, second: int) -> Slot | None:
        """The slot of a second; None if it is empty."""
        slot = Slot._make(SLOT.unpack_from(self._bytes, second % self.slot_count * SLOT_SIZE))
        return slot if slot.second == second and slot.second else None

    def count(self, second: int) -> int:
        """Number of timers in this second, less cancellations."""
        slot = self.get(second)
        return 0 if slot is None else slot.timers

    def holder(self, second: int) -> int:
        """The second that occupies this one's slot; 0 for none."""
        found: int = SLOT.unpack_from(self._bytes, second % self.slot_count * SLOT_SIZE)[0]
        return found

    def add(self, second: int, position: int, change: int) -> int:
        """Append one unit to a second's chain. Returns the position of the unit before it."""
        slot = self.get(second)
        first, previous, count = (position, NO_POSITION, 0) if slot is None else slot[1:4]
        at = second % self.slot_count * SLOT_SIZE
        SLOT.pack_into(self._bytes, at, second, first, position, count + change, 0)
        self._dirty.add(at // PAGE_SIZE)
        return previous

    def add_all(self, position: int, units: TimerUnits, from_second: int) -> None:
        """Append consecutive units, which already hold their chains, except those of seconds before `from_second`."""
        seconds = (units["written_ms"].astype(np.int64) + units["delay_ms"]) // 1000
        wanted = np.flatnonzero(seconds >= from_second)  # may span turns of the wheel, after a long stop
        if not len(wanted):
            return
        positions, seconds = position + wanted * units.itemsize, seconds[wanted]
        changes = np.where(units["magic"][wanted] & 4, -1, 1)
        order = np.argsort(seconds, kind="stable")
        found, begins = np.unique(seconds[order], return_index=True)
        ends = np.append(begins[1:], len(order))
        totals = np.add.reduceat(changes[order], begins)
        slots = self._slots
        at = found % self.slot_count
        is_new = slots["second"][at] != found
        slots["first"][at] = np.where(is_new, positions[order][begins], slots["first"][at])
        slots["last"][at] = positions[order][ends - 1]
        slots["count"][at] = np.where(is_new, 0, slots["count"][at]) + totals
        slots["magic"][at] = 0
        slots["second"][at] = found
        self._dirty.update(np.unique(at * SLOT_SIZE // PAGE_SIZE).tolist())

    def next_second(self, from_second: int) -> int | None:
        """The first second at or after this one that has timers."""
        from_second = max(from_second, 1)  # an empty slot says 0
        looked, stride = 0, FIRST_STRIDE
        while looked < self.slot_count:
            second = from_second + looked
            at = second % self.slot_count
            count = min(stride, self.slot_count - looked, self.slot_count - at)
            matches = self._slots["second"][at : at + count] == np.arange(second, second + count)
            if matches.any():
                return second + int(matches.argmax())
            looked += count
            stride = min(4 * stride, LARGEST_STRIDE)
        seconds = self._slots["second"]  # none within a turn, but maybe behind it if the store was closed for long
        later = seconds[seconds >= from_second]
        return int(later.min()) if len(later) else None

    def pending(self, from_second: int) -> int:
        """Number of timers in all seconds from this one on, less cancellations."""
        seconds = self._slots["second"]
        return int(self._slots["count"][seconds >= max(from_second, 1)].sum(dtype=np.int64))

    def clear(self) -> None:
        """Empty every slot."""
        used = np.flatnonzero(self._slots["second"])
        self._slots[used] = 0
        self._dirty.update(np.unique(used * SLOT_SIZE // PAGE_SIZE).tolist())

    def load(self, *, for_writing: bool = True) -> None:
        """Read the slots from the file. One of another length, which RocketMQ would refuse, is emptied for writing, and
        not read else."""
        if not self._disk.exists(self._path):
            return
        file = self._file = self._disk.open(self._path, writable=for_writing)
        size = self.slot_count * SLOT_SIZE
        if file.size() != size:
            if for_writing:
                file.resize(0)
            return
        at = 0
        while (found := file.next_data(at)) is not None and found < size:
            at = found - found % PAGE_SIZE
            raw = file.read(at, min(1 << 20, size - at))
            if raw.count(0) < len(raw):
                self._bytes[at : at + len(raw)] = raw
            at += len(raw)

    def flush(self) -> None:
        """Write the changed pages, and sync the file. Raises SyncFailedError, DiskFullError, DiskError."""
        size = self.slot_count * SLOT_SIZE
        if self._file is None:
            self._file = self._disk.open(self._path, writable=True, create=True)
            self._disk.sync_folder(self._path.parent)
        if self._file.size() != size:
            self._file.resize(size)
        elif not self._dirty:
            return
        pages = sorted(self._dirty)
        begin = 0
        for end in range(1, len(pages) + 1):
            if end == len(pages) or pages[end] != pages[end - 1] + 1:
                at, stop = pages[begin] * PAGE_SIZE, min((pages[end - 1] + 1) * PAGE_SIZE, size)
                self._file.write(at, self._bytes[at:stop])
                begin = end
        self._file.sync()
        self._dirty.clear()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
