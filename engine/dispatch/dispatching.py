"""Dispatch a range of the log into queues, truncate stale entries, and find where to restart for a queue that lags."""

from __future__ import annotations

from collections.abc import Callable

from ...index.dispatch.dispatch import dispatch
from ...index.dispatch.dispatch_rules import DispatchCount, DispatchRules
from ...index.key.key_entries import KeyEntries
from ...index.queue.queue_table import Queue, QueueTable, last_entry
from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...store.format.inner_batch import inner_count
from ...store.format.light_queues import is_light, light_places
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.state.deleted_topics import DeletedTopics
from ...store.stored_message import StoredMessage


def dispatch_rules(settings: StoreSettings, deleted: DeletedTopics | None = None) -> DispatchRules:
    """The dispatch rules for these settings. Records of `deleted` topics are skipped."""
    levels = DelayLevelTable.parse(settings.delay_levels)
    return DispatchRules(SCHEDULE_TOPIC, levels.delivery_time_ms, DeletedTopics() if deleted is None else deleted)


def dispatch_range(
    reader: LogReader,
    table: QueueTable,
    rules: DispatchRules,
    start: int,
    stop: int,
    count: DispatchCount,
    *,
    mapped: bool = False,
    put_keys: Callable[[KeyEntries], None] | None = None,
) -> None:
    """Dispatch every record in physical [start, stop), a range without structural damage, into its queue. Its keys are
    passed to `put_keys`."""
    for segment, first, last in reader.segments_between(start, stop):
        for piece, rows in reader.scan(segment, first, last, check_crc=False, mapped=mapped):
            keys = dispatch(piece, rows, rules, table, count)
            if put_keys is not None:
                put_keys(keys)


def forget_beyond(table: QueueTable, start: int, count: DispatchCount) -> None:
    """Truncate queues: drop entries for physical offsets from `start` on that have no record. These are stale entries,
    entries of a truncated tail, and garbage past the end of a queue, which would mislead the next search for its
    end."""
    for key, queue in table.items():
        known_end = count.ends.get(key)
        if known_end is None:
            last = last_entry(queue)  # None if the queue is empty, or if retention has just removed the file
            is_before = last is None or (last.is_valid and last.physical_offset < start)
            known_end = queue.end if is_before else _end_before(queue, start)
        queue.truncate(known_end)


def _end_before(queue: Queue, start: int) -> int:
    """One past the last entry of a record before physical `start`. Another process's retention may remove such entries
    meanwhile."""
    while True:
        end = queue.first_at_or_after(start)
        queue.skip_removed()
        if end >= queue.min_index:
            return end


def is_entry_of(message: StoredMessage, key: QueueKey, queue_offset: int) -> bool:
    """Whether entry `queue_offset` of a queue refers to this message."""
    if (message.topic, message.queue_id, message.queue_offset) == (*key, queue_offset):
        return True
    if message.sys_flag & INNER_BATCH and (message.topic, message.queue_id) == key:
        return 0 <= queue_offset - message.queue_offset < inner_count(message.properties)
    return is_light(key[0]) and (key, queue_offset) in light_places(message.topic, message.properties_raw)


def lagging_from(table: QueueTable, reader: LogReader, count: DispatchCount) -> int:
    """Physical offset of the segment from which to dispatch again, so that every queue with a gap is filled."""
    lowest = reader.files_end
    for key, end in count.gaps.items():
        queue = table.get(key)
        if queue is None or end <= queue.min_index or end == 0:
            return reader.min_offset
        before = queue.units(end - 1, 1)
        if not len(before):
            return reader.min_offset
        lowest = min(lowest, int(before["physical_offset"][0]))
    segment = reader.segment_at(lowest)
    return reader.min_offset if segment is None else segment.base
