"""What is measured of many timers that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

import flightlog
from benches.delay.pending_timers import measure


@pytest.mark.ci
def test_the_steps(tmp_path: Path) -> None:
    steps = measure(tmp_path / "store", 2000)
    assert [(step.step, step.pending) for step in steps] == [("put", 2000), ("take", 2000), ("open", 2000)]
    assert all(step.seconds > 0 and step.peak_memory_size > 1 << 20 for step in steps)
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.verify().is_clean
