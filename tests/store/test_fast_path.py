"""The fast path and the slow path: the same records, the same answers, the same refusals, and never both at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import (
    FlightlogError,
    ForkedStoreError,
    InvalidArgumentError,
    InvalidMessageError,
    QueueNotFoundError,
    StoreClosedError,
    StorePoisonedError,
    TopicNotFoundError,
    TopicPermissionError,
)
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.store.conftest import ManualClock

AssertClean = Callable[[Path], None]

pytestmark = pytest.mark.usefixtures("kernel")

SEGMENT_SIZE = 64 << 10
NO_FAST_PATH = "a test"


def settings(**changes: Any) -> StoreSettings:
    sizes: dict[str, Any] = {
        "segment_size": SEGMENT_SIZE,
        "queue_file_entries": 1000,
        "max_message_size": 8192,
        "flush_interval_ms": 60_000,
        "allocate_step_size": 4096,
    }
    return StoreSettings(**(sizes | changes))


def open_store(path: Path, clock: ManualClock, *, fast_path: bool, **changes: Any) -> flightlog.Store:
    # Nothing is delivered: deliveries come when they come, and two stores are compared byte by byte.
    store = flightlog.open(path, settings(deliver_delayed=False, rocketmq_strict=False, **changes), clock=clock)
    if not fast_path:
        inside.log(store).conditions.active[NO_FAST_PATH] = True
    return store


def log_bytes(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}


def answer(call: Callable[[Any], object], argument: object) -> object:
    """What it returns, or what it raises; the folder of the store aside."""
    try:
        return call(argument)
    except FlightlogError as e:
        return type(e), str(e).replace("/fast_path", "/long")
    except (TypeError, ValueError, AttributeError) as e:
        return type(e)


class TextLike(str):
    """Text that is not exactly text."""


PLAIN: dict[str, tuple[Any, ...]] = {
    "topic": ("orders", "orders", "ünicode-топик", "%RETRY%" + "g" * 200, "t" * 127),
    "tags": (None, None, "", "TagA", "タグ", "x" * 3000),
    "keys": ((), (), "", "k1", ("k1", "k2"), ["k1"], ("ключ",), ("k" * 2000,)),
    "properties": (
        None,
        None,
        {},
        {"a": "1"},
        {"ä": "ö", "WAIT": "true", "b": "x" * 300},
        {f"n{i}": "v" for i in range(40)},
        {"n": "v" * 32_000},
    ),
    "queue_id": (0, 0, 1, 3, 7, 300),
    "flag": (0, 0, 1, -1, (1 << 31) - 1, -(1 << 31)),
    "uniq_key": (None, None, "", "0A000001000118B4AAC2"),
    "born_timestamp_ms": (None, None, 0, -1, 1_700_000_000_123, (1 << 63) - 1, ~((1 << 63) - 1)),
    "born_host": (None, None, None, ("10.0.0.1", 5), ("::1", 5), ()),
    "sys_flag": (0, 0, 0, 0, 0x1, 0x4, 0x8, 0xC, 0x30, 0x100),
    "reconsume_times": (0, 0, 5, -1),
    "prepared_transaction_offset": (0, 0, 77, -(1 << 63)),
    "wait_store_ok": (True, True, True, False),
    "compress": (None, None, None, None, None, flightlog.CompressionType.ZLIB),
    "delay_level": (0, 0, 0, 3, 99),
}
"""What a put takes, one way or the other; every ordinary value several times."""
ODD: dict[str, tuple[Any, ...]] = {
    "topic": ("", ".", "..", "a/b", "a\0b", "t" * 128, "\ud800", None, 5, b"t", ["t"], TextLike("orders")),
    "body": (None, "text", bytearray(b"b"), memoryview(b"m"), bytes(8193)),
    "tags": ("a\x01b", "a\x02", "\ud800", 5, b"t", TextLike("tag"), "x" * 40_000),
    "keys": ("a b", ("",), ("a b",), ("a\x01",), (5,), 5, None, {"k"}, ("\ud800",), TextLike("k"), ("k" * 33_000,)),
    "properties": (
        *({"": "v"}, {"n": ""}, {"n": 5}, {5: "v"}, {"n": "\x02"}, {"n": "\ud800"}, [("n", "v")], 5),
        *(
            {"KEYS": "k1 k2"},
            {"TAGS": "t"},
            {"WAIT": "false"},
            {"WAIT": "True"},
            {"DELAY": "3"},
            {"DELAY": "0"},
            {"TIMER_DELAY_MS": "9"},
        ),
        *({"INNER_NUM": "1"}, {"INNER_MULTI_DISPATCH": "%LMQ%a"}, {"INNER_MULTI_QUEUE_OFFSET": "1"}),
        *({TextLike("n"): "v"}, {"UNIQ_KEY": "u"}, {"__CRC32#": "1"}),
    ),
    "queue_id": (None, -1, 1 << 31, 1 << 70, True, 1.0, "0"),
    "flag": (1 << 31, 1 << 70, True, 0.0, None),
    "uniq_key": ("a\x01", 5, TextLike("u")),
    "born_timestamp_ms": (1 << 63, 1 << 70, True, 0.0),
    "born_host": (("host", 1), "10.0.0.1", 5, ["10.0.0.1", 5], ("::1%1", 5), ("::1", 65_536), ("::1", True), ("::1",)),
    "sys_flag": (1 << 31, 1 << 70, True, False, None, 0x40, 0x80),
    "reconsume_times": (1 << 31, None, True),
    "prepared_transaction_offset": (1 << 63, None, True),
    "wait_store_ok": (0, None, 1),
    "compress": ("zlib", 0, flightlog.CompressionType.ZLIB),
    "delay_level": (-1, 1 << 31, 1 << 70, True, False, None, 0.0, "3"),
}

ORDINARY_ALL_THE_SAME = ({"__CRC32#": "1"},)
"""Has a meaning to stores that write that property, whose fast path is closed."""


def some_message(dice: random.Random, odd: float) -> Message:
    size = dice.choice((0, 1, 20, 20, 100, 1000, 8192))
    values: dict[str, Any] = {name: dice.choice(found) for name, found in PLAIN.items() if dice.random() < 0.3}
    values = {"topic": "orders", "body": dice.randbytes(size)} | values
    if dice.random() < odd:
        name = dice.choice(list(ODD))
        values[name] = dice.choice(ODD[name])
    message = Message(**values)
    if dice.random() < odd / 20:
        delattr(message, dice.choice(fields(message)).name)
    return message


@pytest.mark.parametrize("odd", [0.0, 0.5])
@pytest.mark.parametrize("host", ["10.1.2.3", "2001:db8::1"])
def test_the_same_records_and_answers(
    odd: float, host: str, tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    dice = random.Random(f"{odd} {host}")
    changes: dict[str, Any] = {"store_host": (host, 10911)}
    with (
        open_store(tmp_path / "fast_path", clock, fast_path=True, **changes) as fast_path,
        open_store(tmp_path / "long", clock, fast_path=False, **changes) as long,
    ):
        for _ in range(1500):
            clock.at_ms += dice.choice((0, 0, 1, 50, -20))
            message = some_message(dice, odd)
            assert answer(fast_path.put, message) == answer(long.put, message), message
            if dice.random() < 0.05:
                many = [some_message(dice, odd / 20) for _ in range(dice.randrange(60))]
                assert answer(fast_path.put_many, many) == answer(long.put_many, many)
        assert inside.log(fast_path).queue_offsets == inside.log(long).queue_offsets
        assert (inside.log(fast_path).end, inside.log(fast_path).appended_records) == (
            inside.log(long).end,
            inside.log(long).appended_records,
        )
        assert inside.log(fast_path).last_store_timestamp_ms == inside.log(long).last_store_timestamp_ms
        assert inside.log(long).fast_path.taken == 0
        assert inside.log(fast_path).fast_path.taken > 200
    assert log_bytes(tmp_path / "fast_path") == log_bytes(tmp_path / "long")
    assert_clean(tmp_path / "fast_path")


@pytest.mark.parametrize("name", ODD)
def test_each_odd_value_alone(name: str, tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    """Whatever the fast path does not know is for the slow path, which takes it or says why not."""
    with (
        open_store(tmp_path / "fast_path", clock, fast_path=True) as fast_path,
        open_store(tmp_path / "long", clock, fast_path=False) as long,
    ):
        for store in (fast_path, long):
            store.put_many([Message("orders", b"first")] * 2)
        for value in ODD[name]:
            message = Message(**{"topic": "orders", "body": b"odd", name: value})
            before = inside.log(fast_path).fast_path.taken
            assert answer(fast_path.put, message) == answer(long.put, message), value
            assert inside.log(fast_path).fast_path.taken == before + (
                value in ORDINARY_ALL_THE_SAME and name == "properties"
            )
            many = [Message("orders", b"before"), message, Message("orders", b"after")]
            assert answer(fast_path.put_many, many) == answer(long.put_many, many), value
    assert log_bytes(tmp_path / "fast_path") == log_bytes(tmp_path / "long")
    assert_clean(tmp_path / "fast_path")


def test_ordinary_puts_take_the_fast_path(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with open_store(tmp_path, clock, fast_path=True, allocate_step_size=SEGMENT_SIZE) as store:
        fast_path = inside.log(store).fast_path
        store.put(Message("orders", b"the first one makes the topic"))
        assert fast_path.taken == 0
        for number in range(20):
            store.put(Message("orders", b"body", tags="t", keys="k", queue_id=number % 4))
        assert fast_path.taken == 20
        store.put_many([Message("orders", b"body", keys=("a", "b"), properties={"a": "1"}, born_host=("::1", 5))] * 100)
        assert fast_path.taken == 120
        assert store.put_async(Message("orders", b"body")).result(60).queue_offset == 106
        assert fast_path.taken == 121
        assert [message.queue_offset for message in store.read("orders")] == list(range(107))
    assert_clean(tmp_path)


@pytest.mark.parametrize("mode", flightlog.FlushMode)
def test_a_queue_handle(
    mode: flightlog.FlushMode, tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    """Its appends are puts of the same messages, the first as the ordinary ones."""
    parts: list[dict[str, Any]] = [
        *({}, {"tags": "t"}, {"keys": "k"}, {"tags": "t", "keys": ("k1", "k2"), "uniq_key": "u"}),
        *({"properties": {"a": "1"}, "flag": 5}, {"born_timestamp_ms": 7}, {"properties": {"WAIT": "false"}}, {}),
    ]
    with (
        open_store(tmp_path / "handle", clock, fast_path=True, flush_mode=mode) as by_handle,
        open_store(tmp_path / "put", clock, fast_path=True, flush_mode=mode) as by_put,
    ):
        queue = by_handle.queue("orders", 1)
        assert (queue.topic, queue.queue_id, repr(queue)) == ("orders", 1, "QueueHandle('orders', 1)")
        for number, part in enumerate(parts):
            body = f"body {number}".encode()
            assert queue.append(body, **part) == by_put.put(Message("orders", body, queue_id=1, **part))
        assert inside.log(by_handle).fast_path.taken == inside.log(by_put).fast_path.taken == 6
        assert answer(queue.append, "text") == answer(by_put.put, Message("orders", "text", queue_id=1))  # type: ignore[arg-type]
        for topic, queue_id in (("", 0), ("a/b", 0), (5, 0), ("orders", -1), ("orders", None), ("orders", 1 << 31)):
            with pytest.raises((InvalidArgumentError, InvalidMessageError)):
                by_handle.queue(topic, queue_id)  # type: ignore[arg-type]
    assert log_bytes(tmp_path / "handle") == log_bytes(tmp_path / "put")
    with pytest.raises(StoreClosedError):
        queue.append(b"late")
    with pytest.raises(StoreClosedError):
        by_handle.queue("orders")
    assert_clean(tmp_path / "handle")


@pytest.mark.parametrize("why", ["closed", "forked"])
def test_a_handle_that_may_not_be_used(why: str, tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    store = open_store(tmp_path, clock, fast_path=True)
    for _ in range(3):
        store.put(Message("orders", b"before"))
    assert inside.log(store).fast_path.taken == 2
    if why == "closed":
        store.close()
        with pytest.raises(StoreClosedError):
            store.put(Message("orders", b"late"))
    else:
        inside.engine(store).mark_forked()  # as in a child; this one is the parent all the same
        with pytest.raises(ForkedStoreError):
            store.put(Message("orders", b"late"))
        with pytest.raises(ForkedStoreError):
            store.put_many([Message("orders", b"late")] * 3)
        inside.take_back_fork(store)
        store.close()
    assert_clean(tmp_path)
    with flightlog.open_read_only(tmp_path) as view:
        assert [message.body for message in view.read("orders")] == [b"before"] * 3


def test_a_closed_store_has_no_file_open(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    """Also while its handle is held."""
    store = open_store(tmp_path / "store", clock, fast_path=True)
    store.put(Message("orders", b"body"))
    store.close()
    assert process.descriptors(tmp_path) == []
    assert_clean(tmp_path / "store")


def test_conditions_keep_puts_off_the_fast_path(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with open_store(tmp_path, clock, fast_path=True) as store:
        log, message = inside.log(store), Message("orders", b"body")
        for _ in range(3):
            store.put(message)
        log.conditions.active["a"], log.conditions.active["b"] = 1, 2
        for _ in range(3):
            store.put(message)
        assert log.fast_path.taken == 2
        del log.conditions.active["a"]
        store.put(message)
        del log.conditions.active["b"]
        assert log.fast_path.taken == 2
        store.put(message)
        assert log.fast_path.taken == 3
        log.refuse_all(OSError("the disk is gone"))
        with pytest.raises(StorePoisonedError):
            store.put(message)
        with pytest.raises(StorePoisonedError):
            store.put_many([message] * 3)
        assert log.fast_path.taken == 3
    with flightlog.open(tmp_path) as store:
        assert len(list(store.read("orders"))) == 8
    assert_clean(tmp_path)


def test_topics_that_change(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with open_store(tmp_path, clock, fast_path=True, auto_create_topics=False) as store:
        store.create_topic("orders", 2)
        for _ in range(3):
            store.put(Message("orders", b"body", queue_id=1))
        assert inside.log(store).fast_path.taken == 2
        with pytest.raises(QueueNotFoundError):
            store.put(Message("orders", b"body", queue_id=2))
        store.update_topic("orders", perm=flightlog.TopicPermission.READ)
        with pytest.raises(TopicPermissionError):
            store.put(Message("orders", b"body", queue_id=1))
        store.update_topic("orders", perm=flightlog.TopicPermission.READ | flightlog.TopicPermission.WRITE)
        assert store.put(Message("orders", b"body", queue_id=1)).queue_offset == 3
        assert store.put(Message("orders", b"body", queue_id=1)).queue_offset == 4
        assert inside.log(store).fast_path.taken == 3
        store.delete_topic("orders")
        with pytest.raises(TopicNotFoundError):
            store.put(Message("orders", b"body", queue_id=1))
        store.create_topic("orders", 2)
        assert [store.put(Message("orders", b"new", queue_id=1)).queue_offset for _ in range(4)] == [0, 1, 2, 3]
        assert [message.body for message in store.read("orders", 1)] == [b"new"] * 4
    assert_clean(tmp_path)
