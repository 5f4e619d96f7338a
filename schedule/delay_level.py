"""The deliveries of one delay level: its queue from a saved offset on, in order.

Invariants:
- A message is delivered when the clock has reached its time, never before; in the order of its queue.
- The offset moves past a message when it is stored where it belongs, as durable as a put's: one whose put fails is
  tried again, at the same offset, for as long as it takes.
- It always lies inside of the queue.
- What cannot be read, or tells no place to deliver it to, is passed over, counted and told of: no later try would find
  it otherwise.

RocketMQ: `ScheduleMessageService.DeliverDelayedMessageTimerTask`. As there, a time of delivery that lies further ahead
than the level's delay is over: the levels were made shorter since. "Ahead" is meant from the newest store time, which
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
"""Messages that are delivered at a time, with one sync for all of them; then it is the other levels' turn."""

PAUSE_MS = 10
"""How long what is due is gathered before the next batch."""

FULL_DISK_RETRY_MS = 100
"""After a put that had no room, as RocketMQ waits after any failed one (`DELAY_FOR_A_WHILE`)."""

RETRY_MS = 10_000
"""After any other failure (`DELAY_FOR_A_PERIOD`)."""

UNSEEN_RETRY_MS = 10
"""While a message that was parked cannot be read yet: under sync flush it waits for its sync."""

Deliver = Callable[[Sequence[DueMessage]], int]
"""Puts them in order; returns how many of them, from the first on, are stored and as durable as a put's. Raises if not
even the first is."""


class ParkedQueue(Protocol):
    """The queue where the messages of a level wait."""

    def catch_up(self) -> None:
        """Have `bounds` tell of everything that can be read now."""

    def bounds(self) -> tuple[int, int]:
        """Queue offsets of the first message that is there, and one past the last."""

    def times(self, queue_offset: int, count: int) -> Sequence[int]:
        """The times of delivery, in ms, of `count` messages from there on, or fewer; at least one. Raises
        FlightlogError where they cannot be read."""

    def messages(self, queue_offset: int, count: int) -> list[StoredMessage | None]:
        """The messages themselves; None: damaged, or gone from the log."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """One delay level, as it is now."""

    level: int
    delay_ms: int
    pending: int
    """Messages that wait, or are being delivered."""
    lag_ms: int
    """How long the first of them has been due, as of the scheduler's last look; 0 if it is not due."""
    delivered: int
    """Since the store was opened."""
    skipped: int
    """Messages that could not be read, or had no place to be delivered to, since the store was opened."""


class DelayLevel:
    """One level. `parked` and `state` from any thread, the rest from the one of the schedules."""

    def __init__(
        self, level: int, delay_ms: int, offset: int, queue: ParkedQueue, deliver: Deliver, newest_ms: Callable[[], int]
    ) -> None:
        self.level, self._delay_ms, self.offset = level, delay_ms, offset
        self._queue, self._deliver, self._newest_ms = queue, deliver, newest_ms
        self._head_ms = 0
        """The first message that waits is due at this time or later."""
        self._parked_end = 0
        """One past the highest queue offset that was parked in this session."""
        self._delivered = self._skipped = 0
        self._failure: str | None = None
        """What was told of last, so that it is told once."""

    def __str__(self) -> str:
        return f"delay level {self.level}"

    def parked(self, queue_offset: int) -> None:
        """A message was appended there; it may not be readable yet."""
        self._parked_end = max(self._parked_end, queue_offset + 1)

    def run(self, now_ms: int) -> int | None:
        """Deliver what is due; see schedule/deadline_queue.py."""
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
        """Deliver up to `count` messages; returns by how many the offset has moved."""
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
        """Put an offset that lies outside of the queue back into it."""
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
        if text != self._failure:  # once, however often it is tried again
            log.warning(text, extra={"level": self.level, "queue_offset": self.offset})
        self._failure = text
