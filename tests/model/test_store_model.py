"""A store and a plain model live through the same random lives: whatever is asked, both answer the same.

Each seed is one life of 200 steps: puts, batches across rolls, questions, closes, kills, deaths in the middle of an
operation or of a recovery, and power cuts after which only what was synced is sure to be there. Every message is
compared in every field; after openings everything is, and the store verifies itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.model.conftest import LiveAll

SEEDS = 500
STEPS = 200
CHUNK = 50
RERUN = "FLIGHTLOG_MODEL_SEEDS"


def chunks() -> list[list[int]]:
    """The seeds of every test: those of the environment, or all of them, and as many new ones where the run's are."""
    seeds: list[int] = []
    drawn = int(os.environ["FLIGHTLOG_SEED"]) * SEEDS
    usual = f"0-{SEEDS - 1}" + (f",{drawn}-{drawn + SEEDS - 1}" if drawn else "")
    for part in os.environ.get(RERUN, usual).split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]


@pytest.mark.ci
@pytest.mark.parametrize("seeds", chunks(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_a_store_is_what_the_model_says(seeds: list[int], kernel: str, live_all: LiveAll) -> None:
    live_all(seeds, STEPS, kernel)
