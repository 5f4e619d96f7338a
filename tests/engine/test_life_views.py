"""Views beside a writer in another process that puts, closes and opens again: they see what was put, nothing odd."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import StoreNotFoundError

if TYPE_CHECKING:
    from tests.conftest import Scale
    from tests.engine.conftest import AssertClean

WORD = struct.Struct("<q")


def come_and_go(path: Path, mode: FlushMode, shared: mmap.mmap) -> None:
    """Open, put, close, for ever; the shared word counts the puts that returned."""
    settings = StoreSettings(
        segment_size=16 << 10,
        queue_file_entries=50,
        allocate_step_size=8192,
        flush_mode=mode,
        flush_interval_ms=1,
        queue_flush_interval_ms=2,
    )
    number = WORD.unpack_from(shared)[0]
    while True:
        with flightlog.open(path, settings) as store:
            for i in range(20):
                count = 1 + i % 5
                store.put_many([Message(f"topic-{(number + j) % 3}", b"%d" % (number + j)) for j in range(count)])
                number += count
                WORD.pack_into(shared, 0, number)


@pytest.mark.ci
@pytest.mark.parametrize("ends", ["closes", "dies"])
@pytest.mark.parametrize("mode", FlushMode)
def test_views_beside_a_writer_that_comes_and_goes(
    mode: FlushMode, ends: str, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    path, shared = tmp_path / "store", mmap.mmap(-1, WORD.size)
    deadline = time.monotonic() + scale.pick(ci=3, full=30)
    views = 0
    pid = 0
    while time.monotonic() < deadline:
        if not pid:
            pid = os.fork()
            if pid == 0:
                try:
                    come_and_go(path, mode, shared)
                finally:
                    os._exit(1)
        put = WORD.unpack_from(shared)[0]
        try:
            view = flightlog.open_read_only(path)
        except StoreNotFoundError:
            assert not put
            continue
        with view:
            for _ in range(3):
                seen = sorted(int(m.body) for key in view.queues() for m in view.read(*key))
                assert seen == list(range(len(seen)))
                assert len(seen) >= put, f"{view.evidence.last_writer}: {put} were put, {len(seen)} are seen"
                put = WORD.unpack_from(shared)[0]
                view.refresh()
            report = view.verify()
            assert report.is_clean, [view.evidence.last_writer, *map(str, report.findings)]
            assert not view.report.damage
        views += 1
        if ends == "dies" and views % 5 == 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pid = 0
    if pid:
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    put = WORD.unpack_from(shared)[0]
    print(f"{mode.name}, {ends}: {views} views, {put} messages")
    assert views > 10
    with flightlog.open(path) as store:
        seen = sorted(int(m.body) for key in store.queues() for m in store.read(*key))
        assert seen == list(range(len(seen))) and len(seen) >= put
    assert assert_clean(path).records == len(seen)
