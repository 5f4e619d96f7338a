"""Two tests that test_stops.py has tests/load/run.py run with --stops, and `make test` does not collect: the first ends
once its process was stopped and let go; both look for twice the limit of time that they would have."""

from __future__ import annotations

import signal
import time

import pytest

went_on: list[int] = []
signal.signal(signal.SIGCONT, lambda number, _: went_on.append(number))


def limit_of(request: pytest.FixtureRequest) -> float:
    marked = request.node.get_closest_marker("timeout")
    return float(marked.args[0])


@pytest.mark.timeout(300)
def test_marked(request: pytest.FixtureRequest) -> None:
    while not went_on:
        time.sleep(0.02)
    assert limit_of(request) == 600


def test_unmarked(request: pytest.FixtureRequest) -> None:
    assert limit_of(request) == 1200
