"""Topics that are not there: never made, deleted, or with fewer queues than groups have yet to consume."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from flightlog import Consumer, Message, ReceivedMessage, StartFrom, Stores
from flightlog.store.errors import TopicNotFoundError, UnreadMessagesError, UsageError
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.consume.store import Store
    from flightlog.tests.consume.conftest import Disks

LIMIT_S = 240.0
Opened = Callable[[], "Store"]
Told = Callable[[], list[logging.LogRecord]]


def put(store: Store, *queue_ids: int, topic: str = "orders") -> None:
    for queue_id in queue_ids:
        store.put(Message(topic, b"x", queue_id=queue_id))


@pytest.mark.parametrize("start", ["last", "FIRST", "now", None, True, False, -1, 1.5, b"last", StartFrom])
def test_a_start_that_is_none_is_refused_at_the_call(opened: Opened, start: Any) -> None:
    """`start="last"` was once accepted: the member got no queue and lost what came, behind a logged TypeError."""
    store = opened()
    put(store, 0)
    with pytest.raises(UsageError, match=r"start=.*expected StartFrom.FIRST, StartFrom.LAST or a store time in ms"):
        store.subscribe("orders", "g", start=start)
    with pytest.raises(UsageError, match=r"start="):
        Consumer(store, "orders", "g", print, start=start)
    assert store.group_offsets("g", "orders") == {}
    starts: tuple[StartFrom | int, ...] = (StartFrom.FIRST, StartFrom.LAST, 0)
    for number, good in enumerate(starts):
        with store.subscribe("orders", f"g-{number}", start=good) as member:
            assert (member.receive(0) is None) == (good is StartFrom.LAST)


def test_the_refused_start_names_the_right_one(opened: Opened) -> None:
    with pytest.raises(UsageError, match=r"start='last'.*: StartFrom\.LAST here$"):
        opened().subscribe("orders", "g", start="last")  # type: ignore[arg-type]


def test_a_subscription_says_once_that_a_topic_does_not_exist(opened: Opened, told: Told) -> None:
    store = opened()
    put(store, 0)
    members = [store.subscribe({"orders": "*", "bils": "*"}, "g") for _ in range(3)]
    [record] = told()
    assert (record.levelname, record.__dict__["group"], record.__dict__["topic"]) == ("WARNING", "g", "bils")
    assert record.__dict__["stores"] == ["store"] and str(store.path) in record.getMessage()
    put(store, 0, topic="bils")
    topics = set[str]()
    while topics != {"orders", "bils"}:  # made since, it is consumed: once the group has shared out its queues
        topics |= {message.topic for member in members if (message := member.receive(0.1))}
    store.subscribe("%LMQ%light", "h")
    assert len(told()) == 1, "a light queue is made by its first message"


def test_must_exist_raises_for_a_topic_that_no_store_has(opened: Opened, disks: Disks) -> None:
    store = opened()
    put(store, 0)
    with pytest.raises(TopicNotFoundError, match="there is no topic 'bils'; make it with create_topic") as raised:
        store.subscribe({"orders": "*", "bils": "*"}, "g", must_exist=True)
    assert raised.value.topic == "bils" and str(store.path) in str(raised.value)
    with pytest.raises(TopicNotFoundError), Consumer(store, "bils", "g", print, must_exist=True):
        pass
    with store.subscribe("orders", "g", must_exist=True) as member:
        assert member.receive(0) is not None, "nothing was joined before"
    with Stores({}) as none, pytest.raises(TopicNotFoundError, match="no open store"):
        none.subscribe("orders", "g", must_exist=True)
    disks.open("a", "b")
    disks.put("b", 1)
    with Stores(disks.stores) as both:
        assert both.subscribe("orders", "g", must_exist=True).receive(0) is not None, "one of them has it"
        with pytest.raises(TopicNotFoundError):
            both.subscribe("bils", "g2", must_exist=True)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_deleted_topic_leaves_a_busy_member_at_once(opened: Opened, clock: HeldClock, ordered: bool) -> None:
    """It once stayed until the next round, 20 s later: only a member without messages looked for changed topics."""
    store = opened()
    put(store, 0, 1, 2, 3, topic="gone")
    put(store, *([0] * 50))
    with Stores({"a": store}, clock=clock) as stores:
        member = stores.subscribe({"orders": "*", "gone": "*"}, "g", ordered=ordered)
        assert {queue.topic for queue in member.queues} == {"orders", "gone"}
        store.delete_topic("gone")
        assert {queue.topic for queue in member.queues} == {"orders"}
        message = member.receive(0)
        assert message is not None and message.ack(), "it is busy all the while"
        put(store, 0, topic="gone")
        topics = set()
        while (message := member.receive(0)) is not None:
            topics.add(message.topic)
            assert message.ack()
        assert topics == {"orders", "gone"}, "a topic of this name that is made later is consumed"


def test_a_deleted_topic_leaves_an_ordered_member_once_its_message_has_ended(opened: Opened) -> None:
    store = opened()
    put(store, 0, topic="gone")
    is_called, may_end = threading.Event(), threading.Event()
    has_left = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        is_called.set()
        assert may_end.wait(LIMIT_S)

    def note(change: Any) -> None:
        if any(queue.queue_id == 0 for queue in change.dropped):
            has_left.set()

    with Consumer(store, "gone", "g", listener, ordered=True, on_change=note) as consumer:
        assert is_called.wait(LIMIT_S)
        store.delete_topic("gone")
        may_end.set()
        assert has_left.wait(LIMIT_S)
        assert not [queue for queue in consumer.queues if queue.topic == "gone"]


def test_fewer_queues_are_refused_while_a_group_has_messages_there(opened: Opened, told: Told) -> None:
    """They were once left behind without a word."""
    store = opened()
    store.create_topic("orders", 4)
    put(store, 0, 1, 2, 2, 3, 3, 3)
    with store.subscribe("orders", "slow") as slow, store.subscribe("orders", "done") as done:
        assert slow.receive(0) is not None
        while (message := done.receive(0)) is not None:
            message.ack()
        with pytest.raises(UnreadMessagesError) as raised:
            store.update_topic("orders", queue_count=2)
        assert raised.value.unread == {"slow": 5, "done": 0} and raised.value.queue_ids == range(2, 4)
        text = str(raised.value)
        assert "no consumer would read queues 2 to 3" in text and "group 'slow': 5." in text and "'done'" not in text
        assert store.topic("orders") is not None and store.topics()["orders"].read_queue_count == 4
        store.update_topic("orders", write_queue_count=2)
        assert not told(), "no message is put there any more, and all are still consumed"
        slow.skip_to_now()
        store.update_topic("orders", read_queue_count=2)
        assert not told() and store.topics()["orders"].queue_count == 2
    put(store, 0)


def test_fewer_queues_leave_messages_behind_where_that_is_allowed(opened: Opened, told: Told) -> None:
    store = opened()
    store.create_topic("orders", 4)
    put(store, 0, 3, 3)
    with store.subscribe("orders", "g"):
        store.update_topic("orders", queue_count=3, allow_unread=True)
    [record] = told()
    assert (record.levelname, record.__dict__["topic"], record.__dict__["unread"]) == ("WARNING", "orders", {"g": 2})
    assert "queues 3 to 3" in record.getMessage() and "group 'g': 2" in record.getMessage()
    assert [message.queue_offset for message in store.read("orders", 3)] == [0, 1], "reads still find them"


def test_fewer_queues_of_a_topic_that_no_group_reads_are_named(opened: Opened, told: Told) -> None:
    store = opened()
    store.create_topic("orders", 4)
    put(store, 0)
    store.update_topic("orders", queue_count=3)
    assert not told(), "the queue had no message"
    put(store, 2, 2)
    store.update_topic("orders", queue_count=1)
    [record] = told()
    assert "queues 1 to 2" in record.getMessage() and ": 2, and no group has ever read the topic" in record.getMessage()


def test_a_read_says_once_that_a_topic_does_not_exist(
    opened: Opened, caplog: pytest.LogCaptureFixture, told: Told
) -> None:
    store = opened()
    put(store, 0)
    store.create_topic("empty", 2)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert list(store.read("order")) == []
        for name in ("empty", "%DLQ%g", "%RETRY%g", "%LMQ%l", "SCHEDULE_TOPIC_XXXX"):
            assert list(store.read(name)) == []
    [record] = told()
    assert (record.levelname, record.__dict__["topic"], record.__dict__["path"]) == (
        "WARNING",
        "order",
        str(store.path),
    )
