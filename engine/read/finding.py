"""Finding messages and places: by physical offset, by offset message id, by store time; and counting by tags."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...index.filter.tag_filter import TagFilter, tag_filter
from ...index.queue.queue_table import Queue, QueueTable
from ...index.queue.queue_unit import QueueUnit, Units, valid_mask
from ...store.errors import CorruptQueueError, CorruptRecordError, UsageError
from ...store.format.message_id import decode_message_id
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.seal.seal import read_seal, seal_fits
from ...store.segments.segment import Segment
from ...store.stored_message import StoredMessage
from .entries import message_of, messages_of, missing_file

Boundary = Literal["lower", "upper"]
"""Which message a store time stands for: the first at or after it, or the last at or before it."""

PAGE_ENTRIES = 4096
TOO_OLD_MS = -1
"""The store time of messages that are removed from the log."""
MAX_SCANNED = 20_000
"""Entries that an estimate reads (RocketMQ's `maxConsumeQueueScan`)."""
ENOUGH_MATCHES = 5000
"""Matches above which an estimate stops (RocketMQ's `sampleCountThreshold`)."""


class Finder:
    """Finds messages in one log and its queues. Thread-safe."""

    def __init__(
        self,
        reader: LogReader,
        table: QueueTable,
        readable_end: Callable[[], int],
        was_deleted: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self._reader, self._table = reader, table
        self._readable_end = readable_end
        """Physical offset up to which the log may be read now."""
        self._was_deleted = was_deleted
        """Whether another process has deleted this topic since the table was read."""

    def message_at(self, physical_offset: int, batch_index: int | None = None) -> StoredMessage | None:
        """The message whose record starts there; see Reader.message_at."""
        record = self._record_at(physical_offset)
        if record is None or batch_index is None:
            return record
        messages = messages_of(self._reader, record)
        is_there = record.sys_flag & INNER_BATCH and 0 <= batch_index < len(messages)
        return messages[batch_index] if is_there else None

    def _record_at(self, physical_offset: int) -> StoredMessage | None:
        end = self._readable_end()
        message = message_at(self._reader, physical_offset, end)
        # Bytes inside a body may look like a record, even like one that belongs where they are.
        if message is None or self._is_listed(message) or starts_record(self._reader, physical_offset, end):
            return message
        return None

    def message_by_id(self, message_id: str) -> StoredMessage | None:
        """The message with this offset message id; see Reader.message_by_id."""
        _, physical_offset = decode_message_id(message_id)
        message = self.message_at(physical_offset)
        return message if message is not None and message.message_id == message_id.upper() else None

    def _is_listed(self, message: StoredMessage) -> bool:
        """Whether the message's own queue points at it: the cheap proof that it is a message."""
        queue = self._table.get((message.topic, message.queue_id))
        if queue is None or not queue.min_index <= message.queue_offset < queue.end:
            return False
        found: list[int] = queue.units(message.queue_offset, 1)["physical_offset"].tolist()
        return found == [message.physical_offset]

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary) -> int:
        """The queue offset of a store time; see Reader.offset_at.

        (RocketMQ's `ConsumeQueue#binarySearchInQueueByTime`, as `ConsumeQueueStore#getOffsetInQueueByTime` clamps it.)
        """
        if boundary not in get_args(Boundary):
            raise UsageError(f"boundary={boundary!r}: expected one of {', '.join(map(repr, get_args(Boundary)))}")
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return 0
        try:
            return self._offset_in((topic, queue_id), queue, timestamp_ms, boundary)
        except (CorruptRecordError, CorruptQueueError):
            if queue.end == 0 or self._was_deleted(topic):
                return 0
            raise

    def _offset_in(self, key: QueueKey, queue: Queue, timestamp_ms: int, boundary: Boundary) -> int:
        first, end = queue.min_index, queue.end
        border_ms = timestamp_ms if boundary == "lower" else timestamp_ms + 1
        low, high = first, end
        while low < high:
            middle = (low + high) // 2
            index, time_ms = self._next_time(key, queue, middle, high)
            if time_ms is not None and time_ms < border_ms:
                low = index + 1
            else:
                high = middle
        if boundary == "upper":
            return max(low - 1, first)
        return self._next_entry(key, queue, low, end)[0]

    def _next_time(self, key: QueueKey, queue: Queue, index: int, stop: int) -> tuple[int, int | None]:
        """The first entry in [index, stop) whose record is intact, and its store time, or (stop, None)."""
        while True:
            index, unit = self._next_entry(key, queue, index, stop)
            if unit is None:
                return stop, None
            try:
                return index, self._store_timestamp_ms(unit)
            except CorruptRecordError:
                index += 1

    def _next_entry(self, key: QueueKey, queue: Queue, index: int, stop: int) -> tuple[int, QueueUnit | None]:
        """The first entry of a message in [index, stop), or (stop, None). The queues of a damaged log have holes."""
        count = 1
        while index < stop:
            units = queue.units(index, min(count, stop - index))
            if not len(units):
                queue.skip_removed()
                if index < queue.min_index:
                    index = queue.min_index
                    continue
                raise missing_file(self._reader, key, index, queue.end)
            places = np.flatnonzero(valid_mask(units))
            if len(places):
                return index + int(places[0]), QueueUnit(*units[places[0]].item())
            index += len(units)
            count = PAGE_ENTRIES
        return stop, None

    def _store_timestamp_ms(self, unit: QueueUnit) -> int:
        if unit.physical_offset < self._reader.min_offset:
            return TOO_OLD_MS
        try:
            return self._reader.store_timestamp_ms_at(unit.physical_offset, unit.size)
        except CorruptRecordError:
            if self._reader.was_released(unit.physical_offset):
                return TOO_OLD_MS
            raise

    def estimate_count(self, topic: str, queue_id: int, start: int, stop: int, tags: str | None) -> int:
        """Estimate how many messages match; see Reader.estimate_count.

        (RocketMQ's `DefaultMessageStore#estimateMessageCount` and `ConsumeQueue#estimateMessageCount`. With tags those
        ignore a queue file that the range leaves beyond the end of the queue; here such a range ends there.)
        """
        wanted = tag_filter(tags)
        start = max(start, 0)
        if start >= stop:
            return 0
        queue = self._table.get((topic, queue_id))
        if wanted is None:
            return stop - start
        if queue is None:
            return 0
        if start < queue.min_index:
            start, stop = queue.min_index, queue.min_index + stop - start
        stop = min(stop, queue.end)
        index, matches, scanned = start, 0, 0
        while index < stop:
            units = queue.units(index, min(PAGE_ENTRIES, stop - index, MAX_SCANNED - scanned))
            if not len(units):
                index = queue.next_file_index(index)  # a file that is not there counts for nothing
                continue
            units = queue.resolved(units)
            counts = matches + np.cumsum(self._match_mask((topic, queue_id), index, units, wanted))
            seen = min(int(np.searchsorted(counts, ENOUGH_MATCHES + 1)) + 1, len(units))
            matches, scanned, index = int(counts[seen - 1]), scanned + seen, index + seen
            if scanned >= MAX_SCANNED or matches > ENOUGH_MATCHES:
                return matches * (stop - start) // scanned
        return matches

    def _match_mask(self, key: QueueKey, index: int, units: Units, wanted: TagFilter) -> NDArray[np.bool_]:
        """Which of the entries from index `index` on match, by their hashes; without a hash, by their records."""
        mask = wanted.may_match(units) & valid_mask(units)
        for at in np.flatnonzero(mask & ~wanted.has_hash(units)).tolist():
            message = message_of(self._reader, key, index + at, QueueUnit(*units[at].item()))
            mask[at] = message is not None and wanted.matches(message)
        return mask


def message_at(reader: LogReader, physical_offset: int, end: int) -> StoredMessage | None:
    """Decode the record at this physical offset; None if none starts there below physical offset `end`.

    Raises CorruptRecordError if a record starts there, or may have started there, and is damaged. If nothing shows that
    a record starts there, call `starts_record` too.
    """
    if not reader.min_offset <= physical_offset < end:
        return None
    try:
        message = reader.message_at(physical_offset)
    except CorruptRecordError:
        if reader.was_released(physical_offset) or not starts_record(reader, physical_offset, end):
            return None
        raise
    return message if physical_offset + message.size <= end else None


def starts_record(reader: LogReader, physical_offset: int, end: int) -> bool:
    """Whether the chain of records leads to this byte, or may do so: after damage the chain continues at the next
    intact record, and if there is none before this byte, the answer is unknown."""
    segment = reader.segment_at(physical_offset)
    if segment is None or not reader.disk.exists(segment.path):
        return segment is not None
    target, stop = physical_offset - segment.base, min(segment.size, end - segment.base)
    position = _known_boundary(reader, segment, target)
    for scan in reader.scans_past_damage(segment, position, stop):
        if scan.position > target:
            return True
        for _, rows in scan:
            places = rows["physical_offset"]
            if places[-1] >= physical_offset:
                return bool((places == physical_offset).any())
        if scan.is_whole:
            return False
        if scan.position >= target:
            return scan.position == target
    return True


def _known_boundary(reader: LogReader, segment: Segment, position: int) -> int:
    """Position at or before this one where a record starts: from the seal of the segment, else its beginning."""
    seal = read_seal(reader.disk, reader.folder.parent, segment)
    if seal is None or not seal_fits(reader, segment, seal):
        return 0
    return seal.boundaries[bisect.bisect_right(seal.boundaries, position) - 1]
