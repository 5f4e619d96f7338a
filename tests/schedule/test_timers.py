"""Timers of an open store, delivered by its own thread."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings
from flightlog.engine.delay import store_timers
from flightlog.schedule.timer_checkpoint import read_timer_checkpoint
from flightlog.schedule.timer_wheel_store import TimerWheelStore
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import StorePoisonedError
from flightlog.store.timer_errors import TimersCongestedError, TimerTooFarError, TimerTooLateError
from flightlog.testing.clock import AheadClock, ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.schedule.conftest import Until

SETTINGS = StoreSettings.small()


def timer(number: int, deliver_at_ms: int) -> Message:
    return Message("t", b"%d" % number, properties={"TIMER_DELIVER_MS": str(deliver_at_ms)}, uniq_key=str(number))


def numbers(store: Store) -> list[int]:
    return [int(message.body) for message in store.read("t")]


@pytest.mark.parametrize("mode", list(FlushMode))
def test_a_timer_comes_by_itself(
    tmp_path: Path, mode: FlushMode, kernel: str, assert_clean: Callable[[Path], None], until: Until
) -> None:
    clock = AheadClock()
    with flightlog.open(tmp_path, StoreSettings.small(flush_mode=mode), clock=clock) as store:
        deliver_at_ms = clock.now_ms() + 60_300
        result = store.put(timer(1, deliver_at_ms))
        assert (result.topic, result.queue_id) == ("rmq_sys_wheel_timer", 0)
        clock.advance(60_000)
        until(lambda: numbers(store) == [1])
        [message] = store.read("t")
        assert message.store_timestamp_ms >= deliver_at_ms
        # The message is readable before its delivery is counted.
        until(lambda: (state := store.statistics().timers) is not None and state.delivered == 1)
        state = store.statistics().timers
        assert state is not None
        assert (state.pending, state.delivered, state.lost) == (0, 1, 0)
    assert_clean(tmp_path)


def test_what_waits_can_be_read_and_is_counted_after_a_reopen(
    tmp_path: Path, kernel: str, assert_clean: Callable[[Path], None], until: Until
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("orders", b"a level", delay_level=3))
        store.put(Message("orders", b"in 90 s").deliver_after_ms(90_000))
        at_ms = time.time_ns() // 1_000_000 + 3_600_000
        store.put(Message("orders", b"is it paid?", uniq_key="order-7").deliver_at_ms(at_ms))
        store.cancel_timer("orders", "order-7", at_ms)
    with flightlog.open(tmp_path, replace(SETTINGS, deliver_delayed=False)) as store:
        levels, timers = store.read("SCHEDULE_TOPIC_XXXX", 2), store.read("rmq_sys_wheel_timer")
        assert [message.body for message in levels] == [b"a level"]
        assert [message.body for message in timers] == [b"in 90 s", b"is it paid?", b""]
    with flightlog.open(tmp_path, SETTINGS) as store:
        until(lambda: (state := store.statistics().timers) is not None and (state.pending, state.untaken) == (1, 0))
    assert_clean(tmp_path)


def test_what_waits_is_delivered_by_the_next_opening(
    tmp_path: Path, clock: ManualClock, assert_clean: Callable[[Path], None], until: Until
) -> None:
    start = clock.at_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for number in range(5):
            store.put(timer(number, start + 10_000 * (number + 1)))
        store.cancel_timer("t", "1", start + 20_000)
        until(lambda: (state := store.statistics().timers) is not None and state.pending == 4)
    clock.advance(35_000)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        until(lambda: numbers(store) == [0, 2])
        clock.advance(5_000)
        until(lambda: numbers(store) == [0, 2, 3])
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        clock.advance(60_000)
        until(lambda: numbers(store) == [0, 2, 3, 4])
    assert_clean(tmp_path)


def test_a_cancellation_of_rocketmq_55_has_no_topic_in_its_name(
    tmp_path: Path, clock: ManualClock, assert_clean: Callable[[Path], None], until: Until
) -> None:
    """Unless its broker has `appendTopicForTimerDeleteKey=true`."""
    at_ms = clock.at_ms + 10_000
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for number in range(3):
            store.put(timer(number, at_ms))
        store.put(Message("t", b"", properties={"TIMER_DELIVER_MS": str(at_ms), "TIMER_DEL_UNIQKEY": "1"}))
        until(lambda: (state := store.statistics().timers) is not None and state.untaken == 0)
        waiting = [each.uniq_key for each in flightlog.waiting_delays(store, clock=clock)]
        assert waiting == ["0", "2"]
        clock.advance(11_000)
        until(lambda: numbers(store) == [0, 2])
    assert_clean(tmp_path)


def test_a_store_without_timers_has_none_of_their_files(tmp_path: Path, assert_clean: Callable[[Path], None]) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(Message("t", b"1"))
        assert store.statistics().timers is None
        assert not inside.had_delay_thread(store), "and no thread"
    assert not {"timerwheel", "timerlog"} & {path.name for path in tmp_path.iterdir()}
    assert_clean(tmp_path)


def test_a_store_that_does_not_deliver_parks(tmp_path: Path, clock: ManualClock, until: Until) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(deliver_delayed=False), clock=clock) as store:
        store.put(timer(1, clock.at_ms + 1000))
        clock.advance(5000)
        assert numbers(store) == []
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        until(lambda: numbers(store) == [1])


def test_a_timer_that_was_just_put_is_told_before_the_thread_has_come_to_it(
    tmp_path: Path, clock: ManualClock, assert_clean: Callable[[Path], None], until: Until
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        inside.delay_service(store).stop()
        store.put(timer(1, clock.at_ms + 1000))
        assert store.statistics().timers == store_timers.TimerState(1, 1, 0, 0, 0)
    assert_clean(tmp_path)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        state = store.statistics().timers
        assert state is not None and state.pending == 1


@pytest.mark.parametrize("asked", [{}, {"delay_level": 3}, {"properties": {"TIMER_DELAY_SEC": "9", "a": "b"}}])
def test_a_message_is_told_when_to_come(
    tmp_path: Path, clock: ManualClock, asked: dict[str, Any], assert_clean: Callable[[Path], None], until: Until
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for number, after_ms in ((1, 4000), (0, 2000)):
            message = Message("t", b"%d" % number, **asked)
            store.put(message.deliver_after_ms(after_ms) if number else message.deliver_at_ms(clock.at_ms + after_ms))
        clock.advance(2000)
        until(lambda: numbers(store) == [0])
        clock.advance(2000)
        until(lambda: numbers(store) == [0, 1])
        if "properties" in asked:
            assert asked["properties"] == {"TIMER_DELAY_SEC": "9", "a": "b"}, "the caller's own"
            assert all(message.properties["a"] == "b" for message in store.read("t"))
    assert_clean(tmp_path)


def test_what_is_refused(tmp_path: Path, clock: ManualClock, until: Until) -> None:
    settings = StoreSettings.small(timer_max_delay_s=10, timer_slot_max_count=2)
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        with pytest.raises(TimerTooFarError):
            store.put(timer(1, clock.at_ms + 10_001))
        with pytest.raises(TimerTooLateError):
            store.cancel_timer("t", "1", clock.at_ms)
        for number in range(2):
            store.put(timer(number, clock.at_ms + 5000))
        until(lambda: inside.timers_in_second(store, (clock.at_ms + 4999) // 1000) == 2)
        with pytest.raises(TimersCongestedError):
            store.put(timer(2, clock.at_ms + 5000))
        store.put(timer(3, clock.at_ms))
        assert numbers(store) == [3], "due already: put at once"


def test_a_message_without_a_queue_waits_for_one(tmp_path: Path, clock: ManualClock, until: Until) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.create_topic("t", 2)
        for number in range(4):
            message = timer(number, clock.at_ms + 1000)
            message.queue_id = None
            store.put(message)
        clock.advance(2000)
        until(lambda: sum(end for _, end in (store.queues().get(("t", n), (0, 0)) for n in range(2))) == 4)
        assert [len(list(store.read("t", n))) for n in range(2)] == [2, 2]


def test_a_full_disk_is_waited_for_and_a_failed_sync_poisons(tmp_path: Path, clock: ManualClock, until: Until) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path, SETTINGS, clock=clock, disk=disk) as store:
        disk.fail("*", "timerlog", errno.ENOSPC)
        store.put(timer(1, clock.at_ms + 1000))
        clock.advance(1000)
        until(lambda: inside.timer_failure(store) != "")
        disk.heal()
        clock.advance(2000)
        until(lambda: numbers(store) == [1])
        disk.fail("sync", "timerlog", errno.EIO)
        store.put(timer(2, clock.at_ms + 1000))
        clock.advance(1000)
        until(lambda: numbers(store) == [1, 2])
        clock.advance(2000)
        until(lambda: inside.log(store).poison is not None)
        with pytest.raises(StorePoisonedError):
            store.put(timer(3, clock.at_ms + 1000))
        disk.heal()
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        until(lambda: sorted(numbers(store)) in ([1, 2, 2], [1, 1, 2, 2], [1, 2]))


def test_nothing_is_done_until_the_next_timer(tmp_path: Path, clock: ManualClock) -> None:
    deliver_at_ms = clock.at_ms + 600_000
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put(timer(1, deliver_at_ms))
        inside.delay_service(store).stop()
        for _ in range(3):
            inside.delay_service(store).deadlines.run_due()
            clock.advance(1000)
        assert not inside.timers(store).is_unsaved
        names = "timerwheel", "config/timercheck", f"timerlog/{0:020d}"
        before = [(tmp_path / name).stat().st_mtime_ns for name in names]
        for _ in range(100):
            assert inside.timers(store).run(clock.at_ms) == deliver_at_ms
            clock.advance(5000)
        assert [(tmp_path / name).stat().st_mtime_ns for name in names] == before


def test_timers_are_opened_once_beside_levels_that_wait(
    tmp_path: Path,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    assert_clean: Callable[[Path], None],
    until: Until,
) -> None:
    start = clock.at_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put(timer(1, start + 10_000))
        store.put(Message("t", b"0", delay_level=1))
    made: list[TimerWheelStore] = []
    is_second = threading.Event()

    class Slow(TimerWheelStore):
        """The first opening leaves the thread of the schedules, which runs already, time for one of its own."""

        def open(self) -> None:
            made.append(self)
            if len(made) == 1:
                is_second.wait(0.5)
            else:
                is_second.set()
            super().open()

    monkeypatch.setattr(store_timers, "TimerWheelStore", Slow)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        clock.advance(20_000)
        until(lambda: sorted(numbers(store)) == [0, 1])
    assert len(made) == 1
    assert_clean(tmp_path)


def test_a_close_takes_in_what_was_put_on_a_clock_that_was_set_back(tmp_path: Path, clock: ManualClock) -> None:
    """A broker that takes over would lose it otherwise: see schedule/timer_wheel_store.py."""

    def wheel_end() -> int:
        saved = read_timer_checkpoint(RealDisk(), tmp_path)
        assert saved is not None
        return saved.queue_offset

    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put(timer(1, clock.at_ms + 86_000_000))
        clock.advance(60_000)
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        inside.delay_service(store).stop()
        clock.advance(-30_000)
        store.put(timer(2, clock.at_ms + 1000))
    assert wheel_end() == 2
