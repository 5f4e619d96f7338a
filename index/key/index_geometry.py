"""How many slots and entries an index file has: that does not stand in it, and many pairs fit one length.

For the pair of a file that holds entries, these are true, and for hardly any other one:

- The first entry is of the record that the header names first, the last entry of the one that it names last.
- As many slots are not empty as the header counts; all of them name entries below the next one; and each of these
  belongs to its slot by its hash. Where a flush ended between slots and header, say for want of room, there are as many
  or more, and the others name entries from the next one on.

RocketMQ's own files have four entries a slot unless configured otherwise: that pair is tried first, by its first
and last entry alone, which is a handful of reads. The others are not tried one by one: entry 0 is all zeros and entry 1
is not, so the first bytes that are not zero behind the last used slot tell where the entries begin.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import Disk, DiskFile
from .index_file import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    INDEX_FOLDER,
    MAX_INDEX_FILE_SIZE,
    SLOT_SIZE,
    USUAL_ENTRIES_A_SLOT,
    IndexGeometry,
    IndexHeader,
    parse_name,
)
from .index_reader import read_entries, read_header, read_pieces
from .index_slots import load_slots

WORDS_AN_ENTRY = ENTRY_SIZE // SLOT_SIZE
PIECE_WORDS = 1 << 18
MOST_EMPTY_ENTRIES = 8
"""How many entries of zeros (a key with the hash 0 of the record at offset 0) may begin a file."""


def usual_geometry(file_size: int) -> IndexGeometry | None:
    """The geometry of four entries a slot that has this file length in bytes; None if none has."""
    slots, rest = divmod(file_size - HEADER_SIZE, SLOT_SIZE + ENTRY_SIZE * USUAL_ENTRIES_A_SLOT)
    is_possible = slots > 0 and rest == 0 and file_size <= MAX_INDEX_FILE_SIZE
    return IndexGeometry(slots, slots * USUAL_ENTRIES_A_SLOT) if is_possible else None


def find_index_geometry(disk: Disk, root: Path) -> IndexGeometry | None:
    """The geometry of the index files that exist, as the oldest one that holds entries tells it; None if none does.

    Reads little where it is the usual one, else the slots of one file.
    """
    folder = root / INDEX_FOLDER
    for entry in disk.list(folder):
        if entry.is_folder or parse_name(entry.name) is None or entry.size > MAX_INDEX_FILE_SIZE:
            continue
        try:
            file = disk.open(folder / entry.name)
        except FileNotFoundError:
            continue  # expired by its writer
        try:
            geometry = file_geometry(file)
        finally:
            file.close()
        if geometry is not None:
            return geometry
    return None


def file_geometry(file: DiskFile) -> IndexGeometry | None:
    """The geometry of one file; None where it holds no entry, and where no geometry makes sense of it."""
    header, size = read_header(file), file.size()
    usual = usual_geometry(size)
    if not header.has_entries or header.slot_count <= 0 or size > MAX_INDEX_FILE_SIZE:
        return None
    if usual is not None and header.problem(usual) is None and _ends_fit(file, usual, header):
        return usual
    return _search(file, header, size)


def _ends_fit(file: DiskFile, geometry: IndexGeometry, header: IndexHeader) -> bool:
    """Whether first and last entry are where this geometry has them. A writer may be putting meanwhile."""
    ends = ((FIRST_ENTRY, header.begin_physical_offset), (header.next_entry - 1, header.end_physical_offset))
    for number, physical_offset in ends:
        entry = read_entries(file, geometry, number, 1)
        if not len(entry) or entry["physical_offset"][0] != physical_offset or entry["key_hash"][0] < 0:
            return False
        slot = int(entry["key_hash"][0]) % geometry.slots
        head = int.from_bytes(file.read(geometry.slot_position(slot), SLOT_SIZE), "big", signed=True)
        if not number <= head < geometry.entries:
            return False
    return True


def _search(file: DiskFile, header: IndexHeader, size: int) -> IndexGeometry | None:
    words, rest = divmod(size - HEADER_SIZE, SLOT_SIZE)
    if rest:
        return None
    for most in (0, words // WORDS_AN_ENTRY):
        place = _behind_used_slots(file, words, header.slot_count, most)
        if place is not None and (found := _search_at(file, header, words, *place)) is not None:
            return found
    return None


def _search_at(file: DiskFile, header: IndexHeader, words: int, slots_end: int, data: int) -> IndexGeometry | None:
    # Entry 1 begins at most four words before the first one that is not zero, and entry 0 lies before it.
    slots = data - WORDS_AN_ENTRY
    slots -= (slots - words) % WORDS_AN_ENTRY
    for candidate in range(slots, max(slots_end, 1) - 1, -WORDS_AN_ENTRY)[:MOST_EMPTY_ENTRIES]:
        geometry = IndexGeometry(candidate, (words - candidate) // WORDS_AN_ENTRY)
        if (
            header.problem(geometry) is None
            and _ends_fit(file, geometry, header)
            and _slots_fit(file, geometry, header)
        ):
            return geometry
    return None


def _behind_used_slots(file: DiskFile, words: int, used: int, most: int) -> tuple[int, int] | None:
    """Return how many of the words behind the header there are up to and with the `used`-th one that is not zero, and
    the number of the next such word; or of the next that is no number up to `most`, if slots have been written that the
    header does not count. (The hash of an entry hardly ever is one.)"""
    at = counted = end = 0
    while at < words:
        data = file.next_data(HEADER_SIZE + at * SLOT_SIZE)
        if data is None:
            return None
        at = max(at, (data - HEADER_SIZE) // SLOT_SIZE)
        raw = file.read(HEADER_SIZE + at * SLOT_SIZE, min(PIECE_WORDS, words - at) * SLOT_SIZE)
        words_there = np.frombuffer(raw, ">u4", len(raw) // SLOT_SIZE)
        found = np.flatnonzero(words_there)
        if counted < used and len(found):
            end = at + int(found[min(used - counted, len(found)) - 1]) + 1
        behind = found[max(used - counted, 0) :]
        if most:
            behind = behind[words_there[behind] > most]
        if len(behind):
            return end, at + int(behind[0])
        counted += len(found)
        at += PIECE_WORDS
    return None


def _slots_fit(file: DiskFile, geometry: IndexGeometry, header: IndexHeader) -> bool:
    slots = load_slots(file, geometry)
    used = np.flatnonzero(slots)
    heads: NDArray[np.int32] = slots[used]
    stop = int(heads.max(initial=0)) + 1
    is_half_flushed = stop > header.next_entry and len(used) >= header.slot_count
    if heads.min(initial=0) < 0 or stop > geometry.entries or not (is_half_flushed or len(used) == header.slot_count):
        return False
    stop = max(stop, header.next_entry)
    order = np.argsort(heads)
    used, heads = used[order], heads[order]
    first = FIRST_ENTRY
    for piece in read_pieces(file, geometry, first, stop):
        here = slice(*np.searchsorted(heads, [first, first + len(piece)]).tolist())
        if (piece["key_hash"][heads[here] - first] % geometry.slots != used[here]).any():
            return False
        first += len(piece)
    return first == stop
