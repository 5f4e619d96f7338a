"""A flightlog writer is killed in the middle of its puts; RocketMQ opens what it left, and flightlog opens it too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line, RocketMq

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

pytestmark = pytest.mark.ci


@pytest.mark.parametrize("mode", FlushMode)
def test_rocketmq_recovers_what_a_killed_writer_left(
    rocketmq: RocketMq,
    kill_writer: Callable[..., list[Line]],
    mode: FlushMode,
    tmp_path: Path,
    scale: Scale,
) -> None:
    killed = tmp_path / "killed"
    acknowledged: list[Line] = []
    for seed in (3, 4, 5):  # the second one recovers what the first one left, and so on
        acknowledged += kill_writer(killed, seed=seed, acknowledged=scale.pick(ci=600, full=10_000), mode=mode)
    assert (killed / "abort").exists()
    assert len(list((killed / "commitlog").iterdir())) > 5
    with flightlog.open_read_only(killed) as view:
        unrecovered = mixed.read_all(view)
    ours = Path(shutil.copytree(killed, tmp_path / "ours"))
    theirs = Path(shutil.copytree(killed, tmp_path / "theirs"))

    with flightlog.open(ours) as store:
        found = mixed.read_all(store)
        report = store.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
    listed = [line for line in acknowledged if mixed.is_listed(line)]
    mixed.check_contains(unrecovered, listed)
    mixed.check_contains(found, unrecovered)  # a sync writer's view ends where its last sync did

    opened = rocketmq.open_store(theirs, append=300, **mixed.SMALL)

    assert opened.store["abortFileBefore"]
    mixed.check_rocketmq(opened, found)
    with flightlog.open(theirs) as store:
        mixed.check_flightlog(store, found + list(map(mixed.their_line, opened.appended)))
        report = store.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
    assert report.records >= len(acknowledged) + 300
