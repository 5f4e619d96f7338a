"""`Consumer`: a listener is called with every message, acknowledged when it returns, again when it raises."""

from __future__ import annotations

import enum
import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from flightlog import Consumer, FlightlogError, Message, MessageQueue, ReceivedMessage, StartFrom
from flightlog.consume.deliver.back_off import BackOff
from flightlog.consume.deliver.delivery import ConsumerStatistics
from flightlog.consume.deliver.process_queue import FlowLimits
from flightlog.store.errors import InconsistentGroupError, ListenerResultError, StoreClosedError, UsageError
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.consume.store import Store

LIMIT_S = 240.0
AT_ONCE = BackOff(0.0, 0.0)
Opened = Callable[[], "Store"]
Told = Callable[[], list[logging.LogRecord]]


def put(store: Store, count: int, topic: str = "orders", first: int = 0) -> None:
    for number in range(first, first + count):
        store.put(Message(topic, b"%d" % number, queue_id=None, tags="odd" if number % 2 else "even"))


class Seen:
    """A listener that keeps what it is called with, and fails at what it is told to."""

    def __init__(self, expected: int, fails: Callable[[ReceivedMessage], bool] = lambda message: False) -> None:
        self._expected, self._fails = expected, fails
        self._lock = threading.Lock()
        self.all_there = threading.Event()
        self.numbers: Counter[int] = Counter()
        self.threads: set[str] = set()
        self.batches: list[list[int]] = []

    def __call__(self, given: ReceivedMessage | list[ReceivedMessage]) -> None:
        batch = given if isinstance(given, list) else [given]
        for message in batch:
            if self._fails(message):
                raise ValueError(f"{message.body!r} is not to my taste")
        with self._lock:
            self.numbers.update(int(message.body) for message in batch)
            self.threads.add(threading.current_thread().name)
            self.batches.append([int(message.body) for message in batch])
            if len(self.numbers) == self._expected:
                self.all_there.set()

    def expect(self, expected: int) -> None:
        """Begin anew."""
        with self._lock:
            self._expected = expected
            self.numbers.clear()
            self.all_there.clear()

    def wait(self) -> Counter[int]:
        assert self.all_there.wait(LIMIT_S), f"{len(self.numbers)} of {self._expected}"
        return self.numbers


@pytest.mark.parametrize(("threads", "batch_size"), [(1, 1), (4, 1), (3, 7)])
def test_every_message_is_handed_over_once_and_acknowledged(opened: Opened, threads: int, batch_size: int) -> None:
    before = process.threads()
    store = opened()
    put(store, 150)
    seen = Seen(300)
    with Consumer(store, "orders", "g", seen, threads=threads, batch_size=batch_size) as consumer:
        put(store, 150, first=150)
        assert seen.wait() == Counter(range(300))
    assert max(map(len, seen.batches)) <= batch_size and len(seen.threads) <= threads
    assert consumer.statistics().consumed == 300 and not process.consumer_threads(before)
    assert store.group_offsets("g", "orders") == dict.fromkeys(range(4), 75)
    store.close()
    with opened().subscribe("orders", "g") as again:
        assert again.receive(0) is None, "all of it is on the disk"


def test_a_batch_is_of_one_queue_and_as_large_as_can_be(opened: Opened) -> None:
    store = opened()
    put(store, 40)
    queues: list[set[int]] = []

    def listener(batch: list[ReceivedMessage]) -> None:
        queues.append({message.queue_id for message in batch})
        seen(batch)

    seen = Seen(40)
    with Consumer(store, "orders", "g", listener, threads=1, batch_size=5):
        seen.wait()
    assert [len(batch) for batch in seen.batches] == [5] * 8
    assert all(len(each) == 1 for each in queues)


def test_what_fails_comes_again_and_no_thread_dies_of_it(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    before = process.threads()
    store = opened()
    put(store, 60)
    seen = Seen(60, fails=lambda message: int(message.body) % 3 == 0 and message.attempt < 4)
    with (
        caplog.at_level(logging.WARNING, "flightlog.consume"),
        Consumer(store, "orders", "g", seen, threads=3, back_off=AT_ONCE) as consumer,
    ):
        assert seen.wait() == Counter(range(60))
        assert len(process.consumer_threads(before)) == 3
    told = consumer.statistics()
    assert (told.consumed, told.failed, told.in_flight, told.lag) == (60, 60, 0, 0)
    assert told.listener_ms.count == 120
    [(cause, times)] = told.causes.items()
    assert times == 60 and cause.startswith("ValueError at ")
    [record] = [record for record in caplog.records if "the listener failed" in record.message]
    assert record.exc_info is not None, "once, with where it comes from"
    assert store.group_offsets("g", "orders") == dict.fromkeys(range(4), 15)


def test_a_listener_may_even_exit(opened: Opened) -> None:
    store = opened()
    put(store, 4)
    seen = Seen(4)

    def listener(message: ReceivedMessage) -> None:
        if message.attempt == 1:
            raise SystemExit(7)
        seen(message)

    with Consumer(store, "orders", "g", listener, threads=1, back_off=AT_ONCE):
        assert seen.wait() == Counter(range(4))


def test_of_a_batch_that_fails_what_was_acknowledged_does_not_come_again(opened: Opened) -> None:
    store = opened()
    for number in range(6):
        store.put(Message("t", b"%d" % number))
    batches: list[list[int]] = []
    is_done = threading.Event()

    def listener(batch: list[ReceivedMessage]) -> None:
        batches.append([int(message.body) for message in batch])
        if len(batches) == 1:
            for message in batch[:4]:
                message.ack()
            raise ValueError
        is_done.set()

    with Consumer(store, "t", "g", listener, threads=1, batch_size=6, back_off=AT_ONCE):
        assert is_done.wait(LIMIT_S)
    assert batches == [[0, 1, 2, 3, 4, 5], [4, 5]]
    assert store.group_offsets("g", "t")[0] == 6


def test_the_back_off_doubles_to_its_longest() -> None:
    back_off = BackOff(0.5, 5.0)
    assert [back_off.delay_s(attempt) for attempt in (1, 2, 3, 4, 5, 6, 10_000)] == [0.5, 1, 2, 4, 5, 5, 5]
    for first_s, most_s in ((-1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(UsageError, match="expected seconds"):
            BackOff(first_s, most_s)


def test_a_message_given_back_comes_not_before_its_time(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    now_s = 1_000.0
    monkeypatch.setattr(inside.clock(store), "monotonic_s", lambda: now_s)
    for number in range(3):
        store.put(Message("t", b"%d" % number))
    subscription = store.subscribe("t", "g")
    first, second, third = (subscription.receive(0) for _ in range(3))
    assert first and second and third
    assert first.retry_later(10) and not first.retry_later(10), "it is not in anybody's hands now"
    assert second.retry_later(5) and third.ack() and not third.retry_later(0)
    assert subscription.receive(0) is None
    now_s += 5
    assert subscription.receive(0) is second and second.attempt == 2
    assert subscription.receive(0) is None
    assert first.ack(), "it may be acknowledged meanwhile"
    now_s += 10
    assert subscription.receive(0) is None, "and comes no more then"
    assert store.group_offsets("g", "t")[0] == 1
    assert second.retry_later(0) and subscription.receive(0) is second
    assert second.retry_later(1_000)
    subscription.seek_to_time(0)
    assert [m.body for _ in range(3) if (m := subscription.receive(0))] == [b"0", b"1", b"2"]
    now_s += 10_000
    assert subscription.receive(0) is None, "what was given back before the seek counts no more"


def test_close_waits_for_the_listener_and_commits(opened: Opened) -> None:
    before = process.threads()
    store = opened()
    put(store, 1)
    is_called, may_end = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        is_called.set()
        assert may_end.wait(LIMIT_S)

    consumer = Consumer(store, "orders", "g", listener).start()
    assert is_called.wait(LIMIT_S)
    assert consumer.statistics().in_flight == 1
    closed: list[bool] = []
    closing = threading.Thread(target=lambda: closed.append(consumer.close()))
    closing.start()
    put(store, 3, first=1)  # for the other queues: they may come too late for this one
    may_end.set()
    closing.join(LIMIT_S)
    assert closed == [True] and not process.consumer_threads(before)
    assert sum(store.group_offsets("g", "orders").values()) >= 1
    assert store.group_offsets("g", "orders")[0] == 1 and consumer.close()


def test_a_listener_that_does_not_end_is_left_and_its_message_comes_again(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    put(store, 1)
    is_called, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()
    late: list[bool] = []

    def listener(message: ReceivedMessage) -> None:
        is_called.set()
        assert may_end.wait(LIMIT_S)
        late.append(message.ack())
        has_ended.set()

    consumer = Consumer(store, "orders", "g", listener).start()
    assert is_called.wait(LIMIT_S)
    assert not consumer.close(timeout_s=0)
    assert "which come again: 1" in caplog.text
    with store.subscribe("orders", "g") as other:
        again = other.receive(0)
        assert again is not None and again.body == b"0" and again.ack()
    may_end.set()
    assert has_ended.wait(LIMIT_S) and late == [False]
    assert consumer.close()


def test_a_listener_may_close_its_consumer(opened: Opened) -> None:
    store = opened()
    put(store, 3)
    ended: list[bool] = []
    is_done = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        message.ack()
        ended.append(consumer.close())
        is_done.set()

    consumer = Consumer(store, "orders", "g", listener, threads=1)
    consumer.start()
    assert is_done.wait(LIMIT_S) and ended == [True]
    assert sum(store.group_offsets("g", "orders").values()) == 1


def test_closing_the_store_ends_its_consumers(opened: Opened) -> None:
    before = process.threads()
    store = opened()
    put(store, 10)
    seen = Seen(10)
    consumer = Consumer(store, "orders", "g", seen).start()
    seen.wait()
    store.close()
    assert consumer.close() and not process.consumer_threads(before)
    with pytest.raises(StoreClosedError):
        Consumer(store, "orders", "g", seen).start()


def test_members_of_a_group_share_and_take_over(opened: Opened) -> None:
    store = opened()
    put(store, 200)
    seen = Seen(400)
    with Consumer(store, "orders", "g", seen, threads=2) as left:
        with Consumer(store, "orders", "g", seen, threads=2) as right:
            assert sorted([*left.queues, *right.queues]) == [MessageQueue("orders", "store", i) for i in range(4)]
        put(store, 200, first=200)
        seen.wait()
        assert len(left.queues) == 4
    assert store.group_offsets("g", "orders") == dict.fromkeys(range(4), 100)


def test_pause_seek_and_skip_are_those_of_the_subscription(opened: Opened) -> None:
    store = opened()
    put(store, 8)
    seen = Seen(8)
    with Consumer(store, "orders", "g", seen, threads=1) as consumer:
        seen.wait()
        consumer.pause()
        put(store, 8, first=8)
        assert sum(consumer.lag().values()) >= 8
        consumer.skip_to_now()
        consumer.resume()
        assert not sum(consumer.lag().values())
        seen.expect(16)
        consumer.seek(consumer.queues[1], 0)
        consumer.seek_to_time(0)
        assert {*seen.wait()} == {*range(16)}


def test_tags_start_and_limits_are_passed_on(opened: Opened) -> None:
    store = opened()
    put(store, 10)
    seen = Seen(10)
    begun = Consumer(store, "orders", "late", seen, tags="odd", start=StartFrom.LAST, limits=FlowLimits(max_count=1))
    with begun, Consumer(store, {"orders": "odd"}, "all", Seen(0)) as consumer:
        put(store, 20, first=10)
        assert {*seen.wait()} == {*range(11, 30, 2)}
        with pytest.raises(InconsistentGroupError):
            Consumer(store, "orders", "all", seen).start()
        assert consumer.group == "all"


def test_reading_that_fails_is_told_and_tried_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    put(store, 8)
    get, fails = inside.engine(store).get, [True]

    def failing(topic: str, queue_id: int, *rest: object, **more: object) -> object:
        if queue_id == 2 and fails[0]:
            raise FlightlogError("the disk is away")
        return get(topic, queue_id, *rest, **more)  # type: ignore[arg-type]

    others, everything = Seen(6), Seen(8)

    def listener(message: ReceivedMessage) -> None:
        others(message)
        everything(message)

    monkeypatch.setattr(inside.engine(store), "get", failing)
    with Consumer(store, "orders", "g", listener, threads=2) as consumer:
        others.wait()  # the other queues go on
        fails[0] = False
        assert everything.wait() == Counter(range(8))
        causes = consumer.statistics().causes
    assert [cause.split()[0] for cause in causes] == ["FlightlogError"]
    assert "messages could not be read" in caplog.text


def test_calls_that_are_wrong(opened: Opened) -> None:
    store = opened()

    with pytest.raises(UsageError, match="expected a function, or a coroutine function, that returns"):
        Consumer(store, "t", "g", None)  # type: ignore[arg-type]
    for wrong in ({"threads": 0}, {"threads": True}, {"batch_size": 1.5}):
        with pytest.raises(UsageError, match="1 or more"):
            Consumer(store, "t", "g", print, **wrong)
    consumer = Consumer(store, "t", "g", print)
    with pytest.raises(UsageError, match="has not been started"):
        consumer.lag()
    assert consumer.close(), "there is nothing to end"
    with consumer, pytest.raises(UsageError, match="make another one"):
        consumer.start()


def test_a_listener_that_returns_a_coroutine_acknowledges_nothing(opened: Opened) -> None:
    store = opened()
    put(store, 1)
    is_called = threading.Event()

    async def work() -> None: ...

    def listener(message: ReceivedMessage) -> object:
        is_called.set()
        return work() if message.attempt == 1 else None  # a slow machine gets to the second

    with Consumer(store, "orders", "g", listener) as consumer:
        assert is_called.wait(LIMIT_S)
    assert consumer.statistics().failed == 1
    assert [m.reconsume_times for m in store.read("SCHEDULE_TOPIC_XXXX", 2)] == [1], "it waits for its next attempt"


class ConsumeStatus(enum.IntEnum):
    """As RocketMQ's Python client has it."""

    CONSUME_SUCCESS = 0
    RECONSUME_LATER = 1


def consume(
    store: Store, returned: object, calls: int, *, ordered: bool = False, batch_size: int = 1
) -> ConsumerStatistics:
    """Consume two messages in so many calls of a listener: the first call returns `returned`, the others None."""
    put(store, 2)
    seen: list[int] = []
    all_calls = threading.Event()

    def listener(given: ReceivedMessage | list[ReceivedMessage]) -> object:
        message = given[0] if isinstance(given, list) else given
        seen.append(message.attempt)
        if len(seen) == calls:
            all_calls.set()
        return returned if len(seen) == 1 else None

    options = {"threads": 1, "ordered": ordered, "batch_size": batch_size, "back_off": AT_ONCE}
    with Consumer(store, "orders", "g", listener, **options) as consumer:  # type: ignore[arg-type]
        assert all_calls.wait(LIMIT_S)
    assert sorted(seen) == [1] * 2 + [2] * (calls - 2)
    return consumer.statistics()


KINDS = [(False, 1), (True, 1), (False, 8), (True, 8)]


@pytest.mark.parametrize(("ordered", "batch_size"), KINDS)
@pytest.mark.parametrize("returned", [None, "CONSUME_SUCCESS", ConsumeStatus.CONSUME_SUCCESS])
def test_none_and_consume_success_acknowledge(
    opened: Opened, told: Told, returned: object, ordered: bool, batch_size: int
) -> None:
    found = consume(opened(), returned, 2, ordered=ordered, batch_size=batch_size)
    assert (found.consumed, found.failed, found.causes) == (2, 0, {}) and not told()


@pytest.mark.parametrize(("ordered", "batch_size"), KINDS)
@pytest.mark.parametrize("returned", ["RECONSUME_LATER", ConsumeStatus.RECONSUME_LATER])
def test_reconsume_later_is_a_failed_attempt(
    opened: Opened, told: Told, returned: object, ordered: bool, batch_size: int
) -> None:
    store = opened()
    found = consume(store, returned, 3, ordered=ordered, batch_size=batch_size)
    assert (found.consumed, found.failed, found.causes) == (2, 1, {"RECONSUME_LATER": 1})
    assert not told(), "the listener asked for it"


def test_an_ordered_listener_may_use_the_names_of_rocketmqs_ordered_status(opened: Opened) -> None:
    store = opened()
    found = consume(store, "SUCCESS", 2, ordered=True)
    assert (found.consumed, found.failed, found.causes) == (2, 0, {})
    found = consume(store, "SUSPEND_CURRENT_QUEUE_A_MOMENT", 3, ordered=True)
    assert (found.consumed, found.failed, found.causes) == (2, 1, {"SUSPEND_CURRENT_QUEUE_A_MOMENT": 1})


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (False, "False (bool)"),
        (True, "True (bool)"),
        (0, "0 (int)"),
        ("", "'' (str)"),
        ("reconsume_later", "'reconsume_later' (str)"),
        ("SUCCESS", "'SUCCESS' (str)"),
        (b"RECONSUME_LATER", "b'RECONSUME_LATER' (bytes)"),
        ([], "[] (list)"),
        ("x" * 500, "... (str)"),
    ],
)
def test_any_other_result_of_a_listener_is_a_failed_attempt_with_a_named_error(
    opened: Opened, told: Told, returned: object, shown: str
) -> None:
    """`False` was once taken as success, and the message was lost."""
    store = opened()
    found = consume(store, returned, 3)
    assert (found.consumed, found.failed, found.causes) == (2, 1, {"ListenerResultError": 1})
    [record] = told()
    text = record.getMessage()
    assert f"returned {shown}" in text or (shown in text and len(text) < 900)
    assert "consume.<locals>.listener" in text and "expected None or one of CONSUME_SUCCESS, RECONSUME" in text
    assert record.exc_info is not None and isinstance(record.exc_info[1], ListenerResultError)


def test_a_result_that_cannot_be_shown_is_a_failed_attempt_too(opened: Opened) -> None:
    class Unreadable:
        def __repr__(self) -> str:
            return str(1 // 0)

    store = opened()
    found = consume(store, Unreadable(), 3)
    [cause] = found.causes
    assert (found.consumed, found.failed) == (2, 1)
    assert cause.startswith("ZeroDivisionError at ")
