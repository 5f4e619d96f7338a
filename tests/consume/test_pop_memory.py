"""A million messages in flight cost little memory and slow nothing down; see tests/support/many_in_flight.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flightlog.tests.support import many_in_flight

COUNT = 1_000_000
BYTES_MAX = 200


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("at_once", [1, 32])
def test_a_million_messages_in_flight(tmp_path: Path, at_once: int) -> None:
    program = [sys.executable, "-P", str(many_in_flight.__file__), str(tmp_path / "store"), str(COUNT), str(at_once)]
    figures = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    print(figures)
    assert figures["in flight"] >= 0.99 * COUNT and figures["check points that wait"]
    for stage in ("in flight", "opened again", "all over at once"):
        assert figures[f"{stage}, bytes each"] < BYTES_MAX, figures
