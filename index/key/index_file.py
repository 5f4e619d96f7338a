"""The format of a key index file: a hash table from a key to the records that carry it.

    index/20231114221320123      named by its creation in local time, yyyyMMddHHmmssSSS

    0                40                       40 + 4 * slots            (entry 0 is never used)
    ┌────────────────┬──────┬──────┬───┬──────┬─────────┬─────────┬─────────┬───┬─────────────────────┐
    │ header         │ slot │ slot │ … │ slot │ entry 0 │ entry 1 │ entry 2 │ … │ entry (entries - 1) │
    └────────────────┴──────┴──────┴───┴──────┴─────────┴─────────┴─────────┴───┴─────────────────────┘

    header   0   beginTimestamp   i64   ms, store time of the first entry's record
             8   endTimestamp     i64   ms, of the last entry's
             16  beginPhyOffset   i64   physical offset of the first entry's record
             24  endPhyOffset     i64   of the last entry's
             32  hashSlotCount    i32   slots that are not empty
             36  indexCount       i32   number of the next entry: starts at 1

    slot         i32   number of the newest entry of this slot, 0 for none

    entry    0   key hash         i32   |Java hash of "topic#key"|; it belongs to slot (key hash) % slots
             4   physical offset  i64   of the record
             12  time difference  i32   s, store time - beginTimestamp, see `time_difference_s`
             16  previous         i32   number of the slot's next older entry, 0 for none

All integers are big-endian. A file is full when its next entry would be number `entries`. The first entry of a file
that follows a full one is timed against that one's endTimestamp, because the header begins with it.

Source: `IndexHeader`, `IndexFile` and `IndexService` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store.format.java_hash import hash_from

INDEX_FOLDER = "index"

HEADER = struct.Struct(">qqqqii")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 40

SLOT_SIZE = 4
ENTRY = struct.Struct(">iqii")
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 20

ENTRY_DTYPE = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("time_diff_s", ">i4"), ("previous", ">i4")])
assert ENTRY_DTYPE.itemsize == ENTRY_SIZE

Entries = NDArray[Any]
"""An array of ENTRY_DTYPE."""

DEFAULT_INDEX_SLOTS = 5_000_000
DEFAULT_INDEX_ENTRIES = 20_000_000
USUAL_ENTRIES_A_SLOT = 4

MAX_INDEX_FILE_SIZE = (1 << 31) - 1
"""RocketMQ maps a file as one."""

FIRST_ENTRY = 1
MAX_TIME_DIFF_S = 0x7FFFFFFF

NAME_DIGITS = 17
NAME_FORMAT = "%Y%m%d%H%M%S"
LAST_YEAR = "9998"
"""A name after this year is none: there would be no later one to give to the next file."""


@dataclass(frozen=True, slots=True)
class IndexGeometry:
    """Number of slots and entries of each file of a store. The files do not store it."""

    slots: int = DEFAULT_INDEX_SLOTS
    entries: int = DEFAULT_INDEX_ENTRIES
    """Entry 0 included, which is never used: a file takes `entries` - 1 keys."""

    @property
    def entries_position(self) -> int:
        """Position of entry 0 in the file (bytes)."""
        return HEADER_SIZE + SLOT_SIZE * self.slots

    @property
    def file_size(self) -> int:
        """Bytes of a file."""
        return self.entries_position + ENTRY_SIZE * self.entries

    def entry_position(self, number: int) -> int:
        """Position of an entry in the file (bytes)."""
        return self.entries_position + ENTRY_SIZE * number

    def slot_position(self, slot: int) -> int:
        """Position of a slot in the file (bytes)."""
        return HEADER_SIZE + SLOT_SIZE * slot


class IndexHeader(NamedTuple):
    """The first 40 bytes of a file."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    slot_count: int = 0
    """Slots that are not empty (hashSlotCount)."""
    next_entry: int = FIRST_ENTRY
    """Number of the next entry (indexCount)."""

    def encode(self) -> bytes:
        return HEADER.pack(*self)

    @property
    def has_entries(self) -> bool:
        return self.next_entry > FIRST_ENTRY

    def following(self) -> IndexHeader:
        """What the header of the file after this full one is until its first entry comes."""
        return IndexHeader(
            *(self.end_timestamp_ms, self.end_timestamp_ms, self.end_physical_offset, self.end_physical_offset)
        )

    def problem(self, geometry: IndexGeometry) -> str | None:
        """Why a file of this geometry cannot have this header; None if it can."""
        if not FIRST_ENTRY <= self.next_entry <= geometry.entries:
            return f"its header names {self.next_entry} as the next entry, expected {FIRST_ENTRY} to {geometry.entries}"
        # A RocketMQ that is killed within a put may have counted the slot and not yet the entry.
        least, most = min(1, self.next_entry - FIRST_ENTRY), min(geometry.slots, self.next_entry)
        if not least <= self.slot_count <= most:
            return f"its header counts {self.slot_count} used slots, expected {least} to {most}"
        if not 0 <= self.begin_physical_offset <= self.end_physical_offset:
            return (
                f"its header spans physical offsets {self.begin_physical_offset} to {self.end_physical_offset}, "
                "expected an ascending range"
            )
        return None


class IndexState(NamedTuple):
    """Progress of an index: two words that the writer saves, and to which recovery rewinds. They name a file by its
    number and not by its place among the files, because old files expire between two flushes.
    """

    file: int = 0
    """Number of the newest file, by its name; 0 without a file."""
    next_entry: int = 0
    """Number of the next entry in it."""


def decode_header(raw: bytes) -> IndexHeader:
    """The header in 40 bytes. A file that was never flushed has zeros there: its next entry is number 1."""
    header = IndexHeader(*HEADER.unpack_from(raw))
    return header if header.next_entry > 0 else header._replace(next_entry=FIRST_ENTRY)


def decode_entries(raw: bytes) -> Entries:
    """The whole entries in `raw`."""
    return np.frombuffer(raw, ENTRY_DTYPE, len(raw) // ENTRY_SIZE)


def key_hash(topic: str, key: str) -> int:
    """The hash of a key in an entry: 31 bits. Java's |-2**31| is negative; RocketMQ takes 0 for it."""
    h = hash_from(_topic_hash(topic), key)
    if h < 0x80000000:
        return h
    return 0x100000000 - h if h > 0x80000000 else 0


@lru_cache(maxsize=1024)
def _topic_hash(topic: str) -> int:
    """What the hash of each key of a topic goes on from."""
    return hash_from(0, f"{topic}#")


def time_difference_s(store_timestamp_ms: int, begin_timestamp_ms: int) -> int:
    """What an entry keeps of its record's store time: whole seconds after the header's beginTimestamp as it was before
    the entry was put, at least 0 and at most 2**31 - 1; 0 where there was no beginTimestamp yet."""
    if begin_timestamp_ms <= 0 or store_timestamp_ms <= begin_timestamp_ms:
        return 0
    return min((store_timestamp_ms - begin_timestamp_ms) // 1000, MAX_TIME_DIFF_S)


def parse_name(name: str) -> int | None:
    """The number that a file's name is, if it is that of an index file: 17 digits that are a time."""
    if len(name) != NAME_DIGITS or not (name.isascii() and name.isdigit()) or name[:4] > LAST_YEAR:
        return None
    try:
        _name_time(name)
    except ValueError:
        return None
    return int(name)


def file_name(number: int) -> str:
    """The name of the file with this number."""
    return f"{number:0{NAME_DIGITS}d}"


def next_name(now_ms: int, last: int) -> int:
    """The number of a file that is created now: its local time, at least a millisecond after `last` (0 for none).

    Clocks step back, local time does so once a year, and the order of the names is that of the files.
    """
    now = _time_name(datetime.fromtimestamp(now_ms // 1000), now_ms % 1000)
    if now > last:
        return now
    after = _name_time(file_name(last)) + timedelta(milliseconds=1)
    return _time_name(after, after.microsecond // 1000)


def _name_time(name: str) -> datetime:
    return datetime.strptime(name[:-3], NAME_FORMAT) + timedelta(milliseconds=int(name[-3:]))


def _time_name(time: datetime, ms: int) -> int:
    # Not by strftime: it leaves out the leading zeros of the years before 1000.
    return int(
        f"{time.year:04d}{time.month:02d}{time.day:02d}{time.hour:02d}{time.minute:02d}{time.second:02d}{ms:03d}"
    )
