"""Calls after close: each public method answers with StoreClosedError, which names what was closed, or as documented.

The tables name every public method: a new one needs a row, see `test_every_method_has_a_row`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import flightlog
from flightlog import (
    Consumer,
    DeduplicationWindow,
    Message,
    MessageQueue,
    PopHandle,
    Producer,
    Stores,
    StoreSettings,
    TopicColumns,
    Transaction,
    TransactionChecker,
    TransactionResolution,
)
from flightlog.engine.message_store import MessageStore
from flightlog.engine.read_only import ReadOnlyStore
from flightlog.produce.faults import FaultRules
from flightlog.produce.send_errors import NoRouteError, SendManyError
from flightlog.store.errors import StoreClosedError, UsageError
from flightlog.tests.support import process

Call = Callable[[Any], object]
Answers = dict[str, tuple[Call, object]]
"""A method, a call of it, and what it answers: a value, or an error and a part of its text."""

QUEUE = MessageQueue("t", "store", 0)
HANDLE = PopHandle("g", "t", "0 1700000000000 1000 0 0 store 0 0")
PLAIN = Message("t", b"x")
LATER_MS = 4_102_444_800_000

READS: dict[str, Call] = {
    "body_view": lambda o: o.on.body_view(o.message),
    "estimate_count": lambda o: o.on.estimate_count("t", 0, 0, 5),
    "get": lambda o: o.on.get("t", 0, 0),
    "message_at": lambda o: o.on.message_at(0),
    "message_by_id": lambda o: o.on.message_by_id("7F000001000000000000000000000000"),
    "message_by_uniq_key": lambda o: o.on.message_by_uniq_key("t", "u"),
    "offset_at": lambda o: o.on.offset_at("t", 0, 0),
    "query": lambda o: o.on.query("t", "k"),
    "queue_bounds": lambda o: o.on.queue_bounds("t", 0),
    "queues": lambda o: o.on.queues(),
    "read": lambda o: o.on.read("t"),
    "read_all": lambda o: o.on.read_all("t"),
    "read_batch": lambda o: o.on.read_batch("t"),
    "statistics": lambda o: o.on.statistics(),
    "topic": lambda o: o.on.topic("t"),
    "topics": lambda o: o.on.topics(),
    "verify": lambda o: o.on.verify(),
    "was_stored": lambda o: o.on.was_stored("u"),
    "a read that had begun": lambda o: next(o.reading),
}
VIEW: dict[str, Call] = {
    **READS,
    "lost_places": lambda o: o.on.lost_places(),
    "refresh": lambda o: o.on.refresh(),
}
STORE: dict[str, Call] = {
    **READS,
    "append_columns": lambda o: o.on.append_columns("t", {"value": [b"x"]}),
    "append_columns, no rows": lambda o: o.on.append_columns("t", {"value": []}),
    "append_atomically": lambda o: o.on.append_atomically([TopicColumns("t", {"value": [b"x"]})]),
    "append_atomically, no parts": lambda o: o.on.append_atomically([]),
    "cancel_timer": lambda o: o.on.cancel_timer("t", "u", LATER_MS),
    "clean_up": lambda o: o.on.clean_up(),
    "create_topic": lambda o: o.on.create_topic("t"),
    "delete_topic": lambda o: o.on.delete_topic("t"),
    "flush": lambda o: o.on.flush(),
    "pull": lambda o: o.on.pull("t", 0, 1),
    "put": lambda o: o.on.put(PLAIN),
    "put_async": lambda o: o.on.put_async(PLAIN),
    "put_batch": lambda o: o.on.put_batch([PLAIN]),
    "put_many": lambda o: o.on.put_many([PLAIN]),
    "put_many, none": lambda o: o.on.put_many([]),
    "queue": lambda o: o.on.queue("t"),
    "a queue's append": lambda o: o.queue.append(b"x"),
    "update_topic": lambda o: o.on.update_topic("t", 8),
    "wait_until_prepared": lambda o: o.on.wait_until_prepared(1),
}
ENGINE: dict[str, Call] = {**STORE, "end_offsets": lambda o: o.on.end_offsets([("t", 0)])}
CONSUMING_STORE: dict[str, Call] = {
    **STORE,
    "subscribe": lambda o: o.on.subscribe("t", "g"),
    "subscribe, in order": lambda o: o.on.subscribe("t", "g", ordered=True),
    "subscribe, must exist": lambda o: o.on.subscribe("none", "g", must_exist=True),
    "receive": lambda o: o.on.receive("g", "t"),
    "ack": lambda o: o.on.ack(HANDLE),
    "change_invisible": lambda o: o.on.change_invisible(HANDLE, 5),
    "group_offsets": lambda o: o.on.group_offsets("g", "t"),
    "change_subscription": lambda o: o.on.change_subscription("g", "t"),
    "groups": lambda o: o.on.groups(),
    "lag": lambda o: o.on.lag("g"),
    "reset_offset": lambda o: o.on.reset_offset("g", "t", 0),
    "commit_offset": lambda o: o.on.commit_offset("g", "t", 0, 0),
    "delete_group": lambda o: o.on.delete_group("g"),
    "group_settings": lambda o: o.on.group_settings("g"),
    "update_group": lambda o: o.on.update_group("g", is_ordered=True),
    "dead_letters": lambda o: o.on.dead_letters("g"),
    "redrive": lambda o: o.on.redrive("g"),
    "be_read_by": lambda o: Stores({"a": o.on}),
    "outside_groups": lambda o: o.on.outside_groups(o),
    "a consumer's start": lambda o: Consumer(o.on, "t", "g", print).start(),
}
NO_CALLS = {"open", "mark_forked", "close", "is_closed"}
"""How one is made, and what may be called at any time."""

OVER = (StoreClosedError, "group 'g': the member 'm' was closed")
SUBSCRIPTION: Answers = {
    "close": (lambda o: o.on.close(), None),
    "is_over": (lambda o: o.on.is_over, True),
    "lag": (lambda o: o.on.lag(), {}),
    "pause": (lambda o: o.on.pause(QUEUE), None),
    "poll": (lambda o: o.on.poll(), []),
    "queues": (lambda o: o.on.queues, []),
    "receive": (lambda o: o.on.receive(), None),
    "receive_async": (lambda o: asyncio.run(o.on.receive_async()), None),
    "receive_batch": (lambda o: o.on.receive_batch(2), []),
    "resume": (lambda o: o.on.resume(QUEUE), None),
    "stop": (lambda o: o.on.stop(), None),
    "seek": (lambda o: o.on.seek(QUEUE, 0), OVER),
    "seek_to_time": (lambda o: o.on.seek_to_time(0), OVER),
    "skip_to_now": (lambda o: o.on.skip_to_now(), OVER),
    "its messages": (lambda o: list(o.on), []),
    "ack": (lambda o: o.received.ack(), False),
    "retry_later": (lambda o: o.received.retry_later(0), False),
    "send_back": (lambda o: o.received.send_back(), False),
}
OF_THE_GROUP = {"acknowledge", "forget", "give_back", "is_abandoned", "is_alive", "is_ordered", "revoke", "on_change"}
OF_THE_GROUP |= {"leave_group", "assign", "wake", "reset", "is_broadcasting", "change"}
OF_THE_GROUP |= {"read_topics", "fail", "fail_late"}
OF_THE_GROUP |= {"has_listener"}
"""What a member's group calls."""

CONSUMER: Answers = {
    "close": (lambda o: o.on.close(), True),
    "lag": (lambda o: o.on.lag(), {}),
    "pause": (lambda o: o.on.pause(QUEUE), None),
    "queues": (lambda o: o.on.queues, []),
    "resume": (lambda o: o.on.resume(QUEUE), None),
    "seek": (lambda o: o.on.seek(QUEUE, 0), OVER),
    "seek_to_time": (lambda o: o.on.seek_to_time(0), OVER),
    "skip_to_now": (lambda o: o.on.skip_to_now(), OVER),
    "start": (lambda o: o.on.start(), (UsageError, "group 'g' was started before")),
    "statistics": (lambda o: o.on.statistics().in_flight, 0),
    "subscription": (lambda o: o.on.subscription.is_over, True),
}
STORES_OVER = (StoreClosedError, "Stores is closed")
STORES: Answers = {
    "add_store": (lambda o: o.on.add_store("b", o.open), STORES_OVER),
    "close": (lambda o: o.on.close(), None),
    "group_offsets": (lambda o: o.on.group_offsets("g", "t"), STORES_OVER),
    "change_subscription": (lambda o: o.on.change_subscription("g", "t"), STORES_OVER),
    "names": (lambda o: o.on.names, []),
    "remove_store": (lambda o: o.on.remove_store("a"), STORES_OVER),
    "subscribe": (lambda o: o.on.subscribe("t", "g"), STORES_OVER),
}
WINDOW_OVER = (StoreClosedError, "the window was closed; open it again")
WINDOW: Answers = {
    "close": (lambda o: o.on.close(), None),
    "first_time": (lambda o: o.on.first_time("a"), WINDOW_OVER),
    "flush": (lambda o: o.on.flush(), WINDOW_OVER),
    "forget": (lambda o: o.on.forget("a"), WINDOW_OVER),
    "once": (lambda o: o.on.once("a").__enter__(), WINDOW_OVER),
    "in": (lambda o: "a" in o.on, WINDOW_OVER),
    "len": (lambda o: len(o.on), WINDOW_OVER),
}
CLOSED = (StoreClosedError, "the store was closed; open it again")
PRODUCER: Answers = {
    "send": (lambda o: o.on.send(PLAIN), CLOSED),
    "send, by group": (lambda o: o.on.send(PLAIN, group="g"), CLOSED),
    "send, by selector": (lambda o: o.on.send(PLAIN, selector=lambda queues, _: queues[0]), CLOSED),
    "send, a topic that it did not ask for": (lambda o: o.on.send(Message("u", b"")), (NoRouteError, "closed: store")),
    "send_async": (lambda o: o.on.send_async(PLAIN), CLOSED),
    "send_async, by group": (lambda o: o.on.send_async(PLAIN, group="g"), CLOSED),
    "send_many": (lambda o: o.on.send_many([PLAIN]), (SendManyError, "the store was closed; open it again")),
    "send_many, none": (lambda o: o.on.send_many([]), []),
    "send_coroutine": (lambda o: asyncio.run(o.on.send_coroutine(PLAIN)), CLOSED),
    "transaction": (lambda o: o.on.transaction(PLAIN), CLOSED),
    "queues": (lambda o: o.on.queues("u"), (NoRouteError, "closed: store")),
    "hot_spots": (lambda o: dict(o.on.hot_spots.queues), {}),
    "add_store": (lambda o: o.on.add_store("b", o.closed), None),
    "remove_store": (lambda o: o.on.remove_store("b"), None),
}
TRANSACTION: Answers = {
    "commit": (lambda o: o.on.commit(), CLOSED),
    "half_physical_offset": (lambda o: o.on.half_physical_offset >= 0, True),
    "rollback": (lambda o: o.on.rollback(), CLOSED),
    "unknown": (lambda o: o.on.unknown(), CLOSED),
}
CHECKER: Answers = {
    "check_now": (lambda o: o.on.check_now(), CLOSED),
    "close": (lambda o: o.on.close(), None),
    "another one": (lambda o: TransactionChecker(o.closed, "h", lambda _: TransactionResolution.UNKNOWN), CLOSED),
}


@pytest.fixture(params=[flightlog.Store, MessageStore])
def kind(request: pytest.FixtureRequest) -> type[flightlog.Store | MessageStore]:
    kind: type[flightlog.Store | MessageStore] = request.param
    return kind


@pytest.fixture
def store(tmp_path: Path) -> Iterator[flightlog.Store]:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as opened:
        opened.put(Message("t", b"first", keys="k", uniq_key="u", queue_id=0))
        yield opened


def check_refused(calls: dict[str, Call], on: Any, says: str) -> None:
    for name, call in calls.items():
        with pytest.raises(StoreClosedError) as caught:
            call(on)
        assert says in str(caught.value), name


def check_answers(answers: Answers, on: Any) -> None:
    for name, (call, wanted) in answers.items():
        if isinstance(wanted, tuple):
            with pytest.raises(wanted[0]) as caught:
                call(on)
            assert wanted[1] in str(caught.value), name
        else:
            assert call(on) == wanted, name


def test_a_closed_store(tmp_path: Path, kind: type[flightlog.Store | MessageStore], kernel: str) -> None:
    path = tmp_path / "store"
    opened = kind.open(path, StoreSettings.small())
    for body in (b"1", b"2"):
        opened.put(Message("t", body, queue_id=0))
    on = SimpleNamespace(on=opened, message=opened.message_at(0), queue=opened.queue("t"), reading=opened.read("t"))
    next(on.reading)
    end = opened.queue_bounds("t", 0)[1]
    opened.close()
    check_refused(CONSUMING_STORE if kind is flightlog.Store else ENGINE, on, f"{path}: the store was closed")
    opened.close()
    assert opened.is_closed and opened.corrupt_skipped == 0
    with flightlog.open_read_only(path) as view:
        assert view.queue_bounds("t", 0)[1] == end and list(view.topics()) == ["t"]


def test_a_closed_view(store: flightlog.Store) -> None:
    store.put(Message("t", b"second", queue_id=0))
    view = flightlog.open_read_only(store.path)
    on = SimpleNamespace(on=view, message=view.message_at(0), reading=view.read("t"))
    next(on.reading)
    view.close()
    check_refused(VIEW, on, f"{store.path}: this view was closed")
    view.close()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("closed", ["member", "store"])
def test_a_closed_subscription(store: flightlog.Store, closed: str, ordered: bool) -> None:
    member = store.subscribe("t", "g", member="m", ordered=ordered)
    on = SimpleNamespace(on=member, received=member.receive(process.LIMIT_S))
    assert on.received is not None
    (member if closed == "member" else store).close()
    check_answers(SUBSCRIPTION, on)


@pytest.mark.parametrize("closed", ["consumer", "store"])
def test_a_closed_consumer(store: flightlog.Store, closed: str) -> None:
    consumer = Consumer(store, "t", "g", lambda _: None, member="m").start()
    (consumer if closed == "consumer" else store).close()
    check_answers(CONSUMER, SimpleNamespace(on=consumer))


def test_closed_stores(store: flightlog.Store) -> None:
    stores = Stores({"a": store})
    stores.close()
    check_answers(STORES, SimpleNamespace(on=stores, open=store))


def test_a_closed_window(tmp_path: Path) -> None:
    window = DeduplicationWindow(tmp_path)
    window.close()
    check_answers(WINDOW, SimpleNamespace(on=window))


def test_a_producer_of_a_closed_store(store: flightlog.Store) -> None:
    # A failed store is not left alone: each row asks it again.
    producer = Producer(store, fault_rules=FaultRules((1,), (0,)))
    assert producer.queues("t")
    store.close()
    check_answers(PRODUCER, SimpleNamespace(on=producer, closed=store))


def test_a_transaction_and_a_checker_of_a_closed_store(store: flightlog.Store) -> None:
    transaction, checker = (
        Producer(store).transaction(PLAIN),
        TransactionChecker(store, "g", lambda _: TransactionResolution.UNKNOWN),
    )
    store.close()
    check_answers(TRANSACTION, SimpleNamespace(on=transaction))
    check_answers(CHECKER, SimpleNamespace(on=checker, closed=store))


@pytest.mark.parametrize(
    ("of", "rows", "beside"),
    [
        (ReadOnlyStore, VIEW, {"close"}),
        (MessageStore, ENGINE, NO_CALLS | {"check_usable", "put_slow"}),
        (flightlog.Store, CONSUMING_STORE, NO_CALLS),
        (flightlog.Subscription, SUBSCRIPTION, OF_THE_GROUP),
        (Consumer, CONSUMER, set()),
        (Stores, STORES, set()),
        (Producer, PRODUCER, set()),
        (DeduplicationWindow, WINDOW, {"mark_forked"}),
        (Transaction, TRANSACTION, set()),
        (TransactionChecker, CHECKER, set()),
    ],
)
def test_every_method_has_a_row(of: type, rows: dict[str, object], beside: set[str]) -> None:
    public = {name for name in dir(of) if not name.startswith("_")}
    if issubclass(
        of, (flightlog.Store, MessageStore, ReadOnlyStore)
    ):  # what properties of theirs show is not read from the disk
        public = {name for name in public if not isinstance(getattr(of, name), property)}
    assert public - beside <= set(rows)
