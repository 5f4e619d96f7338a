"""Calls for whole groups: what there is, how far behind, elsewhere on, committed by hand, deleted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import flightlog
from flightlog import (
    GroupHasMembersError,
    GroupNotFoundError,
    GroupSettings,
    GroupState,
    Message,
    QueueNotFoundError,
    StartFrom,
    Store,
    Stores,
    StoreSettings,
    Subscription,
    TopicNotFoundError,
)
from flightlog.consume.deliver import subscription
from flightlog.consume.group.initial_offset import start_offset
from flightlog.consume.pop import next_messages, ordered_pop, pop_service
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process

START_MS = 1_700_000_000_000
QUEUES = range(4)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """Ten messages in each of four queues, one a second."""
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as store:
        for second in range(10):
            clock.at_ms = START_MS + 1_000 * second
            for queue_id in QUEUES:
                store.put(Message("orders", b"%d-%d" % (queue_id, second), queue_id=queue_id))
        yield store


def take(subscription: Subscription, count: int) -> list[bytes]:
    """Receive and acknowledge."""
    found = []
    for _ in range(count):
        message = subscription.receive(0)
        assert message is not None and message.ack()
        found.append(message.body)
    return found


def rest(subscription: Subscription) -> dict[int, int]:
    """Receive everything: by queue id, the first offset, each later one being the next."""
    first: dict[int, int] = {}
    following: dict[int, int] = {}
    while (message := subscription.receive(0)) is not None:
        queue_id, offset = message.queue.queue_id, message.queue_offset
        assert following.setdefault(queue_id, offset) == offset and message.ack()
        first.setdefault(queue_id, offset)
        following[queue_id] = offset + 1
    assert set(following.values()) <= {10}
    return first


def saved(store: Store) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads((store.path / "config" / "consumerOffset.json").read_text())[
        "offsetTable"
    ]
    return found


def test_groups_and_how_far_behind_they_are(store: Store) -> None:
    assert store.groups() == {} and store.lag("nobody") == {}
    store.put(Message("bills", b"x", queue_id=0))
    with store.subscribe("orders", "billing", member="m1") as first, store.subscribe("orders", "billing", member="m0"):
        take(first, 6)
        store.update_group("later", retry_max_times=1)
        store.commit_offset("by-hand", "bills", 0, 1)
        groups = store.groups()
        assert list(groups) == ["billing", "by-hand", "later"]
        assert groups["billing"] == GroupState(
            "billing",
            topics=("orders",),
            members=("m0", "m1"),
            lag=34,
            is_ordered=False,
            is_broadcasting=False,
            settings=GroupSettings("billing"),
            owners={
                **dict.fromkeys([("orders", 0), ("orders", 1)], "m0"),
                **dict.fromkeys([("orders", 2), ("orders", 3)], "m1"),
            },
        )
        assert (groups["by-hand"].topics, groups["by-hand"].members, groups["by-hand"].lag) == (("bills",), (), 0)
        assert groups["later"].settings.retry_max_times == 1 and groups["later"].topics == ()
        lag = store.lag("billing")
        assert set(lag) == {("orders", queue_id) for queue_id in QUEUES} and sum(lag.values()) == 34
        assert first.lag() == {queue: lag[queue.topic, queue.queue_id] for queue in first.queues}
    assert store.groups()["billing"].members == () and sum(store.lag("billing").values()) == 34
    store.commit_offset("one-queue", "orders", 0, 4)
    assert store.lag("one-queue") == {("orders", 0): 6, ("orders", 1): 10, ("orders", 2): 10, ("orders", 3): 10}


def test_groups_say_what_their_members_do(store: Store, tmp_path: Path) -> None:
    with (
        store.subscribe("orders", "in-order", ordered=True),
        store.subscribe("orders", "caches", broadcast_folder=tmp_path / "host"),
    ):
        groups = store.groups()
        assert groups["in-order"].is_ordered and not groups["in-order"].is_broadcasting
        assert groups["caches"].is_broadcasting and groups["caches"].lag == 0
    assert "caches" not in store.groups(), "its offsets are not in the store"


def test_a_brokers_own_groups_are_shown_when_asked_for(store: Store) -> None:
    store.update_group("TOOLS_CONSUMER", retry_max_times=1)
    store.update_group("CID_RMQ_SYS_TRANS", retry_max_times=1)
    assert store.groups() == {} and set(store.groups(include_system=True)) == {"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS"}


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("first", 0),
        ("last", 10),
        (StartFrom.FIRST, 0),
        (StartFrom.LAST, 10),
        (0, 0),
        (7, 7),
        (1_000_000, 10),
        (datetime.fromtimestamp(START_MS / 1_000 + 3, UTC), 3),
        (datetime.fromtimestamp(START_MS / 1_000 + 2.5, UTC), 3),
        (datetime(1999, 1, 1, tzinfo=UTC), 0),
        (datetime(2099, 1, 1, tzinfo=UTC), 10),
    ],
)
@pytest.mark.parametrize("has_members", [False, True])
def test_a_group_goes_on_where_it_is_reset_to(
    store: Store, to: int | datetime | StartFrom, expected: int, has_members: bool
) -> None:
    offsets = dict.fromkeys(QUEUES, expected)
    members = [store.subscribe("orders", "billing") for _ in range(2 * has_members)]
    for member in members:
        take(member, 5)
    before = store.group_offsets("billing", "orders")
    assert store.reset_offset("billing", "orders", to, dry_run=True) == offsets
    assert store.group_offsets("billing", "orders") == before, "nothing was done"
    assert store.reset_offset("billing", "orders", to) == offsets
    assert store.group_offsets("billing", "orders") == offsets
    assert saved(store)["orders@billing"] == {str(queue_id): expected for queue_id in QUEUES}, "durable"
    members = members or [store.subscribe("orders", "billing")]
    found: dict[int, int] = {}
    for member in members:
        found |= rest(member)
    assert found == ({} if expected == 10 else offsets)


def test_what_members_have_in_process_is_dropped_by_a_reset(store: Store) -> None:
    with store.subscribe("orders", "billing") as member:
        held = [member.receive(0) for _ in range(12)]
        again = member.receive(0)
        assert again is not None
        again.retry_later(0)
        store.reset_offset("billing", "orders", 5)
        assert not any(message is not None and message.ack() for message in [*held, again])
        assert store.group_offsets("billing", "orders") == dict.fromkeys(QUEUES, 5)
        assert rest(member) == dict.fromkeys(QUEUES, 5), "and nothing that was given back comes again"


def test_one_queue_is_reset_and_the_others_stay(store: Store) -> None:
    with store.subscribe("orders", "billing") as member:
        rest(member)
        assert store.reset_offset("billing", "orders", 8, queue_id=2) == {2: 8}
        assert rest(member) == {2: 8}
    assert store.reset_offset("billing", "orders", "first", queue_id=77) == {77: 0}


def test_who_waits_is_woken_by_a_reset(store: Store) -> None:
    found: list[object] = []
    with store.subscribe("orders", "billing") as member:
        rest(member)
        thread = threading.Thread(target=lambda: found.append(member.receive(process.LIMIT_S)))
        thread.start()
        store.reset_offset("billing", "orders", 9, queue_id=1)
        thread.join(process.LIMIT_S)
    assert [message.body for message in found if isinstance(message, flightlog.ReceivedMessage)] == [b"1-9"]


def test_an_ordered_group_is_reset_and_stays_in_order(store: Store) -> None:
    with store.subscribe("orders", "ledger", ordered=True) as member:
        first = member.receive(0)
        assert first is not None
        store.reset_offset("ledger", "orders", 4)
        found = rest(member)
        held = first.queue.queue_id
        assert found == dict.fromkeys(set(QUEUES) - {held}, 4), "its queue waits for what is in process"
        assert not first.ack() and rest(member) == {held: 4}


def test_a_group_that_several_stores_balance_is_reset_in_one(store: Store) -> None:
    with Stores({"a": store}) as stores:
        member = stores.subscribe("orders", "billing")
        rest(member)
        store.reset_offset("billing", "orders", 6)
        assert rest(member) == dict.fromkeys(QUEUES, 6)


def test_broadcasting_members_are_reset_each(store: Store, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    members = [store.subscribe("orders", "caches", broadcast_folder=folder) for folder in folders]
    for member in members:
        rest(member)
    store.reset_offset("caches", "orders", 3)
    for member, folder in zip(members, folders, strict=True):
        assert b":3" in (folder / "caches" / "offsets.json").read_bytes()
        assert rest(member) == dict.fromkeys(QUEUES, 3)
    assert store.group_offsets("caches", "orders") == {}


def test_a_topic_that_is_not_there_has_no_offsets(store: Store) -> None:
    with pytest.raises(TopicNotFoundError, match="'ordres'"):
        store.reset_offset("billing", "ordres", "first")
    with pytest.raises(TopicNotFoundError, match="'ordres'"):
        store.commit_offset("billing", "ordres", 0, 0)
    assert store.groups() == {}
    store.create_topic("empty", 2)
    assert store.reset_offset("billing", "empty", "last") == {}


def test_an_offset_is_committed_without_a_member(store: Store) -> None:
    store.commit_offset("pullers", "orders", 1, 7)
    assert saved(store) == {"orders@pullers": {"1": 7}}
    store.commit_offset("pullers", "orders", 1, 2)
    assert store.group_offsets("pullers", "orders") == {1: 2}
    with pytest.raises(QueueNotFoundError, match="no queue 9"):
        store.commit_offset("pullers", "orders", 9, 0)
    with store.subscribe("orders", "pullers", member="m") as member:
        with pytest.raises(GroupHasMembersError, match=r"'pullers' has 1 member \('m'\).*reset_offset") as raised:
            store.commit_offset("pullers", "orders", 1, 5)
        assert raised.value.members == ("m",)
        assert rest(member)[1] == 2


def test_a_deleted_group_begins_as_a_new_one(store: Store, tmp_path: Path) -> None:
    store.update_group("billing", retry_max_times=1)
    member = store.subscribe("orders", "billing", member="m")
    rest(member)
    with pytest.raises(GroupHasMembersError, match="close them first"):
        store.delete_group("billing")
    member.close()
    store.commit_offset("other", "orders", 0, 3)
    store.delete_group("billing")
    assert set(store.groups()) == {"other"} and set(saved(store)) == {"orders@other"}
    assert store.group_settings("billing") == GroupSettings("billing")
    with pytest.raises(GroupNotFoundError, match="'billing'"):
        store.delete_group("billing")
    with store.subscribe("orders", "billing") as again:
        assert rest(again) == dict.fromkeys(QUEUES, 0)


def test_a_group_is_deleted_with_its_retry_topics_and_dead_letters_when_asked(store: Store) -> None:
    of_group = ["%DLQ%billing", "%RETRY%billing", "%RETRY%billing_orders", "%RETRY%billing+orders"]
    topics = [*of_group, "%RETRY%billing2", "%DLQ%other"]
    for topic in topics:
        store.put(Message(topic, b"x", queue_id=0))
    store.commit_offset("billing", "orders", 0, 1)
    store.commit_offset("billing", "%RETRY%billing", 0, 1)
    there = set(store.topics())
    store.delete_group("billing")
    assert set(store.topics()) == there and store.groups() == {}
    with pytest.raises(GroupNotFoundError):
        store.delete_group("billing")
    store.commit_offset("billing", "orders", 0, 1)
    store.delete_group("billing", with_topics=True)
    assert set(store.topics()) == there - set(of_group)
    store.put(Message("%DLQ%billing", b"x", queue_id=0))
    store.delete_group("billing", with_topics=True)
    assert set(store.topics()) == there - set(of_group), "also of a group that nothing else is left of"


def test_a_dropped_store_is_collected_at_once(store: Store) -> None:
    """The calls for groups leave no circle of references behind."""
    before = sys.getrefcount(store)
    store.groups()
    store.reset_offset("billing", "orders", "first")
    assert sys.getrefcount(store) == before


def test_members_that_come_and_go_do_not_undo_a_reset(store: Store) -> None:
    """Other threads join, take and leave meanwhile: after the last reset, nobody is before its offsets or far behind
    them."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def come_and_go() -> None:
        try:
            while not stop.is_set():
                with store.subscribe("orders", "billing") as member:
                    member.receive(0)
        except BaseException as e:  # told below
            failures.append(e)

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        store.reset_offset("billing", "orders", "first")
        assert store.reset_offset("billing", "orders", "last") == dict.fromkeys(QUEUES, 10)
        assert store.group_offsets("billing", "orders") == dict.fromkeys(QUEUES, 10)
    stop.set()
    for thread in threads:
        thread.join(process.LIMIT_S)
    assert not failures
    assert store.group_offsets("billing", "orders") == dict.fromkeys(QUEUES, 10)
    assert store.lag("billing") == {("orders", queue_id): 0 for queue_id in QUEUES}


def during_a_round_for_a_member_that_has_ended(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    """`call`, while the round has found where to begin in the new queue 4, and has not said so yet."""
    has_begun, may_go_on = threading.Event(), threading.Event()

    def slow(*values: Any) -> int:
        has_begun.set()
        assert may_go_on.wait(process.LIMIT_S)
        return start_offset(*values)

    member = store.subscribe("orders", "billing")
    monkeypatch.setattr(subscription, "start_offset", slow)
    store.put(Message("orders", b"new", queue_id=4))
    a_round = threading.Thread(target=inside.rebalance, args=(store, "billing"))
    a_round.start()
    assert has_begun.wait(process.LIMIT_S)
    monkeypatch.setattr(member, "_leave", lambda _: None)  # which comes later
    member.close()
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call)
        wait([called], 0.3)  # it waits for the round, so that it cannot come first
        may_go_on.set()
        a_round.join(process.LIMIT_S)
        called.result(process.LIMIT_S)
    member.close()  # once more: it has nothing to commit


def test_a_round_for_a_member_that_has_ended_does_not_undo_a_reset(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_a_round_for_a_member_that_has_ended(
        store, monkeypatch, lambda: store.reset_offset("billing", "orders", "last")
    )
    assert store.group_offsets("billing", "orders") == {**dict.fromkeys(QUEUES, 10), 4: 1}


def test_a_round_for_a_member_that_has_ended_does_not_undo_a_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_a_round_for_a_member_that_has_ended(
        store, monkeypatch, lambda: store.commit_offset("billing", "orders", 4, 1)
    )
    assert store.group_offsets("billing", "orders")[4] == 1


def test_a_round_for_a_member_that_has_ended_does_not_bring_a_deleted_group_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    during_a_round_for_a_member_that_has_ended(store, monkeypatch, lambda: store.delete_group("billing"))
    assert "billing" not in store.groups() and not store.group_offsets("billing", "orders")


@pytest.mark.parametrize("of", [pop_service, ordered_pop], ids=["in any order", "in order"])
def test_a_pop_under_way_does_not_bring_a_deleted_group_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, of: ModuleType
) -> None:
    """It has found its messages before the group is deleted, and says so after it."""
    has_begun, may_go_on = threading.Event(), threading.Event()

    def slow(*values: Any) -> Any:
        found = next_messages.next_messages(*values)
        has_begun.set()
        assert may_go_on.wait(process.LIMIT_S)
        return found

    store.update_group("poppers", is_ordered=of is ordered_pop)
    [first] = store.receive("poppers", "orders", 1)
    store.ack(first.handle)
    monkeypatch.setattr(of, "next_messages", slow)
    with ThreadPoolExecutor(2) as pool:
        popped = pool.submit(store.receive, "poppers", "orders", 1)
        assert has_begun.wait(process.LIMIT_S)
        deleted = pool.submit(store.delete_group, "poppers")
        wait([deleted], 0.3)
        may_go_on.set()
        assert len(popped.result(process.LIMIT_S)) == 1
        deleted.result(process.LIMIT_S)
    assert "poppers" not in store.groups() and not store.group_offsets("poppers", "orders")


def test_a_group_that_receives_goes_on_where_it_is_reset_to(store: Store) -> None:
    held = store.receive("poppers", "orders", 32)
    assert len(held) == 32 and sum(store.lag("poppers").values()) == 8
    store.reset_offset("poppers", "orders", 9)
    assert sorted(each.message.body for each in store.receive("poppers", "orders", 32)) == [
        *(b"%d-9" % queue_id for queue_id in QUEUES)
    ]
    store.ack(*(each.handle for each in held))
    assert store.group_offsets("poppers", "orders") == dict.fromkeys(QUEUES, 10)


def test_receives_meanwhile_do_not_undo_a_reset(store: Store) -> None:
    stop = threading.Event()

    def receive() -> None:
        while not stop.is_set():
            store.receive("poppers", "orders", 3)

    threads = [threading.Thread(target=receive) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        store.reset_offset("poppers", "orders", "first")
        store.reset_offset("poppers", "orders", "last")
        assert store.group_offsets("poppers", "orders") == dict.fromkeys(QUEUES, 10)
    stop.set()
    for thread in threads:
        thread.join(process.LIMIT_S)
