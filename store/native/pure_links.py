"""Putting keys into the slots and entries of a key index file, in Python."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from .pure_arguments import integer, readable, writable
from .pure_listing import check_no_overlap

if TYPE_CHECKING:
    from typing_extensions import Buffer

ENTRY_DTYPE: Final = np.dtype(
    [("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_diff_s", ">i4"), ("previous", ">i4")]
)
assert ENTRY_DTYPE.itemsize == 20
ENTRY: Final = struct.Struct(">iqii")
SLOTS_A_PAGE_BITS: Final = 10
FEW_KEYS: Final = 64
"""Up to here plain Python is faster than numpy."""
NO_SLOT: Final = "a slot lies outside of slots, or its page outside of stamps"
INT32_MAX: Final = (1 << 31) - 1


def link_keys(
    first: int,
    begin_timestamp_ms: int,
    slots: Buffer,
    key_hashes: Buffer,
    key_offsets: Buffer,
    key_times: Buffer,
    entries: Buffer,
    in_slot: Buffer,
    /,
) -> int:
    """How many slots were empty. See `native.link_keys`."""
    first = integer(first, "first", 32)
    begin_ms = integer(begin_timestamp_ms, "begin_timestamp_ms", 64)
    inputs = readable(slots), readable(key_hashes), readable(key_offsets), readable(key_times)
    outputs = [writable(entries, "entries"), writable(in_slot, "in_slot")]
    slot_count, rest = divmod(len(inputs[0]), 4)
    if rest or not 0 < slot_count <= INT32_MAX:
        raise ValueError("slots must be an int32 column of one to 2147483647")
    count, rest = divmod(len(inputs[1]), 4)
    sizes = [len(view) for view in (*inputs[2:], *outputs)]
    if rest or sizes != [8 * count, 8 * count, ENTRY_DTYPE.itemsize * count, 4 * count]:
        raise ValueError(
            "key_hashes and in_slot must be int32 columns, key_offsets and key_times int64 columns and entries 20 "
            "bytes each, all of one length"
        )
    if first < 1 or count > INT32_MAX - first:
        raise ValueError("the entries' numbers must lie between 1 and 2147483647")
    check_no_overlap(inputs, outputs)
    if count <= FEW_KEYS:
        slot_view, hash_view = inputs[0].cast("i"), inputs[1].cast("i")
        return _link_few(first, begin_ms, slot_view, hash_view, inputs[2].cast("q"), inputs[3].cast("q"), *outputs)
    hashes = np.frombuffer(inputs[1], np.int32)
    times = np.frombuffer(inputs[3], np.int64)
    wanted = hashes % np.int64(slot_count)
    table: NDArray[Any] = np.ndarray(count, ENTRY_DTYPE, outputs[0])
    previous = _previous(wanted, np.arange(first, first + count), np.frombuffer(inputs[0], np.int32))
    table["key_hash"], table["physical_offset"] = hashes, np.frombuffer(inputs[2], np.int64)
    table["previous"] = previous
    table["time_diff_s"] = 0
    if begin_ms > 0:
        after = times > begin_ms
        table["time_diff_s"][after] = np.minimum((times[after] - begin_ms) // 1000, INT32_MAX)
    np.ndarray(count, np.int32, outputs[1])[:] = wanted
    return count - int(np.count_nonzero(previous))


def _link_few(
    first: int,
    begin_ms: int,
    slots: memoryview,
    hashes: memoryview,
    offsets: memoryview,
    times: memoryview,
    entries: memoryview,
    in_slot: memoryview,
) -> int:
    slot_count, heads, wanted, empty = len(slots), dict[int, int](), in_slot.cast("i"), 0
    for i, (key_hash, physical_offset, time_ms) in enumerate(zip(hashes, offsets, times, strict=True)):
        slot = wanted[i] = key_hash % slot_count
        previous = heads.get(slot) or slots[slot]
        after_s = min((time_ms - begin_ms) // 1000, INT32_MAX) if 0 < begin_ms < time_ms else 0
        ENTRY.pack_into(entries, i * ENTRY.size, key_hash, physical_offset, after_s, previous)
        empty += previous == 0
        heads[slot] = first + i
    return empty


def _previous(in_slot: NDArray[np.int64], numbers: NDArray[np.int64], slots: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of new entries `numbers` in these slots: each one's previous entry."""
    order = np.argsort(in_slot, kind="stable")
    sorted_slots = in_slot[order]
    follows = np.empty(len(order), np.bool_)
    follows[:1] = False
    np.equal(sorted_slots[1:], sorted_slots[:-1], out=follows[1:])
    previous = np.empty(len(order), np.int64)
    previous[order] = np.where(follows, np.roll(numbers[order], 1), slots[sorted_slots])
    return previous


def set_heads(first: int, slots_before: int, in_slot: Buffer, slots: Buffer, stamps: Buffer, /) -> None:
    """See `native.set_heads`."""
    first = integer(first, "first", 32)
    slots_before = integer(slots_before, "slots_before", 32)
    view = readable(in_slot)
    outputs = [writable(slots, "slots"), writable(stamps, "stamps")]
    if any(len(each) % 4 for each in (view, *outputs)):
        raise ValueError("in_slot, slots and stamps must be int32 columns")
    changed = np.frombuffer(view, np.int32)
    if first < 1 or len(changed) > INT32_MAX - first or slots_before < 0:
        raise ValueError("the entries' numbers must lie between 1 and 2147483647, slots_before at 0 or above")
    check_no_overlap((view,), outputs)
    if len(changed) <= FEW_KEYS:
        _set_few(first, slots_before, changed.tolist(), outputs[0].cast("i"), outputs[1].cast("i"))
        return
    table: NDArray[np.int32] = np.ndarray(len(outputs[0]) // 4, np.int32, outputs[0])
    pages: NDArray[np.int32] = np.ndarray(len(outputs[1]) // 4, np.int32, outputs[1])
    page_of = (changed.astype(np.int64) + slots_before) >> SLOTS_A_PAGE_BITS
    bad = (changed < 0) | (changed >= len(table)) | (page_of >= len(pages))
    if bad.any():
        raise ValueError(NO_SLOT)
    numbers = np.arange(first, first + len(changed), dtype=np.int32)
    # Of several in one slot or page the last one stays.
    table[changed] = numbers
    pages[page_of] = numbers


def _set_few(first: int, slots_before: int, changed: list[int], slots: memoryview, stamps: memoryview) -> None:
    end = min(len(slots), (len(stamps) << SLOTS_A_PAGE_BITS) - slots_before)
    if not all(0 <= slot < end for slot in changed):
        raise ValueError(NO_SLOT)
    for number, slot in enumerate(changed, first):
        slots[slot] = number
        stamps[slots_before + slot >> SLOTS_A_PAGE_BITS] = number
