"""The end of a handle: close beside reads and puts, twice, from several threads, interrupted, and never at all."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus, StoreSettings
from flightlog.store.errors import StoreClosedError
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SMALL = StoreSettings(segment_size=64 << 10, queue_file_entries=100, allocate_step_size=16 << 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """No thread and no descriptor outlives a test: each of them closes what it opened."""
    threads = process.threads()
    yield
    gc.collect()
    process.wait_until(lambda: process.threads() <= threads)
    assert process.descriptors(tmp_path) == []


USES: dict[str, Callable[[flightlog.Store], object]] = {
    "put": lambda store: store.put(Message("orders", b"late")),
    "put_async": lambda store: store.put_async(Message("orders", b"late")),
    "put_many": lambda store: store.put_many([Message("orders", b"late")] * 3),
    "get": lambda store: store.get("orders", 0, 0),
    "read": lambda store: store.read("orders"),
    "offset_at": lambda store: store.offset_at("orders", 0, 0),
    "estimate_count": lambda store: store.estimate_count("orders", 0, 0, 1, tags="A"),
    "message_at": lambda store: store.message_at(0),
    "message_by_id": lambda store: store.message_by_id("0" * 32),
    "queues": lambda store: store.queues(),
    "verify": lambda store: store.verify(),
    "flush": lambda store: store.flush(),
}


def test_a_closed_store_refuses_everything(path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(path, SMALL) as store:
        store.put(Message("orders", b"in time"))
        assert not store.is_closed
    assert store.is_closed
    for use in USES.values():
        with pytest.raises(StoreClosedError, match="open it again"):
            use(store)
    assert assert_clean(path).records == 1


def test_closing_again_does_nothing_even_while_another_handle_has_the_store(
    path: Path, assert_clean: AssertClean
) -> None:
    first = flightlog.open(path, SMALL)
    first.put(Message("orders", b"1"))
    first.close()
    first.close()
    with flightlog.open(path) as second:
        first.close()
        second.put(Message("orders", b"2"))
        with pytest.raises(flightlog.FlightlogError, match="this process"):
            flightlog.open(path)
    assert assert_clean(path).records == 2


def test_of_many_closers_each_returns_only_when_the_store_is_free(path: Path, assert_clean: AssertClean) -> None:
    for number in range(10):
        store = flightlog.open(path, SMALL)
        store.put_many([Message("orders", b"%d" % number)] * 10)
        failures: list[BaseException] = []
        start = threading.Barrier(4)

        def close(store: flightlog.Store = store, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                store.close()
                assert not (path / "abort").exists(), "not closed yet"
            except BaseException as e:
                failures.append(e)

        closers = [threading.Thread(target=close) for _ in range(4)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        assert not failures
    assert assert_clean(path).records == 100


def test_iterators_end_with_an_error_when_the_store_is_closed(path: Path, assert_clean: AssertClean) -> None:
    store = flightlog.open(path, SMALL)
    store.put_many([Message("orders", b"%d" % i) for i in range(100)])
    here, fresh = store.read("orders"), store.read("orders")
    kept = [next(here) for _ in range(10)]
    store.close()
    for messages in (here, fresh):
        with pytest.raises(StoreClosedError):
            next(messages)
    assert [message.body for message in kept] == [b"%d" % i for i in range(10)]  # copies outlive the store
    view = flightlog.open_read_only(path)
    messages = view.read("orders")
    next(messages)
    view.close()
    with pytest.raises(StoreClosedError):
        next(messages)
    assert assert_clean(path).records == 100


def test_close_while_threads_read(path: Path, kernel: str, assert_clean: AssertClean) -> None:
    with flightlog.open(path, SMALL) as store:
        store.put_many([Message("orders", b"%d " % i * 100) for i in range(1000)])
    for number in range(20):
        store = flightlog.open(path)
        failures: list[BaseException] = []
        rounds = [0] * 4

        def read(me: int, store: flightlog.Store = store, rounds: list[int] = rounds) -> None:
            try:
                while True:
                    for i, message in enumerate(store.read("orders", 0, 250 * me)):
                        assert message.body == b"%d " % (250 * me + i) * 100
                    store.get("orders", 0, 10, 5)
                    rounds[me] += 1
            except StoreClosedError:
                pass
            except BaseException as e:
                failures.append(e)

        readers = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for reader in readers:
            reader.start()
        time.sleep(0.001 * number)
        store.close()
        for reader in readers:
            reader.join()
        assert not failures, failures
    assert assert_clean(path).records == 1000


@pytest.mark.parametrize("mode", FlushMode)
def test_close_while_threads_put(path: Path, mode: FlushMode, kernel: str, assert_clean: AssertClean) -> None:
    """Every put returned, and is there, or raised StoreClosedError; nothing is written once the store is closed."""
    settings = StoreSettings(
        segment_size=64 << 10,
        queue_file_entries=100,
        allocate_step_size=16 << 10,
        flush_mode=mode,
        flush_interval_ms=5,
        sync_flush_timeout_ms=240_000,
    )
    done: dict[tuple[str, int, int], bytes] = {}
    for number in range(15):
        store = flightlog.open(path, settings)
        failures: list[BaseException] = []
        start = threading.Barrier(5)

        def put(me: int, store: flightlog.Store = store, number: int = number) -> None:
            start.wait()
            sequence = 0
            try:
                while True:
                    bodies = [b"%d %d %d" % (number, me, sequence + i) for i in range(1 + sequence % 3)]
                    results = store.put_many([Message(f"orders-{me % 2}", body * 20) for body in bodies])
                    for body, result in zip(bodies, results, strict=True):
                        assert result.status is PutStatus.PUT_OK
                        done[result.topic, result.queue_id, result.queue_offset] = body * 20
                    sequence += len(bodies)
            except StoreClosedError:
                pass
            except BaseException as e:
                failures.append(e)

        putters = [threading.Thread(target=put, args=(i,)) for i in range(4)]
        for putter in putters:
            putter.start()
        start.wait()
        while number and not done:  # the first round may close before anything was put
            time.sleep(0.001)
        time.sleep(0.002 * number)
        store.close()
        with flightlog.open_read_only(path) as view:
            assert view.shutdown_state.last_writer.value == ("flightlog, closed" if view.segments else "nobody")
            end = view.end_physical_offset
        for putter in putters:
            putter.join()
        assert not failures, failures
        with flightlog.open_read_only(path) as view:
            assert view.end_physical_offset == end, "a put wrote after the close"
    with flightlog.open_read_only(path) as view:
        found = {(*key, m.queue_offset): m.body for key in view.queues() for m in view.read(*key)}
        assert done.items() <= found.items()
    assert assert_clean(path).records == len(found)


def test_a_dropped_handle_is_closed(path: Path, assert_clean: AssertClean) -> None:
    store = flightlog.open(path, SMALL)
    store.put(Message("orders", b"1"))
    with pytest.warns(ResourceWarning, match="never closed"):
        del store
        gc.collect()
    assert not (path / "abort").exists()
    holder: list[object] = [flightlog.open(path)]  # in a cycle, as handles held by objects often are
    holder.append(holder)
    with pytest.warns(ResourceWarning, match="never closed"):
        del holder
        gc.collect()
    with flightlog.open(path) as store:
        store.put(Message("orders", b"2"))
        assert store.recovery_report.last_writer.value == "flightlog, closed"
    assert assert_clean(path).records == 2


def test_a_dropped_handle_lives_while_an_iterator_does(path: Path, assert_clean: AssertClean) -> None:
    def messages() -> Iterator[flightlog.StoredMessage]:
        store = flightlog.open(path, SMALL)
        store.put_many([Message("orders", b"%d" % i) for i in range(5)])
        return store.read("orders")

    with pytest.warns(ResourceWarning, match="never closed"):
        assert [message.body for message in messages()] == [b"%d" % i for i in range(5)]
        gc.collect()
    assert assert_clean(path).records == 5


def test_nothing_is_held_by_an_open_that_was_refused(path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(path, SMALL) as store:
        store.put(Message("orders", b"1"))
        before = process.descriptors(path)
        for _ in range(5):
            with pytest.raises(flightlog.FlightlogError):
                flightlog.open(path)
        assert process.descriptors(path) == before
    for settings in (StoreSettings(segment_size=4096), StoreSettings(queue_file_entries=7)):
        with pytest.raises(flightlog.FlightlogError, match="unset to adopt"):
            flightlog.open(path, settings)
    assert assert_clean(path).records == 1


def results_are_exact(results: list[PutResult]) -> bool:
    return [result.queue_offset for result in results] == list(range(len(results)))


def test_a_store_may_be_opened_and_closed_many_times(path: Path, assert_clean: AssertClean) -> None:
    results = []
    for _ in range(30):
        with flightlog.open(path, SMALL) as store:
            results += store.put_many([Message("orders", b"x" * 900)] * 10)
    assert results_are_exact(results)
    assert assert_clean(path).records == 300
