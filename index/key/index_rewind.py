"""Rewinding a key index file to fewer entries.

After a crash the file on disk may have slots of two flushes, and entries that no flush covered; and keys of a truncated
part of the log must go. In both cases the entries below a number are right, and everything else follows from them: a
slot whose newest entry is to go is set to the `previous` of the oldest entry that goes, slot by slot in one walk over
the entries that go.

Crash order: slots and header, sync, and only then are the entries zeroed and synced; so a slot never names an entry
that is not there, and a rewind that was interrupted can be done again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import DiskFile
from .index_file import FIRST_ENTRY, IndexGeometry, IndexHeader
from .index_reader import read_entries, read_header, read_pieces
from .index_slots import Slots, encode_slots, load_slots, page_of, page_range

ZERO_SIZE = 1 << 20


def rewind_file(
    file: DiskFile, geometry: IndexGeometry, next_entry: int, end_timestamp_ms: int | None
) -> tuple[IndexHeader, Slots] | None:
    """Drop the entries from `next_entry` on, at least 2; returns header and slots as they now are on disk, synced.

    `end_timestamp_ms` is the store time of the last record that is kept. Without it the header's is taken if it was
    flushed with just this entry as the last, else what the entry says, which is up to a second too early.

    None, and nothing is changed, if the file cannot have been as it is now and then have had these entries.
    """
    header = read_header(file)
    if not FIRST_ENTRY < next_entry <= header.next_entry <= geometry.entries:
        return None
    slots = load_slots(file, geometry)
    before = slots.copy()
    if not _unlink(file, geometry, slots, next_entry):
        return None
    new_header = _header_at(file, geometry, header, slots, next_entry, end_timestamp_ms)
    if new_header is None:
        return None
    _write_changed(file, geometry, before, slots)
    if new_header != header:
        file.write(0, new_header.encode())
    file.sync()
    if _zero_from(file, geometry.entry_position(next_entry), geometry.file_size):
        file.sync()
    return new_header, slots


def _unlink(file: DiskFile, geometry: IndexGeometry, slots: Slots, next_entry: int) -> bool:
    """Set slots to their newest entry below `next_entry`; False if something in the file contradicts that."""
    if slots.min() < 0:
        return False
    newest = int(slots.max())
    if newest >= geometry.entries:
        return False
    for piece in read_pieces(file, geometry, next_entry, newest + 1):
        if piece["key_hash"].min() < 0:
            return False
        which, oldest = np.unique(piece["key_hash"].astype(np.int32) % geometry.slots, return_index=True)
        is_open = slots[which] >= next_entry
        which, oldest = which[is_open], oldest[is_open]
        heads = piece["previous"][oldest]
        if ((heads < 0) | (heads >= next_entry)).any():
            return False
        slots[which] = heads
    return bool((slots < next_entry).all())


def _header_at(
    file: DiskFile,
    geometry: IndexGeometry,
    header: IndexHeader,
    slots: Slots,
    next_entry: int,
    end_timestamp_ms: int | None,
) -> IndexHeader | None:
    first, last = (read_entries(file, geometry, number, 1) for number in (FIRST_ENTRY, next_entry - 1))
    if not len(first) or not len(last) or last["key_hash"][0] < 0:
        return None
    slot_count = int(np.count_nonzero(slots))
    was_flushed_so = header.next_entry == next_entry
    if (
        first["physical_offset"][0] != header.begin_physical_offset
        or slots[int(last["key_hash"][0]) % geometry.slots] != next_entry - 1  # the newest entry of all is a head
        or (was_flushed_so and slot_count != header.slot_count)
    ):
        return None
    if end_timestamp_ms is None:
        if was_flushed_so:
            end_timestamp_ms = header.end_timestamp_ms
        else:
            # The first entry is timed against the file before; its record's time is the begin itself.
            seconds = int(last["time_diff_s"][0]) if next_entry > FIRST_ENTRY + 1 else 0
            end_timestamp_ms = header.begin_timestamp_ms + 1000 * seconds
    return header._replace(
        end_timestamp_ms=end_timestamp_ms,
        end_physical_offset=int(last["physical_offset"][0]),
        slot_count=slot_count,
        next_entry=next_entry,
    )


def _write_changed(file: DiskFile, geometry: IndexGeometry, before: Slots, slots: Slots) -> None:
    changed: NDArray[Any] = np.flatnonzero(before != slots)
    for page in np.unique(page_of(changed)).tolist():
        first, stop = page_range(page, page + 1)
        file.write(geometry.slot_position(first), encode_slots(slots[first:stop]))


def _zero_from(file: DiskFile, position: int, file_size: int) -> bool:
    """Write zeros from `position` on where the file is not zero. Returns whether it wrote any."""
    was_needed = False
    at: int | None = position
    while at is not None and at < file_size and (at := file.next_data(at)) is not None:
        raw = file.read(at, min(ZERO_SIZE, file_size - at))
        if not raw:
            break
        if np.frombuffer(raw, np.uint8).any():
            file.write(at, bytes(len(raw)))
            was_needed = True
        at += len(raw)
    return was_needed
