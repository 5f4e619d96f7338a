"""Groups outside of the model: broadcasting, the thread that balances, and bad strategies."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from flightlog.consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle, ByConfiguration
from flightlog.consume.allocate.consistent_hash import ConsistentHash
from flightlog.consume.group.rebalance import RebalanceService
from flightlog.store.errors import InconsistentGroupError, InvalidAllocationError, UsageError
from flightlog.store.message_queue import MessageQueue

LIMIT_S = 240.0


class Source:
    name = "a"
    is_usable = True

    def __init__(self, count: int = 3) -> None:
        self._count = count

    def queue_ids(self, topic: str) -> Sequence[int]:
        return range(self._count)


class Reader:
    is_alive = True

    def __init__(self, name: str, strategy: AllocationStrategy) -> None:
        self.name, self.strategy = name, strategy
        self.has: set[MessageQueue] = set()

    def assign(self, queue: MessageQueue) -> None:
        self.has.add(queue)

    def revoke(self, queue: MessageQueue) -> bool:
        self.has.remove(queue)
        return True


def test_broadcasting_gives_every_queue_to_every_member() -> None:
    service = RebalanceService()
    group = service.group("g", {"orders": "*"}, is_broadcasting=True)
    group.add_source(Source())
    readers = [Reader(name, Averagely()) for name in ("a", "b")]
    for reader in readers:
        group.join(reader, {"orders": "*"}, is_broadcasting=True)
    assert service.run_due()[group].is_balanced
    assert [len(reader.has) for reader in readers] == [3, 3]


def test_a_queue_that_a_strategy_gives_to_two_goes_to_nobody() -> None:
    service = RebalanceService()
    group = service.group("g", {"orders": "*"})
    group.add_source(Source())
    readers = [Reader(name, ByConfiguration([MessageQueue("orders", "a", 1)])) for name in ("a", "b")]
    for reader in readers:
        group.join(reader, {"orders": "*"})
    done = service.run_due()[group]
    assert not done.is_balanced and isinstance(done.failures[0], InvalidAllocationError)
    assert not readers[0].has and not readers[1].has


@pytest.mark.parametrize(("name", "subscription"), [("", {"t": "*"}), ("g", {})])
def test_a_group_needs_a_name_and_a_topic(name: str, subscription: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="expected a name and a topic"):
        RebalanceService().group(name, subscription)


def test_the_thread_balances_when_it_is_told_and_stops() -> None:
    service = RebalanceService()
    group = service.group("g", {"orders": "*"})
    told = threading.Semaphore(0)
    group.listen(lambda change: told.release())
    group.add_source(Source())
    service.start()
    try:
        reader = Reader("m", Averagely())
        group.join(reader, {"orders": "*"})
        assert told.acquire(timeout=LIMIT_S)
        assert len(reader.has) == 3
    finally:
        service.stop()


def test_members_that_differ_do_not_get_in() -> None:
    group = RebalanceService().group("g", {"orders": "*"})
    first = Reader("a", Averagely())
    group.join(first, {"orders": "*"})
    for reader, subscription, words in (
        (Reader("x", AveragelyByCircle()), {"orders": "a"}, "subscription"),
        (Reader("x", ConsistentHash(3)), {"orders": "*"}, "strategy"),
        (Reader("a", Averagely()), {"orders": "*"}, "second member"),
    ):
        with pytest.raises(InconsistentGroupError, match=words):
            group.join(reader, subscription)
    with pytest.raises(InconsistentGroupError, match="broadcasting"):
        group.join(Reader("x", Averagely()), {"orders": "*"}, is_broadcasting=True)
    group.add_source(Source())
    with pytest.raises(InconsistentGroupError, match="second store"):
        group.add_source(Source())
    group.leave(first)
    group.join(Reader("x", ConsistentHash()), {"payments": "a"})
    assert group.subscription == {"payments": "a"}, "an empty group begins anew"


def test_outcomes_are_told() -> None:
    service = RebalanceService()
    group = service.group("g", {"orders": "*"})
    group.add_source(Source(4))
    told: list[tuple[str, int, int, int]] = []
    group.listen(lambda c: told.append((c.member, len(c.kept), len(c.added), len(c.dropped))))
    readers = [Reader(name, Averagely()) for name in ("a", "b")]
    for reader in readers:
        group.join(reader, {"orders": "*"})
        service.run_due()
    service.run_due()
    assert told == [("a", 0, 4, 0), ("a", 2, 0, 2), ("b", 0, 2, 0)]
    group.leave(readers[0])
    service.run_due()
    assert told[3:] == [("b", 2, 2, 0)]
