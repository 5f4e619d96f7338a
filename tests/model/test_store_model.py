"""A store and a plain model live through the same random lives: whatever is asked, both answer the same.

Each seed is one life of 200 steps: puts, batches across rolls, questions, closes, kills, deaths in the middle of an
operation or of a recovery, and power cuts after which only what was synced is sure to be there. Every message is
compared in every field; after openings everything is, and the store verifies itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

    from flightlog.tests.model.conftest import LiveAll

SEEDS_CI, SEEDS = 50, 500
STEPS = 200
CHUNK = 50
RERUN = "FLIGHTLOG_MODEL_SEEDS"


def chunks() -> Iterator[ParameterSet]:
    """The seeds of every test: those of the environment, or the usual ones, and as many new ones where the run's are.
    Only the first of them are for every run."""
    if RERUN in os.environ:
        seeds: list[int] = []
        for part in os.environ[RERUN].split(","):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
        for i in range(0, len(seeds), CHUNK):
            yield pytest.param(seeds[i : i + CHUNK])
        return
    for begin in sorted({0, int(os.environ["FLIGHTLOG_SEED"]) * SEEDS}):
        for i in range(0, SEEDS, CHUNK):
            marks = [] if i < SEEDS_CI else [pytest.mark.full]
            yield pytest.param([*range(begin + i, begin + i + CHUNK)], marks=marks)


@pytest.mark.ci
@pytest.mark.parametrize("seeds", [*chunks()], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_a_store_is_what_the_model_says(seeds: list[int], kernel: str, live_all: LiveAll) -> None:
    live_all(seeds, STEPS, kernel)
