"""Many messages with one put for each store: each message has one outcome, and that is what happened."""

from __future__ import annotations

import errno
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog import (
    DiskFullError,
    FlushMode,
    InvalidMessageError,
    Message,
    MessageTypeError,
    NoRouteError,
    Producer,
    PutResult,
    PutStatus,
    SendFailure,
    SendManyError,
    SendResult,
    SendTimeoutError,
    StoreClosedError,
    StorePoisonedError,
    StoreSettings,
    SyncFailedError,
    Topic,
    TopicNotFoundError,
)
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TOPIC = "orders"
SMALL_STEPS = StoreSettings(segment_size=16 << 10, queue_file_entries=50, allocate_step_size=4096)
SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=3_600_000,
    sync_flush_timeout_ms=240_000,
)


def messages(count: int, first: int = 0) -> list[Message]:
    return [Message(TOPIC, b"%d" % number) for number in range(first, first + count)]


def group_of(message: Message) -> str | None:
    """Every third message has none."""
    number = int(message.body)
    return f"group-{number % 5}" if number % 3 else None


def run_full(disk: FaultyDisk) -> None:
    for operation in ("allocate", "create", "resize"):
        disk.fail(operation, "commitlog/", errno.ENOSPC)


def test_queues_take_turns_and_results_are_in_order(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    results = producer.send_many(messages(80))
    assert Counter(each.queue for each in results) == dict.fromkeys(producer.queues(TOPIC), 10)
    for number, each in enumerate(results):
        store = stores.open[each.queue.broker_name]
        [found] = store.get(TOPIC, each.queue.queue_id, each.put.queue_offset, 1).messages
        assert (found.body, found.uniq_key) == (b"%d" % number, each.uniq_key)
    assert producer.send_many([]) == []


def test_a_store_gets_one_put_and_one_sync(stores: Stores, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    calls: list[str] = []
    for name in "ab":
        store = stores.add(name, SYNC)

        def noted(some: Iterable[Message], name: str = name, put: Any = store.put_many) -> Any:
            calls.append(name)
            return put(some)

        monkeypatch.setattr(store, "put_many", noted)
    producer = Producer(stores.open, clock=clock)
    for number, _ in enumerate(producer.queues(TOPIC)):  # the segments are made
        producer.send(Message(TOPIC, b"x"), selector=lambda queues, _, number=number: queues[number])  # type: ignore[misc]
    before = {name: disk.count("sync", "commitlog/") for name, disk in stores.disks.items()}
    assert len(producer.send_many(messages(200))) == 200 and sorted(calls) == ["a", "b"]
    assert {name: disk.count("sync", "commitlog/") - before[name] for name, disk in stores.disks.items()} == {
        "a": 1,
        "b": 1,
    }


def test_one_group_and_a_group_for_each(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    results = producer.send_many(messages(30), group="g")
    assert {each.queue for each in results} == {producer.send(Message(TOPIC, b"30"), group="g").queue}
    assert [each.put.queue_offset for each in results] == list(range(30))
    stored = dict(zip(range(31, 91), producer.send_many(messages(60, 31), group=group_of), strict=True))
    for group in range(5):
        mine = [stored[n] for n in stored if n % 3 and n % 5 == group]
        queue = producer.send(Message(TOPIC, b"1"), group=f"group-{group}").queue
        assert {each.queue for each in mine} == {queue}
        assert [each.put.queue_offset for each in mine] == sorted(each.put.queue_offset for each in mine)
    assert len({each.queue for n, each in stored.items() if n % 3 == 0}) > 4, "those without a group take turns"


def test_one_queue_as_rocketmqs_batch_send(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    used = [{each.queue for each in producer.send_many(messages(10), one_queue=True)} for _ in range(8)]
    assert {len(each) for each in used} == {1} and len(set.union(*used)) == 8
    mixed = [*messages(4), Message("other", b"4"), Message("other", b"5")]
    results = producer.send_many(mixed, one_queue=True)
    assert len({each.queue for each in results}) == 2, "one of each topic"
    chosen = producer.send_many(messages(4), selector=lambda queues, m: queues[int(m.body)], one_queue=True)
    assert [each.queue for each in chosen] == list(producer.queues(TOPIC)[:4]), "a selector has its way"


def test_what_a_full_store_does_not_take_goes_to_another_one(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    producer.send_many(messages(8, 400))  # the segments are made
    run_full(stores.disks["a"])
    results = producer.send_many(messages(400))
    tries = Counter((each.queue.broker_name, each.tries) for each in results)
    assert set(tries) == {("a", 1), ("b", 1), ("b", 2)} and tries["b", 1] == 200
    assert stores.bodies() == Counter(b"%d" % number for number in range(408))


def test_messages_of_a_group_stay_where_they_belong(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    run_full(stores.disks["a"])
    with pytest.raises(SendManyError, match=r"of 600 messages were not acknowledged, 0 of them may be") as caught:
        producer.send_many(messages(600), group=group_of)
    failures = caught.value.failures
    assert failures and all(isinstance(each.error, DiskFullError) for each in failures.values())
    assert all(group_of(each.message) and each.queue.broker_name == "a" for each in failures.values())
    for group in range(5):
        mine = [place for place in range(600) if place % 3 and place % 5 == group]
        lost = [place for place in mine if place in failures]
        assert mine[len(mine) - len(lost) :] == lost, "a beginning of them is stored"
    stores.disks["a"].heal()
    again = producer.send_many([each.message for each in failures.values()], group=group_of)
    assert [each.uniq_key for each in again] == [each.message.uniq_key for each in failures.values()]
    assert stores.bodies() == Counter(b"%d" % number for number in range(600))


def test_after_a_failed_sync_each_failure_says_that_it_may_be_stored(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    producer.send_many(messages(8))
    stores.disks["a"].fail("sync", "commitlog/", errno.EIO)
    with pytest.raises(SendManyError) as caught:
        producer.send_many(messages(40, 8))
    assert len(caught.value.outcomes) == 40 and len(caught.value.failures) == 20
    for failure in caught.value.failures.values():
        assert failure.may_be_stored and isinstance(failure.error, (SyncFailedError, StorePoisonedError))
        assert failure.queue.broker_name == "a" and "is in the log of 'a'" in failure.doubt
    assert "__notes__" not in vars(next(iter(caught.value.failures.values())).error)
    results = producer.send_many(messages(20, 48))  # poisoned: it stores nothing
    assert {each.queue.broker_name for each in results} == {"b"}
    found = stores.bodies()
    assert max(found.values()) == 1
    assert found.keys() >= {b"%d" % n for n in (*range(8), *range(48, 68))}


def test_a_closed_store_is_left_for_another_one_and_one_that_closes_meanwhile_is_not(
    stores: Stores, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    producer.send_many(messages(8))
    store = stores.open["a"]
    put_many = store.put_many

    def close_in_the_middle(some: Iterable[Message]) -> list[PutResult]:
        put_many(list(some)[:3])
        store.close()
        return put_many([])  # raises

    monkeypatch.setattr(store, "put_many", close_in_the_middle)
    with pytest.raises(SendManyError, match=r"(\d+) of 20 messages .* \1 of them may be stored") as caught:
        producer.send_many(messages(20, 8))
    assert {each.queue.broker_name for each in caught.value.failures.values()} == {"a"}
    assert {type(each.error) for each in caught.value.failures.values()} == {StoreClosedError}
    assert {each.queue.broker_name for each in producer.send_many(messages(20, 28))} == {"b"}
    assert max(stores.bodies().values()) == 1


def test_one_wrong_message_refuses_the_part_of_its_store(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    wrong = Message(TOPIC, b"2", keys="with space")
    with pytest.raises(SendManyError, match=r"3 of 3 .*messages\[0\].*with space") as caught:
        producer.send_many([*messages(2), wrong])
    assert not any(each.may_be_stored for each in caught.value.failures.values())
    assert {type(each.error) for each in caught.value.failures.values()} == {InvalidMessageError}
    assert producer.send(Message(TOPIC, b"3")).tries == 1, "no fault of the store"
    assert stores.bodies() == {b"3": 1}


def test_the_call_is_checked_before_the_first_put(stores: Stores) -> None:
    store = stores.add("a")
    store.create_topic("fifo", attributes={"message.type": "FIFO"})
    producer = Producer(store, check_message_type=True)
    end = store.statistics().sizes.end_physical_offset
    with pytest.raises(MessageTypeError):
        producer.send_many([*messages(3), Message("fifo", b"x")])
    assert store.statistics().sizes.end_physical_offset == end
    plain = StoreSettings(segment_size=1 << 20, auto_create_topics=False)
    with pytest.raises(NoRouteError):
        Producer(stores.add("b", plain)).send_many(messages(3))


def test_what_was_not_tried_in_time_is_stored_nowhere(
    stores: Stores, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first store takes 4 s of the clock; RocketMQ's 3 s are over then."""
    for name in "ab":
        store = stores.add(name)
        put_many = store.put_many

        def slow(some: Iterable[Message], put: Any = put_many) -> Any:
            clock.at_s += 4
            return put(some)

        monkeypatch.setattr(store, "put_many", slow)
    producer = Producer(stores.open, clock=clock)
    with pytest.raises(SendManyError, match="12 of 24 messages") as caught:
        producer.send_many(messages(24))
    assert {type(each.error) for each in caught.value.failures.values()} == {SendTimeoutError}
    assert not any(each.may_be_stored for each in caught.value.failures.values())
    clock.at_s += 60
    assert len(producer.send_many(messages(24, 24), timeout_s=5)) == 24
    assert stores.bodies().total() == 36


# -- a model

FAULTS = ("none", "full", "closed", "closes", "sync", "poisoned", "refuses", "no topic")


@dataclass
class ModelStore:
    """A store in memory: what it has appended, and what it acknowledged. The next put meets its fault."""

    name: str
    fault: str = "none"
    after: int = 0
    """How many messages it takes before."""
    path: Path = Path("model")
    settings: StoreSettings = field(default_factory=StoreSettings)
    log: dict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))
    puts: int = 0
    is_closed: bool = False

    def put(self, message: Message) -> PutResult:
        return self.put_many([message])[0]

    def put_async(self, message: Message) -> Future[PutResult]:
        raise NotImplementedError

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        self.puts += 1
        self.topic(TOPIC)
        if self.fault == "poisoned":
            raise StorePoisonedError(self.path, OSError())
        if self.fault == "refuses":
            raise InvalidMessageError("too large")
        if self.fault == "no topic":
            raise TopicNotFoundError(self.path, TOPIC, "create it")
        offered = list(messages)
        taken = offered if self.fault == "none" else offered[: self.after]
        results = [self._append(each) for each in taken]
        if self.fault == "full" and len(taken) < len(offered):
            error = DiskFullError(self.path, 1, "full")
            error.results = results
            raise error
        if self.fault == "closes":
            self.is_closed = True
            self.topic(TOPIC)
        if self.fault == "sync":
            raise SyncFailedError(self.path, "failed")
        return results + [self._append(each) for each in offered[len(taken) :]]

    def _append(self, message: Message) -> PutResult:
        assert message.queue_id is not None
        queue = self.log[message.queue_id]
        queue.append(message)
        return PutResult(PutStatus.PUT_OK, TOPIC, message.queue_id, len(queue) - 1, 0, 0, 0, b"")

    def topic(self, name: str) -> Topic:
        if self.is_closed or self.fault == "closed":
            raise StoreClosedError("closed")
        return Topic(name, 2, 2)

    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool:
        self.topic(TOPIC)
        return any(each.uniq_key == uniq_key for queue in self.log.values() for each in queue)


@given(
    faults=st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(0, 8)), min_size=1, max_size=4),
    groups=st.lists(st.sampled_from((None, None, "g", "h", "i")), max_size=24),
    one_queue=st.booleans(),
    retries=st.integers(0, 3),
)
def test_each_outcome_is_what_happened(
    faults: list[tuple[str, int]], groups: list[str | None], one_queue: bool, retries: int
) -> None:
    stores = {f"s{i}": ModelStore(f"s{i}") for i in range(len(faults))}
    producer = Producer(stores, retries=retries, clock=HeldClock())
    producer.queues(TOPIC)  # known before one of them closes
    for store, (fault, after) in zip(stores.values(), faults, strict=True):
        store.fault, store.after = fault, after
    sent = [Message(TOPIC, b"%d" % number) for number in range(len(groups))]
    outcomes: list[SendResult | SendFailure] = []
    try:
        outcomes += producer.send_many(sent, group=lambda m: groups[int(m.body)], one_queue=one_queue)
    except SendManyError as e:
        outcomes += e.outcomes
        assert e.failures == {i: each for i, each in enumerate(outcomes) if isinstance(each, SendFailure)} != {}
    assert len(outcomes) == len(sent)
    there: dict[bytes, list[tuple[str, int, int]]] = defaultdict(list)
    for name, store in stores.items():
        for queue_id, queue in store.log.items():
            for offset, each in enumerate(queue):
                there[each.body].append((name, queue_id, offset))
                assert each.properties == (
                    None if groups[int(each.body)] is None else {"__SHARDINGKEY": groups[int(each.body)]}
                )
    for message, outcome in zip(sent, outcomes, strict=True):
        places = there[message.body]
        assert len(places) <= 1, "a message is stored once at most"
        if isinstance(outcome, SendResult):
            assert places == [(outcome.queue.broker_name, outcome.queue.queue_id, outcome.put.queue_offset)]
            assert 1 <= outcome.tries <= retries + 1
        else:
            assert outcome.may_be_stored or not places
            assert outcome.message.uniq_key and outcome.message.body == message.body
            if outcome.may_be_stored:
                assert not places or places[0][0] == outcome.queue.broker_name
    for group in {each for each in groups if each is not None}:
        mine = [message.body for message, of in zip(sent, groups, strict=True) if of == group]
        stored = [each.body for store in stores.values() for queue in store.log.values() for each in queue]
        kept = [body for body in stored if body in mine]
        assert kept == mine[: len(kept)], "a beginning of the group, in order"
        assert len({place[:2] for body in kept for place in there[body]}) <= 1
    assert all(store.puts <= 1 + retries for store in stores.values())
    if all(fault == "none" for fault, _ in faults):
        assert all(isinstance(each, SendResult) for each in outcomes)
        apart = [each.queue for each, group in zip(outcomes, groups, strict=True) if group is None]
        assert not one_queue or len(set(apart)) <= 1


@pytest.mark.parametrize("seed", range(6))
def test_whatever_fails_every_acknowledged_message_is_there_once(seed: int, stores: Stores, clock: ManualClock) -> None:
    rng = random.Random(seed)
    for name in "abc":
        stores.add(name, rng.choice((SMALL_STEPS, SYNC)))
    producer = Producer(stores.open, clock=clock)
    acknowledged: set[bytes] = set()
    not_stored: set[bytes] = set()
    number = 0
    for _ in range(40):
        if rng.random() < 0.3:
            disk = stores.disks[rng.choice("abc")]
            if rng.random() < 0.5:
                disk.heal()
            elif rng.random() < 0.7:
                run_full(disk)
            else:
                disk.fail("sync", "commitlog/", errno.EIO, skip=rng.randrange(3))
        clock.at_s += rng.choice((0.0, 0.1, 5.0))
        some = messages(rng.randrange(30), number)
        number += len(some)
        outcomes: list[SendResult | SendFailure] = []
        try:
            outcomes += producer.send_many(some, group=group_of, one_queue=rng.random() < 0.3)
        except SendManyError as e:
            outcomes += e.outcomes
        for message, outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, SendResult):
                acknowledged.add(message.body)
            elif not outcome.may_be_stored:
                not_stored.add(message.body)
    found = stores.bodies()
    assert found.keys() >= acknowledged and not found.keys() & not_stored and max(found.values()) == 1
