"""The timers of an open store: what parks them, and what delivers them in the thread of the schedules.

Their wheel is made when it is first needed: a store that never had a timer has none, nor any of its files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...index.queue.queue_table import QueueTable
from ...schedule.deadline_queue import DeadlineQueue
from ...schedule.delay_level import Deliver
from ...schedule.delivered import DueMessage
from ...schedule.timer_request import (
    PRECISION_MS,
    TIMER_QUEUE_ID,
    TIMER_TOPIC,
    TimerAdmission,
    cancellation,
    check_not_seconds,
    slot_time_ms,
)
from ...schedule.timer_wheel_store import TimerWheelStore
from ...store.arguments import check_text, check_topic, check_whole
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import CorruptQueueError, CorruptRecordError, FlightlogError, StorePoisonedError, SyncFailedError
from ...store.format import property_names as props
from ...store.get_result import GetStatus
from ...store.log.commit_log import CommitLog
from ...store.message import Message
from ...store.results import PutResult
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ...store.timer_errors import UnknownTimerError
from ..open.shutdown_state import LastWriter
from ..read.get_limits import GetLimits
from ..read.reader import Reader
from ..read.reading import QueueReader, queue_bounds

log = logging.getLogger("flightlog.schedule")

KEY = TIMER_TOPIC, TIMER_QUEUE_ID
READ_SIZE = 1 << 20
"""Bytes of records that are read of the timer topic at once."""
READ_COUNT = 512
LIMITS = GetLimits(READ_SIZE, READ_COUNT, READ_SIZE, READ_COUNT, 0, 0)
"""As little from the disk as from memory."""


class StoreTimerHost:
    """The store that its timers are part of, as they see it (schedule/timer_host.py)."""

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


log = logging.getLogger("flightlog.schedule")

TAKE_AFTER_MS = 100
"""How long `parked_soon` lets a timer wait for others, never past the second that it was put in."""
RETRY_MS = 1000
"""After a failure that is not for ever."""
TIMERS_MAX_COUNT = 1000
"""Timers of one uniq key that a cancellation looks at; with more it is appended."""


@dataclass(frozen=True, slots=True)
class TimerState:
    """The timers of a store, as they are now."""

    pending: int
    """Those that wait, less cancellations."""
    untaken: int
    """Those of them that are not on the wheel yet, and cancellations that are not."""
    lag_ms: int
    """How long the first of them has been due, and its second over; 0 if it is not."""
    delivered: int
    """Since the store was opened; each time that one was rolled on counts, too."""
    lost: int
    """Those that could not be read when they were due, or that no store takes, since the store was opened."""


class Timers:
    """Thread-safe, but for `run`, `save` and `close`, which the thread that delivers calls, or the closer
    once that has ended."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        host: StoreTimerHost,
        poison: Callable[[BaseException], None],
        deadlines: DeadlineQueue,
    ) -> None:
        self._disk, self._path, self._clock = disk, path, clock
        self._host, self._poison, self._deadlines = host, poison, deadlines
        self.admission = TimerAdmission(
            clock.now_ms, settings.timer_max_delay_s * 1000, settings.timer_slot_max_count, self._count_at
        )
        """What a put does with a message that asks for a timer."""
        self._timers: TimerWheelStore | None = None
        self._parked_end = 0
        """One past the highest queue offset that was parked in this session."""
        self._failure = ""

    def open_if_used(self) -> bool:
        """Open the wheel if the store ever had a timer; whether some wait. Raises DamagedStoreError, DiskError."""
        return self._host.queue_bounds()[1] > 0 and self._opened().pending > 0

    def _opened(self) -> TimerWheelStore:
        if self._timers is None:
            timers = TimerWheelStore(self._disk, self._path, self._host)
            try:
                timers.open()
            except BaseException:
                timers.close()
                raise
            self._timers = timers
        return self._timers

    def parked(self, result: PutResult) -> None:
        """A message was appended to the timer topic. Any thread."""
        self._parked_end = max(self._parked_end, result.queue_offset + 1)
        self._deadlines.expect(self, self._clock.now_ms())

    def parked_soon(self, results: Sequence[PutResult]) -> None:
        """As `parked`, for what comes so often that waking the thread for each would cost more than the rest. None is
        delivered late: the first second of the wheel that is due ends with the one that it was put in."""
        in_topic = [result.queue_offset for result in results if result.topic == TIMER_TOPIC]
        if in_topic:
            self._parked_end = max(self._parked_end, in_topic[-1] + 1)
            now_ms = self._clock.now_ms()
            self._deadlines.expect(self, min(now_ms + TAKE_AFTER_MS, (now_ms // PRECISION_MS + 1) * PRECISION_MS))

    def run(self, now_ms: int) -> int | None:
        """See schedule/deadline_queue.py."""
        if self._timers is None and self._host.queue_bounds()[1] == 0 and self._parked_end == 0:
            return None
        try:
            timers = self._opened()
            timers.parked(self._parked_end - 1)
            next_ms = timers.run(now_ms)
        except StorePoisonedError:
            raise
        except FlightlogError as e:
            if isinstance(e, SyncFailedError):
                self._poison(e)
                raise StorePoisonedError(self._path, e) from e
            if str(e) != self._failure:
                log.warning("timers wait: %s", e, extra={"path": str(self._path), "cause": repr(e)})
            self._failure = str(e)
            return now_ms + RETRY_MS
        self._failure = ""
        return next_ms

    def _count_at(self, second: int) -> int:
        return 0 if self._timers is None else self._timers.count_at(second)

    def state(self) -> TimerState | None:
        """None where there has been no timer."""
        timers = self._timers
        if timers is None:  # the first are parked, and the thread has not come to them yet
            return TimerState(self._parked_end, self._parked_end, 0, 0, 0) if self._parked_end else None
        return TimerState(
            timers.pending, timers.untaken, timers.lag_ms(self._clock.now_ms()), timers.delivered, timers.lost
        )

    def settled_ms(self, now_ms: int) -> int:
        """A time by which all timers were delivered that were parked before it and whose second was over then; `now_ms`
        if nothing is left to do. To be asked before their topics are read."""
        timers = self._timers
        if timers is None:
            return now_ms if self._parked_end == 0 and self._host.queue_bounds()[1] == 0 else 0
        return now_ms if timers.is_settled(now_ms) else timers.settled_ms

    @property
    def is_unsaved(self) -> bool:
        return self._timers is not None and self._timers.is_unsaved

    def save(self) -> None:
        """Write how far they are. Raises DiskError."""
        if self._timers is not None:
            self._timers.save(self._clock.now_ms())

    def take_in_late(self) -> None:
        """See schedule/timer_wheel_store.py. Raises DiskError."""
        if self._timers is not None:
            self._timers.take_in_late(self._clock.now_ms())

    def close(self) -> None:
        """Let go of the files, once the thread has ended and all is saved. Can be called again."""
        timers, self._timers = self._timers, None
        if timers is not None:
            timers.close()


def checked_cancellation(
    reader: Reader, commit_log: CommitLog, clock: Clock, topic: str, uniq_key: str, deliver_at_ms: int
) -> Message:
    """Have a timer not be delivered: the one of this topic and uniq key, which was put with this very time. It is
    appended as a put is, and durable as one. Cancelling it twice is fine.

    Raises TimerTooLateError if the time has come; UnknownTimerError if no such timer was put, or if it is due at
    another time, which the error says (a store without a key index cannot tell, and appends the cancellation, which
    does nothing then); InvalidArgumentError, and as `put` and `query`.
    """
    check_topic(topic)
    check_text("uniq_key", uniq_key, "the uniq key that the timer was put with, as text")
    deliver_at_ms = check_whole("deliver_at_ms", deliver_at_ms)
    check_not_seconds(topic, "deliver_at_ms", deliver_at_ms, clock.now_ms())
    if deliver_at_ms > clock.now_ms():
        _check_timer(reader, commit_log, topic, uniq_key, slot_time_ms(deliver_at_ms))
    return cancellation(topic, uniq_key, deliver_at_ms)


def _check_timer(reader: Reader, commit_log: CommitLog, topic: str, uniq_key: str, slot_ms: int) -> None:
    """Raises UnknownTimerError unless a timer of this topic and uniq key stands in this second of the wheel. A store
    without a key index cannot tell."""
    if not reader.has_key_index():
        return
    if not reader.was_stored(uniq_key, topic):
        raise UnknownTimerError(topic, uniq_key, "found no message of it", "one that was put with a delivery time")
    found = reader.query(TIMER_TOPIC, uniq_key, max_count=TIMERS_MAX_COUNT, on_corrupt="skip")
    of_topic = [each.properties for each in found.messages if each.properties.get(props.REAL_TOPIC) == topic]
    at = {properties.get(props.TIMER_OUT_MS, "") for properties in of_topic}
    visible_only = commit_log.visible == commit_log.end
    if str(slot_ms) not in at and visible_only and not found.has_more:
        places = ", ".join(sorted(at))
        seen = f"found it due in the second from {places} on" if at else "found it as a message without a timer"
        raise UnknownTimerError(topic, uniq_key, seen, f"the second from {slot_ms} on: its own delivery time")
