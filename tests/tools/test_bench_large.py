"""benches/large_store.py measures what it says, with a small store."""

from __future__ import annotations

from pathlib import Path

from flightlog import StoreSettings
from flightlog.benches.large_store import MIB, measure

SETTINGS = StoreSettings(segment_size=1 << 20)


def test_it_measures_each_step(tmp_path: Path) -> None:
    """And a backup copies the one segment more, and the beginning of the next."""
    sample = measure(5 * MIB, 100, SETTINGS, tmp_path)
    figures = dict(sample.figures)
    assert 1 < figures.pop("copied again, MiB") < 3 and 5 <= sample.count < 7
    steps = ["put", "read, cold", "verify, cold", "read, warm", "verify, warm", "backup", "backup again, s"]
    assert list(figures) == steps and min(figures.values()) > 0
