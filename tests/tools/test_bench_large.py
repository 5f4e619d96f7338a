"""benches/large_store.py measures what it says, with a small store."""

from __future__ import annotations

from pathlib import Path

import pytest

from flightlog import StoreSettings
from flightlog.benches.large_store import measure

SETTINGS = StoreSettings(segment_size=1 << 20)


def test_it_measures_each_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a backup copies the one segment more, and the beginning of the next."""
    measure(tmp_path / "store", tmp_path / "backup", 5 << 20, 100, SETTINGS)
    lines = capsys.readouterr().out.splitlines()
    steps = ["filled", "read, cold", "verify, cold", "verify, cold", "read, warm", "verify, warm", "verify, warm"]
    assert [line.partition(":")[0] for line in lines] == [*steps, "first backup", "backup of 1 MiB more"]
    assert " in 2 segments, " in lines[-1] and "of the read bandwidth" in lines[3]
