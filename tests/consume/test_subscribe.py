"""`store.subscribe`: every message to one member of each group, acknowledged in any order, again after what was not."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.consume.allocate.allocate import AveragelyByCircle
from flightlog.consume.deliver.process_queue import FlowLimits
from flightlog.consume.deliver.subscription import Subscription
from flightlog.consume.group.group import Change
from flightlog.consume.group.initial_offset import StartFrom
from flightlog.engine.message_store import MessageStore
from flightlog.store.errors import FlightlogError, InconsistentGroupError, StoreClosedError, UsageError
from flightlog.store.message_queue import MessageQueue
from flightlog.tests.support import killed_consumer

if TYPE_CHECKING:
    from flightlog.consume.store import Store
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings.small()
LIMIT_S = 240.0


def put(store: Store, count: int, topic: str = "orders", first: int = 0) -> None:
    for number in range(first, first + count):
        store.put(Message(topic, b"%d" % number, queue_id=None, tags="odd" if number % 2 else "even"))


def numbers(subscription: Subscription, *, acks: bool = True) -> list[int]:
    """What comes until nothing comes any more."""
    found = []
    while (message := subscription.receive(0)) is not None:
        found.append(int(message.body))
        if acks:
            assert message.ack()
    return sorted(found)


def test_a_member_hears_of_each_change_of_its_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean
) -> None:
    heard: list[Change] = []

    def fails(change: Change) -> None:
        raise ValueError("not interested")

    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 4)
        first = store.subscribe("orders", "g", member="a", on_change=heard.append)
        assert [(len(each.kept), len(each.added), len(each.dropped)) for each in heard] == [(0, 4, 0)]
        second = store.subscribe("orders", "g", member="b", on_change=fails)
        assert heard[1].member == "a" and heard[1].dropped == heard[0].added - heard[1].kept == set(second.queues)
        assert "a listener was told of a change and failed: ValueError('not interested')" in caplog.text
        second.close()
        assert heard[2].added == heard[1].dropped and set(first.queues) == heard[2].kept | heard[2].added
        assert len(heard) == 3 and len(numbers(first)) == 4
    assert_clean(tmp_path)


def test_a_group_goes_on_where_it_was(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 20)
        found = []
        for message in store.subscribe("orders", "g", idle_s=0):
            found.append(int(message.body))
            if message.queue_offset < 2:
                assert message.ack() and not message.ack(), "once"
        assert sorted(found) == list(range(20))
    assert_clean(tmp_path)
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.group_offsets("g", "orders") == dict.fromkeys(range(4), 2)
        put(store, 2, first=20)
        with store.subscribe("orders", "g") as subscription:
            assert sum(subscription.lag().values()) == 14
            assert numbers(subscription) == list(range(8, 22))
            assert not sum(subscription.lag().values())
        with store.subscribe("orders", "another") as subscription:
            assert numbers(subscription) == list(range(22)), "every group has all messages"
    assert_clean(tmp_path)


def test_acknowledged_out_of_order_it_goes_on_at_the_lowest_that_is_open(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for number in range(6):
            store.put(Message("t", b"%d" % number))
        subscription = store.subscribe("t", "g")
        messages = [subscription.receive(0) for _ in range(6)]
        for place in (5, 0, 1, 3):
            message = messages[place]
            assert message is not None and message.ack()
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert store.group_offsets("g", "t")[0] == 2
        assert numbers(store.subscribe("t", "g")) == [2, 3, 4, 5], (
            "3 and 5 come again: they lie behind one that is open"
        )


def test_members_share_the_queues_and_take_over(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 40)
        first = store.subscribe("orders", "g")
        held = first.receive(0)
        second = store.subscribe("orders", "g")
        assert [len(first.queues), len(second.queues)] == [2, 2]
        assert not {*first.queues} & {*second.queues}
        assert held is not None
        counts = held.queue in first.queues
        assert held.ack() is counts
        second_only = numbers(second)
        assert len(second_only) == 20
        left = first.receive(0)
        assert left is not None and left.queue in first.queues
        first.close()
        assert not left.ack(), "it is the other one's now"
        assert len(second.queues) == 4
        rest = numbers(second)
        assert int(left.body) in rest and sorted([*second_only, *rest, *([int(held.body)] if counts else [])]) == [
            *range(40)
        ]


def test_a_waiting_member_is_woken_by_a_put(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        subscription = store.subscribe("new", "g")
        found: list[bytes] = []

        def consume() -> None:
            for message in subscription:
                found.append(message.body)
                message.ack()
                if message.body == b"last":
                    return

        thread = threading.Thread(target=consume)
        thread.start()
        for body in (b"a", b"b", b"last"):  # the topic is made by the first of them
            store.put(Message("new", body))
        thread.join(LIMIT_S)
        assert not thread.is_alive() and found == [b"a", b"b", b"last"]


def test_of_many_queues_those_with_news_alone_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake-up read each of them, twice."""
    reads: list[int] = []
    get = MessageStore.get

    def counted(store: MessageStore, topic: str, queue_id: int, *args: int, **named: object) -> object:
        reads.append(queue_id)
        return get(store, topic, queue_id, *args, **named)  # type: ignore[arg-type]

    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("orders", 16)
        put(store, 40)
        member = store.subscribe("orders", "g")
        assert len(numbers(member)) == 40
        monkeypatch.setattr(MessageStore, "get", counted)
        store.put(Message("orders", b"40", queue_id=11))
        message = member.receive(0)
        assert message is not None and message.body == b"40" and message.ack()
        assert reads[-1] == 11 and len(reads) <= 2, "the queue whose turn it was, and the one with a new message"


def test_ends_that_cannot_be_told_stop_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[int]:
        raise FlightlogError("no ends now")

    monkeypatch.setattr(MessageStore, "end_offsets", refused)
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 40)
        assert numbers(store.subscribe("orders", "g")) == list(range(40))


@pytest.mark.parametrize("mode", list(flightlog.FlushMode))
def test_a_pull_that_waits_costs_no_round_of_the_flush_service(
    tmp_path: Path, mode: flightlog.FlushMode, assert_clean: AssertClean
) -> None:
    """With rounds that never come, only the arrival itself can have woken it."""
    settings = StoreSettings.small(flush_mode=mode, flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, settings) as store:
        store.create_topic("t", 1)
        ping, pong = store.subscribe("t", "ping"), store.subscribe("t", "pong")
        received = threading.Semaphore(0)
        found: Counter[str] = Counter()

        def consume(name: str, subscription: Subscription) -> None:
            for message in subscription:
                found[name] += 1
                message.ack()
                received.release()

        threads = [
            threading.Thread(target=consume, args=("ping", ping)),
            threading.Thread(target=consume, args=("pong", pong)),
        ]
        for thread in threads:
            thread.start()
        for number in range(50):
            store.put(Message("t", b"%d" % number, wait_store_ok=number % 3 > 0))
            for _ in threads:
                assert received.acquire(timeout=LIMIT_S)
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "closing the store ended them"
    assert found == {"ping": 50, "pong": 50}
    assert_clean(tmp_path)


def test_many_threads_share_one_subscription(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        subscription = store.subscribe("orders", "g")
        lock, found = threading.Lock(), Counter[int]()
        all_there = threading.Event()

        def consume() -> None:
            for message in subscription:
                assert message.ack()
                with lock:
                    found[int(message.body)] += 1
                    if len(found) == 400:
                        all_there.set()

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        put(store, 400)
        assert all_there.wait(LIMIT_S)
        subscription.close()
        for thread in threads:
            thread.join(LIMIT_S)
        assert not any(thread.is_alive() for thread in threads)
        assert found == Counter(range(400)), "each of them once"


def test_tags_are_filtered_and_what_they_leave_out_is_passed(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for number in range(10):
            store.put(Message("t", b"%d" % number, tags="odd" if number % 2 else "even"))
        with store.subscribe("t", "g", tags="odd || none") as subscription:
            assert numbers(subscription) == [1, 3, 5, 7, 9]
        assert store.group_offsets("g", "t")[0] == 10
        with store.subscribe("t", "h", tags="none") as subscription:
            assert numbers(subscription) == []
        assert store.group_offsets("h", "t")[0] == 10


def test_several_topics_each_with_its_tags(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 6)
        put(store, 6, topic="bills", first=10)
        with store.subscribe({"orders": "odd", "bills": "*"}, "g") as subscription:
            assert numbers(subscription) == [1, 3, 5, *range(10, 16)]


def test_where_a_new_group_begins(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for topic in ("t", "%RETRY%g"):
            for number in range(5):
                store.put(Message(topic, b"%d" % number))
        time_ms = max(message.store_timestamp_ms for message in store.read("t"))
        with store.subscribe("t", "last", start=StartFrom.LAST) as subscription:
            assert numbers(subscription) == []
        assert store.group_offsets("last", "t")[0] == 5
        store.put(Message("t", b"5"))
        with store.subscribe("t", "last", start=StartFrom.LAST) as subscription:
            assert numbers(subscription) == [5], "it has begun, though it acknowledged nothing"
        with store.subscribe("t", "time", start=time_ms + 1_000_000) as subscription:
            assert numbers(subscription) == []
        with store.subscribe("t", "first", start=0) as subscription:
            assert numbers(subscription) == [0, 1, 2, 3, 4, 5]
        with store.subscribe("%RETRY%g", "g", start=StartFrom.LAST) as subscription:
            assert numbers(subscription) == [0, 1, 2, 3, 4], "what a group has yet to try again is never left out"


def test_flow_control_waits_for_acknowledgements(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for number in range(10):
            store.put(Message("t", b"%d" % number))
        subscription = store.subscribe("t", "g", limits=FlowLimits(max_count=3))
        held = [subscription.receive(0) for _ in range(4)]
        assert held[3] is None and [int(m.body) for m in held if m] == [0, 1, 2]
        assert held[1] is not None and held[1].ack()
        following = subscription.receive(0)
        assert following is not None and following.body == b"3" and subscription.receive(0) is None


def test_pause_seek_and_skip(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 1)
        for number in range(6):
            store.put(Message("t", b"%d" % number))
        subscription = store.subscribe("t", "g")
        (queue,) = subscription.queues
        subscription.pause()
        assert subscription.receive(0) is None
        subscription.resume()
        held = subscription.receive(0)
        assert held is not None
        subscription.seek(queue, 4)
        assert not held.ack(), "what was at work before counts no more"
        assert numbers(subscription) == [4, 5]
        subscription.seek(queue, -7)
        assert numbers(subscription) == list(range(6))
        subscription.seek_to_time(0)
        subscription.skip_to_now()
        assert numbers(subscription) == [] and store.group_offsets("g", "t") == {0: 6}
        with pytest.raises(UsageError, match="not one of"):
            subscription.seek(MessageQueue("t", "store", 9), 0)


def test_a_deleted_topic_begins_anew(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for number in range(3):
            store.put(Message("t", b"%d" % number))
        subscription = store.subscribe("t", "g")
        assert numbers(subscription) == [0, 1, 2]
        store.delete_topic("t")
        for number in range(10, 15):
            store.put(Message("t", b"%d" % number))
        assert numbers(subscription) == [10, 11, 12, 13, 14]
    assert_clean(tmp_path)


def test_queues_are_found_when_they_come(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.create_topic("t", 1)
        subscription = store.subscribe("t", "g")
        store.update_topic("t", queue_count=3)
        for queue_id in range(3):
            store.put(Message("t", b"%d" % queue_id, queue_id=queue_id))
        found = sorted(int(m.body) for _ in range(3) if (m := subscription.receive(LIMIT_S)) is not None)
        assert found == [0, 1, 2]


def test_a_topic_that_is_not_for_reading_is_not_consumed(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, 3)
        store.update_topic("orders", perm=flightlog.TopicPermission.WRITE)
        assert store.subscribe("orders", "g").queues == []


def test_members_that_differ_and_calls_that_are_wrong(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        first = store.subscribe("t", "g", member="a")
        wrong_members: list[Callable[[], object]] = [
            lambda: store.subscribe("t", "g", strategy=AveragelyByCircle()),
            lambda: store.subscribe("t", "g", tags="x"),
            lambda: store.subscribe("u", "g"),
            lambda: store.subscribe("t", "g", member="a"),
        ]
        for wrong in wrong_members:
            with pytest.raises(InconsistentGroupError):
                wrong()
        bad_calls: list[Callable[[], object]] = [
            lambda: store.subscribe("t", ""),
            lambda: store.subscribe("t@", "g"),
            lambda: store.subscribe({}, "g"),
            lambda: store.subscribe("t", "h", tags="||"),
            lambda: store.subscribe("t", "h", idle_s=-1),
        ]
        for bad in bad_calls:
            with pytest.raises(UsageError):
                bad()
        assert first.is_alive and store.subscribe("t", "g").queues == []
    with pytest.raises(StoreClosedError):
        store.subscribe("t", "g")


def test_after_a_kill_no_offset_is_ahead_of_its_acknowledgements(tmp_path: Path, assert_clean: AssertClean) -> None:
    for number in range(3):
        path = tmp_path / str(number)
        acked = killed_consumer.killed(path, after=20 + 60 * number)
        with flightlog.open(path, SETTINGS) as store:
            offsets = store.group_offsets("g", "orders")
            for queue_id, offset in offsets.items():
                below = {(queue_id, place) for place in range(offset)}
                assert below <= acked, f"queue {queue_id}: committed {offset}, acknowledged {sorted(acked)}"
            again = {(m.queue_id, m.queue_offset) for m in store.subscribe("orders", "g", idle_s=0)}
            assert len(again | acked) == 400 and not {place for place in again if place[1] < offsets[place[0]]}
        assert_clean(path)
