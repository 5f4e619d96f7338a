"""A group that reads something else, or shares its queues otherwise, while its members run; and how often it does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import InconsistentGroupError, Message, StartFrom, Store, Stores, StoreSettings, Subscription, UsageError
from flightlog.consume.allocate.allocate import Averagely, AveragelyByCircle
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside

if TYPE_CHECKING:
    Bodies = Callable[[Subscription], list[bytes]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        for topic in ("orders", "bills"):
            store.create_topic(topic, 2)
            for number in range(4):
                store.put(
                    Message(topic, b"%s %d" % (topic.encode(), number), tags="ab"[number % 2], queue_id=number // 2)
                )
        yield store


def queues_of(member: Subscription, topic: str) -> list[int]:
    return [queue.queue_id for queue in member.queues if queue.topic == topic]


def test_topics_are_added_and_taken_out_for_all_members(store: Store, bodies: Bodies) -> None:
    members = [store.subscribe("orders", "billing") for _ in range(2)]
    assert [bodies(member) for member in members] == [[b"orders 0", b"orders 1"], [b"orders 2", b"orders 3"]]
    store.change_subscription("billing", {"orders": "*", "bills": "*"})
    assert [queues_of(member, "bills") for member in members] == [[0], [1]]
    assert [bodies(member) for member in members] == [[b"bills 0", b"bills 1"], [b"bills 2", b"bills 3"]]
    held = store.put(Message("orders", b"late", queue_id=0))
    late = members[0].receive(0)
    assert late is not None and held.queue_offset == late.queue_offset
    store.change_subscription("billing", "bills")
    assert [queues_of(member, "orders") for member in members] == [[], []] and not late.ack()
    assert [list(member.topics) for member in members] == [["bills"]] * 2
    with pytest.raises(InconsistentGroupError, match="the subscription"):
        store.subscribe("orders", "billing")
    store.subscribe("bills", "billing").close()
    store.change_subscription("billing", {"orders": "*", "bills": "*"})
    assert bodies(members[0]) == [b"late"], "it goes on where the group was"


def test_a_new_topic_begins_as_the_members_were_told(store: Store, bodies: Bodies) -> None:
    with store.subscribe("orders", "billing", start=StartFrom.LAST) as member:
        store.change_subscription("billing", "bills")
        assert bodies(member) == []
        store.put(Message("bills", b"new", queue_id=0))
        assert bodies(member) == [b"new"]


def test_other_tags_and_filters_hold_from_then_on(store: Store, bodies: Bodies) -> None:
    with store.subscribe("orders", "billing", tags="a") as member:
        assert bodies(member) == [b"orders 0", b"orders 2"]
        store.change_subscription("billing", "orders", tags="b")
        for tag in "ab":
            store.put(Message("orders", tag.encode(), tags=tag, queue_id=0))
        assert bodies(member) == [b"b"], "what was filtered before does not come again"
        store.change_subscription("billing", "orders", filter=flightlog.sql("size > 5"))
        for size in ("4", "6"):
            store.put(Message("orders", size.encode(), properties={"size": size}, queue_id=1))
        assert bodies(member) == [b"6"]


def test_the_strategy_is_changed_for_all_members(store: Store) -> None:
    store.update_topic("orders", 4)
    members = [store.subscribe("orders", "billing", member=name) for name in "ab"]
    assert [queues_of(member, "orders") for member in members] == [[0, 1], [2, 3]]
    store.change_subscription("billing", strategy=AveragelyByCircle())
    assert [queues_of(member, "orders") for member in members] == [[0, 2], [1, 3]]
    with pytest.raises(InconsistentGroupError, match="the strategy"):
        store.subscribe("orders", "billing", strategy=Averagely())
    store.subscribe("orders", "billing", strategy=AveragelyByCircle()).close()
    assert [queues_of(member, "orders") for member in members] == [[0, 2], [1, 3]]


def test_an_ordered_member_ends_its_message_first(store: Store, bodies: Bodies) -> None:
    with store.subscribe("orders", "ledger", ordered=True) as member:
        held = member.receive(0)
        assert held is not None
        store.change_subscription("ledger", {"bills": "*", "orders": "a"})
        assert held.ack()
        expected = [b"bills 0", b"bills 1", b"bills 2", b"bills 3", b"orders 1", b"orders 2"]
        assert bodies(member) == expected, "orders 1 had been read with the one before it"


def test_a_topic_that_is_not_there_is_told_of(
    store: Store, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    with store.subscribe("orders", "billing"), caplog.at_level(logging.WARNING, "flightlog.consume"):
        store.change_subscription("billing", {"orders": "*", "ordres": "*"})
        assert len(told()) == 1 and "there is no topic 'ordres'" in caplog.text
        store.change_subscription("billing", {"orders": "a", "ordres": "*"})
        assert len(told()) == 1, "once"


def test_a_group_of_several_stores_is_changed(store: Store, bodies: Bodies) -> None:
    with Stores({"a": store}) as stores:
        member = stores.subscribe("orders", "billing")
        stores.change_subscription("billing", "bills")
        assert bodies(member) == [b"bills %d" % number for number in range(4)]
        with pytest.raises(UsageError, match="no members here"):
            store.change_subscription("billing", "orders")


def test_what_cannot_be_changed_is_said(store: Store) -> None:
    with pytest.raises(UsageError, match="'nobody' has no members here"):
        store.change_subscription("nobody", "orders")
    with store.subscribe("orders", "billing"):
        with pytest.raises(UsageError, match="nothing to change was given"):
            store.change_subscription("billing")
        with pytest.raises(UsageError, match="tags and filter need topics"):
            store.change_subscription("billing", tags="a", strategy=Averagely())


@pytest.mark.parametrize("is_of_several", [False, True])
def test_intervals_are_settable(tmp_path: Path, *, is_of_several: bool) -> None:
    """This thread does what is due by the clock; the service has none of its own, which might come before it."""
    clock, settings = ManualClock(), StoreSettings.small(offset_save_interval_ms=400_000, rebalance_interval_ms=700_000)
    with flightlog.open(tmp_path / "store", settings, clock=clock) as store:
        several = Stores({"store": store}, clock=clock, offset_save_interval_ms=400_000, rebalance_interval_ms=700_000)
        balancing = several if is_of_several else store
        inside.groups_without_thread(balancing)
        with several, balancing.subscribe("orders", "billing"):
            while inside.rebalance_due(balancing):  # what joining has asked for
                pass
            inside.group_offsets(store).set("g", "t", 0, 1)
            clock.advance(399_000)
            assert not inside.rebalance_due(balancing) and inside.group_offsets(store).is_unsaved
            clock.advance(1_000)
            assert not inside.rebalance_due(balancing) and not inside.group_offsets(store).is_unsaved
            clock.advance(299_000)
            assert not inside.rebalance_due(balancing)
            clock.advance(1_000)
            assert inside.rebalance_due(balancing) == 1
