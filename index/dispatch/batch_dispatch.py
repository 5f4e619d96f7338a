"""From inner batches in the commit log to entries of batch queues.

An inner batch whose properties hold its number of messages gets one entry in the batch queue of its topic and queue id,
at the queue offset in the record. Other records get no entry in a batch queue, as in RocketMQ.
"""

from __future__ import annotations

import numpy as np

from ...store.format.frame import Rows
from ...store.format.inner_batch import MAX_COUNT, inner_count
from ...store.format.properties import decode_properties
from ...store.format.record import FIXED_V1_V4_SIZE, INT64_MAX, is_safe_topic
from ...store.format.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from ...store.queue_offsets import QueueKey
from ..queue.batch_queue import BatchQueue
from ..queue.batch_unit import BATCH_UNIT_DTYPE, NOT_COMPACTED, BatchUnits
from ..queue.queue_table import QueueTable
from .dispatch_rules import DispatchCount, DispatchRules

MAX_BASE = INT64_MAX >> 8
"""Larger than any queue; sums of smaller values do not overflow."""


def batch_entries(piece: bytes | memoryview, rows: Rows, rules: DispatchRules) -> dict[QueueKey, BatchUnits]:
    """The entries of the inner batches in `rows`, by queue, in the order of the log."""
    found: dict[QueueKey, list[tuple[int, ...]]] = {}
    batches = rows[(rows["sys_flag"] & INNER_BATCH) != 0]
    for row in batches.tolist():
        if row[14] & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            continue
        topic = bytes(piece[row[7] : row[7] + row[17]]).decode("utf-8", "replace")
        properties_raw = bytes(piece[row[8] : row[8] + row[18]])
        count = inner_count(decode_properties(properties_raw))
        if row[1] < rules.deleted.below(topic):
            continue
        if not is_safe_topic(topic) or row[12] < 0 or not 0 <= row[2] < MAX_BASE or not count:
            continue
        tags_code = rules.tags_code(topic, properties_raw, row[4])
        unit = (row[1], row[9], tags_code, row[4], row[2], count, NOT_COMPACTED, 0)
        found.setdefault((topic, row[12]), []).append(unit)
    return {key: np.array(units, BATCH_UNIT_DTYPE) for key, units in found.items()}


def dispatch_batches(
    piece: bytes | memoryview, rows: Rows, rules: DispatchRules, table: QueueTable, count: DispatchCount
) -> None:
    """Put the inner batches' entries into their queues. Equal entries that exist are not written again."""
    for key, units in batch_entries(piece, rows, rules).items():
        queue = table.get_or_create_batch(key)
        if queue is None:
            continue
        for unit in (units[i : i + 1] for i in range(len(units))):
            base, physical_offset = int(unit["base"][0]), int(unit["physical_offset"][0])
            if base > queue.end:
                if not _can_be_missing(queue, base, physical_offset):
                    count.impossible.append((physical_offset, base))
                    continue
                count.gaps.setdefault(key, queue.end)
            count.starts[key] = min(count.starts.get(key, base), base)
            count.ends[key] = base + int(unit["count"][0])
            if len(queue.put_batches(unit)):
                count.entries += 1
                count.first_put = min(physical_offset, INT64_MAX if count.first_put is None else count.first_put)


def _can_be_missing(queue: BatchQueue, base: int, physical_offset: int) -> bool:
    """Whether the log can have had the messages between a queue's end and a batch; see dispatch.py."""
    if not len(queue.batches):
        return True  # the queue's first offset is unknown
    before = int(queue.batches["physical_offset"][-1])
    room = physical_offset - before if before < physical_offset else physical_offset
    return base - queue.end <= room // FIXED_V1_V4_SIZE * MAX_COUNT
