"""Who syncs, who waits for it, and who is woken by it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flightlog.store import native
from flightlog.store.native.pure import group_commit as pure_group_commit
from flightlog.tests.support import process

LATER_S = 240
WaitUntil = Callable[[Callable[[], object]], None]
Waiter = pure_group_commit._Waiter


@pytest.fixture
def wait_until() -> WaitUntil:
    return process.wait_until


class Log:
    """What is synced, and syncs that a test lets through one by one, each up to a place of its own."""

    def __init__(self) -> None:
        self.group_commit = native.GroupCommit(0)
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
        self.group_commit.synced_to = self.goes_to.pop(0)

    def wait(self, name: str, goal: int) -> None:
        """In a thread of that name."""

        def run() -> None:
            try:
                self.answers[name] = self.group_commit.wait_for(goal, self.sync, None)
            except OSError:
                self.answers[name] = OSError

        self.start(run, name)

    def start(self, run: Callable[[], None], name: str | None = None) -> None:
        self.threads.append(threading.Thread(target=run, name=name, daemon=True))
        self.threads[-1].start()

    def let_sync(self, up_to: int) -> None:
        self.goes_to.append(up_to)
        self.may_sync.release()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(LATER_S)
            assert not thread.is_alive()
        assert not self.group_commit.waiting


@pytest.fixture
def log(kernel: str, monkeypatch: pytest.MonkeyPatch) -> Log:
    if kernel == "pure":
        monkeypatch.setattr(pure_group_commit, "RECHECK_S", LATER_S)  # a lost notification is not made good here
    return Log()


def wait_in_turn(log: Log, goals: dict[str, int], wait_until: WaitUntil, behind: int = 0) -> None:
    for number, (name, goal) in enumerate(goals.items(), behind):
        log.wait(name, goal)
        wait_until(lambda count=number + 1: log.group_commit.waiting == count)  # type: ignore[misc]


def test_who_is_served_neither_waits_nor_leads(log: Log) -> None:
    log.group_commit.synced_to = 7
    assert log.group_commit.wait_for(7, log.sync, None) and log.group_commit.wait_for(-1, log.sync, 0)
    assert not log.syncs and log.group_commit.synced_to == 7


def test_a_sync_that_does_not_serve_its_leader_is_followed_by_another(log: Log) -> None:
    for up_to in (1, 2, 3):
        log.let_sync(up_to)
    assert log.group_commit.wait_for(3, log.sync, 0)
    assert len(log.syncs) == 3


def test_a_sync_wakes_whom_it_serves_and_one_who_leads_next(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {"second": 2, "served": 1, "third": 3, "fourth": 3}, wait_until)
    log.let_sync(1)
    wait_until(lambda: log.syncs == ["first", "second"] and set(log.answers) == {"first", "served"})
    assert log.group_commit.waiting == 2, "somebody was woken only to wait again"
    log.let_sync(2)
    wait_until(lambda: log.syncs == ["first", "second", "third"])
    log.let_sync(3)
    log.join()
    assert log.answers == dict.fromkeys(("first", "second", "served", "third", "fourth"), True)
    assert len(log.syncs) == 3


def test_who_looks_by_itself_whether_it_is_served_keeps_its_place(log: Log, wait_until: WaitUntil) -> None:
    names = [f"waiter {number}" for number in range(9)]
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    for number, name in enumerate(names):
        wait_in_turn(log, {name: number + 2}, wait_until, behind=number)
        time.sleep(0.003)  # so that they look at different times, some of them before others have come
    for number in range(len(names) + 1):
        wait_until(lambda number=number: log.syncs == ["first", *names][: number + 1])  # type: ignore[misc]
        log.let_sync(number + 1)
    log.join()


@pytest.mark.parametrize("is_followed", [False, True])
def test_all_whom_a_sync_serves_are_woken_though_none_of_them_comes_back(
    log: Log, wait_until: WaitUntil, is_followed: bool
) -> None:
    """Also where a sync follows that takes its time."""
    for number in range(3):  # the kernel wakes them in another way once nobody came back
        at = number * 10
        log.wait("first", at + 1)
        wait_until(lambda at=at: len(log.syncs) == at // 10 * (1 + is_followed) + 1)  # type: ignore[misc]
        wait_in_turn(log, {f"{place}": at + 1 for place in range(5)}, wait_until)
        if is_followed:
            log.wait("next", at + 2)
            wait_until(lambda: log.group_commit.waiting == 6)
        log.let_sync(at + 1)
        wait_until(lambda: len(log.answers) == 6)
        if is_followed:
            assert "next" not in log.answers
            log.let_sync(at + 2)
        log.join()
        assert log.answers.pop("next", is_followed) is is_followed
        assert set(log.answers.values()) == {True}
        log.answers.clear()


def test_after_a_failed_sync_everybody_hears_of_a_failure(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {f"{number}": 1 for number in range(8)}, wait_until)
    log.fails = True
    for _ in range(9):
        log.may_sync.release()
    log.join()
    assert set(log.answers.values()) == {OSError} and len(log.answers) == 9


def test_what_was_served_before_a_failure_is_acknowledged(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 2)
    wait_until(lambda: log.syncs == ["first"])
    wait_in_turn(log, {"served": 1, "second": 2}, wait_until)
    log.group_commit.synced_to, log.fails = 1, True
    for _ in range(2):
        log.may_sync.release()
    log.join()
    assert log.answers == {"first": OSError, "served": True, "second": OSError}


def test_who_is_interrupted_when_it_is_to_lead_hands_on(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    leads: list[bool] = []

    def interrupt_the_leader() -> None:
        leads.append(True)
        raise KeyboardInterrupt

    def leave() -> None:
        with pytest.raises(KeyboardInterrupt):
            log.group_commit.wait_for(100, interrupt_the_leader, None)

    log.start(leave)
    wait_until(lambda: log.group_commit.waiting == 1)
    log.wait("second", 2)
    wait_until(lambda: log.group_commit.waiting == 2)
    log.let_sync(1)
    log.let_sync(2)
    log.join()
    assert leads and log.answers == {"first": True, "second": True}


class Stop(Exception):
    """What a signal raises."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Has the main thread raise Stop, once. A signal that arrives when a wait has released the GIL and has not called
    the system yet is looked at after that wait, by CPython; the next signal ends the wait."""
    raised: list[bool] = []

    def stop(number: int, frame: object) -> None:
        if not raised:
            raised.append(True)
            raise Stop

    def interrupt() -> None:
        while not raised:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            time.sleep(0.01)

    before = signal.signal(signal.SIGUSR1, stop)
    yield interrupt
    signal.signal(signal.SIGUSR1, before)


def test_who_is_interrupted_while_it_waits_leaves(
    log: Log, wait_until: WaitUntil, interrupt: Callable[[], None]
) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])

    def interrupt_once_it_waits() -> None:
        wait_until(lambda: log.group_commit.waiting == 1)
        interrupt()

    log.start(interrupt_once_it_waits)
    with pytest.raises(Stop):
        log.group_commit.wait_for(1, log.sync, None)
    assert not log.group_commit.waiting
    log.let_sync(1)
    log.join()
    assert log.answers == {"first": True}


def test_who_has_waited_long_enough_leaves(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    assert log.group_commit.wait_for(2, log.sync, 0.01) is False
    assert log.group_commit.wait_for(2, log.sync, 0) is False
    assert log.group_commit.wait_for(2, log.sync, -1) is False
    assert not log.group_commit.waiting
    log.let_sync(1)
    log.join()
    assert log.syncs == ["first"]


def test_alone_nobody_leads(log: Log, wait_until: WaitUntil) -> None:
    log.wait("first", 1)
    wait_until(lambda: log.syncs == ["first"])
    is_in, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        is_in.set()
        assert may_go.wait(LATER_S)
        raise OSError

    def be_alone() -> None:
        with pytest.raises(OSError):
            log.group_commit.run_exclusive(hold)

    log.start(be_alone)
    assert not is_in.wait(0.02), "while another one led"
    log.let_sync(1)
    assert is_in.wait(LATER_S)
    log.wait("second", 2)
    wait_until(lambda: log.group_commit.waiting == 1)
    assert log.syncs == ["first"]
    may_go.set()
    log.let_sync(2)
    log.join()
    assert log.syncs == ["first", "second"] and log.answers == {"first": True, "second": True}


def test_many_that_come_and_go(kernel: str) -> None:
    """Each waits for places of its own; some leave before, some syncs fail, and some threads take their time."""
    group_commit, ends = native.GroupCommit(0), [0]
    leading: list[int] = []
    dice = random.Random(int(os.environ["FLIGHTLOG_SEED"]))
    wrong: list[str] = []

    def sync() -> None:
        leading.append(1)
        if len(leading) != 1:
            wrong.append("two lead")
        target = ends[0]
        for _ in range(dice.randrange(3)):
            time.sleep(0)
        leading.pop()
        if dice.random() < 0.02:
            raise OSError
        group_commit.synced_to = target

    def run(number: int) -> None:
        own = random.Random(number)
        for _ in range(200):
            ends[0] += 1  # two may get the same place
            goal = ends[0]
            try:
                if (
                    group_commit.wait_for(goal, sync, own.choice((None, None, 10.0, 0.0005)))
                    and group_commit.synced_to < goal
                ):
                    wrong.append("not served")
            except OSError:
                continue
            if own.random() < 0.05:
                time.sleep(0.002)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATER_S)
        assert not thread.is_alive()
    assert not wrong and not group_commit.waiting


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("1", print, None), TypeError), ((1, print), TypeError), ((1, print, "soon"), TypeError), ((1, 2, 3), TypeError)],
)
def test_what_it_cannot_take_is_refused(kernel: str, arguments: Any, error: type[Exception]) -> None:
    group_commit = native.GroupCommit(0)
    with pytest.raises(error):
        group_commit.wait_for(*arguments)
    with pytest.raises(TypeError):
        native.GroupCommit("1")  # type: ignore[arg-type]
    assert not group_commit.waiting and group_commit.wait_for(0, print, None)


# -- notifications of the reference


def pure() -> pure_group_commit.GroupCommit:
    return pure_group_commit.GroupCommit(0)


def test_a_sync_wakes_one_of_those_whom_it_serves_and_that_one_the_next() -> None:
    group_commit = pure()
    line = [Waiter(1) for _ in range(4)]
    line[1].has_left = True
    group_commit._waiters.update(dict.fromkeys(line, True))

    def sync() -> None:
        group_commit.synced_to = 1

    assert group_commit.wait_for(1, sync, None)
    assert [waiter.wakeup.locked() for waiter in line] == [False, True, True, True]
    group_commit._notify_served(to_all=False)
    assert [waiter.wakeup.locked() for waiter in line] == [False, False, False, True], "who has left wakes nobody"


@pytest.mark.parametrize("is_late", [False, True])
def test_who_comes_late_to_its_turn_wakes_all_who_are_left(
    wait_until: WaitUntil, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pure_group_commit, "RECHECK_S", LATER_S)  # it may not find by itself that it is served
    group_commit = pure()
    may_end, is_leading = threading.Event(), threading.Event()

    def sync() -> None:
        is_leading.set()
        assert may_end.wait(LATER_S)

    def wait() -> None:
        group_commit.wait_for(1, sync, None)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(2)]
    threads[0].start()
    assert is_leading.wait(LATER_S)
    threads[1].start()
    wait_until(lambda: group_commit.waiting == 1)
    second, _ = group_commit._waiters.popitem()
    line = [Waiter(1) for _ in range(3)]
    group_commit._served.extend(line)
    group_commit.synced_to = 1
    # Notified long ago, or, for a machine that is slow, in an hour.
    second.notified_s = time.perf_counter() + (-3600 if is_late else 3600)
    second.wakeup.release()
    threads[1].join(LATER_S)
    assert [waiter.wakeup.locked() for waiter in line] == [False, not is_late, not is_late]
    may_end.set()
    threads[0].join(LATER_S)
    assert not any(thread.is_alive() for thread in threads)
