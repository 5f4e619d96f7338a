"""What is measured of many timers that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

import flightlog
from flightlog.benches.pending import measure


@pytest.mark.ci
def test_the_steps(tmp_path: Path) -> None:
    for step in ("put", "take", "open"):
        found = measure(tmp_path / "store", step, 2000)
        assert found["how many"] == 2000 and found["s"] > 0, step
        assert found["with mapped files"] > found["memory, MiB"] > 1
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.verify().is_clean
