"""Views beside a writer in another process that puts, closes and opens again: they see what was put, nothing odd."""

from __future__ import annotations

import mmap
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import StoreNotFoundError

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

OFFERED, RETURNED = 0, 1
VIEWS_MIN = 10


def come_and_go(path: Path, mode: FlushMode, shared: memoryview[int]) -> None:
    """Open, put, close, for ever; the shared words count the messages offered, and those whose put returned."""
    settings = StoreSettings(
        segment_size=16 << 10,
        queue_file_entries=50,
        allocate_step_size=8192,
        flush_mode=mode,
        flush_interval_ms=1,
        queue_flush_interval_ms=2,
        sync_flush_timeout_ms=240_000,
    )
    while True:
        with flightlog.open(path, settings) as store:
            for i in range(20):
                first, count = shared[OFFERED], 1 + i % 5
                shared[OFFERED] = first + count
                store.put_many([Message(f"topic-{n % 3}", b"%d" % n) for n in range(first, first + count)])
                shared[RETURNED] += count


def check(store: flightlog.Store | flightlog.ReadOnlyStore, returned: int, shared: memoryview[int]) -> int:
    """Everything that was put before is there once, and nothing that was never offered."""
    seen = [int(m.body) for key in store.queues() for m in store.read(*key)]
    assert len(set(seen)) == len(seen)
    assert max(seen, default=-1) < shared[OFFERED]
    assert len(seen) >= returned, f"{returned} were put, {len(seen)} are seen"
    return len(seen)


@pytest.mark.ci
@pytest.mark.parametrize("ends", ["closes", "dies"])
@pytest.mark.parametrize("mode", FlushMode)
def test_views_beside_a_writer_that_comes_and_goes(
    mode: FlushMode, ends: str, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    shared = memoryview(mmap.mmap(-1, 16)).cast("q")  # stored as whole words: `pack_into` would show zeros first
    deadline = time.monotonic() + scale.pick(ci=3, full=30)
    views = 0
    pid = 0
    while time.monotonic() < deadline or views <= VIEWS_MIN:  # a slow machine takes longer
        if not pid:
            pid = os.fork()
            if pid == 0:
                try:
                    come_and_go(path, mode, shared)
                finally:
                    os._exit(1)
        put = shared[RETURNED]
        try:
            view = flightlog.open_read_only(path)
        except StoreNotFoundError:
            assert not put
            continue
        with view:
            for _ in range(3):
                check(view, put, shared)
                put = shared[RETURNED]
                view.refresh()
            report = view.verify()
            assert report.is_clean, [view.shutdown_state.last_writer, *map(str, report.findings)]
            assert not view.report.damage
        views += 1
        if ends == "dies" and views % 5 == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pid = 0
    if pid:
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    put = shared[RETURNED]
    print(f"{mode.name}, {ends}: {views} views, {put} messages")
    with flightlog.open(path) as store:
        there = check(store, put, shared)
    assert assert_clean(path).records == there
