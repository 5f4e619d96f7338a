"""Several members that pull, through failures, rebalances, closes, kills, power cuts and crashes: see pulled_lives.py
in tests/support."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import Message, ReceivedMessage
from flightlog.tests.support.pulled_lives import MAX_ATTEMPTS, PulledLives

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean, Scale

STEPS = 60


@pytest.mark.parametrize("is_ordered", [False, True], ids=["any", "ordered"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_no_attempt_forgotten_and_each_dead_letter_comes_once(
    tmp_path: Path, assert_clean: AssertClean, seed: int, is_ordered: bool
) -> None:
    PulledLives(tmp_path / "store", seed, is_ordered).live(STEPS)
    assert_clean(tmp_path / "store")


@pytest.mark.ci
@pytest.mark.parametrize("is_ordered", [False, True], ids=["any", "ordered"])
@pytest.mark.parametrize("seed", range(100, 106))
def test_the_same_for_longer(
    tmp_path: Path, assert_clean: AssertClean, scale: Scale, seed: int, is_ordered: bool
) -> None:
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {seed} {is_ordered}")
    for each in [seed, *(dice.randrange(1 << 30) for _ in range(scale.pick(ci=0, full=50)))]:
        root = tmp_path / f"seed-{each}"
        PulledLives(root, each, is_ordered).live(2 * STEPS)
        assert_clean(root)


def next_of(lives: PulledLives) -> ReceivedMessage | None:
    """A read that finds nothing but what is over hands out nothing."""
    for _ in range(10):
        if (message := lives.members[0].receive(0)) is not None:
            return message
        lives.advance(5_000)
    return None


def deliver_copies(lives: PulledLives, count: int) -> list[int]:
    """The attempts of what is in the retry topic, once that is so many messages."""
    for _ in range(10):
        copies = [copy.reconsume_times for copy in lives.store.read("%RETRY%g")]
        if len(copies) >= count:
            break
        lives.advance(5_000)
    return copies


def test_a_second_copy_of_a_dead_letter_is_passed_over_by_a_later_process_too(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The kill repeats the delivery of the last attempt, behind the end of the log at the kill."""
    lives = PulledLives(tmp_path / "store", 0)
    lives.store.put(Message("orders", b"0"))
    for attempt in range(1, MAX_ATTEMPTS):
        message = next_of(lives)
        assert message is not None and message.attempt == attempt and message.send_back()
    assert deliver_copies(lives, 2) == [1, 2]
    lives.kill()
    assert deliver_copies(lives, 4) == [1, 2, 1, 2]
    message = next_of(lives)
    assert message is not None and message.attempt == MAX_ATTEMPTS and message.send_back()
    for _ in range(2):
        lives.close()
        assert next_of(lives) is None
        assert len(list(lives.store.dead_letters("g"))) == 1
    lives.store.close()
    assert_clean(tmp_path / "store")


def test_a_second_crash_does_not_forget_how_far_back_the_first_looked(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The history that made a dead letter twice: its copies lay behind it, and were delivered before the last crash."""
    PulledLives(tmp_path / "store", 539935644).live(2 * STEPS)
    assert_clean(tmp_path / "store")


def test_an_ordered_member_that_leaves_with_a_message_that_came_alone_stops_nobody(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    """The history in which its group received nothing more, as long as the closed member was kept alive."""
    PulledLives(tmp_path / "store", 596890306, is_ordered=True).live(2 * STEPS)
    assert_clean(tmp_path / "store")
