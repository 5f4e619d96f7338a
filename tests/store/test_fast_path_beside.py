"""What comes into the middle of a put: clocks, garbage, threads, and the service that it wakes."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.tests.support import inside, process

AssertClean = Callable[[Path], None]

pytestmark = pytest.mark.usefixtures("kernel")

SEGMENT_SIZE = 64 << 10


def settings(**changes: Any) -> StoreSettings:
    sizes: dict[str, Any] = {
        "segment_size": SEGMENT_SIZE,
        "queue_file_entries": 1000,
        "flush_interval_ms": 60_000,
        "allocate_step_size": 4096,
    }
    return StoreSettings(**(sizes | changes))


def test_a_clock_that_raises_changes_nothing(tmp_path: Path, assert_clean: AssertClean) -> None:
    class Broken:
        is_broken = False

        def now_ms(self) -> int:
            if self.is_broken:
                raise RuntimeError("no time")
            return 1_700_000_000_000

        def monotonic_s(self) -> float:
            return 0.0

    clock = Broken()
    with flightlog.open(tmp_path, settings(), clock=clock) as store:
        for _ in range(3):
            store.put(Message("orders", b"body"))
        end = inside.log(store).end
        clock.is_broken = True
        with pytest.raises(RuntimeError, match="no time"):
            store.put(Message("orders", b"body"))
        with pytest.raises(RuntimeError, match="no time"):
            store.put_many([Message("orders", b"body")] * 3)
        assert inside.log(store).end == end
        clock.is_broken = False
        assert store.put(Message("orders", b"body")).queue_offset == 3
    assert_clean(tmp_path)


def test_a_clock_that_puts(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    """What runs in the middle of a put may change the message, and in the kernel put, too: it looks again after it.
    The reference asks the clock under the append lock, as the slow path does, with what it has read of the message."""

    class Putting:
        armed = 0

        def now_ms(self) -> int:
            if self.armed > 0:
                self.armed -= 1
                message.body = b"changed"
                if kernel == "c":
                    store.put(Message("orders", b"nested"))
            return 1_700_000_000_000

        def monotonic_s(self) -> float:
            return 0.0

    clock = Putting()
    with flightlog.open(tmp_path, settings(), clock=clock) as store:
        message = Message("orders", b"body")
        for _ in range(2):
            store.put(message)
        clock.armed = 2
        expected = [b"nested", b"nested", b"changed"] if kernel == "c" else [b"body"]
        assert store.put(message).queue_offset == 1 + len(expected)
        assert [found.body for found in store.read("orders")] == [b"body"] * 2 + expected
    assert_clean(tmp_path)


def test_garbage_that_puts(tmp_path: Path, kernel: str, assert_clean: AssertClean) -> None:
    """A garbage collection may come with any allocation, and its finalizers may use the store. Not with the reference,
    which may be holding the append lock, as the slow path does."""

    class Trash:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if kernel == "c" and len(done) < 2000 and busy.acquire(blocking=False):
                try:
                    message = Message("orders", b"from a finalizer")
                    done.extend([store.put(message)] if len(done) % 3 else store.put_many([message] * 2))
                finally:
                    busy.release()

    busy, done = threading.Lock(), list[flightlog.PutResult]()
    before = gc.get_threshold()
    with flightlog.open(tmp_path, settings(allocate_step_size=SEGMENT_SIZE)) as store:
        results = [store.put(Message("orders", b"first")) for _ in range(2)]
        gc.set_threshold(3)
        try:
            for number in range(600):
                if inside.log(store).end % SEGMENT_SIZE > SEGMENT_SIZE - 4096:
                    with busy:  # the slow path holds a lock, which no finalizer may ask for
                        results += [store.put(Message("orders", bytes(4000))) for _ in range(2)]
                Trash()
                message = Message("orders", b"body", queue_id=number % 2)
                results += [store.put(message)] if number % 3 else store.put_many([message] * (number % 5))
        finally:
            gc.set_threshold(*before)
        with busy:
            gc.collect()
        places = sorted((result.queue_id, result.queue_offset) for result in results + done)
        assert places == [(queue_id, n) for queue_id in (0, 1) for n in range(store.queues()["orders", queue_id][1])]
        assert len({result.physical_offset for result in results + done}) == len(results + done)
    assert_clean(tmp_path)


@pytest.mark.parametrize("threads", [2, 8])
def test_threads(threads: int, tmp_path: Path, assert_clean: AssertClean) -> None:
    """By the fast path, the slow path, many at once, with conditions that come and go: nothing is lost, nothing is
    twice."""
    count = 300
    results: list[list[flightlog.PutResult]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []
    with flightlog.open(tmp_path, settings(flush_interval_ms=1)) as store:

        def put(me: int) -> None:
            dice = random.Random(me)
            try:
                for number in range(count):
                    body = f"{me} {number}".encode()
                    kind = dice.random()
                    if kind < 0.7:
                        results[me].append(store.put(Message("orders", body, queue_id=number % 3)))
                    elif kind < 0.8:
                        results[me].append(store.put(Message("orders", body, queue_id=number % 3, wait_store_ok=False)))
                    elif kind < 0.9:
                        results[me] += store.put_many([Message("orders", body, queue_id=i % 3) for i in range(5)])
                    elif kind < 0.95:
                        inside.log(store).conditions.active[f"thread {me}"] = True
                        results[me].append(store.put(Message(f"topic-{me}", body)))
                        del inside.log(store).conditions.active[f"thread {me}"]
                    else:
                        columns = store.append_columns("orders", {"body": [body] * 3})
                        assert len(columns) == 3
                        store.flush()
            except BaseException as e:
                failures.append(e)
                raise

        workers = [threading.Thread(target=put, args=(me,)) for me in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures
        for mine in results:
            assert [r.physical_offset for r in mine] == sorted({r.physical_offset for r in mine})
        for result in (result for mine in results for result in mine):
            (found,) = store.get(result.topic, result.queue_id, result.queue_offset, 1).messages
            assert (found.physical_offset, found.size) == (result.physical_offset, result.size)
        assert inside.log(store).fast_path.taken > 0
    assert_clean(tmp_path)


def test_a_put_wakes_the_service(tmp_path: Path, assert_clean: AssertClean, kernel: str) -> None:
    """However often it has gone to sleep before."""
    with flightlog.open(tmp_path, settings(flush_interval_ms=1, allocate_step_size=SEGMENT_SIZE)) as store:
        store.put(Message("orders", b"body"))
        for _ in range(50):
            process.wait_until(lambda: inside.dispatcher(store).position == inside.log(store).visible)
            store.put(Message("orders", b"body"))
        process.wait_until(lambda: inside.dispatcher(store).position == inside.log(store).visible)
        assert inside.log(store).fast_path.taken == 50
    assert_clean(tmp_path)
