"""One life of a store with messages for later: delay levels, timers, cancellations, and what delivers them.

The same as a `History` (histories.py), of other steps: most messages are put for later, and the rounds of the thread
that delivers are steps of the life too, on a clock that passes and is set. The wheel of its timers is small, and what
is far ahead is parked again after half a minute.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from flightlog import Message, Store
from flightlog.engine.delay import store_timers
from flightlog.engine.delay.delay_service import DelayService
from flightlog.schedule import deadline_queue
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.timer_request import TIMER_TOPIC
from flightlog.schedule.timer_wheel_store import TimerWheelStore
from flightlog.store.errors import StorePoisonedError
from flightlog.testing import ManualClock
from flightlog.tests.support import inside, waiting_account
from flightlog.tests.support.account import AnyStore, Found, Mark
from flightlog.tests.support.histories import FAULTS, History
from flightlog.tests.support.numbered_puts import NumberedPuts
from flightlog.tests.support.waiting_account import Cancellation, WaitingAccount, WaitingFound

if TYPE_CHECKING:
    import random

    from flightlog import StoreSettings

SMALL_TIMERS: dict[str, Any] = {"roll_window_s": 30, "file_size": 52 * 20 + 30, "slot_count": 256}
TIMER_MAX_DELAY_S = 1000
QUEUES = (("orders", 0), ("orders", 0), ("orders", 1), ("payments", 0))
WAITING_FAULTS = (
    *(("*", "delayOffset", errno.EIO), ("*", "delayOffset", errno.ENOSPC), ("*", "timercheck", errno.EIO)),
    *(("*", "timerlog", errno.EIO), ("write", "timer", errno.ENOSPC), ("*", "timerwheel", errno.EIO)),
    *(("sync", "timer", errno.EIO), ("sync", "config", errno.EIO), ("rename", "config", errno.EIO)),
    *(("create", "commitlog", errno.ENOSPC), ("allocate", "commitlog", errno.ENOSPC)),
)
ROUNDS_MAX = 10_000


class WaitingPuts(NumberedPuts):
    """Puts of messages for later, most of them."""

    now_ms: Callable[[], int]

    def _message(self, topic: str | None = None, queue_id: int = 0) -> Message:
        message, dice = super()._message(topic, queue_id), self._dice
        number = len(self._account.offered) - 1
        match dice.choices(("level", "timer", "now"), (4, 4, 2))[0]:
            case "level":
                message.delay_level = dice.choice((1, 1, 2, 3, 99))
            case "timer":
                message.uniq_key = f"u{number}"
                delay_ms = dice.choice((-5, 1, 999, 1000, 2001, dice.randrange(9000), dice.randrange(99_000)))
                message.properties = {"TIMER_DELIVER_MS": str(self.now_ms() + delay_ms)}
        return message


class WaitingHistory(History):
    """See above."""

    faults = FAULTS + WAITING_FAULTS * 2

    def __init__(self, seed: str, root: Path) -> None:
        super().__init__(seed, root)
        self.account: WaitingAccount = waiting_account.WaitingAccount()
        self.recorder.mark = self.account.mark
        self.clock: Any = ManualClock(self.clock.at_ms)
        self.account.clock_ms = self._latest_ms = self.clock.at_ms
        self._puts = WaitingPuts(self._dice, self.account, lambda: self._open_store, self._say)
        self._puts.now_ms = self.clock.now_ms
        self._begin = 0
        """Physical offset where the log went on when this session began."""
        self._settled_before: frozenset[int] = frozenset()
        """What was noted as delivered then."""
        self._seen: set[int] = set()
        """Numbers that were delivered."""
        self._found: WaitingFound
        """What there was when last looked at."""

    def read_all(self, store: AnyStore, offered: list[Message], min_physical_offset: int) -> WaitingFound:
        return waiting_account.read_all(store, offered, min_physical_offset)

    def check(self, mark: Mark, found: Found, *, was_cut: bool) -> None:
        waiting_account.check(mark, found, was_cut=was_cut)

    def check_keys(self, store: AnyStore, mark: Mark, found: Found, dice: random.Random, count: int) -> None:
        waiting_account.check_keys(store, mark, found, dice, count)

    def settings(self, dice: random.Random) -> StoreSettings:
        return replace(
            super().settings(dice),
            delay_levels=waiting_account.LEVELS,
            timer_max_delay_s=TIMER_MAX_DELAY_S,
        )

    @contextmanager
    def small_files(self) -> Iterator[None]:
        with (
            super().small_files(),
            patch.object(DelayService, "start", lambda self: None),
            patch.object(store_timers, "TimerWheelStore", partial(TimerWheelStore, **SMALL_TIMERS)),
            patch.object(deadline_queue.log, "exception", _is_wrong),
        ):
            yield

    # -- sessions

    def _open(self) -> None:
        super()._open()
        store = self._open_store
        self._begin, self._settled_before = store.recovery_report.end, self.account.settled
        self._found = found = waiting_account.read_all(store, self.account.offered, inside.log(store).reader.min_offset)
        assert not found.delivered or found.delivered[-1].physical_offset < self._begin
        self._seen = {each.number for each in found.delivered}

    def _close(self) -> None:
        """What was delivered is noted, if nothing failed."""
        store = self._open_store
        done = self._done()
        super()._close()
        if inside.log(store).poison is None and not any(fault.hits for fault in self._faults.faults):
            self.account.settled |= done

    def _kill(self) -> None:
        if self._store is not None:
            inside.delay_service(self._store).savers.clear()  # a dead process writes nothing
        super()._kill()

    # -- steps

    def _step(self) -> None:
        steps: tuple[tuple[int, Callable[[], None]], ...] = (
            *((24, self._puts.put), (12, self._puts.put_many), (4, self._puts.put_async), (5, self._cancel)),
            *((30, self._deliver), (30, self._let_pass), (4, self._set_the_clock), (8, self._save)),
            *((4, self._flush), (6, self._dispatch), (4, self._flush_queues), (3, self._flush_index)),
            *((2, self._ask), (1, self._verify), (4, self._fail_soon)),
            *((3, lambda: self._end(self._close)), (1, lambda: self._end(self._kill))),
            *((2, lambda: self._end(self._cut)),),
        )
        [step] = self._dice.choices([step for _, step in steps], [weight for weight, _ in steps])
        self._take(step)
        self.account.clock_ms = self.clock.at_ms
        self._latest_ms = max(self._latest_ms, self.clock.at_ms)

    def _let_pass(self) -> None:
        ms = self._dice.choice((1, 300, 1000, 1000, 3000, 20_000))
        self._say(f"{ms} ms pass")
        self.clock.advance(ms)

    def _set_the_clock(self) -> None:
        ms = self._dice.choice((-25_000, -3000, -700, 700, 5000))
        self._say(f"the clock is set by {ms} ms")
        self.clock.at_ms += ms

    def _cancel(self) -> None:
        account, now_ms = self.account, self.clock.at_ms
        waiting = [
            (place.number, int(message.properties["TIMER_DELIVER_MS"]))
            for place in account.acknowledged
            if place.key[0] == TIMER_TOPIC and (message := account.offered[place.number]).properties is not None
        ]
        waiting = [(number, due_ms) for number, due_ms in waiting if due_ms > now_ms and number not in self._seen]
        if not waiting:
            return
        number, due_ms = self._dice.choice(waiting)
        self._say(f"cancel timer {number}")
        result = self._open_store.cancel_timer(account.offered[number].topic, f"u{number}", due_ms)
        is_in_time = due_ms - now_ms >= 1000 and now_ms >= self._latest_ms
        account.cancellations.append(Cancellation(number, result.physical_offset, is_in_time))

    def _deliver(self) -> None:
        """What the thread does when it wakes."""
        self._say("deliver")
        deliver(self._open_store)
        self._judge()

    def _judge(self) -> None:
        """Look at what this session has delivered. Under sync flush what no sync covers yet is not visible."""
        store = self._open_store
        self._found = found = waiting_account.read_all(store, self.account.offered, inside.log(store).reader.min_offset)
        new = [each for each in found.delivered if each.physical_offset >= self._begin]
        early = [each for each in new if each.number not in self._seen and each.due_ms > self.clock.at_ms]
        assert not early, f"at {self.clock.at_ms} comes {early}"
        waiting_account.check_session(found, new, self._settled_before)
        self._seen |= {each.number for each in new}

    def _save(self) -> None:
        self._say("save how far deliveries are")
        store = self._open_store
        savers = inside.delay_service(store).savers
        has_news = any(saver.is_unsaved for saver in savers)
        inside.delay_service(store).save()
        if not any(saver.is_unsaved for saver in savers):
            if has_news:  # the log is made durable first
                self.account.is_durable()
            self.account.settled |= self._done()

    def _done(self) -> set[int]:
        """What a save now calls delivered: what lies before the offset of its level; timers of this session, unless it
        has come to a stop in the middle of a second."""
        offsets = inside.level_offsets(self._open_store)
        levels = {
            number
            for number, (_, (topic, queue_id), offset, _) in self._found.places.items()
            if topic == SCHEDULE_TOPIC and offset < offsets[queue_id]
        }
        if inside.is_giving_timers(self._open_store):
            return levels
        new = [each for each in self._found.delivered if each.physical_offset >= self._begin]
        return levels | {each.number for each in new if not each.level}


def deliver(store: Store) -> float | None:
    """Deliver what is due; how long the thread would sleep now. None: until something is put, or for ever, because the
    store is poisoned."""
    for _ in range(ROUNDS_MAX):
        try:
            wait_s = inside.delay_service(store).deadlines.run_due()
        except StorePoisonedError:
            return None
        if wait_s != 0:
            return wait_s
    raise AssertionError(f"still something to do after {ROUNDS_MAX} rounds")


def _is_wrong(text: str, *details: object, **extra: object) -> None:
    raise AssertionError(f"a task of the schedules failed: {extra}")
