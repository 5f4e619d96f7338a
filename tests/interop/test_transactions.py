"""Transactions that a broker began and we end, and the reverse; the same calls leave the same records.

RocketMQ's clock cannot be set, so its broker checks every five seconds; ours is moved by hand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import flightlog
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import CHECK_TIMES, DISCARDED_TOPIC, OP_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.testing import kill
from flightlog.tests.interop.harness import RocketMq
from flightlog.tests.interop.transactions import (
    GROUP,
    SETTINGS,
    TOPIC,
    Ours,
    bodies,
    checked,
    offsets,
    records,
    run_broker,
)

pytestmark = pytest.mark.ci

QUIET_MS = 12_000
"""By then a broker has looked twice."""
NAMES = ("commit", "rollback", "late-commit", "late-rollback", "never")
HALVES = [("half", name, GROUP, TOPIC, place % 2, "t") for place, name in enumerate(NAMES)]
ANSWERS = [("answer", name, name.removeprefix("late-")) for name in NAMES if name.startswith("late-")]
OUR_ANSWERS = {"late-commit": Resolution.COMMIT, "late-rollback": Resolution.ROLLBACK}


def test_the_same_calls_leave_the_same_records(rocketmq: RocketMq, tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    lines = run_broker(
        *(rocketmq, theirs),
        *ANSWERS,
        ("producer", GROUP),
        *HALVES,
        ("end", "commit", "commit"),
        ("end", "rollback", "rollback"),
        ("settle",),
    )
    assert all(line["code"] == 0 for line in lines if "code" in line)
    assert checked(lines) == {"late-commit": 1, "late-rollback": 1, "never": 3}
    here = Ours(own, OUR_ANSWERS)
    opened = {name: here.begin(name, place % 2) for place, name in enumerate(NAMES)}
    opened["commit"].commit()
    opened["rollback"].rollback()
    for name in NAMES[2:]:
        opened[name].unknown()
    for _ in range(6):
        here.look()
    assert here.asked == checked(lines)
    here.close()
    for topic in (TOPIC, HALF_TOPIC, DISCARDED_TOPIC):
        assert records(own, topic) == records(theirs, topic), topic
    assert bodies(own) == ["commit", "late-commit"] and bodies(own, DISCARDED_TOPIC) == ["never"]
    for root in (own, theirs):  # how many offsets an op message has is a matter of time
        for record in records(root, OP_TOPIC):
            assert (record[3:7], record[-1]) == ((0, 0, 0, "d"), [("TAGS", "d"), ("WAIT", "true")])
        named = ",".join(bodies(root, OP_TOPIC)).split(",")
        assert sorted(int(each) for each in named if each) == [0, 1, 5, 6]
    assert offsets(own)[HALF_TOPIC] == offsets(theirs)[HALF_TOPIC]


@pytest.mark.timeout(900)
def test_we_end_what_a_broker_left(rocketmq: RocketMq, tmp_path: Path) -> None:
    root = tmp_path / "store"
    ends = ("end", "commit", "commit"), ("end", "rollback", "rollback")
    run_broker(*(rocketmq, root), *HALVES, *ends, ("sleep", 1000), checkInterval=600_000)
    here = Ours(root, OUR_ANSWERS | {"rollback": Resolution.ROLLBACK})
    for _ in range(5):
        here.look()
    here.asked.pop("rollback", None)  # a broker that ends does not write the op messages that it has gathered
    assert here.asked == {"late-commit": 1, "late-rollback": 1, "never": 3}
    here.close()
    assert bodies(root) == ["commit", "late-commit"] and bodies(root, DISCARDED_TOPIC) == ["never"]
    lines = run_broker(*(rocketmq, root), ("producer", GROUP), ("sleep", QUIET_MS))
    assert checked(lines) == {}, "the broker finds everything ended"


def test_a_broker_ends_what_we_left(rocketmq: RocketMq, tmp_path: Path) -> None:
    root = tmp_path / "store"
    here = Ours(root, {})
    opened = {name: here.begin(name) for name in NAMES}
    opened["commit"].commit()
    opened["rollback"].rollback()
    here.clock.advance(500)
    kept = opened["never"]
    for name in NAMES[2:4]:
        opened.pop(name).unknown()
    here.look()
    assert here.asked == {"late-commit": 1, "late-rollback": 1} and kept.resolution is None
    here.close()
    lines = run_broker(*(rocketmq, root), *ANSWERS, ("producer", GROUP), ("settle",))
    assert checked(lines) == {"late-commit": 1, "late-rollback": 1, "never": 3}
    assert bodies(root) == ["commit", "late-commit"] and bodies(root, DISCARDED_TOPIC) == ["never"]
    with flightlog.open_read_only(root, SETTINGS) as view:
        [given_up] = view.read(DISCARDED_TOPIC)
        assert given_up.properties[CHECK_TIMES] == "3"
        assert view.verify().is_clean
    again = Ours(root, {})
    again.look()
    assert again.asked == {}
    again.close()


def test_a_broker_asks_about_a_commit_whose_op_message_a_crash_took(rocketmq: RocketMq, tmp_path: Path) -> None:
    """What our documents say of it: its answer makes a second message. Ours finds the commit record."""
    root = tmp_path / "store"
    here = Ours(root, {})
    here.begin("commit").commit()
    kill(here.store)
    Ours(root, {}).close()  # recovered; nobody has looked
    lines = run_broker(*(rocketmq, root), ("answer", "commit", "commit"), ("producer", GROUP), ("settle",))
    assert checked(lines) == {"commit": 1} and bodies(root) == ["commit", "commit"]
