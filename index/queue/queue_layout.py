"""The files of a consume queue: which one holds an entry, and how many entries a file has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import Disk
from ...store.segments.segment import segment_name
from ...store.settings import PAGE_SIZE
from .queue_unit import UNIT_SIZE, Units, decode_units, search


class QueueLayout(NamedTuple):
    """The files of one queue, for readers in another process."""

    folder: str
    file_entries: int
    first_index: int
    """First entry of one of the files."""

    def units(self, disk: Disk, index: int, count: int) -> Units:
        """Entries [index, index + count) as they stand there now, at most up to the end of a file. Raises
        FileGoneError."""
        at = (index - self.first_index) % self.file_entries
        file = disk.open(self.path(index))
        try:
            return decode_units(file.read(at * UNIT_SIZE, min(count, self.file_entries - at) * UNIT_SIZE))
        finally:
            file.close()

    def path(self, index: int) -> Path:
        """The file of an entry."""
        at = (index - self.first_index) % self.file_entries
        return Path(self.folder, segment_name((index - at) * UNIT_SIZE))

    def next_file_index(self, index: int) -> int:
        """First entry of the file behind the one of this entry."""
        return index + self.file_entries - (index - self.first_index) % self.file_entries


PAGE_ENTRIES = PAGE_SIZE // UNIT_SIZE + 2
"""Entries that touch one page, at most."""


class QueueFileLook(NamedTuple):
    """What a look into a queue file showed."""

    entries: int
    """How many it has."""
    first: Units
    """The first of them, if it is there."""
    last: bytes | None
    """The last of them, if it was seen."""
    is_whole: bool
    """Whether every entry was looked at."""


NO_LOOK = QueueFileLook(0, decode_units(b""), None, False)


def look_into(disk: Disk, path: Path, file_entries: int) -> QueueFileLook:
    """See how many entries a file has: by what lies before its first hole, else by a binary search. Raises
    FileGoneError."""
    file = disk.open(path)
    try:
        file.will_poke()

        def units(index: int, count: int) -> Units:
            return decode_units(file.read(index * UNIT_SIZE, count * UNIT_SIZE))

        high = min(-(-file.next_hole(0) // UNIT_SIZE), file_entries)
        low = max(high - PAGE_ENTRIES, 0)
        there = units(low, high - low)
        is_past = no_entry_mask(there)
        first = units(0, 1) if low else there[:1]
        if low and is_past[:1].all():
            return QueueFileLook(search(units, no_entry_mask, 0, low), first, None, False)
        count = int(is_past.argmax()) if is_past.any() else len(there)
        last = there[count - 1].tobytes() if count else None
        return QueueFileLook(low + count, first, last, low == 0)
    finally:
        file.close()


def no_entry_mask(units: Units) -> NDArray[np.bool_]:
    """Which entries were never written, or are garbage. Filler counts as an entry."""
    mask: NDArray[np.bool_] = (units["size"] <= 0) | (units["physical_offset"] < 0)
    return mask
