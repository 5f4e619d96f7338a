"""Putting keys into the slots and entries of a key index file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .arguments import INT32_MAX, check_no_overlap, column, integer, readable, writable

if TYPE_CHECKING:
    from typing_extensions import Buffer

ENTRY = struct.Struct(">iqii")
"""Hash of the key, physical offset, seconds since the file begins, the previous entry of its slot."""
SLOTS_A_PAGE = 1024


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
    hashes, offsets, times = column(inputs[1], 32), column(inputs[2], 64), column(inputs[3], 64)
    if (
        hashes is None
        or offsets is None
        or times is None
        or not len(hashes) == len(offsets) == len(times)
        or [len(output) for output in outputs] != [ENTRY.size * len(hashes), 4 * len(hashes)]
    ):
        raise ValueError(
            "key_hashes and in_slot must be int32 columns, key_offsets and key_times int64 columns and entries 20 "
            "bytes each, all of one length"
        )
    if first < 1 or len(hashes) > INT32_MAX - first:
        raise ValueError("the entries' numbers must lie between 1 and 2147483647")
    check_no_overlap(inputs, outputs)
    heads: dict[int, int] = {}
    empty = 0
    for i, (key_hash, physical_offset, time_ms) in enumerate(zip(hashes, offsets, times, strict=True)):
        slot = key_hash % slot_count
        previous = heads[slot] if slot in heads else struct.unpack_from("=i", inputs[0], 4 * slot)[0]
        after_s = min((time_ms - begin_ms) // 1000, INT32_MAX) if 0 < begin_ms < time_ms else 0
        ENTRY.pack_into(outputs[0], i * ENTRY.size, key_hash, physical_offset, after_s, previous)
        struct.pack_into("=i", outputs[1], 4 * i, slot)
        empty += previous == 0
        heads[slot] = first + i
    return empty


def set_heads(first: int, slots_before: int, in_slot: Buffer, slots: Buffer, stamps: Buffer, /) -> None:
    """See `native.set_heads`."""
    first = integer(first, "first", 32)
    slots_before = integer(slots_before, "slots_before", 32)
    view = readable(in_slot)
    outputs = [writable(slots, "slots"), writable(stamps, "stamps")]
    changed = column(view, 32)
    if changed is None or any(len(output) % 4 for output in outputs):
        raise ValueError("in_slot, slots and stamps must be int32 columns")
    if first < 1 or len(changed) > INT32_MAX - first or slots_before < 0:
        raise ValueError("the entries' numbers must lie between 1 and 2147483647, slots_before at 0 or above")
    check_no_overlap((view,), outputs)
    slot_count, page_count = (len(output) // 4 for output in outputs)
    if not all(0 <= slot < slot_count and (slots_before + slot) // SLOTS_A_PAGE < page_count for slot in changed):
        raise ValueError("a slot lies outside of slots, or its page outside of stamps")
    for number, slot in enumerate(changed, first):
        struct.pack_into("=i", outputs[0], 4 * slot, number)
        struct.pack_into("=i", outputs[1], 4 * ((slots_before + slot) // SLOTS_A_PAGE), number)
