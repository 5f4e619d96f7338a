"""The timers of one open store: from the timer topic's queue onto the wheel, and from there to their topics.

    take in    every message of the queue is put on the wheel, in its second; one whose second is over, in the next one
               that is to be delivered; one further ahead than the wheel is to reach, earlier, marked to be rolled
    give out   every second that is over: its cancellations are read first, then its timers are delivered in the order
               in which they were put; those marked are parked again, and so rolled on
    save       a second after anything was done: the commit log is flushed, then timer log and wheel, then the check
               file says how far it came

Invariants:
- Nothing is delivered before its time by the store's clock. If the clock is set back, deliveries continue once it is
  where it was.
- A saved queue offset leaves out only messages that are due at the saved time or later, unless the process is killed
  while its clock is set back. A broker that takes over loses others: it begins to put timers on the wheel before it
  begins to deliver, in their own second, also if that is over.
- A failed append is retried; this process does not repeat deliveries of that second that succeeded.
- After a crash, only deliveries since the last save may be repeated (timer_recovery.py).
- Memory: the wheel, and 8 bytes for each timer of the second being delivered.

One thread runs it, see `deadline_queue.Task`; `count_at`, `pending` and `lag_ms` are thread-safe.
"""

from __future__ import annotations

import logging
from array import array
from pathlib import Path

from ..store.disk.disk import Disk
from ..store.errors import InvalidMessageError
from ..store.format import property_names as props
from ..store.format.java_hash import java_hash
from ..store.format.record import INT32_MAX
from ..store.stored_message import StoredMessage
from .delivered import DueMessage, UndeliverableError, delivered
from .timer_checkpoint import Moment, read_timer_checkpoint, write_timer_checkpoint
from .timer_host import TimerHost
from .timer_log import (
    DEFAULT_FILE_SIZE,
    MAGIC_CANCEL,
    MAGIC_DEFAULT,
    MAGIC_ROLL,
    NO_POSITION,
    UNIT_SIZE,
    TimerLog,
    TimerUnit,
)
from .timer_recovery import recover_timers
from .timer_request import NUMBER, PRECISION_MS, TIMER_QUEUE_ID, TIMER_TOPIC, is_cancelled
from .timer_wheel import DAY_S, SLOT_COUNT, TimerWheel

log = logging.getLogger("flightlog.timers")

ROLL_WINDOW_S = 2 * DAY_S
"""A timer due later than this many seconds from now is parked again before it is due (`timerRollWindowSlot`)."""
KEPT_MS = 7 * DAY_S * 1000
"""How long units stay in the timer log: longer than any unit can be ahead of its second of the wheel."""
SAVE_INTERVAL_MS = 1000
UNSEEN_RETRY_MS = 10
"""Delay while a parked timer cannot be read yet: under sync flush it waits for its sync."""
TAKE_COUNT = 512
GIVE_COUNT = 1000
TAKE_LIMIT = 20 * TAKE_COUNT
GIVE_LIMIT = 5000
"""Most timers that one `run` takes in, and delivers, up to the end of a second."""
NOTHING_GIVEN = (0, 0)
GIVE_SIZE = 1 << 20
"""Most messages, and bytes of records, in one append of deliveries."""


class TimerWheelStore:
    """The timers of a store. Open it once the store can be read; close it before the store."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        store: TimerHost,
        *,
        roll_window_s: int = ROLL_WINDOW_S,
        file_size: int = DEFAULT_FILE_SIZE,
        slot_count: int = SLOT_COUNT,
    ) -> None:
        self._disk, self._root, self._store = disk, root, store
        self._roll_window_s = roll_window_s
        self._log, self._wheel = TimerLog(disk, root, file_size), TimerWheel(disk, root, slot_count)
        self._queue_offset = self._read_second = 0
        self._delivered_before = 0, 0
        """Messages before this queue offset, due before this second, are delivered. See TimerStart."""
        self._next_second: int | None = None
        """The first second with timers; never later than it."""
        self._given = NOTHING_GIVEN
        """The second being delivered, and how many of its timers are delivered."""
        self._has_rolled = False
        """Whether timers of the second being delivered were parked again."""
        self._save_due_ms: int | None = None
        self._pending = self._parked_end = 0
        self._goal: int | None = None
        """The queue's end when this catch-up began; None once it is complete."""
        self._goal_ms = 0
        """When this catch-up began (ms)."""
        self._late_second = -1
        """The last second of the wheel that holds a late timer: one whose own second was over when it was taken in."""
        self.settled_ms = 0
        """Every timer that was parked before this time (ms), and was due by then, has been delivered."""
        self.delivered = 0
        """Timers delivered or rolled since the store was opened."""
        self.lost = 0
        """Timers skipped since the store was opened: unreadable when due, or not storable."""

    def open(self) -> None:
        """Recover. Raises DamagedStoreError, DiskError."""
        self._log.open()
        self._wheel.load()
        start = recover_timers(read_timer_checkpoint(self._disk, self._root), self._log, self._wheel, self._store)
        self._read_second, self._queue_offset, delivered_below, self._checkpoint = start
        self._delivered_before = delivered_below, start.read_second
        self._next_second = self._wheel.next_second(self._read_second)
        self._pending = self._wheel.pending(self._read_second)

    # -- asked by any thread

    def count_at(self, second: int) -> int:
        """Timers in this second, less cancellations."""
        return self._wheel.count(second)

    @property
    def pending(self) -> int:
        """Timers on the wheel, less cancellations, and messages that are not on it yet."""
        return max(self._pending + self.untaken, 0)

    @property
    def untaken(self) -> int:
        """Parked messages that are not on the wheel yet."""
        return max(self._store.queue_bounds()[1] - self._queue_offset, 0)

    def lag_ms(self, now_ms: int) -> int:
        """How long the oldest due timer has been waiting (ms); 0 if none is due."""
        return 0 if self._next_second is None else max(now_ms - (self._next_second + 1) * PRECISION_MS, 0)

    # -- the work

    def run(self, now_ms: int) -> int | None:
        """Take in parked messages, deliver due timers, save. Returns the time (ms) of the next call, or None to wait
        for a put.

        It works in parts, so that `close` waits for one part only; if more is left, it returns a past time. Nothing is
        delivered before everything that was parked at the first part is taken in: it may cancel due timers. After an
        error it can be called again, and continues.
        """
        if self._goal is None:
            self._goal, self._goal_ms = self._store.queue_bounds()[1], now_ms
        if self._take_in(now_ms, self._goal):
            self._goal = None
            self._give_out(min(now_ms, self._goal_ms), GIVE_LIMIT)  # what was parked later is due later
            if self._has_given_out(self._goal_ms):
                self.settled_ms = self._goal_ms
        if self._save_due_ms is not None and not now_ms < self._save_due_ms <= now_ms + SAVE_INTERVAL_MS:
            self.save(now_ms)
        end = self._store.queue_bounds()[1]
        if self._queue_offset < end or self._is_due(now_ms):
            return now_ms
        due = [] if self._next_second is None else [(self._next_second + 1) * PRECISION_MS]
        due += [] if self._save_due_ms is None else [self._save_due_ms]
        due += [now_ms + UNSEEN_RETRY_MS] if self._parked_end > end else []
        return min(due, default=None)

    def parked(self, queue_offset: int) -> None:
        """Note that a message was parked at this offset; it may not be readable yet. Thread-safe."""
        self._parked_end = max(self._parked_end, queue_offset + 1)

    def _changed(self, now_ms: int) -> None:
        if self._save_due_ms is None:
            self._save_due_ms = now_ms + SAVE_INTERVAL_MS

    def _is_due(self, now_ms: int) -> bool:
        return self._next_second is not None and (self._next_second + 1) * PRECISION_MS <= now_ms

    def _has_given_out(self, now_ms: int) -> bool:
        """Whether no timer on the wheel was due by this time, late timers included."""
        return not self._is_due(now_ms) and self._late_second < self._read_second

    def is_settled(self, now_ms: int) -> bool:
        """Whether every parked timer whose second is over by this time has been delivered. Thread-safe: it checks
        timers being taken in first, then the wheel."""
        return self.untaken == 0 and self._parked_end <= self._queue_offset and self._has_given_out(now_ms)

    def take_in_late(self, now_ms: int) -> None:
        """Take in what may be due before the second that is next to be delivered, which happens on a clock that was set
        back. Call it before the last `save`: a broker would put such timers in seconds that it never reads again."""
        if now_ms // PRECISION_MS < self._read_second:
            while not self._take_in(now_ms, self._store.queue_bounds()[1]):
                pass

    def _take_in(self, now_ms: int, end: int) -> bool:
        """Take in one part of the messages before this queue offset. Returns whether none is left."""
        stop = self._queue_offset + TAKE_LIMIT
        while self._queue_offset < end:
            if self._queue_offset >= stop:
                return False
            found = self._store.read_queue(self._queue_offset, TAKE_COUNT)
            for message in found:
                self._put_on_wheel(message, now_ms)
                self._queue_offset = message.queue_offset + 1
            if not found:
                self._queue_offset = end
            self._log.write()
            self._changed(now_ms)
        return True

    def _put_on_wheel(self, message: StoredMessage, now_ms: int) -> None:
        properties = message.properties
        text = properties.get(props.TIMER_OUT_MS, "")
        if not NUMBER.fullmatch(text) or props.REAL_TOPIC not in properties or props.REAL_QUEUE_ID not in properties:
            self._lose(message.physical_offset, "it is no parked timer")
            return
        now_second = now_ms // PRECISION_MS
        second, magic = int(text) // PRECISION_MS, MAGIC_DEFAULT
        if message.queue_offset < self._delivered_before[0] and second < self._delivered_before[1]:
            return
        if second - now_second >= self._roll_window_s:
            magic |= MAGIC_ROLL
            is_short = second - now_second - self._roll_window_s < self._roll_window_s // 3
            second = now_second + (self._roll_window_s // 2 if is_short else self._roll_window_s)
        held = self._wheel.holder(max(second, self._read_second))
        if held and self._read_second <= held != max(second, self._read_second):
            self._give_out(now_ms)  # a turn of the wheel ago, and so due: the store was closed for long
        if second < self._read_second:
            second = self._late_second = self._read_second
        if props.TIMER_CANCELLED_KEY in properties:
            magic |= MAGIC_CANCEL
        change = -1 if magic & MAGIC_CANCEL else 1
        position = self._log.place()
        previous = self._wheel.add(second, position, change)
        # A clock may have been set back by weeks, or the store been closed for as long: the difference has 32 bits.
        latest = second + INT32_MAX // PRECISION_MS
        written_ms = min(max(now_second, second - self._roll_window_s), latest) * PRECISION_MS
        self._log.add(
            TimerUnit(
                UNIT_SIZE,
                previous,
                magic,
                written_ms,
                second * PRECISION_MS - written_ms,
                message.physical_offset,
                message.size,
                java_hash(properties[props.REAL_TOPIC]),
            )
        )
        self._pending += change
        if self._next_second is None or second < self._next_second:
            self._next_second = second

    def _give_out(self, now_ms: int, limit: int | None = None) -> None:
        """Deliver the seconds that are over, up to `limit` deliveries or to the end of a second that rolled a timer on:
        a cancellation among those must be back on the wheel before its second is delivered."""
        stop = None if limit is None else self.delivered + limit
        while self._next_second is not None and self._is_due(now_ms):
            if stop is not None and self.delivered >= stop:
                return
            second = self._next_second
            self._give_out_second(second, now_ms)
            self._pending -= self._wheel.count(second)
            self._read_second = second + 1
            self._next_second = self._wheel.next_second(self._read_second)
            self._changed(now_ms)
            has_rolled, self._has_rolled = self._has_rolled, False
            if has_rolled and stop is not None:
                return
        self._read_second = max(self._read_second, now_ms // PRECISION_MS)

    def _give_out_second(self, second: int, now_ms: int) -> None:
        positions, cancelled = array("q"), set[str]()
        self._log.write()
        slot = self._wheel.get(second)
        position = NO_POSITION if slot is None else slot.last
        while position != NO_POSITION:
            unit = self._log.unit(position)
            if unit is None or unit.previous >= position:
                self._lose(position, "its chain in the timer log is broken")
                break
            if unit.is_cancellation and not unit.is_rolled:
                message = self._parked(unit)
                if message is not None and props.TIMER_CANCELLED_KEY in message.properties:
                    cancelled.add(message.properties[props.TIMER_CANCELLED_KEY])
            else:
                positions.append(position)
            position = unit.previous
        positions.reverse()
        done = self._given[1] if self._given[0] == second else 0
        batch: list[tuple[int, DueMessage]] = []
        size = 0
        for number in range(done, len(positions)):
            unit = self._log.unit(positions[number])
            found = None if unit is None else self._parked(unit)
            if unit is None or found is None:
                self._lose(positions[number], "its record cannot be read")
            elif unit.is_rolled or not self._is_cancelled(found, cancelled):
                delivery = self._on_its_way(found, unit, now_ms)
                batch += [] if delivery is None else [(number, delivery)]
                size += found.size
            if len(batch) >= GIVE_COUNT or size >= GIVE_SIZE:
                self._deliver(second, batch, number + 1)
                batch, size = [], 0
        self._deliver(second, batch, len(positions))
        self._given = NOTHING_GIVEN

    def _deliver(self, second: int, batch: list[tuple[int, DueMessage]], after: int) -> None:
        """Deliver the timers with these numbers, and record the progress, also if it raises; `after` is the number to
        continue with."""
        while batch:
            self._given = second, batch[0][0]
            try:
                stored = self._store.deliver([delivery for _, delivery in batch])
            except InvalidMessageError as e:  # no store accepts the first one, now or later
                self._lose(batch[0][1].message.topic, str(e))
                stored = 1
            self.delivered += stored
            batch = batch[stored:]
        self._given = second, after

    def _is_cancelled(self, message: StoredMessage, cancelled: set[str]) -> bool:
        properties = message.properties
        return is_cancelled(properties.get(props.REAL_TOPIC, ""), properties.get(props.UNIQ_KEY, ""), cancelled)

    def _parked(self, unit: TimerUnit) -> StoredMessage | None:
        """The parked message of a unit; None if it is missing, or if another record is there."""
        found = self._store.message_at(unit.physical_offset, unit.record_size)
        return None if found is None or found.topic != TIMER_TOPIC else found

    def _on_its_way(self, message: StoredMessage, unit: TimerUnit, now_ms: int) -> DueMessage | None:
        """The message to append for a unit: to its own topic, or parked again."""
        try:
            found, hosts = delivered(message)
        except UndeliverableError as e:
            self._lose(message.physical_offset, str(e))
            return None
        if found.topic == TIMER_TOPIC:
            self._lose(message.physical_offset, "it would come round for ever")
            return None
        found.properties = properties = dict(found.properties or {})
        properties[props.TIMER_ENQUEUE_MS] = str(unit.written_ms)
        properties[props.TIMER_DEQUEUE_MS] = str(now_ms)
        if unit.is_rolled:
            self._has_rolled = True
            times = properties.get(props.TIMER_ROLL_TIMES, "0")
            properties[props.TIMER_ROLL_TIMES] = str((int(times) if NUMBER.fullmatch(times) else 0) + 1)
            found.topic, found.queue_id = TIMER_TOPIC, TIMER_QUEUE_ID
        return DueMessage(found, hosts)

    def _lose(self, where: int | str, why: str) -> None:
        self.lost += 1
        log.error("a timer is not delivered: %s", why, extra={"where": where})

    @property
    def is_unsaved(self) -> bool:
        return self._save_due_ms is not None

    def save(self, now_ms: int) -> None:
        """Make the progress durable, then write the checkpoint."""
        moment = Moment(self._store.log_range()[1], self._read_second * PRECISION_MS, self._queue_offset)
        self._store.flush()
        self._log.sync()
        self._wheel.flush()
        self._checkpoint = self._checkpoint.next(moment, self._log.end, now_ms)
        write_timer_checkpoint(self._disk, self._root, self._checkpoint)
        self._log.remove_before(self._read_second * PRECISION_MS - KEPT_MS)
        self._save_due_ms = None

    def close(self) -> None:
        """Close the files. Call `save` before, unless a crash is to be simulated."""
        self._log.close()
        self._wheel.close()
