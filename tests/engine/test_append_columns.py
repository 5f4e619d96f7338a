"""`append_columns`: what `put_many` does with the same messages, byte for byte, or the same refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flightlog
from flightlog import Message, PutStatus, Store, StoreSettings
from flightlog.store.errors import (
    InvalidMessageError,
    UsageError,
)

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

Row = dict[str, Any]
MAP = pa.map_(pa.string(), pa.string())
SMALL = StoreSettings.small(
    segment_size=64 << 10,
    queue_file_entries=20,
    max_message_size=40 << 10,
    flush_interval_ms=3_600_000,
    rocketmq_strict=False,
)


def message_of(topic: str, row: Row) -> Message:
    return Message(
        topic,
        row["value"],
        tags=row["tags"],
        keys=row["keys"] or (),
        properties=row["properties"],
        queue_id=row["partition"],
        flag=row["flag"],
        uniq_key=row["uniqKey"],
        born_timestamp_ms=row["bornTimestamp"],
    )


class Pair:
    """Two stores that must stay the same: one takes messages, the other columns."""

    def __init__(self, folder: Path, make: Callable[[Path], Store]) -> None:
        self.paths = folder / "messages", folder / "columns"
        self.messages, self.columns = (make(path) for path in self.paths)

    def take(self, topic: str, rows: list[Row], columns: Any) -> None:
        try:
            expected: Any = self.messages.put_many([message_of(topic, row) for row in rows])
        except InvalidMessageError:  # which of several faults is told first differs
            with pytest.raises(InvalidMessageError):
                self.columns.append_columns(topic, columns)
            return
        found = self.columns.append_columns(topic, columns)
        assert found.status is PutStatus.PUT_OK and found.topic == topic
        arrays = (
            *(found.queue_ids, found.queue_offsets, found.physical_offsets, found.sizes),
            found.store_timestamps_ms,
        )
        assert [*zip(*(array.tolist() for array in arrays), strict=True)] == [result[2:7] for result in expected]
        assert len(found) == len(expected)

    def close(self) -> None:
        for store in (self.messages, self.columns):
            store.close()
        for folder in ("commitlog", "consumequeue"):
            files = [
                {
                    str(file.relative_to(path)): file.read_bytes()
                    for file in (path / folder).rglob("*")
                    if file.is_file()
                }
                for path in self.paths
            ]
            assert files[0].keys() == files[1].keys()
            assert [name for name in files[0] if files[0][name] != files[1][name]] == []


@pytest.fixture
def pair(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, kernel: str) -> Iterator[Pair]:
    found = Pair(tmp_path, lambda path: flightlog.open(path, SMALL, clock=clock))
    yield found
    found.close()
    for path in found.paths:
        assert_clean(path)


# ---- one and the same over random schemas ----

TEXT = st.text(st.sampled_from("aZ9 -ä漢😀"), max_size=6)
FAULTY_TEXT = st.sampled_from(["a\x01", "\x02", "WAIT", "false"])
NAMES = st.sampled_from(["color", "größe", "x", "TAGS", "KEYS", "WAIT", "", "a\x01b", "DELAY"])
PLAIN_NAMES = st.sampled_from(["color", "größe", "x", "y"])
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


def row_of(names: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Row]:
    filled = TEXT.filter(bool)
    return st.fixed_dictionaries(
        {
            "value": st.binary(max_size=40) | st.integers(100, 5000).map(lambda size: b"b" * size),
            "tags": st.none() | texts,
            "uniqKey": st.none() | texts,
            "keys": st.none() | st.lists(filled.map(lambda text: text.replace(" ", "_")), max_size=3),
            "properties": st.none() | st.dictionaries(names, filled, max_size=3),
            "partition": st.integers(0, 3),
            "flag": INT32,
            "bornTimestamp": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        }
    )


ROWS = st.lists(row_of(PLAIN_NAMES, TEXT), max_size=25) | st.lists(row_of(NAMES, TEXT | FAULTY_TEXT), max_size=3)
BINARY = st.sampled_from([pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())])
STRINGS = st.sampled_from(
    [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()]
)
LISTS = st.sampled_from([pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.binary())])
MAPS = st.sampled_from([pa.map_(pa.string(), pa.string()), pa.map_(pa.large_string(), pa.binary())])


def raw(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, str) and pa.types.is_binary(kind):
        return value.encode()
    if isinstance(value, list):
        return [raw(item, kind.value_type) for item in value]
    if isinstance(value, dict):
        return [(raw(key, kind.key_type), raw(item, kind.item_type)) for key, item in value.items()]
    return value


def arrow_of(draw: Any, rows: list[Row]) -> Any:
    """The rows as a record batch or a table of chunks; a slice of a longer one, of any types."""
    kinds = {
        "value": draw(BINARY),
        **{name: draw(STRINGS) for name in ("tags", "uniqKey")},
        "keys": draw(LISTS),
        "properties": draw(MAPS),
        "partition": draw(st.sampled_from([pa.int32(), pa.uint8(), pa.int64()])),
        "flag": draw(st.sampled_from([pa.int32(), pa.int64()])),
        "bornTimestamp": pa.int64(),
    }
    before, behind = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    filler: Row = {
        "value": b"never", "tags": "never", "uniqKey": None, "keys": ["never", "ever"],
        "properties": {"never": "ever"}, "partition": 9, "flag": 9, "bornTimestamp": 9,
    }  # fmt: skip
    padded = [filler] * before + rows + [filler] * behind
    columns = {}
    for name, kind in kinds.items():
        values = [row[name] for row in padded]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array([raw(value, plain) for value in values], plain)
        columns[name] = array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
    batch = pa.RecordBatch.from_pydict(columns).slice(before, len(rows))
    if draw(st.booleans()):
        return batch
    cut = draw(st.integers(0, len(rows)))
    return pa.Table.from_batches([batch.slice(0, cut), batch.slice(cut), batch.slice(0, 0)], schema=batch.schema)


def numpy_of(draw: Any, rows: list[Row]) -> dict[str, Any]:
    """The rows as numpy arrays and sequences, by a Message's names."""
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in (rows or [{}])[0]}
    columns.setdefault("value", [])

    def objects(values: list[Any]) -> Any:
        found = np.empty(len(values), object)
        found[:] = values
        return found

    found: dict[str, Any] = {"body": columns.pop("value")}
    if draw(st.booleans()) and not any(body.endswith(b"\0") for body in found["body"]):
        found["body"] = np.array(found["body"], "S") if found["body"] else np.empty(0, "S3")
    for ours, theirs in (("partition", "queue_id"), ("uniqKey", "uniq_key"), ("bornTimestamp", "born_timestamp_ms")):
        if ours in columns:
            found[theirs] = columns.pop(ours)
    found |= columns
    if rows and draw(st.booleans()):
        found["queue_id"] = np.array(found["queue_id"], np.int16)
        found["flag"] = np.array(found["flag"], np.int64)
        found["tags"] = objects(found["tags"])
        found["keys"] = objects(found["keys"])
    return found


def test_columns_equal_messages_over_random_schemas(pair: Pair, clock: ManualClock) -> None:
    topics = st.sampled_from(["orders", "größe", "%RETRY%" + "g" * 200, "t" * 128, ""])

    @settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data(), rows=ROWS, topic=st.just("orders") | topics, is_arrow=st.booleans())
    def same(data: st.DataObject, rows: list[Row], topic: str, is_arrow: bool) -> None:
        clock.at_ms += 1
        topic = topic if rows else "orders"  # a put of no messages looks at no topic
        pair.take(topic, rows, (arrow_of if is_arrow else numpy_of)(data.draw, rows))

    same()
    assert len(list((pair.paths[0] / "commitlog").iterdir())) > 3, "too few segments were rolled over"


# ---- shapes of columns ----


def test_a_single_value_stands_for_a_column(pair: Pair) -> None:
    rows = [
        {"value": bytes([i]), "tags": "x", "keys": ["k"], "uniqKey": None, "properties": {"a": "b"}, "partition": 2,
         "flag": -7, "bornTimestamp": 5}
        for i in range(9)
    ]  # fmt: skip
    bodies = np.arange(9, dtype=np.uint8).reshape(9, 1)
    shared = {"tags": "x", "keys": "k", "queue_id": 2, "flag": -7, "born_timestamp_ms": 5}
    pair.take("t", rows, {"value": bodies, "properties": {"a": ["b"] * 9}} | shared)
    pair.take("t", rows, {"Body": bodies.view("V1").reshape(9), "PROPERTIES": [{"a": "b"}] * 9} | shared)
    structs = pa.array([{"a": "b", "c": None}] * 9)
    pair.take(
        "t", rows, {"value": pa.array([row["value"] for row in rows], pa.binary(1)), "properties": structs} | shared
    )


def test_a_name_that_is_there_twice_counts_as_in_a_mapping(pair: Pair) -> None:
    row: Row = dict.fromkeys(("tags", "keys", "uniqKey", "bornTimestamp")) | {"value": b"x", "partition": 0, "flag": 0}
    given = [("a", "1"), ("TAGS", "old"), ("b", "2"), ("a", "3")]
    rows = [row | {"properties": dict(given), "tags": "new"}, row | {"properties": {"b": "1"}, "tags": "new"}]
    pair.take("t", rows, {"value": [b"x"] * 2, "tags": "new", "properties": pa.array([given, [("b", "1")]], MAP)})
    assert next(pair.columns.read("t")).properties == {"a": "3", "TAGS": "new", "b": "2"}


BARE: Row = dict.fromkeys(("tags", "keys", "uniqKey", "properties", "bornTimestamp")) | {"partition": 0, "flag": 0}


def test_more_queues_than_are_looked_up_at_every_hold(pair: Pair) -> None:
    rows = [BARE | {"value": bytes(3000), "partition": row * 7 % 100} for row in range(600)]
    columns = {"value": [row["value"] for row in rows], "partition": [row["partition"] for row in rows]}
    for _ in range(2):
        pair.take("t", rows, columns)


def test_texts_beyond_ascii_in_columns(pair: Pair) -> None:
    keys = ["漢".encode(), b"", b"k"]
    rows = [BARE | {"value": b"x", "tags": "ä", "keys": [key.decode()] if key else None} for key in keys]
    pair.take("t", rows, {"value": [b"x"] * 3, "tags": "ä", "keys": np.array(keys)})


def test_times_of_every_unit(pair: Pair) -> None:
    base: Row = {
        "value": b"x",
        "tags": None,
        "keys": None,
        "uniqKey": None,
        "properties": None,
        "partition": 0,
        "flag": 0,
    }
    rows = [base | {"bornTimestamp": ms} for ms in (0, 1_700_000_000_123, -1, None)]
    ms = np.array([0, 1_700_000_000_123, -1, 0])
    null = [False, False, False, True]
    value = [b"x"] * 4
    for unit, times, extra in (("ms", 1, 0), ("us", 1000, 999), ("ns", 1_000_000, 999_999)):
        born = pa.array(ms * times + extra, pa.int64(), mask=np.array(null)).view(pa.timestamp(unit, tz="UTC"))
        pair.take("t", rows, {"value": value, "bornTimestamp": born})
        raw_times = (ms * times + extra).astype(f"datetime64[{unit}]")
        raw_times[3] = np.datetime64("NaT")
        pair.take("t", rows, {"value": value, "bornTimestamp": raw_times})


def test_no_rows_and_no_optional_columns(pair: Pair) -> None:
    empties: list[Any] = [{"value": []}, {"value": np.empty(0, "S1"), "keys": []}]
    for empty in [*empties, pa.table({"value": pa.array([], pa.binary())})]:
        found = pair.columns.append_columns("t", empty)
        assert len(found) == 0 and found.status is PutStatus.PUT_OK and found.queue_ids.dtype == np.int32
    row: Row = dict.fromkeys(("tags", "keys", "uniqKey", "properties", "bornTimestamp")) | {"partition": 0, "flag": 0}
    pair.take("t", [row | {"value": b"only"}], {"value": pa.chunked_array([[b"only"]])})
    pair.take("t", [row | {"value": b"only"}], pa.table({"value": [b"only"], "tags": pa.nulls(1), "keys": pa.nulls(1)}))


def test_what_was_read_can_be_appended(tmp_path: Path, clock: ManualClock, pair: Pair) -> None:
    columns = ["value", "partition", "bornTimestamp", "flag", "properties"]
    shared: Row = {"properties": {"a": "ä"}, "partition": 1}
    rows: list[Row] = [
        shared
        | {"value": b"b%d" % i, "tags": f"t{i % 3}", "keys": [f"k{i}", "all"], "uniqKey": f"u{i}"}
        | {"flag": i, "bornTimestamp": 1000 + i}
        for i in range(50)
    ]
    given = [row | {"properties": list(row["properties"].items())} for row in rows]
    schema = {"value": pa.binary(), "tags": pa.string(), "keys": pa.list_(pa.string()), "uniqKey": pa.string()}
    schema |= {"properties": pa.map_(pa.string(), pa.string()), "flag": pa.int32(), "bornTimestamp": pa.int64()}
    pair.take("t", rows, pa.Table.from_pylist(given, schema=pa.schema(schema | {"partition": pa.int32()})))
    batch = pair.columns.read_batch("t", 1, columns=columns)
    again = pair.columns.append_columns("again", batch)
    pair.messages.append_columns("again", batch)  # the two stay equal
    assert len(again) == 50
    assert pair.columns.read_batch("again", 1, columns=columns).to_pylist() == batch.to_pylist()


# ---- beside what else a store does ----


def test_rows_without_a_queue_take_turns(pair: Pair) -> None:
    base: Row = dict.fromkeys(("tags", "keys", "uniqKey", "properties", "bornTimestamp")) | {"value": b"x", "flag": 0}
    for ids in ([None] * 6, [2, None, 9, None, None], [None, 1]):
        pair.take("t", [base | {"partition": i} for i in ids], {"value": [b"x"] * len(ids), "partition": ids})
        arrow = pa.table({"value": [b"x"] * len(ids), "partition": pa.array(ids, pa.int32())})
        pair.take("t", [base | {"partition": i} for i in ids], arrow)


def test_topics_that_may_not_be_put_to(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings.small(auto_create_topics=False)) as store:
        for topic in ("unknown", "RMQ_SYS_TRACE_TOPIC", "TBW102"):
            with pytest.raises(InvalidMessageError):
                store.put(Message(topic, b"x"))
            with pytest.raises(InvalidMessageError):
                store.append_columns(topic, {"value": [b"x"]})
            assert len(store.append_columns(topic, {"value": []})) == 0
    assert_clean(tmp_path / "store")


def test_with_the_crc_property(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    crc = StoreSettings.small(append_crc_property=True, check_crc_property=True)
    pair = Pair(tmp_path, lambda path: flightlog.open(path, crc, clock=clock))
    base: Row = dict.fromkeys(("keys", "uniqKey", "properties", "bornTimestamp")) | {"flag": 0, "partition": 0}
    rows = [base | {"value": b"%d" % i, "tags": "x"} for i in range(5)]
    pair.take("t", rows, {"value": [row["value"] for row in rows], "tags": "x"})
    assert pair.columns.read_batch("t", columns=["value"])["value"].to_pylist() == [row["value"] for row in rows]
    pair.close()
    for path in pair.paths:
        assert_clean(path)


def test_columns_beside_inner_batches(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.put_batch([Message("b", b"one"), Message("b", b"two")])
        for refused in (lambda: store.append_columns("b", {"value": [b"x"]}), lambda: store.read_batch("b")):
            with pytest.raises(UsageError):
                refused()
        with pytest.raises(InvalidMessageError):
            store.append_columns("t", {"value": [b"x"], "properties": {"INNER_NUM": ["2"]}})
        assert [message.body for message in store.read("b")] == [b"one", b"two"]
    assert_clean(tmp_path / "store")
