"""A group with messages that kill its process: `python killed_by_message.py STORE COUNT THREADS MODE HANG_TIMEOUT_S`.

The program puts what is missing, consumes, and ends once every message was done or is a dead letter. Bodies say what
happens: `fine`, `raises`, `kills`, `hangs`, with a number. The modes:

    any, ordered        a Consumer, whose listener hangs for HANG_TIMEOUT_S (0: no message hangs)
    pop, pop-ordered    threads that receive; the group of the second one is ordered

A message that was received counts an attempt if the process dies before it is acknowledged, whoever killed it. So that
others end up among the dead letters in no run, a poisonous message kills in the middle of the others' work once, and
later on when no other thread has a message: others lose one attempt for each message that kills, at most.

What is received is invisible for INVISIBLE_MS, which no thread exceeds. When nothing is left to receive, time leaps.

Files beside the store, each appended to before the next step, so that a kill loses no line:

    STORE.done      messages that were done, before they are acknowledged; `early NUMBER` where order was broken, and
                    `again NUMBER` where one was received that had been acknowledged
    STORE.acked     received messages that were acknowledged
    STORE.killed    messages that have killed
    STORE.ahead     one line for each leap of the clock
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import flightlog
from flightlog import Message, PoppedMessage, ReceivedMessage, StoreSettings
from flightlog.testing import AheadClock
from flightlog.tests.support import inside

MODES = "any", "ordered", "pop", "pop-ordered"
QUEUES = 4
KINDS = {123: "kills", 124: "raises", 300: "hangs", 2222: "kills", 4000: "raises", 70_000: "kills"}
SETTINGS = StoreSettings.small(delay_levels=" ".join(["1s"] * 18), accept_future_store_time=True)
INVISIBLE_MS = 600_000
LEAP_MS = INVISIBLE_MS + 10_000
WAIT_S = 2.0
"""How long a thread waits for what comes again after a leap, before the next one."""


def kinds(count: int, *, hangs: bool) -> dict[int, str]:
    """What is not fine among so many messages."""
    return {number: kind for number, kind in KINDS.items() if number < count and (hangs or kind != "hangs")}


def max_attempts(count: int) -> int:
    """One more than there are messages that kill: see above."""
    return 1 + list(kinds(count, hangs=True).values()).count("kills")


class Lines:
    """A file of lines, and those that are in it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.before = path.read_text().split("\n")[:-1]
        self.all = set(self.before)

    def add(self, line: str) -> None:
        os.write(self._file, line.encode() + b"\n")
        self.all.add(line)


class Life:
    """What a life of the program knows of all of them."""

    def __init__(self, path: Path, count: int, *, hangs: bool, keeps_order: bool) -> None:
        self.count, self.kinds, self._keeps_order = count, kinds(count, hangs=hangs), keeps_order
        self.done, self.acked, self.killed, self.leaps = (
            Lines(path.with_suffix(suffix)) for suffix in (".done", ".acked", ".killed", ".ahead")
        )
        self.clock = AheadClock()
        self.clock.advance(len(self.leaps.before) * LEAP_MS)
        self.store = flightlog.open(path, SETTINGS, clock=self.clock)
        self.is_over, self.lock = threading.Event(), threading.Lock()
        self._lowest = list(range(QUEUES))
        """By queue: the lowest number that is not known to be over."""
        if not self.store.queues():
            self.store.put_many(
                Message("orders", self.body_of(number).encode(), queue_id=number % QUEUES) for number in range(count)
            )

    def body_of(self, number: int) -> str:
        return f"{self.kinds.get(number, 'fine')} {number}"

    def dead(self) -> set[str]:
        return {letter.body.decode() for letter in self.store.dead_letters("g")}

    def check(self) -> None:
        """Notice the end."""
        if len(self.done.all) + len(self.kinds) >= self.count and len(self.done.all) + len(self.dead()) >= self.count:
            self.is_over.set()

    def note_done(self, body: str) -> None:
        number = int(body.split()[1])
        with self.lock:
            if body in self.acked.all:
                self.done.add(f"again {number}")
            if self._keeps_order and self._is_early(number):
                self.done.add(f"early {number}")
            self.done.add(body)
            self.check()

    def _is_early(self, number: int) -> bool:
        """Whether one before it in its queue is neither done nor a dead letter."""
        queue_id = number % QUEUES
        while (lowest := self._lowest[queue_id]) < number:
            if self.body_of(lowest) not in (self.dead() if lowest in self.kinds else self.done.all):
                return True
            self._lowest[queue_id] += QUEUES
        return False

    def leap(self) -> None:
        """Everything that was received before becomes visible."""
        self.leaps.add(str(len(self.leaps.all)))
        self.clock.advance(LEAP_MS)
        inside.wake_services(self.store)


# -- consumers


def consume(life: Life, threads: int, is_ordered: bool, timeout_s: float | None) -> None:
    def listener(message: ReceivedMessage) -> None:
        kind = message.body.split()[0]
        if kind == b"kills":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == b"raises":
            raise ValueError("not to my taste")
        if kind == b"hangs":
            life.is_over.wait()
            return
        life.note_done(message.body.decode())

    def on_dead_letter(message: ReceivedMessage) -> None:
        with life.lock:
            life.check()

    with flightlog.Consumer(
        *(life.store, "orders", "g", listener),
        threads=threads,
        ordered=is_ordered,
        max_attempts=max_attempts(life.count),
        consume_timeout_s=timeout_s,
        on_dead_letter=on_dead_letter,
    ):
        with life.lock:
            life.check()
        life.is_over.wait()


# -- pop


class Receivers:
    """Threads that receive one message each, again and again."""

    def __init__(self, life: Life, threads: int) -> None:
        self._life, self._threads = life, threads
        self._changed = threading.Condition()
        self._at_work = 0
        """Threads that receive, or have a message."""
        self._idle = self._hanging = 0
        """Threads that found nothing to receive; threads that never return."""
        self._finds = 0
        """How often one found something while others were idle."""
        self._is_closed = False
        """Whether none may receive any more: the process is about to be killed."""

    def run(self) -> None:
        threads = [threading.Thread(target=self._guard, args=(self._receive_all,)) for _ in range(self._threads)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _receive_all(self) -> None:
        while not self._life.is_over.is_set():
            if not self._receive(0, self._wake_idle):
                self._wait_for_more()

    def _receive(self, wait_s: float, found: Callable[[], None]) -> bool:
        """False if there is nothing; else `found` is called first."""
        life, hangs = self._life, False
        with self._working():
            messages = life.store.receive(
                *("g", "orders", 1),
                invisible_ms=INVISIBLE_MS,
                wait_s=wait_s,
                max_attempts=max_attempts(life.count),
            )
            for message in messages:
                found()
                hangs = self._process(message)
        if hangs:
            with self._changed:
                self._hanging += 1
                self._changed.notify_all()
            life.is_over.wait()
        return bool(messages)

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._at_work += 1
        yield
        with self._changed:
            self._at_work -= 1
            self._changed.notify_all()

    def _process(self, message: PoppedMessage) -> bool:
        """True if it hangs."""
        body = message.body.decode()
        kind = body.split()[0]
        if kind == "kills":
            self._kill(body)
        if kind == "fine":
            self._life.note_done(body)
            self._life.store.ack(message.handle)
            self._life.acked.add(body)
        return kind == "hangs"

    def _kill(self, body: str) -> None:
        if body in self._life.killed.all:
            with self._changed:
                self._is_closed = True
                self._at_work -= 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._at_work == 0)
        else:
            self._life.killed.add(body)
        os.kill(os.getpid(), signal.SIGKILL)

    # -- when nothing is left

    def _wait_for_more(self) -> None:
        """Wait until another thread has found something, or for all threads once none of them has a message."""
        with self._changed:
            finds = self._finds
            self._idle += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._has_more(finds) or self._are_all_idle)
            if self._finds != finds:
                return
            self._idle -= 1  # so that no other thread finds all of them idle
        while not self._life.is_over.is_set():
            self._life.leap()
            if self._receive(WAIT_S, self._wake_idle):
                return
            with self._life.lock:
                self._life.check()  # the last dead letter comes by a receive that finds nothing
        self._wake_idle()

    def _has_more(self, finds: int) -> bool:
        return self._life.is_over.is_set() or self._finds != finds

    @property
    def _are_all_idle(self) -> bool:
        return self._idle + self._hanging == self._threads

    def _wake_idle(self) -> None:
        with self._changed:
            if self._idle:
                self._finds += 1
                self._idle = 0  # who is woken is not idle any more, before it runs
                self._changed.notify_all()


def main(path: Path, count: int, threads: int, mode: str, timeout_s: float) -> None:
    is_popped, is_ordered = mode.startswith("pop"), mode.endswith("ordered")
    life = Life(path, count, hangs=is_popped or timeout_s > 0, keeps_order=is_ordered)
    if is_popped:
        life.store.update_group("g", is_ordered=is_ordered)
        Receivers(life, threads).run()
    else:
        consume(life, threads, is_ordered, timeout_s or None)
    life.store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
