"""Random transactions of ours and of a broker: the same ones are visible, given up, and asked about as often."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import DISCARDED_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.interop.transactions import GROUP, TOPIC, Ours, bodies, checked, records, run_broker

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

pytestmark = pytest.mark.ci

FATES = ("commit", "rollback", "late-commit", "late-rollback", "never")
"""Ended by their sender; left to the check, which says the same; never answered."""
CHECKS_OF_NEVER = 3
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.full) for number in range(1, 10))]


@pytest.fixture
def seed(scale: Scale, number: int) -> int:
    return random.Random(f"{os.environ['FLIGHTLOG_SEED']} {number}").randrange(1 << 30) if scale.full else 1


def drawn(dice: random.Random, count: int, prefix: str = "") -> list[str]:
    """Names of transactions: their fate, and a number."""
    return [f"{prefix}{dice.choice(FATES)}-{number}" for number in range(count)]


def fate_of(name: str) -> str:
    return name.split(".")[-1].rsplit("-", 1)[0]


def orders_of(names: list[str], dice: random.Random) -> list[tuple[object, ...]]:
    """Each is begun in its turn, and ended by its sender at any time after that."""
    orders: list[tuple[object, ...]] = []
    open_ones: list[str] = []
    for name in names:
        orders.append(("half", name, GROUP, TOPIC, dice.randrange(2), "t"))
        if fate_of(name) in ("commit", "rollback"):
            open_ones.append(name)
        while open_ones and dice.random() < 0.5:
            ended = open_ones.pop(dice.randrange(len(open_ones)))
            orders.append(("end", ended, fate_of(ended)))
    return orders + [("end", name, fate_of(name)) for name in open_ones]


def answers_of(names: list[str]) -> list[tuple[object, ...]]:
    late = [name for name in names if fate_of(name).startswith("late-")]
    return [("answer", name, fate_of(name).removeprefix("late-")) for name in late]


def our_answers(names: list[str]) -> dict[str, Resolution]:
    return {str(name): Resolution[str(answer).upper()] for _, name, answer in answers_of(names)}


def play(here: Ours, orders: list[tuple[object, ...]]) -> None:
    opened = {}
    for order in orders:
        match order:
            case ("half", str(name), _, _, int(queue_id), _):
                opened[name] = here.begin(name, queue_id)
            case ("end", str(name), "commit"):
                opened.pop(name).commit()
            case ("end", str(name), "rollback"):
                opened.pop(name).rollback()
    for transaction in opened.values():
        transaction.unknown()


def left_of(asked: Counter[str], names: list[str]) -> Counter[str]:
    """How often those of these were asked about that their sender did not end: a broker may ask about others, if the
    machine is slow, or while it gathers their op message."""
    return Counter({name: asked[name] for name in names if asked[name] and fate_of(name) not in ("commit", "rollback")})


def asked_about(names: list[str]) -> Counter[str]:
    """How often each is asked about by one side."""
    late = {name: 1 for name in names if fate_of(name).startswith("late-")}
    return Counter(late | {name: CHECKS_OF_NEVER for name in names if fate_of(name) == "never"})


def assert_ended(root: Path, names: list[str]) -> None:
    assert bodies(root) == sorted(name for name in names if fate_of(name) in ("commit", "late-commit"))
    assert bodies(root, DISCARDED_TOPIC) == sorted(name for name in names if fate_of(name) == "never")


@pytest.mark.parametrize("number", ROUNDS)
def test_the_same_transactions_beside_a_broker(rocketmq: RocketMq, tmp_path: Path, scale: Scale, seed: int) -> None:
    dice = random.Random(seed)
    names = drawn(dice, scale.pick(ci=50, full=200))
    orders = orders_of(names, dice)
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    lines = run_broker(rocketmq, theirs, *answers_of(names), ("producer", GROUP), *orders, ("settle",))
    assert all(line["code"] == 0 for line in lines if "code" in line)
    here = Ours(own, our_answers(names))
    play(here, orders)
    for _ in range(6):
        here.look()
    asked = here.asked
    here.close()
    assert asked == left_of(checked(lines), names) == asked_about(names), f"seed {seed}"
    for root in (theirs, own):
        assert_ended(root, names)
    for topic in (TOPIC, HALF_TOPIC, DISCARDED_TOPIC):  # in which order rounds come to them is a matter of time
        found = [
            sorted((each[:1] + each[2:] for each in records(root, topic) if each[2].decode() in asked), key=repr)
            for root in (own, theirs)
        ]
        assert found[0] == found[1], f"seed {seed}: {topic}"


@pytest.mark.parametrize("number", ROUNDS)
def test_a_broker_and_we_end_the_transactions_of_each_other(
    rocketmq: RocketMq, tmp_path: Path, scale: Scale, seed: int
) -> None:
    """We begin some; a broker ends what we left, and begins others, which we end."""
    dice, root = random.Random(seed), tmp_path / "store"
    ours, theirs = (drawn(dice, scale.pick(ci=25, full=100), prefix) for prefix in ("ours.", "theirs."))
    here = Ours(root, {})
    play(here, orders_of(ours, dice))
    here.close()
    lines = run_broker(rocketmq, root, *answers_of(ours), ("producer", GROUP), ("settle",))
    assert checked(lines) == asked_about(ours), f"seed {seed}"
    assert_ended(root, ours)
    run_broker(rocketmq, root, *orders_of(theirs, dice), checkInterval=600_000)
    assert_ended(root, ours + [name for name in theirs if fate_of(name) == "commit"])
    # A broker that ends does not write the op messages that it has gathered: some may be asked about once more.
    rolled_back = {name: Resolution.ROLLBACK for name in theirs if fate_of(name) == "rollback"}
    here = Ours(root, our_answers(theirs) | rolled_back)
    for _ in range(6):
        here.look()
    asked = left_of(here.asked, theirs)
    here.close()
    assert asked == asked_about(theirs), f"seed {seed}"
    assert_ended(root, ours + theirs)
