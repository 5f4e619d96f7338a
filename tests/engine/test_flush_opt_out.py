"""Messages that do not wait for their sync: the put answers at once, the sync follows by itself, reads come after it.

Every timer is an hour long: whatever is synced here was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

NEVER_MS = 3_600_000


def settings(mode: FlushMode = FlushMode.SYNC) -> StoreSettings:
    return StoreSettings.small(flush_mode=mode, flush_interval_ms=NEVER_MS, sync_flush_timeout_ms=240_000)


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> Iterator[flightlog.Store]:
    """Under sync flush, its segment made by a first message."""
    path = tmp_path / "store"
    with flightlog.open(path, settings(), disk=disk) as store:
        store.put(Message("t", b"first"))
        yield store
        end = inside.log(store).end
        disk.release()
    assert_clean(path)
    with flightlog.open_read_only(path) as view:
        assert view.end_physical_offset == end


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def bodies(store: flightlog.Store) -> list[bytes]:
    return [message.body for message in store.read("t")]


def log_syncs(disk: FaultyDisk) -> int:
    return disk.count("sync", "/commitlog/")


OPT_OUTS = {
    "field": Message("t", b"x", wait_store_ok=False),
    "property": Message("t", b"x", properties={"WAIT": "false"}),
    "property in capitals": Message("t", b"x", properties={"WAIT": "FALSE"}),
    "both": Message("t", b"x", properties={"WAIT": "false", "other": "1"}, wait_store_ok=False),
    "field against property": Message("t", b"x", properties={"WAIT": "true"}, wait_store_ok=False),
}
WAITING = {
    "plain": Message("t", b"x"),
    "property says so": Message("t", b"x", properties={"WAIT": "true"}),
    "property says nothing that is known": Message("t", b"x", properties={"WAIT": "no"}),
    "another property": Message("t", b"x", properties={"wait": "false"}),
}


@pytest.mark.parametrize("name", OPT_OUTS)
def test_it_answers_before_its_sync_and_is_read_after_it(name: str, store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    result = store.put(OPT_OUTS[name])
    assert (result.status, result.queue_offset) == (PutStatus.PUT_OK, 1)
    assert disk.held.acquire(timeout=60), "no sync follows"
    assert bodies(store) == [b"first"], "visible before it is durable"
    assert store.get("t", 0, 1).messages == []
    disk.release()
    wait_until(lambda: store.queues()["t", 0] == (0, 2))
    found = list(store.read("t"))[1]
    assert found.properties["WAIT"].lower() == "false"


@pytest.mark.parametrize("name", WAITING)
def test_anything_else_waits(name: str, store: flightlog.Store, disk: FaultyDisk) -> None:
    before = log_syncs(disk)
    assert store.put(WAITING[name]).status is PutStatus.PUT_OK
    assert log_syncs(disk) == before + 1
    assert len(bodies(store)) == 2
    assert list(store.read("t"))[1].properties == (WAITING[name].properties or {})


def test_one_sync_serves_all_that_did_not_wait(store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    before = log_syncs(disk)
    store.put(OPT_OUTS["field"])
    assert disk.held.acquire(timeout=60)
    for _ in range(100):
        store.put(OPT_OUTS["field"])
    disk.release()
    wait_until(lambda: store.queues()["t", 0] == (0, 102))
    assert log_syncs(disk) == before + 2


def test_those_who_wait_take_the_others_along(store: flightlog.Store, disk: FaultyDisk) -> None:
    store.put(OPT_OUTS["field"])
    store.put(Message("t", b"waits"))
    assert len(bodies(store)) == 3
    store.put(OPT_OUTS["field"])
    store.flush()
    assert len(bodies(store)) == 4


def test_many_wait_if_one_of_them_does(store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    results = store.put_many([OPT_OUTS["field"], OPT_OUTS["property"]])
    assert [result.status for result in results] == [PutStatus.PUT_OK] * 2
    assert disk.held.acquire(timeout=60)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.put_many, [OPT_OUTS["field"], Message("t", b"waits"), OPT_OUTS["field"]])
        wait_until(lambda: inside.log(store).queue_offsets["t", 0] == 6)
        assert not waiting.done()
        assert bodies(store) == [b"first"]
        disk.release()
        assert [result.status for result in waiting.result(60)] == [PutStatus.PUT_OK] * 3
    assert len(bodies(store)) == 6


def test_a_future_of_one_is_done_at_once(store: flightlog.Store, disk: FaultyDisk) -> None:
    disk.hold("sync", "/commitlog/")
    future = store.put_async(OPT_OUTS["field"])
    assert future.done() and future.result().status is PutStatus.PUT_OK
    assert bodies(store) == [b"first"]
    assert disk.held.acquire(timeout=60), "no sync follows"


def test_a_hook_decides_by_what_it_makes_of_the_message(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """What is appended is what counts."""

    def wait_always(message: Message) -> Message:
        return Message(message.topic, message.body)

    with flightlog.open(tmp_path / "store", settings(), disk=disk, pre_put_hook=wait_always) as store:
        store.put(OPT_OUTS["field"])
        assert bodies(store) == [b"x"]
        assert next(store.read("t")).properties == {}
    assert assert_clean(tmp_path / "store").records == 1


def test_under_async_flush_it_means_nothing(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", settings(FlushMode.ASYNC), disk=disk) as store:
        store.put(Message("t", b"first"))
        before = log_syncs(disk)
        store.put(OPT_OUTS["field"])
        assert bodies(store) == [b"first", b"x"]
        time.sleep(0.05)
        assert log_syncs(disk) == before
    assert assert_clean(tmp_path / "store").records == 2


def test_close_makes_them_durable(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    store = flightlog.open(path, settings(), disk=disk)
    store.put(Message("t", b"first"))
    disk.hold("sync", "/commitlog/")
    store.put_many([OPT_OUTS["field"]] * 50)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(store.close)
        assert disk.held.acquire(timeout=60)
        assert not closing.done()
        disk.release()
        closing.result(60)
    assert assert_clean(path).records == 51
    assert not (path / "abort").exists()
