"""Columns of rarer shapes: what an append takes and refuses, and what a batch makes of texts and of files that go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.columns import with_arrow
from flightlog.engine.columns.arrow_intake import ranges_of
from flightlog.engine.columns.gathering import OFFSET_MAX, gather
from flightlog.engine.columns.property_columns import PropertyColumns
from flightlog.store.errors import InvalidMessageError
from flightlog.store.format.properties import decode_properties
from flightlog.store.format.property_names import split_keys

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SMALL = StoreSettings.small(segment_size=64 << 10, queue_file_entries=20)
BODIES = [b"first", b"second"]


class Stream:
    """A table of somebody else's, who is known to Arrow by the stream alone."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


TAKEN: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "a stream": (Stream(pa.table({"value": BODIES, "tags": ["a", None]})), {"tags": ["a", None]}),
    "keys of a fixed count": (
        {"value": BODIES, "keys": pa.array([["a", "b"], ["c", "d"]], pa.list_(pa.string(), 2))},
        {"keys": [["a", "b"], ["c", "d"]]},
    ),
    "keys as a numpy array of bytes": ({"value": BODIES, "keys": np.array([b"a", b""])}, {"keys": [["a"], []]}),
    "keys of one text each": ({"value": BODIES, "keys": pa.array(["a", None])}, {"keys": [["a"], []]}),
    "nothing but nulls": (
        pa.table({"value": BODIES, **{name: pa.nulls(2) for name in ("keys", "properties", "bornTimestamp")}}),
        {"keys": [[], []], "properties": [{}, {}]},
    ),
    "no field in a struct": (
        {"value": BODIES, "properties": pa.array([{}, {}], pa.struct([]))},
        {"properties": [{}, {}]},
    ),
    "no property at all": ({"value": BODIES, "properties": {}}, {"properties": [{}, {}]}),
    "bodies as a view": ({"value": pa.array(BODIES, pa.binary_view())}, {"tags": [None, None]}),
    "lists of 64 bits with nulls": (
        {"value": BODIES, "keys": pa.array([None, ["c"]], pa.large_list(pa.large_string()))},
        {"keys": [[], ["c"]]},
    ),
}  # fmt: skip


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    columns, expected = TAKEN[name]
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.append_columns("t", columns)
        found = list(store.read("t"))
        assert [message.body for message in found] == BODIES
        for field, values in expected.items():
            assert [getattr(message, field) for message in found] == values
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(3)], ids=str
)
@pytest.mark.parametrize("offsets", [None, pa.py_buffer(b"")], ids=["no buffer", "an empty buffer"])
def test_a_column_without_rows_needs_no_offsets(kind: Any, offsets: Any) -> None:
    """Arrow lets a column of no rows have buffers of no bytes."""
    buffers = [None, offsets] if kind == pa.binary(3) else [None, offsets, pa.py_buffer(b"")]
    for column in (pa.Array.from_buffers(kind, 0, buffers), pa.array([], kind), pa.array([b"abc"], kind).slice(1)):
        found = ranges_of("value", column)
        assert len(found.starts) == len(found.sizes) == 0


TWICE = pa.RecordBatch.from_arrays([pa.array(BODIES), pa.array(["a", "b"]), pa.array(["c", "d"])], ["value", "t", "t"])

REFUSED: dict[str, tuple[Any, str]] = {
    "a column that is there twice": (TWICE, "column 't' is there 2 times, expected once"),
    "times beyond 64 bits of ms": (
        {"value": BODIES, "bornTimestamp": pa.array([0, (1 << 63) // 1000 + 1], pa.timestamp("s"))},
        "'bornTimestamp': a time beyond 64 bits of ms",
    ),
    "times before them": (
        {"value": BODIES, "bornTimestamp": pa.array([0, -((1 << 63) // 1000) - 1], pa.timestamp("s"))},
        "'bornTimestamp': a time beyond 64 bits of ms",
    ),
    "an Arrow array of texts as numbers": ({"value": BODIES, "partition": pa.array(["a", "b"])}, "expected whole num"),
    "a numpy array of fractions": ({"value": BODIES, "partition": np.array([0.5, 1])}, "float64 of 1 dim.*whole num"),
    "a table of numbers": ({"value": BODIES, "flag": np.zeros((2, 2), np.int32)}, "int32 of 2 dim.*whole numbers"),
    "flags that are all missing": ({"value": BODIES, "flag": pa.nulls(2)}, "row 0: no flag"),
    "properties of fewer rows": ({"value": BODIES, "properties": [{"a": "b"}]}, "'properties': 1 rows, but .* 2 bod"),
    "a property of fewer rows": ({"value": BODIES, "properties": {"a": ["b"]}}, "'a': 1 rows, expected 2"),
    "a map of fewer rows": ({"value": BODIES, "properties": pa.nulls(1)}, "'properties': 1 rows, but there are 2"),
    "a number that is none of the row's": ({"value": BODIES, "flag": [1, 2, 3]}, "'flag': 3 rows, but there are 2"),
    "a numpy array of numbers as tags": ({"value": BODIES, "tags": np.array([1, 2])}, "'tags': a numpy array of int64"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path, assert_clean: AssertClean) -> None:
    columns, text = REFUSED[name]
    with flightlog.open(tmp_path / "store", SMALL) as store:
        with pytest.raises(InvalidMessageError, match=text):
            store.append_columns("t", columns)
        assert store.queues() == {}
    assert_clean(tmp_path / "store")


def test_what_is_missing_but_arrow_is_told_as_it_is() -> None:
    """MissingExtraError is for pyarrow alone: any other module that is not there is a mistake of ours."""
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        with_arrow("no_such_module", "read_batch")


# ---- texts of properties ----

TEXTS = [
    b"a\x011\x02b\x012\x02",
    b"",
    b"a\x013",  # the last pair may lack its end
    b"a\x01\x02\x01x\x02b\x014\x02nothing\x02",  # no value, no name, no end of a name
    b"a\x011\x02a\x012\x02",  # the later one counts
    b"KEYS\x01one  two \x02TAGS\x01x",
    b"a\x01\xff\x02",
]
TWO_NONE = [b"KEYS\x01one two\x02", b"a\x011\x02"]  # as many keys as messages, and not one each
TWO_ONE = [b"KEYS\x01one two\x02", b"KEYS\x01three\x02"]
ONE_EACH = [b"KEYS\x01one\x02", b"KEYS\x01two\x02"]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:-1], TEXTS[:2], TEXTS[1:2], [], TWO_NONE, TWO_ONE, ONE_EACH])
def test_property_columns_say_what_each_text_says(texts: list[bytes]) -> None:
    columns = PropertyColumns(pa.array(texts, pa.binary()))
    expected = [decode_properties(text) for text in texts]
    assert [dict(pairs) for pairs in columns.mapping().to_pylist()] == expected
    for name in ("a", "b", "TAGS", "none"):
        assert columns.value(name).to_pylist() == [properties.get(name) for properties in expected]
    keys = [split_keys(properties.get("KEYS", "")) for properties in expected]
    assert columns.keys.to_pylist() == [list(each) for each in keys]
    assert columns.first_key().to_pylist() == [each[0].encode() if each else None for each in keys]


def test_more_bytes_than_a_column_takes_are_told_before_anything_is_copied() -> None:
    sizes = np.array([OFFSET_MAX, 1])
    with pytest.raises(ValueError, match="read fewer messages at a time"):
        gather(b"", np.zeros(2, np.int64), sizes)


# ---- beside a writer that cleans up ----

CLEAN_UP = """
import flightlog, sys
with flightlog.open(sys.argv[1]) as store:
    while store.clean_up(0).segments:
        pass
    print(store.queues()["t", 0][0])
"""


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_a_batch_begins_where_retention_has_left_the_queue(
    on_corrupt: Any, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """As `read` does, in a view that knew older messages; another process has removed their files since."""
    path, settings = tmp_path / "store", StoreSettings.small(segment_size=8 << 10, queue_file_entries=10)
    with flightlog.open(path, settings) as store:
        store.put_many([Message("t", bytes(1000)) for _ in range(60)])
    with flightlog.open_read_only(path) as batches, flightlog.open_read_only(path) as messages:
        assert batches.read_batch("t", 0, 0, max_count=1, columns=["offset"])["offset"].to_pylist() == [0]
        done = subprocess.run([sys.executable, "-P", "-c", CLEAN_UP, path], capture_output=True, text=True, check=True)
        first = int(done.stdout)
        read = [message.queue_offset for message in messages.read("t", 0, 0, on_corrupt=on_corrupt)]
        batch = batches.read_batch("t", 0, 0, columns=["offset"], on_corrupt=on_corrupt)["offset"].to_pylist()
        for found in (read, batch):  # of a segment that is gone a view may still have the bytes
            assert 20 < found[0] <= first and found == list(range(found[0], 60))
        assert batches.corrupt_skipped == 0
    assert_clean(path)
