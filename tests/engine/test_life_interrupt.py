"""KeyboardInterrupt anywhere in a call leaves a whole record or none, exact queue tables, and every lock free.

Each call is repeated with the interrupt at its first point, its second, … until it runs through
(tests/support/interrupts.py). The scale decides how many of the points of the expensive calls are tried.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutResult, StoreSettings
from flightlog.store.errors import StoreClosedError
from flightlog.tests.support import inside, process
from flightlog.tests.support.interrupts import InterruptAt

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

SEGMENT_SIZE = 16 << 10
KEYS = [("orders", 0), ("orders", 1), ("rolling", 0)]


def settings(mode: FlushMode) -> StoreSettings:
    # Long intervals: what the service thread does is no part of this.
    return StoreSettings(
        segment_size=SEGMENT_SIZE,
        queue_file_entries=50,
        flush_mode=mode,
        flush_interval_ms=60_000,
        allocate_step_size=4096,
    )


class Ledger:
    """What was put and what came back."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, int, int], bytes] = {}
        self.offered: set[bytes] = set()
        self.futures: list[tuple[Future[PutResult], Message]] = []
        self._number = 0

    def message(self, topic: str = "orders", size: int = 20) -> Message:
        self._number += 1
        body = f"{self._number} ".encode().ljust(size, b".")
        self.offered.add(body)
        return Message(topic, body, queue_id=self._number % 2 if topic == "orders" else 0, keys=f"k{self._number}")

    def put(self, store: flightlog.Store, *messages: Message) -> None:
        results = store.put_many(messages) if len(messages) > 1 else [store.put(messages[0])]
        self.note(results, messages)

    def put_async(self, store: flightlog.Store, message: Message) -> None:
        """`collect` waits for it: CPython's own Future.result does not stand an interrupt."""
        self.futures.append((store.put_async(message), message))

    def collect(self) -> None:
        for future, message in self.futures:
            self.note([future.result(60)], (message,))
        self.futures.clear()

    def note(self, results: list[flightlog.PutResult], messages: tuple[Message, ...]) -> None:
        for message, result in zip(messages, results, strict=True):
            place = (result.topic, result.queue_id, result.queue_offset)
            assert place not in self.acknowledged
            self.acknowledged[place] = message.body

    def check(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> int:
        """Acknowledged messages are in their places; every other one is whole, and nothing is there twice."""
        found: dict[tuple[str, int, int], bytes] = {}
        for key in store.queues():
            for expected, message in enumerate(store.read(*key)):
                assert message.queue_offset == expected
                found[(*key, expected)] = message.body
        assert self.acknowledged.items() <= found.items()
        assert set(found.values()) <= self.offered
        assert len(set(found.values())) == len(found)
        return len(found)


pytestmark = pytest.mark.usefixtures("nothing_stays")


Call = Callable[[flightlog.Store, Ledger], object]

PUTS: dict[str, Call] = {
    "put": lambda store, ledger: ledger.put(store, ledger.message()),
    "put_many": lambda store, ledger: ledger.put(store, ledger.message(), ledger.message(), ledger.message()),
    "roll": lambda store, ledger: ledger.put(store, ledger.message("rolling", SEGMENT_SIZE // 2)),
    "put_async": lambda store, ledger: ledger.put_async(store, ledger.message()),
    "put that does not wait": lambda store, ledger: ledger.put(store, replace(ledger.message(), wait_store_ok=False)),
}
LOOKS: dict[str, Call] = {
    "flush": lambda store, ledger: store.flush(),
    "read": lambda store, ledger: list(store.read("orders", 0, max(0, store.queues()["orders", 0][1] - 5))),
    "get": lambda store, ledger: store.get("orders", 1, 0, 3),
}


def put_one(store: flightlog.Store, ledger: Ledger) -> None:
    ledger.put(store, ledger.message())


def put_segments(store: flightlog.Store, ledger: Ledger) -> None:
    store.flush()  # else each flush would have more to do than the one before
    ledger.put(store, *(ledger.message("rolling", SEGMENT_SIZE // 2) for _ in range(2)))


PREPARATIONS: dict[str, Call] = {"flush": put_segments, "read": put_one, "get": put_one}
"""Something new for the look to do."""


def interrupt_everywhere(
    path: Path,
    mode: FlushMode,
    call: Call,
    interrupt_at: type[InterruptAt],
    *,
    step: int = 1,
    prepare: Call | None = None,
    blocker: str | None = None,
) -> int:
    """Interrupt the call at every `step`th of its points; returns how many it has. A lock left behind makes this
    hang. With a blocker every put takes the slow path."""
    ledger = Ledger()
    store = flightlog.open(path, settings(mode))
    if blocker is not None:
        inside.log(store).conditions.active[blocker] = True
    ledger.put(store, ledger.message(), ledger.message())
    points, tried = 1, 0
    while True:
        if prepare is not None:
            prepare(store, ledger)
        with interrupt_at(points) as point:
            call(store, ledger)
        ledger.collect()
        if not point.fired:
            break
        points += step
        tried += 1
        ledger.put(store, ledger.message())  # after it, everything before is durable, too
        if tried % 20 == 0:
            ledger.check(store)
    store.flush()  # what did not wait for its sync
    assert (inside.log(store).fast_path.taken > 0) is (blocker is None)
    there = ledger.check(store)
    assert store.verify().is_clean
    store.close()
    with flightlog.open_read_only(path) as view:
        assert ledger.check(view) == there
    return points - 1


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("name", PUTS)
def test_interrupted_puts(
    name: str,
    mode: FlushMode,
    kernel: str,
    tmp_path: Path,
    scale: Scale,
    interrupt_at: type[InterruptAt],
    assert_clean: AssertClean,
) -> None:
    step = scale.pick(ci=3, full=1)
    points = interrupt_everywhere(tmp_path / "store", mode, PUTS[name], interrupt_at, step=step, blocker="a test")
    assert points > 80
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("name", PUTS)
def test_interrupted_puts_of_the_fast_path(
    name: str, mode: FlushMode, kernel: str, tmp_path: Path, interrupt_at: type[InterruptAt], assert_clean: AssertClean
) -> None:
    """In the kernel a put is one step; the reference's has as many points as it has calls. What comes to the fast
    path's limit takes the slow path in either."""
    points = interrupt_everywhere(tmp_path / "store", mode, PUTS[name], interrupt_at)
    assert points > (0 if kernel == "c" else 10)
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("name", LOOKS)
def test_interrupted_looks(
    name: str, mode: FlushMode, tmp_path: Path, scale: Scale, interrupt_at: type[InterruptAt], assert_clean: AssertClean
) -> None:
    step = 1 if name == "flush" else scale.pick(ci=7, full=1)
    path, prepare = tmp_path / "store", PREPARATIONS[name]
    points = interrupt_everywhere(path, mode, LOOKS[name], interrupt_at, step=step, prepare=prepare)
    assert points > (10 if name == "flush" else 300)
    assert_clean(path)


@pytest.mark.ci
def test_an_interrupted_append_is_wiped_before_a_kill_can_keep_it(
    tmp_path: Path, kernel: str, interrupt_at: type[InterruptAt], copy_as_killed: Callable[[Path, Path], Path]
) -> None:
    """The same through a kill: what recovery finds are the acknowledged messages, and whole ones."""
    path, ledger = tmp_path / "store", Ledger()
    points = 0
    with flightlog.open(path, settings(FlushMode.ASYNC)) as store:
        while True:
            ledger.put(store, ledger.message())
            with interrupt_at(points + 1) as point:
                ledger.put(store, ledger.message(), ledger.message())
            if not point.fired:
                break
            points += 1
            if points % 11 == 0:  # with the traces of the interrupt still in place
                killed = copy_as_killed(path, tmp_path / f"killed-{points}")
                with flightlog.open_read_only(killed) as view:
                    ledger.check(view)
                with flightlog.open(killed) as recovered:
                    there = ledger.check(recovered)
                    assert recovered.verify().is_clean
                    other = Ledger()
                    result = recovered.put(other.message())
                    assert result.queue_offset == recovered.queues()[result.topic, result.queue_id][1] - 1
                    assert sum(end for _, end in recovered.queues().values()) == there + 1


@pytest.mark.ci
def test_interrupted_close(
    tmp_path: Path, scale: Scale, interrupt_at: type[InterruptAt], assert_clean: AssertClean
) -> None:
    """An interrupted close is ended by the next one; the store is closed, cleanly or as one that was killed."""
    step = scale.pick(ci=89, full=1)
    path, ledger, points = tmp_path / "store", Ledger(), 1
    while True:
        store = flightlog.open(path, settings(FlushMode.ASYNC))
        ledger.put(store, ledger.message(), ledger.message())
        with interrupt_at(points) as point:
            store.close()
        if not point.fired:
            break
        if points > 1:  # at the first point nothing has happened yet
            with pytest.raises(StoreClosedError):
                store.put(Message("orders", b"late"))
        store.close()
        with pytest.raises(StoreClosedError):
            store.put(Message("orders", b"late"))
        points += step
    assert points > 300
    with flightlog.open(path) as store:
        there = ledger.check(store)
    assert there == len(ledger.acknowledged)
    assert assert_clean(path).records == there


@pytest.mark.ci
@pytest.mark.parametrize("was", ["killed", "closed"])
def test_interrupted_open(
    was: str,
    tmp_path: Path,
    scale: Scale,
    interrupt_at: type[InterruptAt],
    copy_as_killed: Callable[[Path, Path], Path],
    assert_clean: AssertClean,
) -> None:
    """Whatever an open was doing, the next one works at once and loses nothing."""
    step = scale.pick(ci=449, full=1)
    ledger = Ledger()
    with flightlog.open(tmp_path / "live", settings(FlushMode.ASYNC)) as store:
        for _ in range(40):
            ledger.put(store, ledger.message(), ledger.message("rolling", 700))
        path = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    path = path if was == "killed" else tmp_path / "live"
    points = 1
    while True:
        with interrupt_at(points) as point:
            opened = flightlog.open(path)
            opened.close()
        if not point.fired:
            break
        try:
            opened.close()  # the interrupt came when it was open, or in its close
        except UnboundLocalError:
            pass
        else:
            del opened
        gc.collect()
        before = process.descriptors(path)
        with flightlog.open(path) as store:
            ledger.check(store)
        assert process.descriptors(path) == before, point.place
        points += step
    assert points > 2000
    assert assert_clean(path).records == len(ledger.acknowledged)
