"""The power fails, on a disk in memory: at every sync of many lives of stores, and at many other moments.

Each life is run once and recorded; every cut leaves another part of what was not synced, and each image that is opened
again counts as one (tests/support/simulated_cuts.py). What was acknowledged as durable is there, once, in order, whole;
nothing else is there; queues have no holes; keys answer; the store verifies itself. The parts of a seed have different
lives, so they can run beside each other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from flightlog.store import native
from flightlog.store.progress import FLUSHED, ProgressPage
from flightlog.store.segment import AppendSegment

if TYPE_CHECKING:
    from tests.conftest import Scale

PROGRAM = Path(__file__).parents[1] / "support" / "simulated_cuts.py"
SEED = int(os.environ["FLIGHTLOG_SEED"])
CUTS_CI, CUTS_FULL = 20_000, 100_000
PARTS = 8
PURE_PARTS = (3, 7)
KINDS_MIN = 40
MUTANT_CUTS = 400

Spoil = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.ci
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_simulated_cuts(part: int, tmp_path: Path, scale: Scale) -> None:
    """In a process of its own, where a seed is one life: sets of texts have one order there."""
    cuts = scale.pick(ci=CUTS_CI, full=CUTS_FULL) // PARTS
    kernel = "pure" if part in PURE_PARTS or "c" not in native.available() else "c"
    command = [sys.executable, "-P", str(PROGRAM), str(tmp_path), "--seed", str(SEED), "--part", f"{part}/{PARTS}"]
    done = subprocess.run(
        [*command, "--cuts", str(cuts), "--kernel", kernel],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"(\d+) cuts .* with (\d+) puts by the lane .* syncs; (.*)\n", done.stdout)
    assert counted is not None and int(counted[1]) >= cuts and int(counted[2]) > 0
    assert len(counted[3].split(", ")) > KINDS_MIN


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AppendSegment, "sync", lambda segment, *part: None)


def takes_physical_offsets_for_positions(patch: pytest.MonkeyPatch) -> None:
    real = AppendSegment.sync

    def spoilt(self: AppendSegment, start: int = 0, stop: int | None = None) -> None:
        real(self, start + self.base, None if stop is None else stop + self.base)

    patch.setattr(AppendSegment, "sync", spoilt)


def notes_the_log_as_flushed_before_it_is(patch: pytest.MonkeyPatch) -> None:
    real = ProgressPage.publish

    def spoilt(self: ProgressPage, word: int, value: int) -> None:
        real(self, word, value + 300 if word == FLUSHED else value)

    patch.setattr(ProgressPage, "publish", spoilt)


MUTANTS = (
    acknowledges_before_the_sync,
    takes_physical_offsets_for_positions,
    notes_the_log_as_flushed_before_it_is,
)


@pytest.mark.ci
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_campaign_finds_out_a_store_that(
    mutant: Spoil, support: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    campaign = support("simulated_cuts").Campaign(tmp_path, SEED)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(support("simulated_cuts").CutError) as raised:
        mutant(patch)
        campaign.run(MUTANT_CUTS)
    print(f"after {campaign.cuts} cuts: {raised.value}")
    support("simulated_cuts").Campaign(tmp_path, SEED).run(max(campaign.cuts, 1))
