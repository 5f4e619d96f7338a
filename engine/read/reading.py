"""Reading messages of one queue: `get`, with RocketMQ's statuses, and `read`, an iterator.

    condition, in this order                   status                    next queue offset
    no such queue, or its end is 0             NO_MESSAGE_IN_QUEUE       0
    offset below the first message             OFFSET_TOO_SMALL          the first message
    offset at the end                          OFFSET_OVERFLOW_ONE       the offset
    offset past the end                        OFFSET_OVERFLOW_BADLY     the end
    the queue's file is missing                OFFSET_FOUND_NULL         start of the next queue file
    at least one message                       FOUND                     one past the last looked at
    no message, and of those looked at...
      the last one does not match the tags     NO_MATCHED_MESSAGE        one past the last looked at
      the last one is gone from the log        MESSAGE_WAS_REMOVING      one past the last looked at

A get reads entries one after another. It stops at the end of the queue file, after 800 entries (`get_scan_size`;
`max_count` entries if that is more), or, once it has a message, before one that exceeds the limits
(engine/read/get_limits.py). If a message is gone, its whole segment is: the following entries that point into it are
skipped, whatever their tags, and do not change the status.

(RocketMQ's `DefaultMessageStore#getMessage`, which creates a queue that is asked for and therefore never returns its
NO_MATCHED_LOGIC_QUEUE.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np

from ...index.filter.wanted import MessageFilter, Wanted, message_filter
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue, QueueTable
from ...index.queue.queue_unit import QueueUnit, Units
from ...schedule.delay_level_table import SCHEDULE_TOPIC
from ...store.errors import CorruptBodyError, CorruptQueueError, CorruptRecordError, UsageError
from ...store.get_result import GetResult, GetStatus
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.segments.segment_pins import SegmentPin, SegmentPins
from ...store.stored_message import StoredMessage
from ..columns import with_arrow
from .entries import Fetcher, LastBatch, QueueEntries, entries, may_match_mask, message_of
from .entry_messages import EntryMessages
from .entry_pages import EntryPages
from .get_limits import DEFAULT_MAX_COUNT, GetLimits, clamp_max_size
from .merged_queues import MergedQueues

OnCorrupt = Literal["raise", "skip"]

FIRST_PAGE_ENTRIES = 32
"""Entries that an iterator fetches first: many readers need only a few messages."""
PAGE_ENTRIES = 2048
"""Entries that it fetches at a time later."""
MATCHING_COUNT = 32
"""Messages that a get with a filter fetches at a time: it may need no more of them."""

BATCH_LIMITS = ((1 << 31) - 1, 1 << 30)
"""The highest count, and bytes of records, of a record batch: positions in its columns are of 32 bits."""


class QueueReader:
    """Reads queues of one table and messages of one log. Thread-safe."""

    def __init__(
        self,
        reader: LogReader,
        table: QueueTable,
        limits: GetLimits,
        readable_end: Callable[[], int],
        was_deleted: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self._reader, self._table, self._limits = reader, table, limits
        self._readable_end = readable_end
        """Physical offset up to which the log may be read now."""
        self._was_deleted = was_deleted
        """Whether another process has deleted this topic since the table was read."""
        self._pins = SegmentPins.of(reader.folder)
        self._open_pages: dict[int, list[StoredMessage]] = {}
        """The current page of each iterator, by its pin. A check before each message would take a third of the time to
        read it: instead a page that must not be returned any further is emptied."""
        self.corrupt_skipped = 0
        """Messages that `on_corrupt="skip"` has skipped so far."""

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: Wanted = None,
        max_size: int | None = None,
    ) -> GetResult:
        """Messages from `queue_offset` on, by the table in the module docstring.

        Raises CorruptRecordError or CorruptQueueError if the message at `queue_offset` is damaged; a later one ends the
        answer before it. Raises UsageError for a `max_count` below 1 and `tags` without a tag.
        """
        if max_count < 1:
            raise UsageError(f"max_count={max_count}: expected at least 1")
        wanted = message_filter(tags)
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])
        first, end = queue.min_index, queue.end
        messages: list[StoredMessage] = []
        if end == 0:
            status, next_queue_offset = GetStatus.NO_MESSAGE_IN_QUEUE, 0
        elif queue_offset < first:
            status, next_queue_offset = GetStatus.OFFSET_TOO_SMALL, first
        elif queue_offset == end:
            status, next_queue_offset = GetStatus.OFFSET_OVERFLOW_ONE, queue_offset
        elif queue_offset > end:
            status, next_queue_offset = GetStatus.OFFSET_OVERFLOW_BADLY, end
        else:
            stop = min(end, queue.next_file_index(queue_offset), queue_offset + self._limits.scan_entries(max_count))
            room = (max_count, clamp_max_size(max_size))
            if wanted is None:
                messages = self._many((topic, queue_id), queue, queue_offset, min(stop, queue_offset + max_count), room)
                status, examined = GetStatus.FOUND, len(messages)
            else:
                messages, examined = self._many_matching((topic, queue_id), queue, queue_offset, stop, wanted, room)
                status = GetStatus.FOUND if messages else GetStatus.NO_MATCHED_MESSAGE
            if not examined:
                page = max_count if wanted is None else stop - queue_offset
                candidates = entries(queue, queue_offset, stop, page, wanted)
                status, examined = self._collect((topic, queue_id), queue_offset, candidates, wanted, room, messages)
            next_queue_offset = queue_offset + examined if examined else queue.next_file_index(queue_offset)
            if not examined:
                queue.skip_removed()
                if queue.min_index > queue_offset:  # its file was removed a moment ago
                    status, next_queue_offset = GetStatus.OFFSET_TOO_SMALL, queue.min_index
        return GetResult(status, next_queue_offset, first, end, messages)

    def _many(
        self, key: QueueKey, queue: Queue, queue_offset: int, stop: int, room: tuple[int, int]
    ) -> list[StoredMessage]:
        """The whole answer to a get without a filter, if nothing is unusual about any of its messages; else nothing."""
        log_end, fetcher = self._readable_end(), Fetcher(self._reader, key[0], [queue])
        units = queue.units(queue_offset, stop - queue_offset)
        here = QueueEntries(units, np.arange(queue_offset, queue_offset + len(units), dtype=np.int64), key[1])
        count = self._fitting(units, room[1], log_end)
        messages: list[StoredMessage] = []
        while len(messages) < count:
            found = fetcher.some(here, len(messages), count - len(messages))
            if not found:
                return []
            messages += found
        return messages

    def _many_matching(
        self, key: QueueKey, queue: Queue, queue_offset: int, stop: int, wanted: MessageFilter, room: tuple[int, int]
    ) -> tuple[list[StoredMessage], int]:
        """The whole answer to a get with a filter, and how many entries were examined, if no entry rules its message
        out and nothing is unusual about any message; else no messages, and 0."""
        log_end, fetcher = self._readable_end(), Fetcher(self._reader, key[0], [queue])
        units = queue.units(queue_offset, stop - queue_offset)
        if not may_match_mask(queue, units, wanted).all():
            return [], 0
        here = QueueEntries(units, np.arange(queue_offset, queue_offset + len(units), dtype=np.int64), key[1])
        max_count, max_size = room
        messages: list[StoredMessage] = []
        size = examined = 0
        while examined < len(units):
            found = fetcher.some(here, examined, MATCHING_COUNT)
            if not found:
                return [], 0
            for message in found:
                distance = log_end - message.physical_offset
                if messages and (
                    size + message.size > max_size or self._limits.is_full(len(messages), size, message.size, distance)
                ):
                    return messages, examined
                examined += 1
                if wanted.matches(message):
                    messages.append(message)
                    size += message.size
                    if len(messages) == max_count:
                        return messages, examined
        return messages, examined

    def _fitting(self, units: Units, max_size: int, log_end: int) -> int:
        """How many entries an answer has room for, at least one."""
        size = 0
        for count, (physical_offset, unit_size, _) in enumerate(units.tolist()):
            if count and (
                size + unit_size > max_size or self._limits.is_full(count, size, unit_size, log_end - physical_offset)
            ):
                return count
            size += unit_size
        return len(units)

    def _collect(
        self,
        key: QueueKey,
        queue_offset: int,
        candidates: Iterator[tuple[int, QueueUnit, bool]],
        wanted: MessageFilter | None,
        room: tuple[int, int],
        messages: list[StoredMessage],
    ) -> tuple[GetStatus, int]:
        """Add the messages of the candidates to `messages`. Returns the status, and how many candidates were read.

        `room` is how many messages and bytes of records the caller has room for.
        """
        max_count, max_size = room
        log_end = self._readable_end()
        status, examined = GetStatus.OFFSET_FOUND_NULL, 0
        size = gone_below = 0
        last = LastBatch()
        for index, unit, may_match in candidates:
            unit_size = 0 if unit.physical_offset == last.physical_offset else unit.size  # a batch counts once
            if messages and (
                size + unit_size > max_size
                or self._limits.is_full(len(messages), size, unit_size, log_end - unit.physical_offset)
            ):
                break
            if unit.physical_offset < gone_below:
                examined += 1
                continue
            message, missed = None, GetStatus.NO_MATCHED_MESSAGE
            if may_match:
                try:
                    message = message_of(self._reader, key, index, unit, last)
                except (CorruptRecordError, CorruptQueueError):
                    if index == queue_offset:
                        raise
                    break  # the messages before it are returned first
                if message is None:
                    missed = GetStatus.MESSAGE_WAS_REMOVING
                    gone_below = self._reader.next_segment_offset(unit.physical_offset)
                elif wanted is not None and not wanted.matches(message):
                    message = None
            examined += 1
            if message is not None:
                messages.append(message)
                size += unit_size
                status, gone_below = GetStatus.FOUND, 0
                if len(messages) == max_count:
                    break
            elif not messages:
                status = missed
        return status, examined

    def release(self) -> None:
        """Release every pin: the store was closed, and no iterator can continue."""
        self._pins.release_all(self)
        self.empty_pages()

    def empty_pages(self) -> None:
        """Make every iterator check again, before it returns another message, whether it may continue."""
        for page in self._open_pages.copy().values():
            page.clear()

    def replaces(self, before: QueueReader) -> None:
        """Empty the pages of the iterators of `before` together with those of this one."""
        self._open_pages = before._open_pages

    def lowest_held(self) -> int | None:
        """Lowest physical offset that iterators still have to read; None if there is none."""
        return self._pins.lowest(self)

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """Whether anything was ever put to this queue."""
        return self._table.get((topic, queue_id)) is not None

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int | None,
        tags: Wanted,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        catch_up: Callable[[], None] | None = None,
        *,
        decompress: bool = False,
    ) -> Iterator[StoredMessage]:
        """Iterate over the messages that match, from `queue_offset` (None: the first) to the end at the time when the
        iterator gets there. Messages that are removed from the log are skipped; retention in this process removes none
        that a started iterator still has to read.

        `check` is called before each page of messages and may raise. `catch_up` is called at the end: the queue may
        have grown.
        """
        # Here and not at the first step: a wrong filter raises at the call.
        wanted = message_filter(tags, by_code=topic != SCHEDULE_TOPIC)
        pages = partial(self._pages, (topic, queue_id), queue_offset, wanted, on_corrupt, check, catch_up)
        return self._messages(pages, topic, on_corrupt, check, decompress=decompress)

    def read_all(
        self,
        topic: str,
        first_offset: Callable[[int, Queue], int],
        dispatched_end: Callable[[], int],
        tags: Wanted,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        catch_up: Callable[[], None] | None = None,
        *,
        decompress: bool = False,
    ) -> Iterator[StoredMessage]:
        """As `read`, of all queues of a topic in the order of the log. `first_offset` returns the queue offset to begin
        at, of a queue id and its queue; `dispatched_end` the physical offset below which every record is in its
        queue."""
        wanted = message_filter(tags, by_code=topic != SCHEDULE_TOPIC)
        pages = partial(self._merged_pages, topic, first_offset, dispatched_end, wanted, on_corrupt, check, catch_up)
        return self._messages(pages, topic, on_corrupt, check, decompress=decompress)

    def _messages(
        self,
        pages: Callable[[SegmentPin], Iterator[list[StoredMessage]]],
        topic: str,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        *,
        decompress: bool,
    ) -> Iterator[StoredMessage]:
        held = self._held(pages, check)
        return self._decompressed(held, topic, on_corrupt) if decompress else chain.from_iterable(held)

    def _held(
        self, pages: Callable[[SegmentPin], Iterator[list[StoredMessage]]], check: Callable[[], None]
    ) -> Iterator[list[StoredMessage]]:
        """Pages of messages. The pin that `pages` is given holds the log until they end."""
        pin = SegmentPin(self._pins, self._reader.min_offset, self)
        try:
            for found in pages(pin):
                self._open_pages[id(pin)] = found
                check()  # the store may have been closed before this page was among those that a close empties
                yield found
        finally:
            pin.release()
            self._open_pages.pop(id(pin), None)

    def _decompressed(
        self, pages: Iterator[list[StoredMessage]], topic: str, on_corrupt: OnCorrupt
    ) -> Iterator[StoredMessage]:
        for message in chain.from_iterable(pages):
            try:
                message = message.decompressed()
            except CorruptBodyError:
                if self._was_deleted(topic):
                    return
                if on_corrupt == "raise":
                    raise
                self.corrupt_skipped += 1
                continue
            yield message

    def _pages(
        self,
        key: QueueKey,
        queue_offset: int | None,
        wanted: MessageFilter | None,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        catch_up: Callable[[], None] | None,
        pin: SegmentPin,
    ) -> Iterator[list[StoredMessage]]:
        queue = self._table.get(key)
        if queue is None:
            return
        pages, page = self._entries_of(key, queue, queue_offset, on_corrupt), FIRST_PAGE_ENTRIES
        messages = self._messages_of(key[0], [queue], wanted, on_corrupt)
        while not messages.is_over:
            if pages.is_at_end:
                check()  # a close empties the last page, too
                if catch_up is not None:
                    catch_up()
                    pages.follow(self._table)
                if pages.is_at_end:
                    return
            check()
            found = pages.next(page)
            if found is None and pages.is_at_end:
                continue
            if found is None:
                return  # its topic was deleted meanwhile
            units, queue_offsets = found
            pin.move(int(units["physical_offset"][0]))
            reads_ahead, page = page > FIRST_PAGE_ENTRIES, min(4 * page, PAGE_ENTRIES)
            if wanted is not None:
                mask = may_match_mask(pages.queue, units, wanted)
                units, queue_offsets = units[mask], queue_offsets[mask]
            yield from messages.pages(QueueEntries(units, queue_offsets, key[1]), check, reads_ahead=reads_ahead)

    def _merged_pages(
        self,
        topic: str,
        first_offset: Callable[[int, Queue], int],
        dispatched_end: Callable[[], int],
        wanted: MessageFilter | None,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        catch_up: Callable[[], None] | None,
        pin: SegmentPin,
    ) -> Iterator[list[StoredMessage]]:
        def entries_of(key: QueueKey, queue: Queue) -> EntryPages:
            return self._entries_of(key, queue, first_offset(key[1], queue), on_corrupt)

        merged, reached = MergedQueues(self._table, topic, entries_of, self._readable_end), -1
        while True:
            check()
            if catch_up is not None:
                catch_up()
            end = dispatched_end()
            if end == reached or not merged.look():
                return
            messages = self._messages_of(topic, merged.queues, wanted, on_corrupt)
            for place, page in merged.round(end, wanted):
                pin.move(place)
                yield from messages.pages(page, check, reads_ahead=True)
                if messages.is_over:
                    return
            reached = end

    def _entries_of(self, key: QueueKey, queue: Queue, queue_offset: int | None, on_corrupt: OnCorrupt) -> EntryPages:
        skip = self._skip if on_corrupt == "skip" else None
        return EntryPages(self._reader, key, queue, queue_offset, was_deleted=self._was_deleted, skip=skip)

    def _messages_of(
        self, topic: str, queues: list[Queue], wanted: MessageFilter | None, on_corrupt: OnCorrupt
    ) -> EntryMessages:
        skip = self._skip if on_corrupt == "skip" else None
        return EntryMessages(self._reader, topic, queues, wanted, was_deleted=self._was_deleted, skip=skip)

    def _skip(self, count: int) -> None:
        self.corrupt_skipped += count

    def body_view(self, message: StoredMessage) -> memoryview:
        """See `Reader.body_view`."""
        if message.batch_index is not None:
            raise UsageError("body_view: the message is a part of an inner batch: its body is a copy")
        return self._reader.body_view(message)

    def read_batch(
        self,
        key: QueueKey,
        queue_offset: int | None,
        limits: tuple[int, int],
        columns: Sequence[str] | None,
        on_corrupt: OnCorrupt,
    ) -> Any:
        """See `Reader.read_batch`; `limits` are a count and a size."""
        arrow = with_arrow(".read.batch_reading", "read_batch")
        for name, value, highest in zip(("max_count", "max_size"), limits, BATCH_LIMITS, strict=True):
            if not 1 <= value <= highest:
                raise UsageError(f"{name}={value}: expected 1 to {highest}")
        queue = self._table.get(key)
        if queue is None:
            return arrow.empty_batch(columns)
        if isinstance(queue, BatchQueue):
            raise UsageError(f"read_batch: queue {key[0]} {key[1]} holds inner batches: use read, which unwraps them")
        reader = arrow.BatchReader(self._reader, key, queue, *limits, on_corrupt == "skip")
        pin = SegmentPin(self._pins, self._reader.min_offset, self)
        try:
            return reader.read(queue_offset, columns)
        except (CorruptRecordError, CorruptQueueError):
            if queue.end == 0 or self._was_deleted(key[0]):
                return arrow.empty_batch(columns, reader.next_queue_offset)
            raise
        finally:
            pin.release()
            self.corrupt_skipped += reader.skipped


def queue_bounds(queue: Queue | None) -> tuple[int, int]:
    """(offset of the first message, offset one past the last); (0, 0) without a queue."""
    return (queue.min_index, queue.end) if queue is not None else (0, 0)
