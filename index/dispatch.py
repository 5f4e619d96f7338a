"""From frames of the commit log to queue entries.

One rule for a live store, for recovery and for the read-only view: every record whose transaction type is none or
commit gets one entry in the queue of its topic and queue id, at the queue offset that stands in the record; and one in
each light queue that its properties name (store/light_queues.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..store.frame import Rows
from ..store.light_queues import light_places
from ..store.queue_offsets import QueueKey
from ..store.record import FIXED_V1_V4_SIZE, INT64_MAX, is_safe_topic
from ..store.sys_flag import INNER_BATCH, has_queue_entry
from .batch_dispatch import dispatch_batches
from .batch_queue import BatchQueue
from .dispatch_rules import DispatchCount, DispatchRules
from .queue_table import Queue, QueueTable, same_entries
from .queue_unit import UNIT_DTYPE, UNIT_SIZE, Units

MAX_QUEUE_OFFSET = INT64_MAX // UNIT_SIZE - 1
"""A queue's files are named by a byte offset of 63 bits."""
MAX_FILLER = 1 << 16
"""Entries of filler that are written in place of messages that the log has let go; where more would be needed, the
queue begins anew."""


@dataclass
class QueueEntries:
    """Entries of one queue, in the order of the log."""

    indexes: list[int] = field(default_factory=list)
    units: list[tuple[int, int, int]] = field(default_factory=list)
    store_timestamps_ms: list[int] = field(default_factory=list)


def queue_entries(piece: bytes | memoryview, rows: Rows, rules: DispatchRules) -> dict[QueueKey, QueueEntries]:
    """The entries of the records in `rows`, by queue.

    Left out: prepared and rollback records; records of deleted topics; inner batches, which have queues of another
    shape; and topics that cannot name a folder, which only a hostile file has.
    """
    found: dict[QueueKey, QueueEntries] = {}
    topics: dict[bytes, str] = {}
    has_deleted = bool(rules.deleted)
    for row in rows.tolist():
        sys_flag = row[14]
        if not has_queue_entry(sys_flag) or sys_flag & INNER_BATCH:
            continue
        topic_at, properties_at = row[7], row[8]
        topic_raw = bytes(piece[topic_at : topic_at + row[17]])
        topic = topics.get(topic_raw)
        if topic is None:
            topic = topics[topic_raw] = topic_raw.decode("utf-8", "replace")
        key = (topic, row[12])
        entries = found.get(key)
        if entries is None:
            if not is_safe_topic(topic) or row[12] < 0:
                continue
            entries = found[key] = QueueEntries()
        properties_raw = bytes(piece[properties_at : properties_at + row[18]])
        unit = (row[1], row[9], rules.tags_code(topic, properties_raw, row[4]))
        if not has_deleted or row[1] >= rules.deleted.below(topic):
            entries.indexes.append(row[2])
            entries.units.append(unit)
            entries.store_timestamps_ms.append(row[4])
        for light_key, light_offset in light_places(topic, properties_raw):
            if is_safe_topic(light_key[0]) and light_offset <= MAX_QUEUE_OFFSET:
                light = found.setdefault(light_key, QueueEntries())
                light.indexes.append(light_offset)
                light.units.append(unit)
                light.store_timestamps_ms.append(row[4])
    return {key: entries for key, entries in found.items() if entries.indexes} if has_deleted else found


def dispatch(
    piece: bytes | memoryview, rows: Rows, rules: DispatchRules, table: QueueTable, count: DispatchCount
) -> None:
    """Put the records' entries into their queues. An entry that is there and equal is left alone."""
    dispatch_batches(piece, rows, rules, table, count)
    for key, entries in queue_entries(piece, rows, rules).items():
        queue = table.get_or_create(key)
        if isinstance(queue, BatchQueue):
            continue  # only inner batches have entries there
        indexes = np.array(entries.indexes, dtype=np.int64)
        units = np.array(entries.units, dtype=UNIT_DTYPE)
        # Runs of consecutive indexes; an ordinary log has one.
        for run in np.split(np.arange(len(indexes)), np.flatnonzero(np.diff(indexes) != 1) + 1):
            start = int(indexes[run[0]])
            if start < 0:
                continue
            if start > queue.end:
                physical_offset = int(units[run[0]]["physical_offset"])
                end = queue.end
                if not _can_follow(queue, start, physical_offset, count.log_start):
                    count.impossible.append((physical_offset, start))
                    continue
                count.gaps.setdefault(key, end)
            count.starts[key] = min(count.starts.get(key, start), start)
            count.ends[key] = start + len(run)
            times = np.array(entries.store_timestamps_ms[run[0] : run[-1] + 1], dtype=np.int64)
            put = _put_missing(queue, start, units[run[0] : run[-1] + 1], times)
            if len(put):
                count.entries += len(put)
                count.first_put = min(
                    int(put["physical_offset"][0]), INT64_MAX if count.first_put is None else count.first_put
                )


def _can_follow(queue: Queue, queue_offset: int, physical_offset: int, log_start: int) -> bool:
    """Whether the messages between a queue's end and a record's queue offset can have been in the log at all.

    No CRC covers a record's queue offset: one flipped bit there must not make a hole of a million entries.
    """
    if queue.end == 0:
        return queue_offset <= MAX_QUEUE_OFFSET  # where this queue began nobody knows
    last = queue.units(queue.end - 1, 1)
    before = int(last["physical_offset"][0]) if len(last) else 0
    if before < log_start:  # all that it has is of messages that are gone, and so may be any number behind them
        if queue_offset - queue.end > MAX_FILLER and queue_offset <= MAX_QUEUE_OFFSET:
            queue.begin_anew()
        return queue_offset <= MAX_QUEUE_OFFSET
    room = physical_offset - (before if before < physical_offset else log_start)
    return queue_offset - queue.end <= room // FIXED_V1_V4_SIZE


def _put_missing(queue: Queue, start: int, units: Units, store_timestamps_ms: NDArray[np.int64]) -> Units:
    """Put what the queue does not say already; returns those entries."""
    known = min(queue.end - start, len(units))
    if known > 0 and start >= queue.min_index:
        there = queue.units(start, known)
        same = 0
        if len(there) == known:
            differs = np.flatnonzero(~same_entries(queue, there, units[:known]))
            same = int(differs[0]) if len(differs) else known
        start, units, store_timestamps_ms = start + same, units[same:], store_timestamps_ms[same:]
    if len(units):
        queue.put(start, units, store_timestamps_ms)
    return units
