"""From frames of the commit log to keys of the index.

One rule for a live store, for recovery and for the read-only view: a record whose transaction type is none, prepared or
commit is found by its UNIQ_KEY, if it has one, and then by each token of its KEYS; the key that is hashed is
`topic#key`, the topic being the record's own.

Source: `IndexService.buildIndex` of Apache RocketMQ 5.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..store import properties as props
from ..store.frame import Rows
from ..store.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from .key_columns import key_columns
from .key_hashes import hash_key

NAME_END = props.NAME_END.encode()
VALUE_END = props.VALUE_END.encode()
SEPARATOR = props.KEY_SEPARATOR.encode()
KEYS_MARK = props.KEYS.encode() + NAME_END
UNIQ_KEY_MARK = props.UNIQ_KEY.encode() + NAME_END

FEW_RECORDS = 32
"""Up to here plain Python is faster than numpy."""


@dataclass(slots=True)
class KeyEntries:
    """Keys in the order of the log: one element of each array a key."""

    key_hash: NDArray[np.int32]
    """As `index_file.key_hash`: 31 bits."""
    physical_offset: NDArray[np.int64]
    """Of the record, in bytes; never descending."""
    store_timestamp_ms: NDArray[np.int64]
    """Of the record."""

    def __len__(self) -> int:
        return len(self.key_hash)

    def part(self, start: int, stop: int) -> KeyEntries:
        """Keys [start, stop), not copied."""
        return KeyEntries(
            self.key_hash[start:stop], self.physical_offset[start:stop], self.store_timestamp_ms[start:stop]
        )


class LastPut(NamedTuple):
    """How far the keys of a log have been put somewhere, so that putting some of them again adds none twice."""

    physical_offset: int = -1
    """Of the last record that a key was put of; -1 before any."""
    key_count: int = 0
    """How many of its keys were put."""

    def unknown(self, keys: KeyEntries) -> KeyEntries:
        """Of keys in the order of the log those that follow. A record's keys come all together, always in one order."""
        offsets = keys.physical_offset
        if offsets[0] > self.physical_offset:
            return keys
        first = int(np.searchsorted(offsets, self.physical_offset))
        same = int(np.searchsorted(offsets, self.physical_offset, side="right")) - first
        return keys.part(first + min(same, self.key_count), len(keys))

    def then(self, keys: KeyEntries) -> LastPut:
        """Once these were put, too."""
        last, count = int(keys.physical_offset[-1]), len(keys)
        if count > 1:
            count -= int(np.searchsorted(keys.physical_offset, last))
        return LastPut(last, count + self.key_count if last == self.physical_offset else count)


def key_entries(piece: bytes | memoryview, rows: Rows) -> KeyEntries:
    """The keys of the records in `rows`, whose positions count from the start of `piece`."""
    if len(rows) <= FEW_RECORDS:
        return _one_by_one(piece, rows)
    is_indexed = (rows["sys_flag"] & TRANSACTION_MASK != TRANSACTION_ROLLBACK) & (rows["properties_size"] > 0)
    rows = rows[is_indexed]
    hashes, owners = key_columns(piece, rows)
    return KeyEntries(
        hashes,
        rows["physical_offset"][owners].astype(np.int64, copy=False),
        rows["store_timestamp_ms"][owners].astype(np.int64, copy=False),
    )


def _one_by_one(piece: bytes | memoryview, rows: Rows) -> KeyEntries:
    found: list[tuple[int, int, int]] = []
    for row in rows.tolist():
        size = row[18]
        if not size or row[14] & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
            continue
        start = row[8]
        keys = index_keys(bytes(piece[start : start + size]))
        if keys:
            topic = bytes(piece[row[7] : row[7] + row[17]])
            found += [(hash_key(topic, key), row[1], row[4]) for key in keys]
    if not found:
        return KeyEntries(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
    hashes, offsets, times = zip(*found, strict=True)
    return KeyEntries(np.array(hashes, np.int32), np.array(offsets, np.int64), np.array(times, np.int64))


def index_keys(properties_raw: bytes) -> list[bytes]:
    """The keys in a record's properties: UNIQ_KEY first, then the tokens of KEYS. One that stands there twice is there
    twice, as in RocketMQ's files."""
    keys = []
    if UNIQ_KEY_MARK in properties_raw:
        uniq_key = _value(properties_raw, UNIQ_KEY_MARK)
        if uniq_key:
            keys.append(uniq_key)
    if KEYS_MARK in properties_raw:
        text = _value(properties_raw, KEYS_MARK)
        if SEPARATOR in text:
            keys += filter(None, text.split(SEPARATOR))
        elif text:
            keys.append(text)
    return keys


def _value(raw: bytes, mark: bytes) -> bytes:
    """The value of a property whose name and separator occur in the text; empty if it has none."""
    at = raw.find(mark)
    if (at == 0 or raw.startswith(VALUE_END, at - 1)) and raw.find(mark, at + 1) < 0:
        start = at + len(mark)
        stop = raw.find(VALUE_END, start)
        return raw[start:] if stop < 0 else raw[start:stop]
    # Another name that ends alike, or a name that occurs twice.
    return props.decode_properties(raw).get(mark[:-1].decode(), "").encode()
