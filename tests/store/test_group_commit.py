"""Who syncs, who waits for it, and who is woken by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import ModuleType

import pytest

from flightlog.store import group_commit
from flightlog.store.group_commit import GroupCommit, _Waiter

LATER_S = 240
WaitUntil = Callable[[Callable[[], object]], None]


@pytest.fixture
def wait_until(support: Callable[[str], ModuleType]) -> WaitUntil:
    found: WaitUntil = support("process").wait_until
    return found


class Log:
    """What is synced, and syncs that a test lets through one by one, each up to a place of its own."""

    def __init__(self) -> None:
        self.group = GroupCommit()
        self.flushed = 0
        self.syncs: list[str] = []
        """Whose thread each was."""
        self.may_sync = threading.Semaphore(0)
        self.goes_to: list[int] = []
        self.fails = False
        self.answers: dict[str, object] = {}
        self.threads: list[threading.Thread] = []

    def sync(self) -> None:
        self.syncs.append(threading.current_thread().name)
        assert self.may_sync.acquire(timeout=LATER_S)
        if self.fails:
            raise OSError
        self.flushed = self.goes_to.pop(0)

    def wait(self, name: str, goal: int) -> None:
        """In a thread of that name."""

        def run() -> None:
            try:
                self.answers[name] = self.group.until(lambda: self.flushed >= goal, self.sync, None)
            except OSError:
                self.answers[name] = OSError

        self.threads.append(threading.Thread(target=run, name=name, daemon=True))
        self.threads[-1].start()

    def let_sync(self, up_to: int) -> None:
        self.goes_to.append(up_to)
        self.may_sync.release()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(LATER_S)
            assert not thread.is_alive()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setattr(group_commit, "RING_LOST_S", LATER_S)  # a ring that is lost is not made good here
    return Log()


def wait_in_turn(log: Log, goals: dict[str, int], wait_until: WaitUntil) -> None:
    for number, (name, goal) in enumerate(goals.items()):
        log.wait(name, goal)
        wait_until(lambda count=number + 1: len(log.group._waiters) == count)  # type: ignore[misc]


def test_a_sync_wakes_whom_it_serves_and_one_who_leads_next(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {"second": 2, "served": 1, "third": 3, "fourth": 3}, wait_until)
    sleeping = list(log.group._waiters)[2:]
    log.let_sync(1)
    wait_until(lambda: log.syncs == ["first", "second"] and set(log.answers) == {"first", "served"})
    assert list(log.group._waiters) == sleeping, "somebody was woken only to wait again"
    log.let_sync(2)
    wait_until(lambda: log.syncs == ["first", "second", "third"])
    log.let_sync(3)
    log.join()
    assert log.answers == dict.fromkeys(("first", "second", "served", "third", "fourth"), True)
    assert len(log.syncs) == 3 and not log.group._waiters


def test_those_whom_a_sync_serves_wake_each_other(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {f"{number}": 1 for number in range(5)}, wait_until)
    log.let_sync(1)
    log.join()
    assert len(log.answers) == 6 and not log.group._served


def test_a_sync_wakes_one_of_those_whom_it_serves_and_that_one_the_next(log: Log) -> None:
    line = [_Waiter(lambda: True) for _ in range(4)]
    line[1].has_left = True
    log.group._waiters.update(dict.fromkeys(line, True))
    log.let_sync(1)
    assert log.group.until(lambda: log.flushed >= 1, log.sync, None)
    assert [waiter.bell.locked() for waiter in line] == [False, True, True, True]
    log.group._pass_on(to_all=False)
    assert [waiter.bell.locked() for waiter in line] == [False, False, False, True], "who has left wakes nobody"


@pytest.mark.parametrize("is_late", [False, True])
def test_who_comes_late_to_its_turn_wakes_all_who_are_left(log: Log, wait_until: WaitUntil, is_late: bool) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    log.wait("second", 1)
    wait_until(lambda: len(log.group._waiters) == 1)
    (second,) = log.group._waiters
    del log.group._waiters[second]
    line = [_Waiter(lambda: True) for _ in range(3)]
    log.group._served.extend(line)
    log.flushed = 1
    # Rung long ago, or, for a machine that is slow, in an hour.
    second.rung_s = time.perf_counter() + (-3600 if is_late else 3600)
    second.bell.release()
    log.threads[1].join(LATER_S)
    assert [waiter.bell.locked() for waiter in line] == [False, not is_late, not is_late]
    log.let_sync(1)
    log.join()


def test_after_a_failed_sync_everybody_hears_of_a_failure(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {f"{number}": 1 for number in range(8)}, wait_until)
    log.fails = True
    for _ in range(9):
        log.may_sync.release()
    log.join()
    assert set(log.answers.values()) == {OSError} and len(log.answers) == 9 and not log.group._waiters


def test_who_is_interrupted_when_it_is_to_lead_hands_on(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    leads: list[bool] = []

    def interrupt_the_leader() -> None:
        leads.append(True)
        raise KeyboardInterrupt

    def leave() -> None:
        with pytest.raises(KeyboardInterrupt):
            log.group.until(lambda: False, interrupt_the_leader, None)

    log.threads.append(threading.Thread(target=leave, daemon=True))
    log.threads[-1].start()
    wait_until(lambda: len(log.group._waiters) == 1)
    log.wait("second", 2)
    wait_until(lambda: len(log.group._waiters) == 2)
    log.let_sync(1)
    log.let_sync(2)
    log.join()
    assert leads and log.answers == {"first": True, "second": True} and not log.group._waiters


def test_who_has_waited_long_enough_hands_on_a_ring_that_came_too_late(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    log.wait("second", 2)
    wait_until(lambda: len(log.group._waiters) == 1)
    (second,) = log.group._waiters

    def is_rung_too_late() -> bool:
        for waiter in list(log.group._waiters):
            if waiter.is_served is is_rung_too_late:  # it has waited
                del log.group._waiters[waiter]  # as a leader does, just before it rings
        return False

    assert log.group.until(is_rung_too_late, log.sync, 0.01) is False
    wait_until(lambda: len(log.group._waiters) == 1 and second not in log.group._waiters)  # rung, it waits again
    log.let_sync(1)
    log.let_sync(2)
    log.join()
    assert not log.group._waiters


def test_who_has_waited_long_enough_leaves_no_bell(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    assert log.group.until(lambda: log.flushed >= 2, log.sync, 0.01) is False
    assert not log.group._waiters
    log.let_sync(1)
    log.join()
