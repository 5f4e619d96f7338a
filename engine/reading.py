"""Reading messages of one queue: `get`, with RocketMQ's statuses, and `read`, an iterator.

    condition, in this order                   status                    next queue offset
    no such queue                              NO_MATCHED_LOGIC_QUEUE    0
    the queue's end is 0                       NO_MESSAGE_IN_QUEUE       0
    offset below the first message             OFFSET_TOO_SMALL          the first message
    offset at the end                          OFFSET_OVERFLOW_ONE       the offset
    offset past the end                        OFFSET_OVERFLOW_BADLY     the end
    the queue's file is missing                OFFSET_FOUND_NULL         start of the next queue file
    messages gone from the log meanwhile       MESSAGE_WAS_REMOVING      one past the last looked at
    at least one message                       FOUND                     one past the last message

(RocketMQ's `DefaultMessageStore#getMessage`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from ..index.queue_table import CONSUME_QUEUE_FOLDER, Queue, QueueTable
from ..index.queue_unit import QueueUnit
from ..store.errors import CorruptQueueError, CorruptRecordError, UsageError
from ..store.log_reader import LogReader
from ..store.message import GetResult, GetStatus, StoredMessage
from ..store.queue_offsets import QueueKey
from .dispatching import LMQ_PREFIX

OnCorrupt = Literal["raise", "skip"]

DEFAULT_MAX_COUNT = 32
PAGE_ENTRIES = 512
"""Entries that an iterator fetches at a time."""


class QueueReader:
    """Reads queues of one table and messages of one log. Safe from many threads."""

    def __init__(self, reader: LogReader, table: QueueTable) -> None:
        self._reader, self._table = reader, table
        self.corrupt_skipped = 0
        """Messages that `on_corrupt="skip"` has left out so far."""

    def get(self, topic: str, queue_id: int, queue_offset: int, max_count: int = DEFAULT_MAX_COUNT) -> GetResult:
        """Up to `max_count` messages from `queue_offset` on; the table at the head of this module gives the rest.

        Raises CorruptRecordError or CorruptQueueError where the first message is damaged; one further on ends the
        answer before it.
        """
        if max_count < 1:
            raise UsageError(f"max_count={max_count}: expected at least 1")
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        first, end = queue.min_index, queue.end

        def answer(status: GetStatus, next_queue_offset: int) -> GetResult:
            return GetResult(status, next_queue_offset, first, end, [])

        if end == 0:
            return answer(GetStatus.NO_MESSAGE_IN_QUEUE, 0)
        if queue_offset < first:
            return answer(GetStatus.OFFSET_TOO_SMALL, first)
        if queue_offset == end:
            return answer(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset)
        if queue_offset > end:
            return answer(GetStatus.OFFSET_OVERFLOW_BADLY, end)
        units = queue.units(queue_offset, min(max_count, end - queue_offset))
        if not len(units):
            return answer(GetStatus.OFFSET_FOUND_NULL, queue.next_file_index(queue_offset))
        messages = []
        for i, unit in enumerate(units.tolist()):
            if unit[0] < self._reader.min_offset:
                continue
            try:
                messages.append(self._message((topic, queue_id), queue_offset + i, QueueUnit(*unit)))
            except (CorruptRecordError, CorruptQueueError):
                if not messages:
                    raise
                units = units[:i]  # the messages before it are given first
                break
        next_queue_offset = queue_offset + len(units)
        if not messages:
            return answer(GetStatus.MESSAGE_WAS_REMOVING, next_queue_offset)
        return GetResult(GetStatus.FOUND, next_queue_offset, first, end, messages)

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int | None,
        on_corrupt: OnCorrupt,
        check: Callable[[], None],
        catch_up: Callable[[], None] | None = None,
    ) -> Iterator[StoredMessage]:
        """Every message from `queue_offset` (None: the first) to the end as it is when the end is reached.

        `check` is called before each message and may raise. `catch_up` is called at the end: the queue may have grown.
        """
        queue = self._table.get((topic, queue_id))
        if queue is None:
            return
        index = queue.min_index if queue_offset is None else max(queue_offset, queue.min_index)
        while True:
            if index >= queue.end and catch_up is not None:
                check()
                catch_up()
            if index >= queue.end:
                return
            units = queue.units(index, min(PAGE_ENTRIES, queue.end - index))
            if not len(units):
                if on_corrupt == "raise":
                    raise CorruptQueueError(
                        self._queue_path((topic, queue_id)), index, "no queue file", f"entries up to {queue.end}"
                    )
                behind = min(queue.next_file_index(index), queue.end)
                self.corrupt_skipped += behind - index
                index = behind
                continue
            for unit in units.tolist():
                check()
                try:
                    message = self._message((topic, queue_id), index, QueueUnit(*unit))
                except (CorruptRecordError, CorruptQueueError):
                    if on_corrupt == "raise":
                        raise
                    self.corrupt_skipped += 1
                else:
                    yield message
                index += 1

    def _message(self, key: QueueKey, queue_offset: int, unit: QueueUnit) -> StoredMessage:
        """The message of one entry, if the entry and the record agree on what it is."""
        if not unit.is_valid:
            raise CorruptQueueError(
                self._queue_path(key), queue_offset, f"an entry without a record {tuple(unit)}", "a message's entry"
            )
        message = self._reader.message(unit.physical_offset, unit.size)
        if key[0].startswith(LMQ_PREFIX):
            return message  # its record belongs to another topic
        if (message.topic, message.queue_id, message.queue_offset) != (*key, queue_offset):
            raise CorruptQueueError(
                self._queue_path(key),
                queue_offset,
                f"the record of topic {message.topic} queue {message.queue_id} offset {message.queue_offset}",
                f"topic {key[0]} queue {key[1]} offset {queue_offset}",
            )
        return message

    def _queue_path(self, key: QueueKey) -> Path:
        return self._reader.folder.parent / CONSUME_QUEUE_FOLDER / key[0] / str(key[1])


def queue_bounds(queue: Queue | None) -> tuple[int, int]:
    """(offset of the first message, offset one past the last); (0, 0) without a queue."""
    return (queue.min_index, queue.end) if queue is not None else (0, 0)
