"""From bytes to Arrow arrays: what the vectorised columns make of any bytes, held against the plain decoders."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flightlog.engine.columns.gathering import as_text, gather
from flightlog.engine.columns.message_columns import MessageColumns
from flightlog.engine.columns.property_columns import PropertyColumns
from flightlog.engine.columns.schema import COLUMNS
from flightlog.spark.options.bounds import is_internal
from flightlog.spark.read.message_rows import is_message, unwrap
from flightlog.store import native
from flightlog.store.format import property_names as props
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1
from flightlog.store.format.properties import decode_properties
from flightlog.store.format.property_names import split_keys
from flightlog.store.format.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP

HOST = bytes([10, 0, 0, 1]) + struct.pack(">i", 10911)


def one_piece(*records: dict[str, Any]) -> tuple[bytes, Any]:
    """Records encoded one after the other, and the rows of a walk over them."""
    piece, position = bytearray(sum(400 + len(record.get("body", b"")) for record in records)), 0
    for i, record in enumerate(records):
        fields: dict[str, Any] = {
            "topic": b"orders",
            "body": b"",
            "properties": b"",
            "sys_flag": 0,
            "flag": 7,
            "born": 1,
            "stored": 2,
        }
        fields |= record
        position += native.encode_record(
            piece,
            position,
            MAGIC_V1,
            3,
            fields["flag"],
            100 * i,
            position,
            fields["sys_flag"],
            fields["born"],
            HOST,
            fields["stored"],
            HOST,
            0,
            0,
            fields["body"],
            fields["topic"],
            fields["properties"],
        )
    rows = np.empty(len(records), FRAME_DTYPE)
    count, _, _ = native.walk(piece, 0, position, 0, True, rows)
    assert count == len(records)
    return bytes(piece[:position]), rows


def table(piece: bytes, rows: Any) -> list[dict[str, Any]]:
    """Every column of every message, as a task would make them."""
    found: list[dict[str, Any]] = []
    for message_rows, indexes in unwrap(piece, rows):
        messages = MessageColumns(piece, message_rows, indexes)
        batch = pa.table({column.name: messages.column(column.name) for column in COLUMNS})
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


# -- properties

SCRAPS = st.sampled_from(
    [
        b"\1",
        b"\2",
        b" ",
        b"KEYS",
        b"TAGS",
        b"UNIQ_KEY",
        b"KEYS\1a b\2",
        b"TAGS\1t\2",
        b"K",
        "ключ".encode(),
        b"\xff",
        b"\0",
    ]
)


@settings(deadline=None)
@given(st.lists(st.lists(st.one_of(SCRAPS, st.binary(max_size=4)), max_size=12).map(b"".join), max_size=8))
@example([b""])
@example([b"", b"KEYS\1a b", b"", b"KEYS\1x\2KEYS\1y"])
@example([b"KEYS\1  a   b \2", b"\1v\2", b"n\1\2", b"n\1v\1w\2", b"TAGS\1\xff\2"])
def test_property_columns_are_what_the_parser_reads(texts: list[bytes]) -> None:
    columns = PropertyColumns(pa.array(texts, pa.binary()))
    expected = [decode_properties(text) for text in texts]
    assert [dict(pairs) for pairs in columns.mapping().to_pylist()] == expected
    keys = [split_keys(pairs.get(props.KEYS, "")) for pairs in expected]
    assert columns.keys.to_pylist() == keys
    assert columns.first_key().to_pylist() == [some[0].encode() if some else None for some in keys]
    for name in (props.TAGS, props.UNIQ_KEY, "K"):
        assert columns.value(name).to_pylist() == [pairs.get(name) for pairs in expected]
    for array in (columns.mapping(), columns.keys, columns.first_key(), columns.value(props.TAGS)):
        array.validate(full=True)


def test_a_map_never_holds_a_name_twice() -> None:
    columns = PropertyColumns(pa.array([b"a\1x\2b\1y\2a\1z\2", b"a\1w\2"], pa.binary()))
    assert [sorted(pairs) for pairs in columns.mapping().to_pylist()] == [[("a", "z"), ("b", "y")], [("a", "w")]]


# -- gathering


@settings(deadline=None)
@given(st.binary(max_size=64), st.lists(st.integers(0, 64), min_size=2, unique=True), st.lists(st.integers(0, 99)))
def test_gather_takes_ranges_in_any_order_and_more_than_once(data: bytes, cuts: list[int], wanted: list[int]) -> None:
    data = data.ljust(64, b"-")
    disjoint = list(itertools.pairwise(sorted(cuts)))
    ranges = [disjoint[i % len(disjoint)] for i in wanted]
    starts = np.array([start for start, _ in ranges], np.int64)
    sizes = np.array([stop - start for start, stop in ranges], np.int64)
    found = gather(pa.py_buffer(data), starts, sizes)
    assert found.to_pylist() == [data[start:stop] for start, stop in ranges]


def test_text_that_is_no_utf8_is_replaced() -> None:
    assert as_text(pa.array([b"ok", b"\xff-", "é".encode()], pa.binary())).to_pylist() == ["ok", "\ufffd-", "é"]


def test_times_beyond_a_timestamp_are_null() -> None:
    year_10000_ms = 253_402_300_800_000
    piece, rows = one_piece(
        {"born": year_10000_ms - 1, "stored": 0},
        {"born": year_10000_ms, "stored": -1},
        {"born": (1 << 63) - 1, "stored": -(1 << 63)},
    )
    found = table(piece, rows)
    assert [row["bornTimestamp"] is None for row in found] == [False, True, True]
    assert [row["timestamp"] is None for row in found] == [False, False, True]
    assert found[0]["bornTimestamp"].isoformat() == "9999-12-31T23:59:59.999000+00:00"


# -- what is a message


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        (b"SCHEDULE_TOPIC_XXXX", True),
        (b"SCHEDULE_TOPIC_XXXX2", False),
        (b"RMQ_SYS_TRANS_HALF_TOPIC", True),
        (b"RMQ_SYS_TRANS_OP_HALF_TOPIC", True),
        (b"RMQ_SYS_TRACE_TOPIC", True),
        (b"rmq_sys_wheel_timer", True),
        (b"rmq_sys_REVIVE_LOG_DefaultCluster", True),
        (b"TRANS_CHECK_MAX_TIME_TOPIC", True),
        (b"TBW102", True),
        (b"SELF_TEST_TOPIC", True),
        (b"OFFSET_MOVED_EVENT", True),
        (b"%RETRY%group", False),
        (b"%DLQ%group", False),
        (b"Rmq_sys_mine", False),
        (b"Trades", False),
        (b"", False),
    ],
)
def test_internal_topics(topic: bytes, internal: bool) -> None:
    assert is_internal(topic) is internal
    piece, rows = one_piece({"topic": b"orders"}, {"topic": topic}, {"topic": topic, "properties": b"TAGS\1S\2"})
    assert is_message(piece, rows).tolist() == [True, not internal, not internal]


@pytest.mark.parametrize(("sys_flag", "shown"), [(0, True), (4, False), (8, True), (12, False), (2 | 8 | 0x100, True)])
def test_only_records_with_a_place_in_a_queue_are_messages(sys_flag: int, shown: bool) -> None:
    piece, rows = one_piece({"sys_flag": sys_flag})
    assert is_message(piece, rows).tolist() == [shown]
    assert table(piece, rows)[0]["offset"] == (0 if shown else None)


# -- inner batches


def inner(body: bytes, flag: int = 0, properties: bytes = b"") -> bytes:
    head = struct.pack(">5i", 22 + len(body) + len(properties), 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


BATCH = {"sys_flag": INNER_BATCH | NEED_UNWRAP, "properties": b"INNER_NUM\x013\2"}


def test_a_batch_between_ordinary_messages_is_unwrapped_in_place() -> None:
    body = inner(b"first", 1, b"KEYS\1k1\2") + inner(b"", 2) + inner(b"third", 3, b"TAGS\1t\2")
    piece, rows = one_piece({"body": b"before"}, BATCH | {"body": body}, {"body": b"after"})
    found = table(piece, rows)
    assert [row["value"] for row in found] == [b"before", b"first", b"", b"third", b"after"]
    assert [row["batchIndex"] for row in found] == [None, 0, 1, 2, None]
    assert [row["offset"] for row in found] == [0, 100, 101, 102, 200]
    assert [row["flag"] for row in found] == [7, 1, 2, 3, 7]
    assert [row["key"] for row in found] == [None, b"k1", None, None, None]
    assert [row["tags"] for row in found] == [None, None, None, "t", None]
    assert [dict(row["properties"]) for row in found[1:4]] == [{"KEYS": "k1"}, {}, {"TAGS": "t"}]
    assert [row["size"] for row in found[1:4]] == [35, 22, 34]
    assert [row["bodyCrc"] for row in found] == [native.masked_crc32(row["value"]) for row in found]
    assert {row["physicalOffset"] for row in found[1:4]} == {int(rows[1]["physical_offset"])}
    assert {row["topic"] for row in found} == {"orders"}
    assert {row["storeHost"] for row in found} == {"10.0.0.1:10911"}


def test_a_batch_of_very_many_messages_comes_in_several_parts() -> None:
    piece, rows = one_piece(BATCH | {"body": inner(b"") * 40_000})
    parts = list(unwrap(piece, rows))
    assert max(len(part) for part, _ in parts) == 16_384
    indexes = np.concatenate([indexes for _, indexes in parts if indexes is not None])
    assert indexes.tolist() == list(range(40_000))


def field(at: int, value: int, kind: str = ">i") -> bytes:
    """Two messages, one field of the second changed."""
    body = bytearray(inner(b"first", 0, b"a\1b\2") + inner(b"second", 0, b"c\1d\2"))
    struct.pack_into(kind, body, 31 + at, value)
    return bytes(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not a batch",
        inner(b"whole") + b"\0",
        inner(b"whole") + inner(b"cut")[:-1],
        field(0, 0),
        field(0, 21),
        field(0, -1),
        field(0, 33),
        field(0, (1 << 31) - 1),
        field(16, -1),
        field(16, 7),
        field(16, (1 << 31) - 1),
        field(26, -1, ">h"),
        field(26, 5, ">h"),
        field(26, 3, ">h"),
    ],
)
def test_a_body_that_is_no_batch_stays_whole(body: bytes) -> None:
    piece, rows = one_piece({"body": b"before"}, BATCH | {"body": body}, {"body": b"after"})
    found = table(piece, rows)
    assert [(row["value"], row["batchIndex"]) for row in found] == [(b"before", None), (body, None), (b"after", None)]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_body_is_unwrapped_or_stays_whole(body: bytes) -> None:
    piece, rows = one_piece(BATCH | {"body": body})
    found = table(piece, rows)
    if found[0]["batchIndex"] is None:
        assert [row["value"] for row in found] == [body]
    else:
        assert sum(row["size"] for row in found) == len(body)


def test_a_compressed_batch_stays_whole() -> None:
    body = inner(b"looks like a message")
    piece, rows = one_piece(BATCH | {"body": body, "sys_flag": INNER_BATCH | NEED_UNWRAP | COMPRESSED})
    assert [(row["value"], row["batchIndex"]) for row in table(piece, rows)] == [(body, None)]
