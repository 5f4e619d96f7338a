"""From frames of the commit log to queue entries.

One rule for a live store, for recovery and for the read-only view: every record whose transaction type is none or
commit gets one entry in the queue of its topic and queue id, at the queue offset in the record; and one in each light
queue that its properties name (store/format/light_queues.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.format.frame import FRAME_DTYPE, Rows
from ...store.format.light_queues import light_places
from ...store.format.record import FIXED_V1_V4_SIZE, INT64_MAX, is_safe_topic
from ...store.queue_offsets import QueueKey
from ..key.key_entries import KeyEntries
from ..queue.batch_queue import BatchQueue
from ..queue.queue_table import Queue, QueueTable, same_entries
from ..queue.queue_unit import UNIT_DTYPE, UNIT_SIZE, Units
from .batch_dispatch import dispatch_batches
from .build_entries import BuiltEntries, build_entries
from .dispatch_rules import DispatchCount, DispatchRules

MAX_QUEUE_OFFSET = INT64_MAX // UNIT_SIZE - 1
"""A queue's files are named by a byte offset of 63 bits."""
MAX_FILLER = 1 << 16
"""Entries of filler that are written in place of messages that retention removed from the log; if more are needed,
the queue restarts at the message instead."""
NO_ROWS: Rows = np.empty(0, FRAME_DTYPE)


@dataclass(slots=True)
class DispatchedEntries:
    """Entries of one queue, in the order of the log."""

    rows: Rows
    """Rows of a walk; they are reused at its next step."""
    row_numbers: NDArray[np.int32]
    """The row that each entry comes from."""
    units: Units
    known_indexes: NDArray[np.int64] | None = None
    """Queue offsets of the entries, if they differ from those in the rows."""
    run_start: int | None = None
    """The first index, where each one is known to be one above that before."""

    @property
    def indexes(self) -> NDArray[np.int64]:
        if self.known_indexes is not None:
            return self.known_indexes
        return self.rows["queue_offset"][self.row_numbers].astype(np.int64, copy=False)

    @property
    def store_timestamps_ms(self) -> NDArray[np.int64]:
        return self.rows["store_timestamp_ms"][self.row_numbers].astype(np.int64, copy=False)

    def detached(self) -> DispatchedEntries:
        """A copy that stays valid after the walk's next step, but without `store_timestamps_ms`."""
        known = None if self.run_start is not None else self.indexes
        return DispatchedEntries(NO_ROWS, self.row_numbers, self.units, known, self.run_start)

    def runs(self) -> Iterator[tuple[int, DispatchedEntries]]:
        """Runs of entries with consecutive indexes, each with its first index; an ordinary log has one run."""
        if self.run_start is not None:
            yield self.run_start, self
            return
        indexes = self.indexes
        follows = (np.diff(indexes) == 1) & (indexes[1:] > indexes[:-1])
        for run in np.split(np.arange(len(indexes)), np.flatnonzero(~follows) + 1):
            yield int(indexes[run[0]]), self.part(run)

    def part(self, chosen: NDArray[Any]) -> DispatchedEntries:
        known = self.known_indexes
        return DispatchedEntries(
            self.rows, self.row_numbers[chosen], self.units[chosen], None if known is None else known[chosen]
        )


def queue_entries(
    piece: bytes | memoryview, rows: Rows, rules: DispatchRules, built: BuiltEntries | None = None
) -> dict[QueueKey, DispatchedEntries]:
    """The entries of the records in `rows`, by queue; `built` is the result of `build_entries`, if it
    is known.

    Without prepared and rollback records, records of deleted topics, inner batches, which have batch queues, and topics
    that cannot name a folder, which only a hostile file has.
    """
    if built is None:
        built = build_entries(piece, rows, rules.schedule_topic.encode())
    found: dict[QueueKey, DispatchedEntries] = {}
    stop = 0
    for first_offset, first_row, queue_id, count, is_run in built.queues:
        start, stop = stop, stop + count
        row = rows[first_row].item()
        topic = _safe_topic(bytes(piece[row[7] : row[7] + row[17]]))
        if topic is None:
            continue
        entries = DispatchedEntries(
            rows, built.row_numbers[start:stop], built.units[start:stop], None, first_offset if is_run else None
        )
        if rules.deleted and (below := rules.deleted.below(topic)):
            entries = entries.part(entries.units["physical_offset"] >= below)
        if len(entries.units):
            found[topic, queue_id] = entries
    if len(built.apart):
        for key, apart in _entries_in_python(piece, rows, built.apart, rules).items():
            known = found.get(key)
            found[key] = apart if known is None else _merged(known, apart)
    return found


@lru_cache(maxsize=4096)
def _safe_topic(raw: bytes) -> str | None:
    """The topic, if it can name a folder."""
    topic = raw.decode("utf-8", "replace")
    return topic if is_safe_topic(topic) else None


def _entries_in_python(
    piece: bytes | memoryview, rows: Rows, numbers: NDArray[np.int32], rules: DispatchRules
) -> dict[QueueKey, DispatchedEntries]:
    """The entries of rows that the kernel left to Python: their third field may be a time, light queues may list them,
    and different spellings may name the same topic."""
    found: dict[QueueKey, list[tuple[int, int, tuple[int, int, int]]]] = {}
    for number, row in zip(numbers.tolist(), rows[numbers].tolist(), strict=True):
        topic_at, properties_at = row[7], row[8]
        topic = _safe_topic(bytes(piece[topic_at : topic_at + row[17]]))
        if topic is None:
            continue
        properties_raw = bytes(piece[properties_at : properties_at + row[18]])
        unit = (row[1], row[9], rules.tags_code(topic, properties_raw, row[4]))
        if row[1] >= rules.deleted.below(topic):
            found.setdefault((topic, row[12]), []).append((number, row[2], unit))
        for light_key, light_offset in light_places(topic, properties_raw):
            if is_safe_topic(light_key[0]) and light_offset <= MAX_QUEUE_OFFSET:
                found.setdefault(light_key, []).append((number, light_offset, unit))
    return {
        key: DispatchedEntries(
            rows,
            np.array([number for number, _, _ in entries], np.int32),
            np.array([unit for _, _, unit in entries], UNIT_DTYPE),
            np.array([index for _, index, _ in entries], np.int64),
        )
        for key, entries in found.items()
    }


def _merged(one: DispatchedEntries, other: DispatchedEntries) -> DispatchedEntries:
    """Entries of one queue, from different rows, in the order of the log."""
    numbers = np.concatenate((one.row_numbers, other.row_numbers))
    both = DispatchedEntries(
        one.rows,
        numbers,
        np.concatenate((one.units, other.units)).astype(UNIT_DTYPE, copy=False),
        np.concatenate((one.indexes, other.indexes)),
    )
    return both.part(np.argsort(numbers, kind="stable"))


def dispatch(
    piece: bytes | memoryview, rows: Rows, rules: DispatchRules, table: QueueTable, count: DispatchCount
) -> KeyEntries:
    """Put the records' entries into their queues, and return their keys. Equal entries that exist are not written
    again."""
    built = build_entries(piece, rows, rules.schedule_topic.encode())
    if built.batch_count:
        dispatch_batches(piece, rows, rules, table, count)
    put_entries(queue_entries(piece, rows, rules, built), table, count)
    return built.keys


def put_entries(listed: dict[QueueKey, DispatchedEntries], table: QueueTable, count: DispatchCount) -> None:
    """Put entries into their queues, as `dispatch` does."""
    for key, entries in listed.items():
        queue = table.get_or_create(key)
        if isinstance(queue, BatchQueue):
            continue  # only inner batches have entries there
        for start, run in entries.runs():
            if start < 0:
                continue
            if start > queue.end:
                physical_offset = int(run.units["physical_offset"][0])
                end = queue.end
                if not _can_follow(queue, start, physical_offset, count.log_start):
                    count.impossible.append((physical_offset, start))
                    continue
                count.gaps.setdefault(key, end)
            count.starts[key] = min(count.starts.get(key, start), start)
            count.ends[key] = start + len(run.units)
            put = _put_missing(queue, start, run)
            if len(put):
                count.entries += len(put)
                count.first_put = min(
                    int(put["physical_offset"][0]), INT64_MAX if count.first_put is None else count.first_put
                )


def _can_follow(queue: Queue, queue_offset: int, physical_offset: int, log_start: int) -> bool:
    """Whether the log can have had the messages between a queue's end and a record's queue offset. No CRC covers a
    record's queue offset: a flipped bit there must not make a hole of a million entries.
    """
    if queue.end == 0:
        return queue_offset <= MAX_QUEUE_OFFSET  # the queue's first offset is unknown
    last = queue.units(queue.end - 1, 1)
    before = int(last["physical_offset"][0]) if len(last) else 0
    if before < log_start:  # all of its messages were removed, and any number behind them may have been, too
        if queue_offset - queue.end > MAX_FILLER and queue_offset <= MAX_QUEUE_OFFSET:
            queue.restart()
        return queue_offset <= MAX_QUEUE_OFFSET
    room = physical_offset - (before if before < physical_offset else log_start)
    return queue_offset - queue.end <= room // FIXED_V1_V4_SIZE


def _put_missing(queue: Queue, start: int, run: DispatchedEntries) -> Units:
    """Put the entries that the queue lacks. Returns them."""
    units, same = run.units, 0
    known = min(queue.end - start, len(units))
    if known > 0 and start >= queue.min_index:
        there = queue.units(start, known)
        if len(there) == known:
            differs = np.flatnonzero(~same_entries(queue, there, units[:known]))
            same = int(differs[0]) if len(differs) else known
        units = units[same:]
    if len(units):
        times = run.store_timestamps_ms[same:] if queue.extension is not None else None
        queue.put(start + same, units, times)
    return units
