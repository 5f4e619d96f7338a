"""Timers of a store, by hand: delivered when their second is over, once, in order, and again only after a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.schedule.timer_checkpoint import read_timer_checkpoint
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.support.timed_store import SetClock, TimedStore

if TYPE_CHECKING:
    Opened = Callable[..., TimedStore]


@pytest.fixture
def clock(timer_clock: SetClock) -> SetClock:
    return timer_clock


def test_a_timer_is_delivered_within_the_second_after_its_time(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    start = clock.at_ms
    for number, delay_ms in enumerate((1, 999, 1000, 1001, 2000, 5000)):
        timed.put("orders", number, start + delay_ms)
    seen: dict[int, list[int]] = {}
    due = timed.run()
    while due is not None:
        assert due > clock.at_ms
        clock.at_ms = due
        due = timed.run()
        seen[clock.at_ms - start] = timed.delivered()
    assert seen[1000] == [0, 1, 2]
    assert seen[2000] == seen.get(4000, seen[2000]) == [0, 1, 2, 3, 4]
    assert seen[5000] == [0, 1, 2, 3, 4, 5]
    assert max(seen) == 6000, "the last save"
    assert timed.timers.pending == 0


def test_the_lag_is_how_long_the_oldest_due_timer_has_waited(opened: Opened, clock: SetClock) -> None:
    """Also before the first look: of a wheel that nothing was ever put on, no slot is due since 1970."""
    timed = opened()
    assert timed.timers.lag_ms(clock.at_ms) == 0, "nothing waits"
    due_ms = clock.at_ms + 5000
    timed.put("orders", 1, due_ms)
    timed.run()
    lags = [timed.timers.lag_ms(due_ms + ms) for ms in (-5000, 0, 1, 1700)]
    assert lags == [0, 0, 1, 1700]
    clock.at_ms = due_ms + 1000
    timed.run()
    assert timed.delivered() == [1] and timed.timers.lag_ms(clock.at_ms + 60_000) == 0


def test_what_is_delivered_is_the_message_that_was_put(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    put = flightlog.Message(
        "orders",
        b"body",
        tags="t",
        keys=("a", "b"),
        properties={"own": "1", "TIMER_DELAY_SEC": "3"},
        queue_id=2,
        flag=7,
        uniq_key="U",
        born_timestamp_ms=clock.at_ms - 5,
        born_host=("10.1.2.3", 4567),
        sys_flag=0x2,
        reconsume_times=1,
    )
    result = timed.store.put(put)
    assert (result.topic, result.queue_id) == ("rmq_sys_wheel_timer", 0)
    assert not list(timed.store.read("orders", 2))
    stored_ms = clock.at_ms
    timed.run()
    clock.at_ms += 3000
    timed.run()
    [message] = timed.store.read("orders", 2)
    assert (message.body, message.tags, message.keys, message.flag, message.uniq_key) == (
        b"body",
        "t",
        ["a", "b"],
        7,
        "U",
    )
    assert (message.born_timestamp_ms, str(message.born_host)) == (stored_ms - 5, "10.1.2.3:4567")
    assert (message.sys_flag, message.reconsume_times, message.store_timestamp_ms) == (0x2, 1, clock.at_ms)
    assert message.properties == {
        "own": "1",
        "KEYS": "a b",
        "TAGS": "t",
        "UNIQ_KEY": "U",
        "TIMER_DELAY_SEC": "3",
        "TIMER_OUT_MS": str(stored_ms + 2000),
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "TIMER_ENQUEUE_MS": str(stored_ms),
        "TIMER_DEQUEUE_MS": str(clock.at_ms),
    }


def test_within_a_second_the_order_is_that_of_the_puts(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    for number in range(700):
        timed.put("orders", number, clock.at_ms + 60_000 - number)
    timed.run()
    assert timed.timers.pending == 700
    clock.at_ms += 60_000
    timed.run()
    assert timed.delivered() == list(range(700))


@pytest.mark.parametrize("bound", ["GIVE_COUNT", "GIVE_SIZE"])
def test_a_second_of_more_timers_than_one_append_takes(
    bound: str, opened: Opened, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"flightlog.schedule.timer_wheel_store.{bound}", 3)
    timed = opened()
    for number in range(10):
        timed.put("orders", number, clock.at_ms + 1000)
    clock.at_ms += 10_000
    timed.run()
    assert timed.delivered() == list(range(10))


def test_a_cancelled_timer_is_not_delivered(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    due = clock.at_ms + 5_500
    for number in range(6):
        timed.put("orders", number, due)
    timed.put("others", 1, due)
    timed.cancel("orders", 1, due)
    timed.run()
    timed.cancel("orders", 4, due)
    timed.cancel("orders", 5, due + 1000)  # names a time at which there is no such timer
    timed.cancel("orders", 77, due)
    timed.run()
    assert timed.timers.pending == 7 - 4
    clock.at_ms += 10_000
    timed.run()
    assert timed.delivered() == [0, 2, 3, 5]
    assert timed.delivered("others") == [1]
    assert timed.timers.pending == 0


def test_timers_far_ahead_are_rolled_on(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    due = clock.at_ms + 2_500_000  # some four times the roll window
    timed.put("orders", 1, due)
    timed.put("orders", 2, due)
    timed.cancel("orders", 2, due)
    while clock.at_ms < due:
        at = timed.run()
        assert not timed.delivered()
        assert at is not None
        clock.at_ms = at
    timed.run()
    assert clock.at_ms - due < 1000
    [message] = timed.store.read("orders", 0)
    assert message.properties["TIMER_ROLL_TIMES"] == "4"
    assert timed.delivered() == [1]


def test_all_that_became_due_while_nobody_came_is_delivered_in_order_of_time(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    for number, delay in enumerate((300_000, 1_000, 200_000, 500_000)):
        timed.put("orders", number, clock.at_ms + delay)
    timed.close()
    clock.at_ms += 30_000_000  # seven turns of the wheel
    timed = opened()
    timed.put("orders", 9, clock.at_ms + 1000)
    timed.run()
    assert timed.delivered() == [1, 2, 0, 3]
    clock.at_ms += 1000
    timed.run()
    assert timed.delivered() == [1, 2, 0, 3, 9]


def test_timers_and_cancellations_that_were_never_taken_in_before_they_were_due(
    opened: Opened, clock: SetClock
) -> None:
    timed = opened()
    for number in range(3):
        timed.put("orders", number, clock.at_ms + 2000)
    timed.cancel("orders", 1, clock.at_ms + 2000)
    timed.kill()
    clock.at_ms += 50_000
    timed = opened()
    timed.run()
    assert timed.delivered() == [0, 2]


def test_a_place_on_the_wheel_that_is_still_taken(opened: Opened, clock: SetClock) -> None:
    """Nobody came for a turn of the wheel: what stands there is delivered before the place is given away."""
    timed = opened()
    timed.put("orders", 0, clock.at_ms + 100_000)
    timed.run()
    clock.at_ms += 4096_000
    timed.put("orders", 1, clock.at_ms + 100_000)
    timed.run()
    assert timed.delivered() == [0]
    clock.at_ms += 100_000
    timed.run()
    assert timed.delivered() == [0, 1]


def test_much_work_is_done_in_parts(opened: Opened, clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TAKE_COUNT", 10), ("TAKE_LIMIT", 20), ("GIVE_LIMIT", 15)):
        monkeypatch.setattr(f"flightlog.schedule.timer_wheel_store.{name}", value)
    timed = opened()
    for number in range(50):
        timed.put("orders", number, clock.at_ms + 1000 + number // 10 * 1000)
    timed.cancel("orders", 7, clock.at_ms + 1000)
    clock.at_ms += 10_000
    seen = []
    while timed.run() == clock.at_ms:
        seen.append((timed.timers.untaken, len(timed.delivered())))
    assert seen == [(31, 0), (11, 0), (0, 19), (0, 39)]
    assert timed.delivered() == [number for number in range(50) if number != 7]


def test_a_cancellation_that_is_rolled_on_comes_before_its_timer(
    opened: Opened, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer was rolled on before a kill, and both are due when the store is opened again."""
    timed = opened()
    start = clock.at_ms
    timed.put("orders", 0, start + 1_300_000)
    timed.run()
    clock.at_ms = start + 100_000
    timed.cancel("orders", 0, start + 1_300_000)
    timed.run()
    timed.timers.save(clock.at_ms)
    clock.at_ms = start + 650_000
    monkeypatch.setattr(timed.timers, "save", lambda now_ms: None)
    timed.run()
    timed.kill()
    clock.at_ms = start + 2_000_000
    timed = opened()
    while timed.run() == clock.at_ms:
        pass
    assert timed.delivered() == []
    assert timed.timers.pending == 0


def test_a_kill_while_there_is_more_than_a_turn_to_catch_up_with(
    opened: Opened, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flightlog.schedule.timer_wheel_store.GIVE_LIMIT", 1)
    timed = opened()
    for number in range(5):
        timed.put("orders", number, clock.at_ms + 10_000 * (number + 1))
    timed.run()
    timed.timers.save(clock.at_ms)
    clock.at_ms += 5_000_000
    timed.put("orders", 5, clock.at_ms + 100_000)
    timed.run()
    assert timed.delivered() == [0]
    timed.timers.save(clock.at_ms)
    timed.kill()
    timed = opened()
    clock.at_ms += 100_000
    while timed.run() == clock.at_ms:
        pass
    assert timed.delivered() == [0, 1, 2, 3, 4, 5]


def test_a_store_that_was_closed_for_months_delivers_what_it_had_not_taken_in(opened: Opened, clock: SetClock) -> None:
    """More than 2 ** 31 ms late."""
    timed = opened()
    timed.put("orders", 0, clock.at_ms + 5_000)
    timed.run()
    timed.put("orders", 1, clock.at_ms + 5_000)
    timed.kill()
    clock.at_ms += 100 * 86_400_000
    timed = opened()
    timed.put("orders", 2, clock.at_ms + 5_000)
    timed.run()
    assert sorted(timed.delivered()) == [0, 1]
    clock.at_ms += 6_000
    timed.run()
    assert sorted(timed.delivered()) == [0, 1, 2]


def test_a_clock_set_back_delivers_nothing_early_and_nothing_twice(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    start = clock.at_ms
    timed.put("orders", 0, start + 10_000)
    timed.put("orders", 1, start + 20_000)
    timed.run()
    clock.at_ms = start + 15_000
    timed.run()
    assert timed.delivered() == [0]
    clock.at_ms = start + 5_000
    timed.put("orders", 2, start + 8_000)
    timed.put("orders", 3, start + 17_000)
    for at in range(5_000, 15_000, 500):
        clock.at_ms = start + at
        timed.run()
        assert timed.delivered() == [0]
    clock.at_ms = start + 16_000
    timed.run()
    assert timed.delivered() == [0, 2], "a second that is past already: once the clock is where it was"
    clock.at_ms = start + 20_000
    timed.run()
    assert timed.delivered() == [0, 2, 3, 1]


def saved_read_time_ms(timed: TimedStore) -> int:
    saved = read_timer_checkpoint(RealDisk(), timed.root)
    assert saved is not None
    return saved.read_time_ms


def test_what_a_save_leaves_out_is_due_at_the_saved_time_or_later(
    opened: Opened, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a broker that takes over puts it in a second that it does not read again, and never delivers it."""
    for name, value in (("TAKE_COUNT", 1), ("TAKE_LIMIT", 2)):
        monkeypatch.setattr(f"flightlog.schedule.timer_wheel_store.{name}", value)
    timed = opened()
    for number in range(4):
        timed.put("orders", number, clock.at_ms + 86_000)
    timed.run()  # two of them
    due_ms = clock.at_ms + 1000
    timed.put("orders", 4, due_ms)
    clock.at_ms += 5000
    timed.run()
    timed.timers.save(clock.at_ms)
    assert timed.timers.untaken == 1 and saved_read_time_ms(timed) <= due_ms
    timed.run()
    assert timed.delivered() == [4]


def test_timers_put_on_a_clock_that_was_set_back_are_taken_in_before_the_last_save(
    opened: Opened, clock: SetClock
) -> None:
    timed = opened()
    timed.put("orders", 0, clock.at_ms + 86_000)
    clock.at_ms += 10_000
    timed.run()
    clock.at_ms -= 8_000
    timed.put("orders", 1, clock.at_ms + 1000)
    timed.timers.take_in_late(clock.at_ms)
    assert timed.timers.untaken == 0 and timed.delivered() == []
    timed.close()
    assert saved_read_time_ms(timed) // 1000 == (clock.at_ms + 8_000) // 1000
    clock.at_ms += 9_000
    timed = opened()
    timed.run()
    assert timed.delivered() == [1]


def test_a_clock_set_forwards_delivers_what_is_due(opened: Opened, clock: SetClock) -> None:
    timed = opened()
    timed.put("orders", 0, clock.at_ms + 10_000)
    timed.put("orders", 1, clock.at_ms + 300_000)
    timed.run()
    clock.at_ms += 200_000
    timed.run()
    assert timed.delivered() == [0]
    assert timed.timers.pending == 1
