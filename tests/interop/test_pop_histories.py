"""Random histories of pop beside a RocketMQ broker, of many groups in one store; see pop_histories.py, and
ordered_histories.py of groups that pop in order.

The same calls here and there return the same messages and attempts, and leave the same offsets, check points, acks,
order infos, retries and dead letters; also where one goes on with the folder of the other.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.consume.pop import pop_service
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.interop.ordered_histories import ordered_history
from flightlog.tests.interop.pop_histories import (
    Ours,
    Player,
    Wave,
    history,
    left_by,
    make_store,
    parts_of,
    play_broker,
    retry_topic_of,
    steps_of,
)

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

pytestmark = pytest.mark.ci

GROUPS = {"ci": 50, "full": 200}
COMPARED = {"ci": 10, "full": 180}
"""At least: CI may run on a busy machine."""
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.full) for number in range(1, 10))]
WAVES = 2


@pytest.fixture(autouse=True)
def looked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that come again, on both sides."""
    monkeypatch.setattr(pop_service, "RETRY_FIRST_PERCENT", 0)


@pytest.fixture
def seed(scale: Scale, number: int) -> int:
    return random.Random(f"{os.environ['FLIGHTLOG_SEED']} {number}").randrange(1 << 30) if scale.full else 1


def play_ours(root: Path, waves: list[Wave]) -> Player:
    make_store(root)
    player = Player(root)
    Ours(player).play(steps_of(waves))
    return player


def compare(theirs: Player, own: Player, seed: int, at_least: int) -> None:
    """Compare all groups but those that a busy machine made slow; at least `at_least` must be left."""
    groups = sorted({group for group, wave in own.seen if wave >= 0} - theirs.slow)
    assert len(groups) >= at_least, f"seed {seed}: {len(theirs.slow)} groups were too slow to compare: is it busy?"
    assert not theirs.missing & set(map(retry_topic_of, groups)), f"seed {seed}"
    found = left_by(theirs.root, groups), left_by(own.root, groups)
    for group, wave in own.seen:
        if group in groups:
            assert theirs.seen[group, wave] == own.seen[group, wave], f"seed {seed}, {group}, wave {wave}"
    for group in groups:
        for what in found[0][group].keys() | found[1][group].keys():
            assert found[0][group].get(what) == found[1][group].get(what), f"seed {seed}, {group}: {what}"
    print(f"seed {seed}: {len(groups)} histories are equal, {len(theirs.slow)} were too slow")


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("made_by", [history, ordered_history])
def test_the_same_calls_beside_a_broker(
    rocketmq: RocketMq, tmp_path: Path, scale: Scale, seed: int, made_by: Callable[..., list[Wave]]
) -> None:
    waves = made_by(seed, scale.pick(**GROUPS), WAVES, restarts=scale.pick(ci=0.0, full=0.4))
    theirs = Player(tmp_path / "theirs")
    make_store(theirs.root)
    play_broker(rocketmq, theirs, steps_of(waves))
    compare(theirs, play_ours(tmp_path / "own", waves), seed, scale.pick(**COMPARED))


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize("made_by", [history, ordered_history])
def test_both_in_turn_with_one_folder(
    rocketmq: RocketMq, tmp_path: Path, scale: Scale, seed: int, number: int, made_by: Callable[..., list[Wave]]
) -> None:
    """Taken over at random moments, in both directions."""
    waves = made_by(seed, scale.pick(**GROUPS), WAVES, restarts=scale.pick(ci=0.0, full=0.2))
    both = Player(tmp_path / "both")
    make_store(both.root)
    at_ms, is_ours = 0, number % 2 == 0
    for part in parts_of(waves, random.Random(seed), scale.pick(ci=3, full=4)):
        if is_ours:
            at_ms = Ours(both).play(part)
        else:
            play_broker(rocketmq, both, part, begin_ms=at_ms)
        is_ours = not is_ours
    compare(both, play_ours(tmp_path / "own", waves), seed, scale.pick(**COMPARED))
