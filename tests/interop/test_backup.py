"""Backups beside a RocketMQ that is writing: they open clean in flightlog and in RocketMQ, with what was put before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.interop.live import LiveRocketMq

if TYPE_CHECKING:
    StartLive = Callable[..., AbstractContextManager[LiveRocketMq]]

pytestmark = pytest.mark.ci

FEATURES = ("v6", "unicode", "empty", "noprops", "batch")


def test_backups_beside_a_rocketmq_that_is_writing(
    live_rocketmq: StartLive, rocketmq: RocketMq, tmp_path: Path
) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    pictures = []
    with live_rocketmq(path, seed=43, count=5000, pause_ms=1, features=FEATURES, **mixed.SMALL) as live:
        live.put(200)
        live.await_caught_up()
        for _ in range(3):
            before = len(list(map(mixed.their_line, live.messages)))
            live.put(500)
            flightlog.backup(path, out)
            copy = tmp_path / f"restored-{before}"
            shutil.copytree(out, copy)
            with flightlog.open_read_only(copy) as view:
                report = view.verify()
                assert report.is_clean, "\n".join(map(str, report.findings))
                lines = mixed.read_all(view)
            assert len(lines) >= before
            pictures.append((copy, lines))
            live.await_caught_up()
        live.close()
        written = list(map(mixed.their_line, live.messages))
    for copy, lines in pictures:
        ends = mixed.bounds(lines)
        mixed.compare(
            lines,
            (one for one in written if one["queueOffset"] < ends.get((one["topic"], one["queueId"]), (0, 0))[1]),
        )
        with flightlog.open(copy) as store:
            assert store.verify().is_clean
        mixed.check_rocketmq(rocketmq.open_store(copy, **mixed.SMALL), lines)
    assert flightlog.backup(path, out).copied_size > 0
    with flightlog.open_read_only(out) as view:
        mixed.check_flightlog(view, written)
