"""100,000 topic-queues (CI: 5,000): what a process that has them open costs, and what it costs to open them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "many_queues.py"
MAX_DESCRIPTORS = 512
MAX_MAPPINGS = 1000
"""A process may have 65,530, and an interpreter with numpy has some 300 before it opens anything."""
MAX_MEMORY = 512 << 20
MAX_OPEN_S = 10
TOUCHED = 1000
QUEUE_SIZE = 4096
"""Bytes that are read of a queue: what lies before its file's first hole."""
RECORD_SIZE = 500
"""And of its last record."""
LOOK_BEHIND_SIZE = 8 << 20


def live(step: str, root: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-P", str(PROGRAM), step, str(root), str(count)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert run.returncode == 0, run.stderr
    figures: dict[str, Any] = json.loads(run.stdout)
    print(step, figures)
    assert figures["descriptors"] <= MAX_DESCRIPTORS
    assert figures["mappings"] <= MAX_MAPPINGS
    assert figures["memory"] <= MAX_MEMORY
    assert (figures["queues"], figures["first"]) == (count, "0")
    return figures


@pytest.mark.ci
@pytest.mark.timeout(3600)
def test_very_many_queues(tmp_path: Path, scale: Scale, assert_clean: AssertClean) -> None:
    count, root = scale.pick(ci=5000, full=100_000), tmp_path / "store"
    built = live("build", root, count)
    assert built["messages"] == count + TOUCHED
    opened = live("open", root, count)
    assert opened["messages"] == count + 2 * TOUCHED
    killed = live("kill", root, count)
    recovered = live("open", root, count)
    assert recovered["messages"] == count + 4 * TOUCHED
    viewed = live("view", root, count)
    for figures in (opened, killed, viewed):
        assert figures["scanned"] == 0
        assert figures["opened"] <= count + 100, "each queue is looked at once"
        assert figures["asked"] <= count * (QUEUE_SIZE + RECORD_SIZE) + LOOK_BEHIND_SIZE
    assert recovered["scanned"] == TOUCHED, "what was put since the queues were last synced"
    assert recovered["opened"] <= 2 * count + 10 * TOUCHED
    if scale.full:
        for figures in (opened, recovered, viewed):
            assert figures["open_s"] <= MAX_OPEN_S
    assert assert_clean(root).records == count + 4 * TOUCHED
