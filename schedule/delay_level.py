"""Delivery of one delay level: its queue in order, from a saved offset on.

Invariants:
- A message is delivered when the clock has reached its time, never before; in the order of its queue.
- The offset moves past a message once that is stored in its own topic, as durable as a put. A delivery whose put fails
  is retried at the same offset until it succeeds.
- The offset is always within the queue.
- A message that cannot be read, or that names no valid topic and queue, is skipped, counted and logged: a retry would
  not help.

RocketMQ: `ScheduleMessageService.DeliverDelayedMessageTimerTask`. As there, a delivery time further ahead than the
level's delay counts as due: the levels have been shortened since. "Ahead" means ahead of the newest store time, which
does not run backwards with the clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..store.errors import DiskFullError, FlightlogError, StorePoisonedError
from ..store.stored_message import StoredMessage
from .delivered import DueMessage, UndeliverableError, delivered

log = logging.getLogger("flightlog.schedule")

BATCH_COUNT = 1000
"""Messages of one batch, which share a sync; then other levels have their turn."""

PAUSE_MS = 10
"""How long due messages are gathered into the next batch."""

FULL_DISK_RETRY_MS = 100
"""Delay after a put on a full disk; RocketMQ's after any failed put (`DELAY_FOR_A_WHILE`)."""

RETRY_MS = 10_000
"""Delay after any other failure (`DELAY_FOR_A_PERIOD`)."""

UNSEEN_RETRY_MS = 10
"""Delay while a parked message cannot be read yet: under sync flush it waits for its sync."""

Deliver = Callable[[Sequence[DueMessage]], int]
"""Puts messages in order. Returns how many of them, counted from the first, are stored and as durable as a put. Raises
if the first one fails."""


class ParkedQueue(Protocol):
    """The queue in which the messages of a level are parked."""

    def catch_up(self) -> None:
        """Update `bounds` to everything that can be read now."""

    def bounds(self) -> tuple[int, int]:
        """Queue offset of the first message that still exists, and one past the last."""

    def times(self, queue_offset: int, count: int) -> Sequence[int]:
        """Delivery times (ms) of up to `count` messages from this offset on, at least one. Raises FlightlogError if
        they cannot be read."""

    def messages(self, queue_offset: int, count: int) -> list[StoredMessage | None]:
        """The messages; None for one that is damaged or was removed from the log."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """State of one delay level, for statistics."""

    level: int
    delay_ms: int
    pending: int
    """Messages not yet delivered."""
    lag_ms: int
    """How long the first of them has been due (ms), at the last check; 0 if it is not due."""
    delivered: int
    """Messages delivered since the store was opened."""
    skipped: int
    """Messages skipped since the store was opened: damaged, or without a valid topic and queue."""


class DelayLevel:
    """One delay level. `parked` and `state` are thread-safe; only the schedule thread calls the rest."""

    def __init__(
        self, level: int, delay_ms: int, offset: int, queue: ParkedQueue, deliver: Deliver, newest_ms: Callable[[], int]
    ) -> None:
        self.level, self._delay_ms, self.offset = level, delay_ms, offset
        self._queue, self._deliver, self._newest_ms = queue, deliver, newest_ms
        self._head_ms = 0
        """The first pending message is due at this time (ms) or later."""
        self._parked_end = 0
        """One past the highest queue offset that was parked in this session."""
        self._delivered = self._skipped = 0
        self._failure: str | None = None
        """The last problem that was logged, so that it is logged once."""

    def __str__(self) -> str:
        return f"delay level {self.level}"

    def parked(self, queue_offset: int) -> None:
        """Note that a message was parked at this offset; it may not be readable yet."""
        self._parked_end = max(self._parked_end, queue_offset + 1)

    def run(self, now_ms: int) -> int | None:
        """Deliver due messages; see `Task` in schedule/deadline_queue.py."""
        try:
            next_ms = self._run(now_ms)
        except StorePoisonedError:
            raise
        except FlightlogError as e:
            self._tell(f"{self}: nothing is delivered from queue offset {self.offset} on: {e}")
            return now_ms + (FULL_DISK_RETRY_MS if isinstance(e, DiskFullError) else RETRY_MS)
        self._failure = None
        return next_ms

    def _run(self, now_ms: int) -> int | None:
        self._queue.catch_up()
        first, end = self._queue.bounds()
        self._correct(first, end)
        if self.offset >= end:
            return now_ms + UNSEEN_RETRY_MS if self._parked_end > end else None
        times = self._queue.times(self.offset, min(end - self.offset, BATCH_COUNT))
        due = next((place for place, ms in enumerate(times) if not self._is_due(ms, now_ms)), len(times))
        if due == 0:
            self._head_ms = times[0]
            return times[0]
        done = self._deliver_some(due)
        self._head_ms = times[min(done, len(times) - 1)]
        if done < due:
            return now_ms + FULL_DISK_RETRY_MS
        return now_ms if due == BATCH_COUNT else now_ms + PAUSE_MS

    def _is_due(self, delivery_ms: int, now_ms: int) -> bool:
        return delivery_ms <= now_ms or delivery_ms > max(now_ms, self._newest_ms()) + self._delay_ms

    def _deliver_some(self, count: int) -> int:
        """Deliver up to `count` messages. Returns how far the offset moved."""
        start, deliveries, places = self.offset, list[DueMessage](), list[int]()
        found = self._queue.messages(start, count)
        for place, parked in enumerate(found):
            try:
                if parked is None:
                    raise UndeliverableError("its record is damaged, or gone from the log")
                deliveries.append(delivered(parked))
                places.append(place)
            except UndeliverableError as e:
                text = "%s: the message at queue offset %d is passed over: %s"
                log.error(text, self, start + place, e, extra={"level": self.level, "queue_offset": start + place})
        done = self._deliver(deliveries) if deliveries else 0
        moved = places[done] if done < len(deliveries) else len(found)
        self._delivered += done
        self._skipped += moved - done
        self.offset = start + moved
        return moved

    def _correct(self, first: int, end: int) -> None:
        """Move an offset that is outside the queue back into it."""
        corrected = min(max(self.offset, first), end)
        if corrected == self.offset:
            return
        text = "%s: queue offset %d lies outside of the queue, which has %d to %d: going on at %d"
        extra = {"level": self.level, "queue_offset": self.offset}
        log.warning(text, self, self.offset, first, end, corrected, extra=extra)
        self.offset = corrected

    def state(self, now_ms: int) -> LevelState:
        first, end = self._queue.bounds()
        end = max(end, self._parked_end)
        pending = end - min(max(self.offset, first), end)
        lag_ms = max(now_ms - self._head_ms, 0) if pending and self._head_ms else 0
        return LevelState(self.level, self._delay_ms, pending, lag_ms, self._delivered, self._skipped)

    def _tell(self, text: str) -> None:
        if text != self._failure:  # logged once, whatever the number of retries
            log.warning(text, extra={"level": self.level, "queue_offset": self.offset})
        self._failure = text
