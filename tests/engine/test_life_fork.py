"""fork: the child's copy of a handle is dead, whatever the child does with it, and the parent's store does not
notice."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import ForkedStoreError, StoreLockedError
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


def in_child(do: Callable[[], object], *, leave: Callable[[int], object] = os._exit) -> None:
    """Run `do` in a forked child and fail if it fails there. `leave` ends the child."""
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        except BaseException:
            traceback.print_exc()
        leave(code)
        os._exit(99)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "see the child's traceback"


@pytest.fixture
def store(tmp_path: Path) -> flightlog.Store:
    store = flightlog.open(tmp_path / "store", StoreSettings.small(flush_interval_ms=20, queue_flush_interval_ms=40))
    store.put_many([Message("orders", b"%d" % i) for i in range(10)])
    return store


USES: dict[str, Callable[[flightlog.Store], object]] = {
    "put": lambda store: store.put(Message("orders", b"child")),
    "put_async": lambda store: store.put_async(Message("orders", b"child")),
    "put_many": lambda store: store.put_many([Message("orders", b"child")] * 3),
    "get": lambda store: store.get("orders", 0, 0),
    "read": lambda store: list(store.read("orders")),
    "offset_at": lambda store: store.offset_at("orders", 0, 0),
    "estimate_count": lambda store: store.estimate_count("orders", 0, 0, 1, tags="A"),
    "message_at": lambda store: store.message_at(0),
    "message_by_id": lambda store: store.message_by_id("0" * 32),
    "queues": lambda store: store.queues(),
    "verify": lambda store: store.verify(),
    "flush": lambda store: store.flush(),
}


def use_everything(store: flightlog.Store) -> None:
    for use in USES.values():
        with pytest.raises(ForkedStoreError, match=r"opened by process \d+.*Open the store again"):
            use(store)


def test_the_childs_handle_refuses_everything(store: flightlog.Store, assert_clean: AssertClean) -> None:
    in_child(lambda: use_everything(store))
    store.put(Message("orders", b"parent"))
    store.close()
    assert assert_clean(store.path).records == 11


def test_an_iterator_of_the_parent_stops_in_the_child(store: flightlog.Store) -> None:
    messages = store.read("orders")
    next(messages)

    def go_on() -> None:
        with pytest.raises(ForkedStoreError):
            next(messages)

    in_child(go_on)
    assert len(list(messages)) == 9
    store.close()


def test_the_child_cannot_close_or_unlock_or_write(
    store: flightlog.Store, assert_clean: AssertClean, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    store.flush()
    inside.flush_service(store).stop()  # nothing but the child could change a file from here on
    before = fingerprint(store.path)

    def close() -> None:
        store.close()
        store.close()
        with store:
            pass
        with pytest.raises(ForkedStoreError):
            store.put(Message("orders", b"child"))
        with pytest.raises(StoreLockedError, match="another process"):
            flightlog.open(store.path)

    in_child(close)
    assert fingerprint(store.path) == before
    in_child(lambda: pytest.raises(StoreLockedError, flightlog.open, store.path))
    store.put(Message("orders", b"parent"))
    store.close()
    assert assert_clean(store.path).records == 11


def test_a_child_that_ends_as_programs_do_leaves_the_store_alone(
    store: flightlog.Store, assert_clean: AssertClean, fingerprint: Callable[[Path], Fingerprint]
) -> None:
    """`sys.exit` runs the functions registered with atexit, the closer of a forgotten store among them."""
    store.flush()
    inside.flush_service(store).stop()
    before = fingerprint(store.path)

    def leave(code: int) -> None:
        import atexit

        atexit._run_exitfuncs()
        os._exit(code)

    in_child(lambda: None, leave=leave)
    assert fingerprint(store.path) == before
    store.put(Message("orders", b"parent"))
    store.close()
    assert assert_clean(store.path).records == 11


def test_the_child_may_read_and_may_write_once_the_parent_is_gone(tmp_path: Path, assert_clean: AssertClean) -> None:
    """A lock that the child takes itself is not dropped when its dead copy of the parent's handle goes."""
    path = tmp_path / "store"
    read_end, write_end = os.pipe()

    def parent() -> None:
        store = flightlog.open(path, StoreSettings.small())
        store.put(Message("orders", b"parent"))
        store.flush()
        pid = os.fork()
        if pid:
            os._exit(0)  # gone without a close
        code = b"1"
        try:
            with flightlog.open_read_only(path) as view:
                assert [message.body for message in view.read("orders")] == [b"parent"]
            while True:
                try:
                    mine = flightlog.open(path)
                    break
                except StoreLockedError:
                    pass
            store.close()
            del store
            refused = os.fork()
            if refused == 0:
                try:
                    flightlog.open(path)
                except StoreLockedError:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(refused, 0)[1] == 0, "the lock was dropped"
            mine.put(Message("orders", b"child"))
            mine.close()
            code = b"0"
        except BaseException:
            traceback.print_exc()
        os.write(write_end, code)
        os._exit(0)

    in_child(parent)
    os.close(write_end)
    assert os.read(read_end, 1) == b"0"
    os.close(read_end)
    with flightlog.open_read_only(path) as view:
        assert [message.body for message in view.read("orders")] == [b"parent", b"child"]
    assert assert_clean(path).records == 2


def _work(connection: Connection, store: flightlog.Store) -> None:
    try:
        use_everything(store)
        connection.send("refused")
    except BaseException:
        connection.send(traceback.format_exc())
        raise


def test_multiprocessing_by_fork(store: flightlog.Store, assert_clean: AssertClean) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    workers = [context.Process(target=_work, args=(there, store)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for i in range(50):
        store.put(Message("orders", b"parent %d" % i))
    assert [here.recv() for _ in workers] == ["refused"] * 3
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(list(store.read("orders"))) == 60
    store.close()
    assert assert_clean(store.path).records == 60
