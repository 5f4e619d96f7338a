"""Bounds: what Spark's filters say, what is within both of two, and which rows of a piece of the log lie within."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from flightlog.engine.columns.message_columns import MessageColumns
from flightlog.spark.options.bounds import NO_BOUNDS, Bounds, Span, Starts
from flightlog.spark.plan.filters import bounds_of
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V2
from flightlog.store.format.sys_flag import INNER_BATCH

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])

# -- filters

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    ("asked", "bounds"),
    [
        (spark.EqualTo(("topic",), "a"), Bounds(topics=frozenset("a"))),
        (spark.EqualTo(("TOPIC",), "a"), Bounds(topics=frozenset("a"))),
        (spark.EqualNullSafe(("topic",), "a"), Bounds(topics=frozenset("a"))),
        (spark.In(("topic",), ("a", None, "b")), Bounds(topics=frozenset("ab"))),
        (spark.In(("topic",), ()), Bounds(topics=frozenset())),
        (spark.EqualTo(("store",), "a"), Bounds(stores=frozenset("a"))),
        (spark.In(("Store",), ("a", "b")), Bounds(stores=frozenset("ab"))),
        (spark.StringStartsWith(("topic",), "a"), Bounds(topic_starts=Starts(frozenset("a")))),
        (spark.StringStartsWith(("tags",), "a"), Bounds(tag_starts=Starts(frozenset("a")))),
        (spark.StringStartsWith(("uniqKey",), "a"), Bounds(uniq_key_starts=Starts(frozenset("a")))),
        (spark.EqualTo(("tags",), "a"), Bounds(tags=frozenset("a"))),
        (spark.EqualTo(("uniqKey",), "a"), Bounds(uniq_keys=frozenset("a"))),
        (spark.EqualTo(("key",), "é".encode()), Bounds(keys=frozenset("é"))),
        (spark.EqualTo(("partition",), 3), Bounds(queue_ids=Span(3, 4))),
        (spark.In(("partition",), (9, 3)), Bounds(queue_ids=Span(3, 10))),
        (spark.GreaterThan(("offset",), 3), Bounds(queue_offsets=Span(start=4))),
        (spark.GreaterThanOrEqual(("offset",), 3), Bounds(queue_offsets=Span(start=3))),
        (spark.LessThan(("physicalOffset",), 3), Bounds(physical_offsets=Span(stop=3))),
        (spark.LessThanOrEqual(("physicalOffset",), 3), Bounds(physical_offsets=Span(stop=4))),
        (spark.EqualTo(("timestamp",), at(5000)), Bounds(store_times_ms=Span(5, 6))),
        (spark.EqualTo(("timestamp",), at(5001)), Bounds(store_times_ms=Span(6, 6))),
        (spark.GreaterThan(("timestamp",), at(5000)), Bounds(store_times_ms=Span(start=6))),
        (spark.GreaterThanOrEqual(("timestamp",), at(5001)), Bounds(store_times_ms=Span(start=6))),
        (spark.LessThan(("timestamp",), at(5001)), Bounds(store_times_ms=Span(stop=6))),
        (spark.LessThan(("timestamp",), at(5000)), Bounds(store_times_ms=Span(stop=5))),
        (spark.LessThanOrEqual(("timestamp",), at(-1)), Bounds(store_times_ms=Span(stop=0))),
        (
            spark.EqualTo(("timestamp",), datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            Bounds(store_times_ms=Span(0, 1)),
        ),
    ],
)
def test_a_filter_bounds(asked: Any, bounds: Bounds) -> None:
    assert bounds_of([asked]) == bounds


@pytest.mark.parametrize(
    "asked",
    [
        spark.EqualTo(("topic",), None),
        spark.EqualNullSafe(("topic",), None),
        spark.EqualTo(("topic",), "bytes that are no text: \ufffd"),
        spark.In(("tags",), ("a", "\ufffd")),
        spark.EqualTo(("key",), b"\xff"),
        spark.EqualTo(("topic",), 5),
        spark.EqualTo(("value",), b"a"),
        spark.EqualTo(("no such column",), "a"),
        spark.EqualTo(("topic", "inner"), "a"),
        spark.EqualTo(("partition",), "3"),
        spark.EqualTo(("partition",), True),
        spark.GreaterThan(("partition",), None),
        spark.GreaterThan(("topic",), "a"),
        spark.EqualTo(("timestamp",), datetime(1970, 1, 1)),
        spark.In(("timestamp",), (at(0), 5)),
        spark.IsNull(("topic",)),
        spark.IsNotNull(("topic",)),
        spark.Not(spark.EqualTo(("topic",), "a")),
        spark.StringStartsWith(("topic",), ""),
        spark.StringStartsWith(("topic",), "a\ufffd"),
        spark.StringStartsWith(("store",), "a"),
        spark.StringStartsWith(("key",), "a"),
        spark.StringEndsWith(("topic",), "a"),
        spark.StringContains(("topic",), "a"),
    ],
)
def test_what_says_nothing_about_a_place_bounds_nothing(asked: Any) -> None:
    assert bounds_of([asked]) == NO_BOUNDS
    assert bounds_of([asked]).is_everything


def test_all_filters_hold_together() -> None:
    topic = spark.In(("topic",), ("a", "b"))
    times = spark.GreaterThanOrEqual(("timestamp",), at(7000)), spark.LessThan(("timestamp",), at(9000))
    found = bounds_of([topic, *times, spark.EqualTo(("topic",), "b")])
    assert found == Bounds(topics=frozenset("b"), store_times_ms=Span(7, 9))
    assert not found.is_nothing and not found.is_everything
    assert bounds_of([topic, spark.EqualTo(("topic",), "c")]).is_nothing
    assert bounds_of([spark.GreaterThan(("offset",), 5), spark.LessThan(("offset",), 5)]).is_nothing
    assert bounds_of([spark.GreaterThan(("offset",), (1 << 63) - 1)]).is_nothing
    assert bounds_of([]) == NO_BOUNDS
    starts = [spark.StringStartsWith(("topic",), text) for text in ("a", "ab")]
    assert bounds_of(starts).takes_topic("abc") and not bounds_of(starts).takes_topic("ac")
    assert not bounds_of(starts).is_nothing
    assert bounds_of([*starts, spark.StringStartsWith(("topic",), "b")]).is_nothing
    of_a_store = bounds_of([spark.EqualTo(("store",), "a")])
    assert of_a_store.is_everything and of_a_store != NO_BOUNDS, "records do not tell their store"
    assert (of_a_store & bounds_of([spark.EqualTo(("store",), "b")])).is_nothing


# -- rows

NAMES = ("a", "b", "ab", "orders", "заказы", "")
COMPARISONS = {
    spark.EqualTo: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
}

MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from([name.encode() for name in NAMES if name] + [b"a\xff"]),
            "queue_id": st.integers(0, 2),
            "queue_offset": st.integers(0, 3),
            "stored": st.integers(0, 3),
            "tags": st.sampled_from(NAMES),
            "keys": st.sampled_from([*NAMES, "a b", " b  a"]),
            "uniq_key": st.sampled_from(NAMES),
        }
    ),
    max_size=12,
)


def piece_of(messages: list[dict[str, Any]], sys_flag: int = 0) -> tuple[bytes, Any]:
    piece, position = bytearray(400 * len(messages)), 0
    for message in messages:
        pairs = {"TAGS": message["tags"], "KEYS": message["keys"], "UNIQ_KEY": message["uniq_key"]}
        properties = "".join(f"{name}\1{value}\2" for name, value in pairs.items() if value).encode()
        position += native.encode_record(
            *(piece, position, MAGIC_V2, message["queue_id"], 0, message["queue_offset"], position, sys_flag, 0, HOST),
            *(message["stored"], HOST, 0, 0, b"body", message["topic"], properties),
        )
    rows = np.empty(len(messages), FRAME_DTYPE)
    assert native.walk(piece, 0, position, 0, True, rows)[0] == len(messages)
    return bytes(piece[:position]), rows


def literals(draw: st.DrawFn, kind: str, piece_size: int) -> Any:
    if kind == "timestamp":
        return at(draw(st.integers(-1000, 4000)))
    if kind == "key":
        return draw(st.sampled_from(NAMES)).encode()
    if kind in ("topic", "tags", "uniqKey"):
        return draw(st.sampled_from([*NAMES, "a\ufffd"]))
    return draw(st.integers(-1, piece_size if kind == "physicalOffset" else 4))


@given(MESSAGES, st.data())
def test_no_row_that_matches_is_left_out(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    """And of those that do not, only what the bounds cannot say is kept."""
    piece, rows = piece_of(messages)
    filters: list[Any] = []
    matching, is_exact = np.ones(len(rows), np.bool_), True
    for _ in range(data.draw(st.integers(0, 3))):
        kind = data.draw(
            st.sampled_from(
                ["topic", "tags", "key", "uniqKey", "partition", "offset", "physicalOffset", "timestamp"],
            )
        )
        values = MessageColumns(piece, rows, None).column(kind).to_pylist()
        if kind in ("topic", "tags", "uniqKey") and data.draw(st.booleans()):
            text = data.draw(st.sampled_from(["a", "o", "за", "ord", "", "a\ufffd"]))
            filters.append(spark.StringStartsWith((kind,), text))
            matching &= np.array([value is not None and value.startswith(text) for value in values], np.bool_)
            is_exact &= bool(text)  # else nothing is said, and a null is kept
        elif data.draw(st.booleans()):
            wanted = [data.draw(st.composite(literals)(kind, len(piece))) for _ in range(data.draw(st.integers(1, 3)))]
            filters.append(spark.In((kind,), tuple(wanted)))
            matching &= np.array([value in wanted for value in values], np.bool_)
            is_exact &= kind in ("topic", "tags", "key", "uniqKey") or len(wanted) == 1
        else:
            asked = data.draw(st.sampled_from(list(COMPARISONS)))
            literal = data.draw(st.composite(literals)(kind, len(piece)))
            filters.append(asked((kind,), literal))
            holds = COMPARISONS[asked]
            matching &= np.array([value is not None and holds(value, literal) for value in values], np.bool_)
            is_exact &= asked is spark.EqualTo or kind not in ("topic", "tags", "key", "uniqKey")
    bounds = bounds_of(filters)
    found = bounds.mask(piece, rows)
    assert not (matching & ~found).any()
    if is_exact and "\ufffd" not in repr(filters):
        assert (found == matching).all()
    assert (bounds.may_hold(piece, rows) == found).all(), "without inner batches both say the same"
    assert not (bounds.is_nothing and found.any())
    assert (reduce(operator.and_, [bounds_of([each]) for each in filters], NO_BOUNDS)) == bounds


def test_an_inner_batch_is_kept_for_what_may_be_in_it() -> None:
    message = {"topic": b"a", "queue_id": 0, "queue_offset": 5, "stored": 1, "tags": "x", "keys": "k", "uniq_key": "u"}
    piece, rows = piece_of([message], INNER_BATCH)
    within = (
        Bounds(queue_offsets=Span(7, 9)),
        Bounds(tags=frozenset("y")),
        Bounds(keys=frozenset("y")),
        Bounds(uniq_keys=frozenset("y")),
    )
    for bounds in within:
        assert bounds.may_hold(piece, rows).all()
        assert not bounds.mask(piece, rows).any()
    for bounds in (Bounds(topics=frozenset("b")), Bounds(queue_ids=Span(1, 2)), Bounds(store_times_ms=Span(2))):
        assert not (bounds & within[0]).may_hold(piece, rows).any()


def test_bounds_travel_to_workers() -> None:
    import pickle

    bounds = Bounds(topics=frozenset("ab"), store_times_ms=Span(1, 2))
    piece, rows = piece_of([])
    bounds.mask(piece, rows)
    assert pickle.loads(pickle.dumps(bounds)) == bounds
