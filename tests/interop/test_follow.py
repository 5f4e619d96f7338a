"""Two other processes follow a live RocketMQ through many segments: no message wrong, missing or twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog.tests.interop.harness import Geometry
from flightlog.tests.interop.live import LiveRocketMq
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

    StartLive = Callable[..., AbstractContextManager[LiveRocketMq]]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(3600)]

FOLLOWER = Path(__file__).with_name("follower.py")
PARTS = 10
GEOMETRY: Geometry = {"segment_size": 512 << 10, "queue_entries": 1000, "index_slots": 10_000, "index_entries": 40_000}


def test_two_processes_follow_a_rocketmq_that_is_writing(
    live_rocketmq: StartLive, interop_seed: int, tmp_path: Path, scale: Scale
) -> None:
    path, ended = tmp_path / "store", tmp_path / "ended"
    count, limit_s = scale.pick(ci=(50_000, 240.0), full=(1_000_000, 1500.0))
    followers: list[subprocess.Popen[bytes]] = []
    read = [tmp_path / "read-0", tmp_path / "read-1"]

    def have_read(wanted: int) -> bool:
        assert all(follower.poll() is None for follower in followers), "a follower has ended"
        return all(file.exists() and int(file.read_text() or 0) >= wanted for file in read)

    options = {"count": count + 1, "features": ("batch", "v6"), "body_max": 200, "digest": True, **GEOMETRY}
    try:
        with live_rocketmq(path, seed=interop_seed % 1_000_003, **options) as live:
            live.put(1)  # so that there is a store to open
            live.await_caught_up()
            for file in read:
                command = [sys.executable, "-P", str(FOLLOWER), str(path), str(ended), str(file)]
                followers.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            for part in range(PARTS):  # each finds both followers at work, so that they see something of it
                process.wait_until(partial(have_read, 1 + part * count // PARTS))
                live.put(count // PARTS)
                live.await_caught_up(limit_s)
            live.close()
            ended.touch()
            told = [follower.communicate(timeout=limit_s) for follower in followers]
    finally:
        for follower in followers:
            follower.kill()
            follower.wait()
    assert len(list((path / "commitlog").iterdir())) > 20
    expected = [[line["topic"], line["queueId"], line["count"], line["messagesSha1"]] for line in live.digests]
    assert sum(line["count"] for line in live.digests) == count + 1
    for follower, (said, errors) in zip(followers, told, strict=True):
        assert follower.returncode == 0, errors.decode()
        found = json.loads(said)
        assert found["queues"] == sorted(expected)
        assert found["rounds"] >= PARTS, "it was too slow to follow"
    with flightlog.open_read_only(path) as view:
        assert view.verify().is_clean
