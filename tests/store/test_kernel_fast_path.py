"""A fast path over memory of a test: what it writes, where, and that a put it does not take leaves no trace.

Whole stores are in test_fast_path.py; this runs over a kernel with sanitizers, too (tests/fuzz).
"""

from __future__ import annotations

import gc
import ipaddress
import random
import sys
import threading
import weakref
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from flightlog import Message, PutResult, PutStatus, StoreSettings
from flightlog.store import native
from flightlog.store.errors import InvalidMessageError
from flightlog.store.format.host import encode_host
from flightlog.store.format.properties import FAST_PATH_NEVER_TAKES
from flightlog.store.format.record import BLANK_SIZE, prepare

pytestmark = pytest.mark.usefixtures("kernel")

NOW_MS = 1_700_000_000_000
BASE = 1 << 40
MAX_BODY_SIZE = 500
APPENDED, VISIBLE = 4, 5
SETTINGS = StoreSettings(max_message_size=MAX_BODY_SIZE)
HOST = encode_host(*SETTINGS.store_host)


class Stage:
    """A fast path, and the memory around it."""

    def __init__(self, size: int, allocated: int, *, visible: int = VISIBLE, clock: Any = lambda: NOW_MS) -> None:
        self.blockers: dict[str, Any] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.page, self.segment = bytearray(64), bytearray(size)
        words = memoryview(self.page).cast("q")

        def publish(value: int) -> None:
            for word in (APPENDED, visible)[: 1 + (visible >= 0)]:
                words[word] = value

        self.fast_path = native.FastPath(
            *(self.blockers, self.offsets, Message, PutResult, PutStatus.PUT_OK, HOST, FAST_PATH_NEVER_TAKES),
            *(MAX_BODY_SIZE, clock, self.page, APPENDED, visible),
            *(threading.Lock(), publish, partial(prepare, settings=SETTINGS, segment_size=1 << 30)),
        )
        self.fast_path.end = BASE
        self.fast_path.open(self.segment, BASE, allocated)

    def register_topic(self, topic: str, queue_count: int = 4) -> None:
        self.fast_path.register_topic(topic, topic.encode(), queue_count)

    def state(self) -> tuple[Any, ...]:
        self.fast_path.write_back_offsets()
        return (
            *(bytes(self.segment), bytes(self.page), dict(self.offsets), dict(self.blockers)),
            *(
                self.fast_path.end,
                self.fast_path.appended_records,
                self.fast_path.taken,
                self.fast_path.last_store_timestamp_ms,
            ),
        )


def encoded(message: Message, result: PutResult) -> bytes:
    """What the slow path writes of a message that got this result."""
    record = prepare(message, SETTINGS, 1 << 30)
    buffer = bytearray(record.size)
    born_ms = result.store_timestamp_ms if record.born_timestamp_ms is None else record.born_timestamp_ms
    native.encode_record(
        *(buffer, 0, record.magic, record.queue_id, record.flag, result.queue_offset, result.physical_offset),
        *(record.sys_flag, born_ms, record.born_host, result.store_timestamp_ms, record.store_host),
        *(record.reconsume_times, record.prepared_transaction_offset),
        *(record.body, record.topic_raw, record.properties_raw),
    )
    return bytes(buffer)


NUMBERS = (0, 0, 0, 1, -1, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 63, True, None, 1.5)
TEXTS = (
    "",
    "a",
    "b c",
    "é\U0001f600",
    "\x01",
    "\x02",
    "\0",
    "\ud800",
    "x" * 200,
    "y" * 4096,
    None,
    5,
    b"z",
    "k" * 4090,
)

BORN_HOSTS: tuple[Any, ...] = (
    *(None, None, ("10.0.0.1", 0), ("255.255.255.255", 65_535), ("2001:db8::8:800:200c:417a", 4711), ("::", 1)),
    *(("::ffff:1.2.3.4", 80), ("0:0:0:0:0:0:0:1", 80)),
)
NO_BORN_HOSTS: tuple[Any, ...] = (
    *((), ("10.0.0.1",), ("10.0.0.1", 1, 1), ["10.0.0.1", 1], "10.0.0.1:1", 5, ("host", 1), ("", 1), ("1.2.3", 1)),
    *(("10.0.0.1", -1), ("10.0.0.1", 65_536), ("10.0.0.1", 1 << 70), ("10.0.0.1", "1"), ("10.0.0.1", True)),
    *((b"\x0a\0\0\1", 1), (167_772_161, 1), ("10.0.0.1\0", 1), ("::1\0::", 1), ("\ud800", 1), ("1\u0660.0.0.1", 1)),
    *(("fe80::1%eth0", 1), ("10.0.0.01", 1), ("1::2::3", 1), ("::10000", 1), ("[::1]", 1), ("10.0.0.1 ", 1)),
)


def some_message(dice: random.Random) -> Message:
    """Mostly ordinary; every now and then a value that is not."""

    def text() -> Any:
        return dice.choice(TEXTS) if dice.random() < 0.1 else "abcdefghij"[: dice.randrange(11)] or None

    def number() -> Any:
        return dice.choice(NUMBERS) if dice.random() < 0.05 else 0

    body: Any = dice.randbytes(dice.choice((1, 15, 16, 40, 257, MAX_BODY_SIZE)) if dice.random() > 0.03 else 0)
    if dice.random() < 0.05:
        body = dice.choice((bytearray(b"b"), "body", None, bytes(MAX_BODY_SIZE + 1)))
    keys: Any = dice.choice(((), "", "k", ("k", text() or "l"), [text() or "k"], text() or "", ("k1", "k2", "k3")))
    properties: Any = dice.choice((None, None, {}, {text() or "n": text() or "v"}, {"a": text() or "v", "b": "c"}))
    if dice.random() < 0.05:
        keys, properties = dice.choice(
            ((None, None), ((5,), {}), ({"k"}, None), ((), {"WAIT": dice.choice(("true", "false"))}), ((), [1]))
        )
    message = Message(
        topic=dice.choice(("orders", "orders", "ünï", "ünï", "unknown")),
        body=body,
        tags=text(),
        keys=keys,
        properties=properties,
        queue_id=dice.choice((4, -1, None, 1 << 40, True)) if dice.random() < 0.05 else dice.randrange(4),
        flag=number(),
        uniq_key=text(),
        born_timestamp_ms=dice.choice((None, None, number())),
        born_host=dice.choice(NO_BORN_HOSTS if dice.random() < 0.05 else BORN_HOSTS),
        sys_flag=number(),
        reconsume_times=number(),
        prepared_transaction_offset=number(),
    )
    if dice.random() < 0.05:
        delattr(message, dice.choice(fields(Message)).name)
    return message


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_and_what_is_not(seed: int) -> None:
    dice = random.Random(seed)
    taken = 0
    for _ in range(60):
        size = dice.randrange(6000)
        stage = Stage(size, dice.randrange(size + 1))
        for topic in ("orders", "ünï"):
            stage.register_topic(topic)
        for _ in range(40):
            message, before = some_message(dice), stage.state()
            result = stage.fast_path.put(message)
            if result is None:
                assert stage.state() == before
                continue
            taken += 1
            place = before[4] - BASE
            expected = bytearray(before[0])
            expected[place : place + result.size] = encoded(message, result)
            assert bytes(stage.segment) == expected
            assert type(result) is PutResult
            assert result.topic is message.topic
            assert (result.status, result.queue_id, result.physical_offset, result.store_host_raw) == (
                *(PutStatus.PUT_OK, message.queue_id, before[4], HOST),
            )
            after = stage.state()
            assert after[4] == before[4] + result.size
            assert after[2] == before[2] | {(message.topic, message.queue_id): result.queue_offset + 1}
            assert result.queue_offset == before[2].get((message.topic, message.queue_id), 0)
            assert stage.page[APPENDED * 8 : (VISIBLE + 1) * 8] == after[4].to_bytes(8, "little") * 2
    assert taken > 150


@pytest.mark.parametrize("host", BORN_HOSTS)
def test_the_sender_s_address_is_a_field(host: Any) -> None:
    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    message = Message("orders", b"body", born_host=host)
    result = stage.fast_path.put(message)
    assert result is not None
    assert bytes(stage.segment[: result.size]) == encoded(message, result)
    (second,) = stage.fast_path.put_many((message,), 0) or []
    assert bytes(stage.segment[result.size :][: second.size]) == encoded(message, second)


@pytest.mark.parametrize("host", NO_BORN_HOSTS, ids=ascii)
def test_another_sender_is_for_the_slow_path(host: Any) -> None:
    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    before = stage.state()
    message = Message("orders", b"body", born_host=host)
    assert stage.fast_path.put(message) is None
    assert stage.fast_path.put_many((message,), 0) is None
    assert stage.state() == before


@pytest.mark.parametrize("sys_flag", (0x1, 0x101, 0x201, 0x301, 0x701, 0x100))
@pytest.mark.parametrize("host", (None, ("::1", 1)))
def test_a_body_that_its_sender_compressed(sys_flag: int, host: Any) -> None:
    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    message = Message("orders", b"body", sys_flag=sys_flag, born_host=host)
    result = stage.fast_path.put(message)
    assert result is not None
    assert bytes(stage.segment[: result.size]) == encoded(message, result)
    (second,) = stage.fast_path.put_many((message,), 0) or []
    assert bytes(stage.segment[result.size :][: second.size]) == encoded(message, second)
    before = stage.state()
    for other in (sys_flag | 0x2, sys_flag | 0x4, sys_flag | 0x10, sys_flag | 0x80, sys_flag | 0x800, -1, True, 1.0):
        odd: Any = other
        assert stage.fast_path.put(Message("orders", b"body", sys_flag=odd, born_host=host)) is None
    assert stage.state() == before


def test_a_property_that_says_what_a_put_does_anyway() -> None:
    """Java's clients write WAIT=true into every message."""
    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    message = Message("orders", b"body", tags="t", properties={"a": "1", "WAIT": "true", "b": "2"})
    result = stage.fast_path.put(message)
    assert result is not None
    assert bytes(stage.segment[: result.size]) == encoded(message, result)
    before = stage.state()
    others: tuple[Any, ...] = ({"WAIT": "false"}, {"WAIT": "True"}, {"WAIT": ""}, {"WAIT": True}, {"DELAY": "true"})
    for properties in (*others, {"WAIT": "true", "DELAY": "1"}, {"WAIT": "true\0"}, {"WAIT": b"true"}):
        assert stage.fast_path.put(Message("orders", b"body", properties=properties)) is None
    assert stage.state() == before


def test_no_address_is_taken_that_the_slow_path_refuses() -> None:
    """The kernel and Python read addresses with two parsers: valid ones, with some characters changed."""
    dice = random.Random(7)
    taken = refused = 0
    for _ in range(3000):
        stage = Stage(1000, 1000)
        stage.register_topic("orders")
        make = dice.choice((ipaddress.IPv4Address, ipaddress.IPv6Address))
        bits = 32 if make is ipaddress.IPv4Address else 128
        number = dice.getrandbits(bits) & dice.choice((-1, 0xFFFF, 0xFFFF00FF, 0xFF << 112))
        text = list(dice.choice((str(make(number)), make(number).exploded, "::ffff:1.2.3.4", "1:2:3:4:5:6:7::")))
        for _ in range(dice.randrange(4)):
            place = dice.randrange(len(text) + 1)
            text[place : place + dice.randrange(2)] = dice.choice(("", ":", "::", ".", "0", "f", "g", "%", "255", " "))
            text = text or ["0"]
        message = Message("orders", b"x", born_host=("".join(text), 1))
        result = stage.fast_path.put(message)
        if result is None:
            refused += 1
        else:
            taken += 1
            assert bytes(stage.segment[: result.size]) == encoded(message, result)
    assert taken > 500 and refused > 500


def test_the_last_byte_that_it_may_write() -> None:
    """A record ends so that a filler fits behind it, below what is allocated, and never beyond."""
    message = Message("orders", b"body", tags="t")
    probe = Stage(1000, 1000)
    probe.register_topic("orders")
    result = probe.fast_path.put(message)
    assert result is not None
    size = result.size
    for allocated in range(size + BLANK_SIZE + 3):
        stage = Stage(allocated, allocated)
        stage.register_topic("orders")
        assert (stage.fast_path.put(message) is not None) is (allocated >= size + BLANK_SIZE)
        assert stage.fast_path.put(message) is None
        found = stage.fast_path.put_many((message,), 0)
        assert found == ([] if allocated >= size + BLANK_SIZE else None)  # no segment of that size ever takes it


def test_an_end_outside_of_the_segment() -> None:
    for end in (-(1 << 63), -1, 0, BASE - 1, BASE + 1000, BASE + 1001, 1 << 62, (1 << 63) - 1):
        stage = Stage(1000, 1000)
        stage.register_topic("orders")
        stage.fast_path.end = end
        assert stage.fast_path.put(Message("orders", b"body")) is None
        assert stage.fast_path.put_many((Message("orders", b"body"),), 0) == []
        assert not any(stage.segment)


def test_a_sequence_of_puts_is_one_of_appends_and_of_many() -> None:
    messages = tuple(
        Message("orders", bytes([i]) * (i + 1), "tag", f"k{i}", {"a": "b"}, i % 4, i, f"u{i}") for i in range(60)
    )
    one, each, many = Stage(20_000, 20_000), Stage(20_000, 20_000), Stage(20_000, 20_000)
    for stage in (one, each, many):
        stage.register_topic("orders")
    results = [one.fast_path.put(message) for message in messages]
    assert results == [
        each.fast_path.append(m.topic, m.queue_id or 0, m.body, m.tags, m.keys, m.properties, m.uniq_key, m.flag, None)
        for m in messages
    ]
    found = many.fast_path.put_many(messages[:20], 0)
    assert found == results[:20]
    assert many.fast_path.put_many(messages, 20) == results[20:]
    at_once = Stage(20_000, 20_000)
    at_once.register_topic("orders")
    assert at_once.fast_path.put_many(messages, 0) == results
    assert one.state() == each.state() == many.state() == at_once.state()
    assert many.fast_path.put_many((*messages, Message("orders", b"x", queue_id=4)), 0) is None
    assert many.fast_path.put_many((*messages, Message("unknown", b"x")), 60) == []
    assert many.fast_path.put_many(messages, 60) == []
    assert one.state() == many.state()


def test_many_stop_where_the_limit_is() -> None:
    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    messages = (Message("orders", bytes(100)),) * 20
    found = stage.fast_path.put_many(messages, 0)
    assert found is not None and len(found) == stage.fast_path.taken == 5
    assert stage.fast_path.put_many(messages, 5) == []
    stage.blockers["a test"] = True
    assert stage.fast_path.put_many(messages, 0) is None
    assert stage.fast_path.put_many(messages, 5) == []


@pytest.mark.parametrize("seed", range(4))
def test_all_or_none(seed: int) -> None:
    """As many puts would, or with no trace."""
    dice = random.Random(seed)
    taken = refused = 0
    for _ in range(60):
        size = dice.randrange(12_000)
        allocated = dice.randrange(size + 1)
        stage, puts = Stage(size, allocated), Stage(size, allocated)
        for topic in ("orders", "ünï"):
            stage.register_topic(topic)
            puts.register_topic(topic)
        for _ in range(6):
            plain = [Message("orders", bytes(i + 1), "t", f"k{i}", queue_id=i % 4) for i in range(dice.randrange(4))]
            messages = (*plain, *(some_message(dice) for _ in range(dice.randrange(4))))
            before = stage.state()
            results = stage.fast_path.put_many(messages, 0)
            if results is None:
                refused += 1
                assert stage.state() == before
                continue
            taken += len(results) == len(messages)
            assert results == [puts.fast_path.put(message) for message in messages[: len(results)]]
            assert type(results) is list and all(type(result) is PutResult for result in results)
            assert stage.state() == puts.state()
            assert all(result.topic is message.topic for result, message in zip(results, messages, strict=False))
            if len(results) < len(messages):
                assert stage.fast_path.put_many(messages, len(results)) == []
                assert stage.state() == puts.state()
    assert taken > 80 and refused > 40


def test_no_more_than_fit() -> None:
    message = Message("orders", bytes(100))
    probe = Stage(1000, 1000)
    probe.register_topic("orders")
    (result,) = probe.fast_path.put_many((message,), 0) or []
    for count in (2, 5, 1024, 1025, 9000):
        for missing in (0, 1):
            size = count * result.size + BLANK_SIZE - missing
            stage = Stage(size, size)
            stage.register_topic("orders")
            found: list[PutResult] = []
            while some := stage.fast_path.put_many((message,) * count, len(found)):
                found += some
            assert stage.fast_path.taken == len(found) == count - missing
    stage.blockers["a test"] = True
    assert stage.fast_path.put_many((message,), 0) is None


@pytest.mark.parametrize("odd_place", (0, 1, 1023, 1024, 5000, 9999))
def test_none_of_many_before_all_were_looked_at(odd_place: int) -> None:
    messages = [Message("orders", bytes(100))] * 10_000
    messages[odd_place] = Message("orders", b"x", sys_flag=4)
    stage = Stage(4 << 20, 4 << 20)
    stage.register_topic("orders")
    before = stage.state()
    assert stage.fast_path.put_many(tuple(messages), 0) is None
    assert stage.state() == before


def test_store_times_never_run_backwards() -> None:
    times = iter([5, 3, 3, 9, 9, 2])
    stage = Stage(2000, 2000, clock=lambda: next(times))
    stage.register_topic("orders")
    results = [stage.fast_path.put(Message("orders", b"x")) for _ in range(5)]
    assert [result.store_timestamp_ms for result in results if result] == [5, 5, 5, 9, 9]
    stage.fast_path.last_store_timestamp_ms = 100
    last = stage.fast_path.put(Message("orders", b"x"))
    assert last is not None
    assert last.store_timestamp_ms == 100


def test_nor_do_those_of_many_at_once() -> None:
    times = iter([5, 3, 9])
    stage = Stage(2000, 2000, clock=lambda: next(times))
    stage.register_topic("orders")
    found = [stage.fast_path.put_many((Message("orders", b"x"),) * 2, 0) or [] for _ in range(3)]
    assert [result.store_timestamp_ms for results in found for result in results] == [5, 5, 5, 5, 9, 9]


def test_under_sync_flush_nothing_is_visible_yet() -> None:
    stage = Stage(1000, 1000, visible=-1)
    stage.register_topic("orders")
    assert stage.fast_path.put(Message("orders", b"x")) is not None
    assert stage.page[VISIBLE * 8 : (VISIBLE + 1) * 8] == bytes(8)
    assert stage.page[APPENDED * 8 : (APPENDED + 1) * 8] == stage.fast_path.end.to_bytes(8, "little")


def test_offsets_that_others_change_in_between() -> None:
    """Between a hand-over and the next put the dict is anybody's."""
    stage = Stage(4000, 4000)
    stage.register_topic("orders", 2)
    stage.offsets["orders", 1] = 7
    found = []
    for _ in range(3):
        for queue_id in (0, 1):
            result = stage.fast_path.put(Message("orders", b"x", queue_id=queue_id))
            assert result is not None
            found.append(result.queue_offset)
        stage.fast_path.write_back_offsets()
        stage.offsets["orders", 0] += 10
    assert found == [0, 7, 11, 8, 22, 9]
    stage.fast_path.write_back_offsets()
    stage.fast_path.unregister_topic("orders")
    assert stage.fast_path.put(Message("orders", b"x")) is None
    stage.fast_path.unregister_topic("orders")
    del stage.offsets["orders", 1]
    stage.register_topic("orders", 2)
    result = stage.fast_path.put(Message("orders", b"x", queue_id=1))
    assert result is not None
    assert result.queue_offset == 0


def test_a_topic_that_is_learnt_twice_counts_on() -> None:
    stage = Stage(4000, 4000)
    found = []
    for count in (1, 5, 70_000, 3):
        stage.register_topic("orders", count)
        result = stage.fast_path.put(Message("orders", b"x", queue_id=0))
        assert result is not None
        found.append(result.queue_offset)
        last = stage.fast_path.put(Message("orders", b"x", queue_id=min(count, 65_536) - 1))
        assert last is not None
        assert stage.fast_path.put(Message("orders", b"x", queue_id=count)) is None
    assert found == [0, 2, 3, 4]


def test_a_wake_up_is_notified_once() -> None:
    stage = Stage(4000, 4000)
    stage.register_topic("orders")
    silence = threading.Lock()
    silence.acquire()
    stage.fast_path.notify = silence.release
    for _ in range(3):
        assert stage.fast_path.put(Message("orders", b"x")) is not None
    assert not stage.fast_path.is_armed
    assert not silence.locked()
    stage.fast_path.is_armed = True
    assert stage.fast_path.put(Message("orders", b"x")) is not None  # notified already: no error of the put
    assert not stage.fast_path.is_armed


def test_one_put_in_sixteen_is_timed() -> None:
    stage = Stage(8000, 8000)
    stage.register_topic("orders")
    times: list[float] = []
    stage.fast_path.note = times.append
    for _ in range(50):
        assert stage.fast_path.put(Message("orders", b"x")) is not None
    assert len(times) == 3
    assert all(isinstance(time_ms, float) and time_ms >= 0 for time_ms in times)


def test_wrong_arguments() -> None:
    stage = Stage(1000, 1000)
    for base, allocated in ((-1, 5), (0, 1001), (0, -1)):
        with pytest.raises(ValueError, match="base and allocated"):
            stage.fast_path.open(stage.segment, base, allocated)
    assert stage.fast_path.put(7) is None
    assert stage.fast_path.put_many((7,), 0) is None
    assert stage.fast_path.put_many((), 0) == []
    stage.fast_path.close()
    stage.register_topic("orders")
    assert stage.fast_path.put(Message("orders", b"x")) is None


def test_it_holds_and_lets_go() -> None:
    """What it was given lives as long as it does, and not longer; in a cycle, too."""

    class Notify:
        def __call__(self) -> None: ...

    stage = Stage(1000, 1000)
    stage.register_topic("orders")
    notify = Notify()
    stage.fast_path.notify = notify
    stage.blockers["fast_path"] = stage.fast_path
    topic = "a topic of its own"
    stage.register_topic(topic)
    references = sys.getrefcount(topic)
    reference = weakref.ref(notify)
    del notify
    gc.collect()
    assert reference() is not None
    del stage
    gc.collect()
    assert reference() is None
    assert sys.getrefcount(topic) < references


def test_the_oracle_is_one() -> None:
    """`encoded` refuses what cannot be put at all."""
    with pytest.raises(InvalidMessageError):
        prepare(Message("orders", b"x", keys="a b"), SETTINGS, 1 << 30)
