"""Tasks ordered by deadline; one thread runs them all.

Deadlines are wall-clock times, because delivery times are. Invariants:
- A task runs no later than the earliest time that it or a call of `expect` named since its last run began.
- After the clock was set, backwards or forwards, every task runs at once and returns its next time, because its
  deadline may have moved.
- Without a deadline the thread sleeps until it is notified. With one it reads the clock at least every MAX_WAIT_S,
  because setting the clock wakes no thread.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable
from typing import Protocol

from ..store.disk.clock import Clock
from ..store.errors import StorePoisonedError

log = logging.getLogger("flightlog.schedule")

MAX_WAIT_S = 0.5
"""Seconds within which a step of the clock is noticed, while a task has a deadline."""

STEP_MS = 250
"""Difference between the two clocks that counts as a step. Slewing takes minutes to reach it, and does no harm."""

RETRY_MS = 10_000
"""Delay before a task runs again after an unexpected error (RocketMQ's `DELAY_FOR_A_PERIOD`)."""


class Task(Protocol):
    """A task with a deadline."""

    def run(self, now_ms: int) -> int | None:
        """Do what is due. Returns the next deadline in ms, a past one for another call at once, or None to wait for
        `expect`."""


class DeadlineQueue:
    """Tasks and when they are due. `expect` from any thread, the rest from one."""

    def __init__(self, clock: Clock, notify: Callable[[], None]) -> None:
        self._clock, self._notify = clock, notify
        self._lock = threading.Lock()
        self._due_ms: dict[Task, int] = {}
        """The current deadline of each task that has one; the heap keeps outdated ones too."""
        self._heap: list[tuple[int, int, Task]] = []
        self._numbers: dict[Task, int] = {}
        """The order in which tasks were added: tasks due at the same time run in it."""
        self._lead_ms = self._lead(clock.now_ms())

    def add(self, task: Task) -> None:
        """Add a task. It runs at once, and then at the times that it returns."""
        self._numbers[task] = len(self._numbers)
        self.expect(task, self._clock.now_ms())

    def expect(self, task: Task, due_ms: int) -> None:
        """Run the task no later than this time."""
        if self._name(task, due_ms):
            self._notify()

    def run_due(self) -> float | None:
        """Run every task that is due, once each. Returns the seconds to wait until the next call, or None to wait until
        notified.

        Raises StorePoisonedError, after which nothing can be delivered. After any other error a task runs again after
        RETRY_MS, as in RocketMQ.
        """
        now_ms = self._clock.now_ms()
        self._look_for_a_step(now_ms)
        for task in self._take_due(now_ms):
            try:
                next_ms = task.run(now_ms)
            except StorePoisonedError:
                raise
            except Exception as e:
                log.exception("%s: failed; it is tried again in %d s", task, RETRY_MS // 1000, extra={"cause": repr(e)})
                next_ms = now_ms + RETRY_MS
            if next_ms is not None:
                self._name(task, next_ms)
        return self._wait_s()

    def _name(self, task: Task, due_ms: int) -> bool:
        """Set the task's deadline unless it has an earlier one. Returns whether it is the earliest of all."""
        with self._lock:
            before = self._due_ms.get(task)
            if before is not None and before <= due_ms:
                return False
            self._due_ms[task] = due_ms
            heapq.heappush(self._heap, (due_ms, self._numbers[task], task))
            return self._heap[0][2] is task

    def _look_for_a_step(self, now_ms: int) -> None:
        lead_ms = self._lead(now_ms)
        if abs(lead_ms - self._lead_ms) < STEP_MS:
            return
        self._lead_ms = lead_ms
        with self._lock:  # deadlines named before are of the clock before the step
            self._due_ms = dict.fromkeys(self._numbers, now_ms)
            self._heap = [(now_ms, number, task) for task, number in self._numbers.items()]

    def _take_due(self, now_ms: int) -> list[Task]:
        taken: list[Task] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now_ms:
                due_ms, _, task = heapq.heappop(self._heap)
                if self._due_ms.get(task) == due_ms:
                    del self._due_ms[task]  # before it runs: deadlines named from here on count
                    taken.append(task)
        return taken

    def _wait_s(self) -> float | None:
        with self._lock:
            while self._heap and self._due_ms.get(self._heap[0][2]) != self._heap[0][0]:
                heapq.heappop(self._heap)
            if not self._heap:
                return None
            left_s = (self._heap[0][0] - self._clock.now_ms()) / 1000
        return min(max(left_s, 0.0), MAX_WAIT_S)

    def _lead(self, now_ms: int) -> int:
        """How far the wall clock is ahead of the monotonic clock."""
        return now_ms - int(self._clock.monotonic_s() * 1000)
