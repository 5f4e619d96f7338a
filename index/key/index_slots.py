"""The slots of a key index file as an array in memory, and their pages in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import DiskFile
from ...store.settings import PAGE_SIZE
from .index_file import HEADER_SIZE, SLOT_SIZE, IndexGeometry

LOAD_SLOTS = 1 << 18
"""Slots read at once: 1 MiB."""
SLOTS_A_PAGE = PAGE_SIZE // SLOT_SIZE
HEADER_SLOTS = HEADER_SIZE // SLOT_SIZE
"""Slots that would fit where the header is: pages count from the start of the file."""

Slots = NDArray[np.int32]
"""By slot: number of its newest entry, 0 for none."""


def load_slots(file: DiskFile, geometry: IndexGeometry) -> Slots:
    """The slots of a file as it is on disk. Holes are not read, so that an almost empty file costs little memory."""
    slots = np.zeros(geometry.slots, np.int32)
    at = 0
    while at < geometry.slots:
        data = file.next_data(geometry.slot_position(at))
        if data is None:
            break
        at = max(at, (data - HEADER_SIZE) // SLOT_SIZE)
        count = min(LOAD_SLOTS, geometry.slots - at)
        raw = file.read(geometry.slot_position(at), count * SLOT_SIZE) if count > 0 else b""
        if not raw:
            break
        found = np.frombuffer(raw, ">i4", len(raw) // SLOT_SIZE)
        slots[at : at + len(found)] = found
        at += count
    return slots


def encode_slots(slots: Slots) -> bytes:
    """As they lie in the file."""
    return slots.astype(">i4").tobytes()


def pages_in(geometry: IndexGeometry) -> int:
    """Number of pages of header and slots."""
    return -(-geometry.entries_position // PAGE_SIZE)


def page_of(slots: NDArray[Any]) -> NDArray[Any]:
    """The page of the file that contains each of these slots."""
    pages: NDArray[Any] = (HEADER_SLOTS + slots) // SLOTS_A_PAGE
    return pages


def page_range(first: int, stop: int) -> tuple[int, int]:
    """The slots [from, to) that lie in pages [first, stop); the last page may end behind the last slot."""
    return max(first * SLOTS_A_PAGE - HEADER_SLOTS, 0), stop * SLOTS_A_PAGE - HEADER_SLOTS


def link(in_slot: NDArray[np.int32], numbers: NDArray[np.int32], slots: Slots) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return, for new entries `numbers` in these slots, each one's previous entry, and which are the last of their
    slot."""
    order = np.argsort(in_slot, kind="stable")
    sorted_slots = in_slot[order]
    follows = np.empty(len(order), np.bool_)
    follows[:1] = False
    np.equal(sorted_slots[1:], sorted_slots[:-1], out=follows[1:])
    previous_sorted = np.where(follows, np.roll(numbers[order], 1), slots[sorted_slots])
    previous = np.empty_like(previous_sorted)
    previous[order] = previous_sorted
    is_last = np.empty(len(order), np.bool_)
    is_last[order] = ~np.append(follows[1:], False)
    return previous, is_last
