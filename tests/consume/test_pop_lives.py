"""Pop through closes, kills, power cuts, crashes between the steps of a call and deaths at a change of the disk: see
popped_lives.py and ordered_lives.py in tests/support."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import FlushMode
from flightlog.tests.support.ordered_lives import OrderedLives
from flightlog.tests.support.popped_lives import PoppedLives

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean, Scale

STEPS = 40
ORDERED_STEPS = 80


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_and_nothing_popped_twice_while_it_is_invisible(
    tmp_path: Path, assert_clean: AssertClean, seed: int
) -> None:
    PoppedLives(tmp_path / "store", seed).live(STEPS)
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(100, 106))
def test_the_same_for_longer(tmp_path: Path, assert_clean: AssertClean, scale: Scale, seed: int) -> None:
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {seed}")
    for each in [seed, *(dice.randrange(1 << 30) for _ in range(scale.pick(ci=0, full=20)))]:
        root = tmp_path / f"seed-{each}"
        PoppedLives(root, each).live(2 * STEPS)
        assert_clean(root)


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("seed", range(4))
def test_each_queue_of_an_ordered_group_goes_in_order_to_one_receiver_at_a_time(
    tmp_path: Path, assert_clean: AssertClean, seed: int, mode: FlushMode
) -> None:
    OrderedLives(tmp_path / "store", seed, mode).live(ORDERED_STEPS)
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("seed", [*range(100, 106), 118])  # 118: given up behind another message, and killed
def test_each_queue_of_an_ordered_group_goes_in_order_for_longer(
    tmp_path: Path, assert_clean: AssertClean, scale: Scale, seed: int, mode: FlushMode
) -> None:
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {seed} {mode}")
    for each in [seed, *(dice.randrange(1 << 30) for _ in range(scale.pick(ci=0, full=50)))]:
        root = tmp_path / f"seed-{each}"
        OrderedLives(root, each, mode).live(2 * ORDERED_STEPS)
        assert_clean(root)
