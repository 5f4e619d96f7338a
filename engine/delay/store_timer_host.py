"""The store that timers are part of, as they see it (schedule/timer_host.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ...index.queue.queue_table import QueueTable
from ...schedule.delay_level import Deliver
from ...schedule.delivered import DueMessage
from ...schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ...store.errors import CorruptQueueError, CorruptRecordError
from ...store.get_result import GetStatus
from ...store.log.commit_log import CommitLog
from ...store.stored_message import StoredMessage
from ..open.shutdown_state import LastWriter
from ..read.get_limits import GetLimits
from ..read.reading import QueueReader, queue_bounds

log = logging.getLogger("flightlog.schedule")

KEY = TIMER_TOPIC, TIMER_QUEUE_ID
READ_SIZE = 1 << 20
"""Bytes of records that are read of the timer topic at once."""
READ_COUNT = 512
LIMITS = GetLimits(READ_SIZE, READ_COUNT, READ_SIZE, READ_COUNT, 0, 0)
"""As little from the disk as from memory."""


class StoreTimerHost:
    """One open store. `deliver` is the one of its `Putter`."""

    def __init__(
        self,
        commit_log: CommitLog,
        table: QueueTable,
        last_writer: LastWriter,
        catch_up: Callable[[], object],
        deliver: Deliver,
    ) -> None:
        self._log, self._table, self._last_writer = commit_log, table, last_writer
        self._queues = QueueReader(commit_log.reader, table, LIMITS, lambda: commit_log.visible)
        self._catch_up, self._deliver = catch_up, deliver

    def log_range(self) -> tuple[int, int]:
        return self._log.reader.min_offset, self._log.end

    def last_store_timestamp_ms(self) -> int:
        return self._log.last_store_timestamp_ms

    def ended_cleanly(self) -> bool:
        return self._last_writer in (LastWriter.FLIGHTLOG_CLOSED, LastWriter.ROCKETMQ_CLOSED)

    def queue_bounds(self) -> tuple[int, int]:
        self._catch_up()
        return queue_bounds(self._table.get(KEY))

    def read_queue(self, queue_offset: int, count: int) -> Sequence[StoredMessage]:
        end = self.queue_bounds()[1]
        while queue_offset < end:
            try:
                found = self._queues.get(*KEY, queue_offset, count, max_size=READ_SIZE)
            except (CorruptRecordError, CorruptQueueError) as e:
                log.error("a timer cannot be read, and is not delivered: %s", e, extra={"queue_offset": queue_offset})
                queue_offset += 1
                continue
            if found.status is GetStatus.FOUND:
                return found.messages
            queue_offset = max(found.next_queue_offset, queue_offset + 1)
        return []

    def message_at(self, physical_offset: int, size: int) -> StoredMessage | None:
        try:
            return self._log.reader.message(physical_offset, size)
        except CorruptRecordError as e:
            log.error("a timer cannot be read: %s", e, extra={"physical_offset": physical_offset})
            return None

    def deliver(self, deliveries: Sequence[DueMessage]) -> int:
        return self._deliver(deliveries)

    def flush(self) -> None:
        self._log.flush()
