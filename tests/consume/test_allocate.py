"""Who reads what: the published cases of RocketMQ's allocation strategies, and what holds for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.consume.allocate.allocate import (
    AllocationStrategy,
    Averagely,
    AveragelyByCircle,
    ByConfiguration,
    ByMachineRoom,
    MachineRoomNearby,
    allocate,
)
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.store.errors import InvalidAllocationError
from flightlog.store.message_queue import MessageQueue
from flightlog.tests.support.rooms import ByName

GROUP = "g"
SHARING = (Averagely(), AveragelyByCircle(), ConsistentHash(), ConsistentHash(3))
"""Strategies that give every queue to somebody."""


def queues_of(count: int, broker_name: str = "broker-a", topic: str = "TopicTest") -> list[MessageQueue]:
    return [MessageQueue(topic, broker_name, queue_id) for queue_id in range(count)]


def shares(strategy: AllocationStrategy, queue_count: int, member_count: int) -> list[list[int]]:
    members = [f"c{i:02}" for i in range(member_count)]
    queues = queues_of(queue_count)
    return [[queue.queue_id for queue in allocate(strategy, GROUP, each, queues, members)] for each in members]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "sizes"),
    [
        (16, 3, [6, 5, 5]),
        (5, 2, [3, 2]),
        (7, 2, [4, 3]),
        (8, 4, [2, 2, 2, 2]),
        (2, 4, [1, 1, 0, 0]),
        (4, 3, [2, 1, 1]),
    ],
)
def test_the_published_cases(queue_count: int, member_count: int, sizes: list[int]) -> None:
    for strategy in (Averagely(), AveragelyByCircle()):
        assert [len(part) for part in shares(strategy, queue_count, member_count)] == sizes


def test_neighbours_and_cards() -> None:
    assert shares(Averagely(), 8, 3) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert shares(Averagely(), 2, 3) == [[0], [1], []]
    assert shares(AveragelyByCircle(), 8, 3) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_the_ring_is_rocketmqs() -> None:
    members = ["c0", "c1", "c2"]
    owners = {
        queue.queue_id: each
        for each in members
        for queue in allocate(ConsistentHash(), GROUP, each, queues_of(8), members)
    }
    assert [owners[i] for i in range(8)] == ["c1", "c0", "c2", "c1", "c1", "c1", "c2", "c1"]


def test_what_was_written_down_waits_until_there_is_such_a_queue() -> None:
    strategy = ByConfiguration((*queues_of(3), *queues_of(1)))
    assert allocate(strategy, GROUP, "c", queues_of(2), ["c", "d"]) == queues_of(2)


def test_a_room_without_members_is_shared_by_all() -> None:
    queues = queues_of(4, "north-1") + queues_of(2, "south-1") + queues_of(3, "west-1")
    strategy = MachineRoomNearby(Averagely(), ByName())
    members = ["north-x", "north-y", "south-x"]
    parts = {each: allocate(strategy, GROUP, each, queues, members) for each in members}
    assert parts["north-x"] == queues[:2] + queues[6:7]
    assert parts["north-y"] == queues[2:4] + queues[7:8]
    assert parts["south-x"] == queues[4:6] + queues[8:]
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"


def test_nothing_is_known_of_a_room() -> None:
    with pytest.raises(InvalidAllocationError, match="no machine room is known"):
        allocate(MachineRoomNearby(Averagely(), ByName()), GROUP, "c", queues_of(1, "-a"), ["c"])


def test_only_brokers_of_the_rooms() -> None:
    queues = queues_of(3, "north@a") + queues_of(2, "south@a") + queues_of(2, "north")
    parts = [allocate(ByMachineRoom(frozenset({"north"})), GROUP, each, queues, ["c", "d"]) for each in ("c", "d")]
    assert parts == [[queues[0], queues[2]], [queues[1]]]


def test_who_is_no_member_has_no_part() -> None:
    assert allocate(Averagely(), GROUP, "stranger", queues_of(4), ["c"]) == []
    assert allocate(Averagely(), GROUP, "c", [], ["c"]) == []


def test_a_strategy_that_gives_what_is_not_there_is_refused() -> None:
    class Gives:
        name = "OWN"

        def __init__(self, part: list[MessageQueue]) -> None:
            self.part = part

        def allocate(self, *_: object) -> list[MessageQueue]:
            return self.part

    with pytest.raises(InvalidAllocationError, match=r"'OWN' gave 'c' .*queueId=7\], which is none of the 2 queues"):
        allocate(Gives(queues_of(8)[7:]), GROUP, "c", queues_of(2), ["c"])
    with pytest.raises(InvalidAllocationError, match=r"queueId=0\] twice"):
        allocate(Gives(queues_of(1) * 2), GROUP, "c", queues_of(2), ["c"])


BROKERS = st.sampled_from(["a", "b", "北", "\U0001f680", "\uffee"])
QUEUES = st.lists(st.builds(MessageQueue, st.sampled_from("tu"), BROKERS, st.integers(0, 9)), unique=True, max_size=30)
MEMBERS = st.lists(st.text("ab@\U0001f680\uffee", min_size=1, max_size=3), unique=True, min_size=1, max_size=9)


@given(QUEUES, MEMBERS, st.integers())
def test_every_queue_has_one_owner_whatever_the_order(
    queues: list[MessageQueue], members: list[str], salt: int
) -> None:
    shuffled = sorted(queues, key=lambda queue: hash((queue, salt)))
    for strategy in SHARING:
        parts = [allocate(strategy, GROUP, each, queues, members) for each in members]
        assert sorted(queue for part in parts for queue in part) == sorted(queues)
        assert parts == [allocate(strategy, GROUP, each, shuffled, members[::-1]) for each in members]


@given(QUEUES, MEMBERS)
def test_by_consistent_hash_only_the_queues_of_who_leaves_move(queues: list[MessageQueue], members: list[str]) -> None:
    strategy = ConsistentHash()
    left = members[:-1]
    for each in left:
        before, after = (set(allocate(strategy, GROUP, each, queues, group)) for group in (members, left))
        assert before <= after


@pytest.mark.parametrize("strategy", [Averagely(), ConsistentHash()], ids=lambda strategy: strategy.name)
def test_the_work_of_a_round_grows_with_the_queues_not_with_their_square(strategy: AllocationStrategy) -> None:
    """Subscribing to 10,000 queues took seconds: the set of all queues was made again for each queue of a part."""
    hashed = 0

    class Counting(MessageQueue):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal hashed
            hashed += 1
            return tuple.__hash__(self)

    queues = [Counting("t", "a", queue_id) for queue_id in range(1000)]
    assert len(allocate(strategy, GROUP, "c", queues, ["c"])) == 1000
    assert hashed <= 20 * len(queues)
