"""Tasks run when they are due by a clock that may be set, and nothing is looked at when nothing is due."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flightlog.schedule.deadline_queue import MAX_WAIT_S, RETRY_MS, DeadlineQueue
from flightlog.store.errors import StorePoisonedError
from flightlog.testing.clock import ManualClock


class Noted:
    """A task that notes when it ran, and names the times that it was given."""

    def __init__(self, *times: int | None) -> None:
        self.times = list(times)
        self.ran: list[int] = []

    def run(self, now_ms: int) -> int | None:
        self.ran.append(now_ms)
        return self.times.pop(0) if self.times else None


@pytest.fixture
def notified() -> list[bool]:
    return []


@pytest.fixture
def deadlines(clock: ManualClock, notified: list[bool]) -> DeadlineQueue:
    return DeadlineQueue(clock, lambda: notified.append(True))


def test_a_task_runs_at_once_and_then_when_it_says(clock: ManualClock, deadlines: DeadlineQueue) -> None:
    start = clock.at_ms
    task = Noted(start + 100, None)
    deadlines.add(task)
    assert deadlines.run_due() == pytest.approx(0.1)
    clock.advance(99)
    assert deadlines.run_due() == pytest.approx(0.001)
    clock.advance(1)
    assert deadlines.run_due() is None
    assert task.ran == [start, start + 100]
    clock.advance(10_000_000)
    assert deadlines.run_due() is None and len(task.ran) == 2


def test_the_earliest_time_that_anybody_named_counts(
    clock: ManualClock, deadlines: DeadlineQueue, notified: list[bool]
) -> None:
    start = clock.at_ms
    task, other = Noted(start + 5000), Noted(start + 3000)
    deadlines.add(task)
    deadlines.add(other)
    deadlines.run_due()
    notified.clear()
    deadlines.expect(task, start + 9000)
    deadlines.expect(task, start + 4000)
    assert notified == [], "the next deadline is the same as before"
    deadlines.expect(task, start + 1000)
    assert notified == [True]
    clock.advance(1000)
    deadlines.run_due()
    assert task.ran == [start, start + 1000]
    clock.advance(9000)
    assert deadlines.run_due() is None
    assert (task.ran, other.ran) == ([start, start + 1000], [start, start + 10_000])


def test_what_is_expected_while_a_task_runs_is_not_forgotten(clock: ManualClock, deadlines: DeadlineQueue) -> None:
    class Overtaken(Noted):
        def run(self, now_ms: int) -> int | None:
            if not self.ran:
                deadlines.expect(self, now_ms + 50)  # as a put in another thread
            return super().run(now_ms)

    task = Overtaken()
    deadlines.add(task)
    assert deadlines.run_due() == pytest.approx(0.05)
    clock.advance(50)
    assert deadlines.run_due() is None
    assert len(task.ran) == 2


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_all_tasks_run_when_the_clock_was_set(step_ms: int, clock: ManualClock, deadlines: DeadlineQueue) -> None:
    start = clock.at_ms
    waiting, idle = Noted(start + 7_200_000, start + step_ms + 60), Noted()
    deadlines.add(waiting)
    deadlines.add(idle)
    assert deadlines.run_due() == MAX_WAIT_S
    clock.at_ms = start + step_ms
    assert deadlines.run_due() == pytest.approx(0.06)
    assert waiting.ran == idle.ran == [start, start + step_ms]
    clock.advance(60)
    deadlines.run_due()
    assert len(waiting.ran) == 3 and len(idle.ran) == 2


def test_a_clock_that_is_slewed_was_not_set(clock: ManualClock, deadlines: DeadlineQueue) -> None:
    task = Noted(clock.at_ms + 7_200_000)
    deadlines.add(task)
    deadlines.run_due()
    clock.at_ms -= 200
    deadlines.run_due()
    assert len(task.ran) == 1


def test_a_task_that_fails_is_told_of_and_tried_again(
    clock: ManualClock, deadlines: DeadlineQueue, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Noted):
        def run(self, now_ms: int) -> int | None:
            super().run(now_ms)
            if len(self.ran) == 1:
                raise ValueError("no such thing")
            return None

    failing, other = Failing(), Noted()
    deadlines.add(failing)
    deadlines.add(other)
    with caplog.at_level(logging.ERROR, "flightlog.schedule"):
        deadlines.run_due()
    assert "no such thing" in caplog.text and len(other.ran) == 1
    clock.advance(RETRY_MS - 1)
    deadlines.run_due()
    assert len(failing.ran) == 1
    clock.advance(1)
    assert deadlines.run_due() is None and len(failing.ran) == 2


def test_a_poisoned_store_ends_it(deadlines: DeadlineQueue) -> None:
    class Poisoned(Noted):
        def run(self, now_ms: int) -> int | None:
            raise StorePoisonedError(Path("/store"), OSError("sync"))

    deadlines.add(Poisoned())
    with pytest.raises(StorePoisonedError):
        deadlines.run_due()
