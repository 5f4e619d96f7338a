"""Designated members, all topics in one go, and how many queues a join or a leave moves: that is measured."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import MessageQueue, Stores
from flightlog.consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle, allocate
from flightlog.consume.allocate.consistent_hash import ConsistentHash, md5_hash
from flightlog.consume.allocate.extra_strategies import AllTopics, Designated, WhenGone
from flightlog.store.errors import InconsistentGroupError

if TYPE_CHECKING:
    from flightlog.tests.consume.conftest import Disks

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "messaging.md"
QUEUES = [MessageQueue("orders", broker, queue_id) for broker in ("a", "b") for queue_id in range(32)]
HASH = functools.cache(md5_hash)


def owners(strategy: AllocationStrategy, members: list[str]) -> dict[MessageQueue, str]:
    found = {queue: member for member in members for queue in allocate(strategy, "g", member, QUEUES, members)}
    assert len(found) == len(QUEUES)
    return found


def test_only_designated_members_read() -> None:
    members = ["live-1", "live-2", "test-1", "test-2"]
    only = Designated(frozenset(("test-1", "test-2")), WhenGone.NOBODY)
    assert owners(only, members) == owners(Averagely(), ["test-1", "test-2"])
    assert owners(only, ["live-1", "test-2"]) == dict.fromkeys(QUEUES, "test-2")
    assert [allocate(only, "g", name, QUEUES, ["live-1", "live-2"]) for name in ("live-1", "live-2")] == [[], []]
    fallback = Designated(only.members, WhenGone.EVERYBODY, AveragelyByCircle())
    assert owners(fallback, ["live-1", "live-2"]) == owners(AveragelyByCircle(), ["live-1", "live-2"])
    assert owners(fallback, ["live-1", "test-1"]) == dict.fromkeys(QUEUES, "test-1")


def test_members_that_designate_others_do_not_get_in(disks: Disks) -> None:
    stores = Stores(disks.open("a"))
    first = stores.subscribe("orders", "g", strategy=Designated(frozenset("a"), WhenGone.NOBODY))
    for other in (
        Designated(frozenset("b"), WhenGone.NOBODY),
        Designated(frozenset("a"), WhenGone.EVERYBODY),
        Averagely(),
    ):
        with pytest.raises(InconsistentGroupError):
            stores.subscribe("orders", "g", strategy=other)
    assert first.is_alive


@pytest.mark.parametrize("inner", [Averagely(), AveragelyByCircle()])
def test_all_topics_in_one_go_leave_nobody_idle(disks: Disks, inner: AllocationStrategy) -> None:
    with Stores(disks.open("a", "b")) as stores:
        topics = {f"t{number}": "*" for number in range(4)}
        for store in disks.stores.values():
            for topic in topics:
                store.create_topic(topic, 1)
        apart = [stores.subscribe(topics, "apart", strategy=inner) for _ in range(8)]
        assert [len(each.queues) for each in apart] == [4, 4, 0, 0, 0, 0, 0, 0]
        together = [stores.subscribe(topics, "together", strategy=AllTopics(inner)) for _ in range(8)]
        assert [len(each.queues) for each in together] == [1] * 8
        together.pop().close()
        assert sorted(len(each.queues) for each in together) == [1, 1, 1, 1, 1, 1, 2]


def moved(strategy: AllocationStrategy, size: int) -> float:
    """How many queues change their owner besides those of the member itself when one of `size` members leaves, or comes
    back: the average over all that it could be."""
    members = member_names(size)
    before = owners(strategy, members)
    count = 0
    for gone in members:
        after = owners(strategy, [member for member in members if member != gone])
        count += sum(before[queue] != gone and before[queue] != after[queue] for queue in QUEUES)
    return count / size


def member_names(size: int) -> list[str]:
    return [f"10.0.0.{number}@4711" for number in range(size)]


def largest(strategy: AllocationStrategy, size: int) -> int:
    """Size of the largest of the members' parts."""
    found = list(owners(strategy, member_names(size)).values())
    return max(map(found.count, set(found)))


def test_consistent_hash_moves_the_least() -> None:
    """Nothing at all but the queues of who came or left; the others move many more. The document has the figures."""
    rows = {}
    few, many = ConsistentHash(10, HASH), ConsistentHash(100, HASH)
    for size in (2, 4, 8, 16):
        averagely, circle = moved(Averagely(), size), moved(AveragelyByCircle(), size)
        assert moved(few, size) == moved(many, size) == 0
        assert size == 2 or min(averagely, circle) > len(QUEUES) / 8
        shares = [largest(strategy, size) for strategy in (Averagely(), few, many)]
        rows[size] = [f"{averagely:.1f}", f"{circle:.1f}", "0", *map(str, shares)]
    [table] = re.findall(r"^\| members \| AVG .*?\n\n", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    assert {int(row[0]): row[1:] for row in told} == rows
