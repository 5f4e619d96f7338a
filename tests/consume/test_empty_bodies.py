"""Messages without a body: a new one is refused unless the store was opened to take it; what is there keeps working."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import EmptyBodyError, FlushMode, Message, Producer, Store, StoreSettings, TopicColumns
from flightlog.consume.retry.send_back import send_to_dead_letters
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

STRICT = StoreSettings.small(delay_levels="1s 2s 3s")
FREE = replace(STRICT, rocketmq_strict=False)


@contextmanager
def transaction(store: Store, message: Message) -> Iterator[None]:
    with Producer(store).transaction(message):
        yield


def put_transaction(store: Store, body: bytes) -> None:
    with transaction(store, Message("t", body)):
        pass


CALLS: dict[str, Callable[[Store, bytes], object]] = {
    "put": lambda store, body: store.put(Message("t", body)),
    "put, not to wait for": lambda store, body: store.put(Message("t", body, wait_store_ok=False)),
    "put, compressed": lambda store, body: store.put(Message("t", body, compress=flightlog.CompressionType.ZLIB)),
    "put, delayed": lambda store, body: store.put(Message("t", body, delay_level=1)),
    "put, timer": lambda store, body: store.put(Message("t", body, properties={"TIMER_DELAY_SEC": "1"})),
    "put_many": lambda store, body: store.put_many([Message("u", b"x"), Message("t", body)]),
    "put_async": lambda store, body: store.put_async(Message("t", body)).result(),
    "put_batch": lambda store, body: store.put_batch([Message("b", b"x"), Message("b", body)]),
    "queue": lambda store, body: store.queue("t", 0).append(body),
    "append_columns": lambda store, body: store.append_columns("t", {"value": [b"x", body]}),
    "append_columns, as messages": lambda store, body: store.append_columns(
        "t", {"value": [b"x", body], "properties": [{}, {"DELAY": "1"}]}
    ),
    "append_atomically": lambda store, body: store.append_atomically([TopicColumns("t", {"value": [b"x", body]})]),
    "send": lambda store, body: Producer(store).send(Message("t", body)),
    "transaction": put_transaction,
}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("call", CALLS)
def test_a_new_message_has_a_body_unless_the_store_takes_none(
    call: str, mode: FlushMode, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, replace(STRICT, flush_mode=mode)) as store:
        for topics in (["there"], ["b", "t", "there", "u"]):  # the topic of the put is new; it is there
            for topic in topics:
                if topic != "b" and store.topic(topic) is None:
                    store.put(Message(topic, b"there"))
            before = {key: bounds for key, bounds in store.queues().items() if bounds[1]}
            with pytest.raises(EmptyBodyError, match="rocketmq_strict=False") as raised:
                CALLS[call](store, b"")
            assert isinstance(raised.value, flightlog.InvalidMessageError) and raised.value.exit_code == 2
            assert {key: bounds for key, bounds in store.queues().items() if bounds[1]} == before
        CALLS[call](store, b"x")
    with flightlog.open(tmp_path, replace(FREE, flush_mode=mode)) as store:
        CALLS[call](store, b"")
    with flightlog.open(tmp_path, STRICT) as store:
        for topic, queue_id in store.queues():
            list(store.read(topic, queue_id))
    assert_clean(tmp_path)


def test_the_error_of_columns_names_the_row(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, STRICT) as store, pytest.raises(EmptyBodyError) as raised:
        store.append_columns("t", {"value": [b"a", b"b", b"", b"d"]})
    assert (raised.value.row, raised.value.column) == (2, "value")


def test_what_a_hook_returns_has_a_body(tmp_path: Path, assert_clean: AssertClean) -> None:
    def without(message: Message) -> Message:
        return replace(message, body=message.body.removeprefix(b"x"))

    for settings, body in ((STRICT, b"xx"), (FREE, b"x")):
        with flightlog.open(tmp_path, settings, pre_put_hook=without) as store:
            store.put(Message("t", body))
    with flightlog.open(tmp_path, STRICT, pre_put_hook=without) as store:
        with pytest.raises(EmptyBodyError):
            store.put(Message("t", b"x"))
        assert [message.body for message in store.read("t")] == [b"x", b""]
    assert_clean(tmp_path)


def test_a_timer_is_cancelled_in_a_strict_store(tmp_path: Path, assert_clean: AssertClean) -> None:
    time = ManualClock()
    with flightlog.open(tmp_path, STRICT, clock=time) as store:
        at_ms = time.now_ms() + 60_000
        store.put(Message("t", b"x", uniq_key="k", properties={"TIMER_DELIVER_MS": str(at_ms)}))
        assert store.cancel_timer("t", "k", at_ms).status is flightlog.PutStatus.PUT_OK
    assert_clean(tmp_path)


def test_empty_messages_that_are_there_are_retried_buried_and_redriven(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    time = ManualClock()
    with flightlog.open(tmp_path, FREE, clock=time) as store:
        put = store.put(Message("t", b""))
        store.put(Message("t", b"", delay_level=1))
    with flightlog.open(tmp_path, STRICT, clock=time) as store:
        failed = store.message_at(put.physical_offset)
        with store.subscribe("t", "g") as member:
            message = member.receive()
            assert message is not None and message.send_back()
            time.advance(10_000)
            again: list[Any] = [member.receive(60), member.receive(60)]  # the retry, and the delayed one
            assert sorted(each.attempt for each in again if each is not None and each.ack()) == [1, 2]
        assert failed is not None
        [popped] = store.receive("pops", "t", max_count=1, invisible_ms=1000, start=flightlog.StartFrom.FIRST)
        time.advance(10_000)
        store.pop_service.revive()
        assert [message.body for message in store.read("%RETRY%pops_t")] == [popped.body] == [b""]
        send_to_dead_letters(inside.engine(store), "g", failed, 3)
        assert [letter.body for letter in store.dead_letters("g")] == [b""]
        assert store.redrive("g").by_topic == {"t": 1}
        with pytest.raises(EmptyBodyError):
            store.put(Message("t", b""))
    assert_clean(tmp_path)
