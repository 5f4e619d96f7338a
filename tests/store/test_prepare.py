"""What a message must be before it is appended: every limit at its edge, with its own error."""

from __future__ import annotations

from typing import Any

import pytest

from flightlog.store.errors import (
    BodyTooLargeError,
    InvalidMessageError,
    PropertiesTooLargeError,
    RecordTooLargeError,
    TopicTooLongError,
)
from flightlog.store.format.frame import MAGIC_V1, MAGIC_V2
from flightlog.store.format.record import PreparedRecord, prepare
from flightlog.store.message import Message
from flightlog.store.settings import DEFAULT_SEGMENT_SIZE, StoreSettings

V6 = ("2001:db8::1", 80)


def prepared(message: Message, segment_size: int = DEFAULT_SEGMENT_SIZE, **settings: Any) -> PreparedRecord:
    return prepare(message, StoreSettings(**settings), segment_size)


def test_body_at_the_limit() -> None:
    assert len(prepared(Message("t", bytes(4_194_304))).body) == 4_194_304
    with pytest.raises(BodyTooLargeError, match=r"4194305 bytes, the limit is 4194304 \(max_message_size\)"):
        prepared(Message("t", bytes(4_194_305)))
    prepared(Message("t", bytes(10)), max_message_size=10)
    with pytest.raises(BodyTooLargeError):
        prepared(Message("t", bytes(11)), max_message_size=10)


def test_an_empty_body_is_accepted() -> None:
    assert prepared(Message("t", b"")).size == 91 + 1


def test_properties_at_the_limit() -> None:
    value = "x" * (32_767 - 3)
    assert len(prepared(Message("t", b"", properties={"a": value})).properties_raw) == 32_767
    with pytest.raises(PropertiesTooLargeError, match=r"32768 bytes.*32767"):
        prepared(Message("t", b"", properties={"a": value + "x"}))
    with pytest.raises(PropertiesTooLargeError):
        prepared(Message("t", b"", properties={"a": value[:-1] + "é"}))  # bytes count, not characters
    with pytest.raises(PropertiesTooLargeError):
        prepared(Message("t", b"", properties={"a": value}, tags="T"))  # tags, keys and the unique key count too


def test_no_properties_take_no_bytes() -> None:
    assert prepared(Message("t", b"")).properties_raw == b""
    assert prepared(Message("t", b"", tags="", keys=[], uniq_key="", properties={})).properties_raw == b""


def test_tags_keys_and_uniq_key_become_properties() -> None:
    message = Message("t", b"", tags="A", keys=["k1", "k2"], uniq_key="U", properties={"p": "v", "TAGS": "lost"})
    assert prepared(message).properties_raw == b"p\x01v\x02TAGS\x01A\x02KEYS\x01k1 k2\x02UNIQ_KEY\x01U\x02"
    assert prepared(Message("t", b"", keys="one")).properties_raw == b"KEYS\x01one\x02"


@pytest.mark.parametrize(
    ("topic", "magic"),
    [
        *(("t", MAGIC_V1), ("x" * 127, MAGIC_V1), ("%RETRY%" + "g" * 120, MAGIC_V1), ("é" * 63 + "x", MAGIC_V1)),
        *(("%RETRY%" + "g" * 121, MAGIC_V2), ("%RETRY%" + "g" * 248, MAGIC_V2), ("%DLQ%group", MAGIC_V1)),
        *(("中" * 42, MAGIC_V1), ("%RETRY%" + "中" * 82, MAGIC_V2), ("a b", MAGIC_V1), ("..x", MAGIC_V1)),
    ],
)
def test_topics(topic: str, magic: int) -> None:
    record = prepared(Message(topic, b""))
    assert (record.magic, record.topic_raw) == (magic, topic.encode())
    assert record.size == (91 if magic == MAGIC_V1 else 92) + len(topic.encode())


@pytest.mark.parametrize(
    ("topic", "limit"),
    [
        *(("x" * 128, 127), ("é" * 64, 127), ("中" * 43, 127), ("%DLQ%" + "g" * 123, 127)),
        *(("%RETRY%" + "g" * 249, 255), ("%RETRY%" + "中" * 83, 255), ("%retry%" + "g" * 121, 127)),
    ],
)
def test_topics_above_the_limit(topic: str, limit: int) -> None:
    """Bytes count: RocketMQ counts characters here and writes a wrapped length byte."""
    with pytest.raises(TopicTooLongError, match=rf"{len(topic.encode())} UTF-8 bytes, the limit is {limit}"):
        prepared(Message(topic, b""))


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "/", "a\0b", "../up", "\ud800", None, b"t", 7])
def test_what_is_no_topic(topic: Any) -> None:
    with pytest.raises(InvalidMessageError, match="topic"):
        prepared(Message(topic, b""))


@pytest.mark.parametrize("segment_size", [4096, 65_536])
def test_a_record_must_fit_into_a_segment_with_a_filler_behind_it(segment_size: int) -> None:
    room = segment_size - 8 - 92
    assert prepared(Message("t", bytes(room)), segment_size).size == segment_size - 8
    with pytest.raises(RecordTooLargeError, match=rf"takes {segment_size - 7} bytes.* {segment_size - 8} "):
        prepared(Message("t", bytes(room + 1)), segment_size)


def test_hosts() -> None:
    plain = prepared(Message("t", b""))
    assert plain.born_host == plain.store_host == bytes.fromhex("7f000001 00002a9f") and plain.sys_flag == 0
    born = prepared(Message("t", b"", born_host=V6))
    assert (len(born.born_host), len(born.store_host), born.sys_flag, born.size) == (20, 8, 0x10, plain.size + 12)
    stored = prepared(Message("t", b"", born_host=("10.0.0.1", 1)), store_host=V6)
    assert (len(stored.born_host), len(stored.store_host), stored.sys_flag) == (8, 20, 0x20)
    both = prepared(Message("t", b"", sys_flag=0x3), store_host=V6)
    assert (len(both.born_host), len(both.store_host), both.sys_flag) == (20, 20, 0x33)
    assert both.size == plain.size + 24


def test_the_host_bits_are_the_stores_to_set() -> None:
    assert prepared(Message("t", b"", sys_flag=0x731)).sys_flag == 0x701


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        *(("queue_id", -1, "queue_id"), ("queue_id", 1 << 31, "queue_id"), ("queue_id", "0", "queue_id")),
        ("queue_id", 1.0, "queue_id"),
        *(("flag", 1 << 31, "flag"), ("flag", -(1 << 31) - 1, "flag"), ("flag", "1", "flag")),
        *(("sys_flag", 1 << 31, "sys_flag"), ("sys_flag", "1", "sys_flag"), ("sys_flag", None, "sys_flag")),
        *(("reconsume_times", 1 << 31, "reconsume_times"), ("reconsume_times", None, "reconsume_times")),
        *(("prepared_transaction_offset", 1 << 63, "prepared"), ("prepared_transaction_offset", "", "prepared")),
        *(("born_timestamp_ms", 1 << 63, "born_timestamp_ms"), ("born_timestamp_ms", 1.5, "born_timestamp_ms")),
        *(("sys_flag", 0x80, "inner batch"), ("sys_flag", 0x40, "inner batch"), ("sys_flag", 0xC0, "inner batch")),
        *(("body", "text", "body is a str"), ("body", bytearray(b"x"), "bytearray"), ("body", None, "NoneType")),
        *(("born_host", ("localhost", 80), "resolve names"), ("born_host", ("10.0.0.1", 65_536), "65536")),
        *(("born_host", ("10.0.0.1", "80"), "port '80'"), ("born_host", ("10.0.0.1",), "pair of address and port")),
        *(("born_host", "10.0.0.1:80", "pair of address and port"), ("born_host", 7, "pair of address and port")),
        *(("born_host", (["10.0.0.1"], 80), "pair of address and port"), ("born_host", (b"abcd", 80), "in digits")),
        *(("tags", 5, "no text"), ("tags", "a\x01b", "0x01 or 0x02"), ("tags", b"A", "no text")),
        *(("uniq_key", 5, "no text"), ("uniq_key", "\x02", "0x01 or 0x02")),
        *(("keys", ["a", ""], "not empty"), ("keys", ["a b"], "no space"), ("keys", "a b", "no space")),
        *(("keys", 5, "wrong type"), ("keys", [5], "wrong type"), ("keys", [b"k"], "wrong type")),
        *(("properties", {"a": 1}, "no text"), ("properties", {1: "a"}, "no text"), ("properties", 7, "wrong type")),
        *(
            ("properties", "ab", "wrong type"),
            ("properties", {"": "x"}, "empty name"),
            ("properties", {"x": ""}, "empty"),
        ),
        *(("properties", {"a\x02": "b"}, "0x01 or 0x02"), ("properties", {"a": "\udc00"}, "UTF-8")),
    ],
)
def test_refused(field: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words):
        prepared(Message(**{"topic": "t", "body": b"", field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("queue_id", 0), ("queue_id", (1 << 31) - 1), ("flag", -(1 << 31)), ("flag", (1 << 31) - 1)),
        *(("reconsume_times", -1), ("prepared_transaction_offset", (1 << 63) - 1), ("born_timestamp_ms", -1)),
        *(("born_timestamp_ms", 0), ("sys_flag", 0x70F), ("sys_flag", -(1 << 31))),
    ],
)
def test_accepted_at_the_edge(field: str, value: int) -> None:
    assert getattr(prepared(Message(**{"topic": "t", "body": b"", field: value})), field) == value  # type: ignore[arg-type]
