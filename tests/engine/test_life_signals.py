"""Thousands of KeyboardInterrupts from real signals, at whatever moment they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

WRITER = Path(__file__).parents[1] / "support" / "interrupted_writer.py"


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
def test_interrupts_at_random_moments(
    mode: FlushMode, kernel: str, tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    """What a put answered is there once, all else whole or absent; queue offsets are exact, with no gap."""
    path = tmp_path / "store"
    calls = scale.pick(ci=2500 if mode is FlushMode.ASYNC else 700, full=20_000)
    command = [sys.executable, "-P", str(WRITER), str(path), mode.name, str(calls)]
    environment = os.environ | {"FLIGHTLOG_PURE": "1" if kernel == "pure" else "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    acknowledged = {(topic, queue_id, offset): number for topic, queue_id, offset, number in said["acknowledged"]}
    print(f"{mode.name}, {kernel}: {calls} calls, {said['interrupted']} interrupted, {len(acknowledged)} acknowledged")
    assert calls // 5 < said["interrupted"] < calls * 4 // 5
    found: dict[tuple[str, int, int], int] = {}
    with flightlog.open_read_only(path) as view:
        assert view.shutdown_state.last_writer.value == "flightlog, closed"
        for key in view.queues():
            for expected, message in enumerate(view.read(*key)):
                assert message.queue_offset == expected
                found[(*key, expected)] = int(message.body.split(b" ")[0])
    assert acknowledged.items() <= found.items()
    assert len(set(found.values())) == len(found)
    assert max(found.values()) < said["offered"]
    assert assert_clean(path).records == len(found)
