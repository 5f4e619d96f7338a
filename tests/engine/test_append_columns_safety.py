"""`append_columns`: what it refuses, with the row at fault and nothing stored; and that rows are as safe as puts."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.store.errors import (
    BodyTooLargeError,
    InvalidMessageError,
    PropertiesTooLargeError,
    RecordTooLargeError,
    StoreClosedError,
    TopicTooLongError,
)
from flightlog.store.log.column_records import ColumnRecords
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

MAP = pa.map_(pa.string(), pa.string())
SMALL = StoreSettings.small(
    segment_size=64 << 10, queue_file_entries=20, max_message_size=40 << 10, flush_interval_ms=3_600_000
)

# ---- refused, with the row, and nothing stored ----

GOOD = b"good"
CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": [GOOD, None]}, InvalidMessageError, "row 1: no body"),
    ({"value": [b"bytes", 5]}, InvalidMessageError, "row 1: a int"),
    ({"value": pa.array([GOOD, None])}, InvalidMessageError, "row 1: no body"),
    ({"value": np.array([1.0, 2.0])}, InvalidMessageError, "float64"),
    ({"value": pa.array([1, 2])}, InvalidMessageError, "int64"),
    ({"value": [GOOD, bytes(40_961)]}, BodyTooLargeError, "row 1: the body has 40961 bytes"),
    ({"value": [GOOD, bytes(40_960)], "properties": [None, {"a": "b" * 30_000}]}, RecordTooLargeError, "row 1"),
    ({"value": [GOOD] * 2, "properties": [None, {"a": "b" * 32_765}]}, PropertiesTooLargeError, "row 1: .* 32768 b"),
    ({"value": [GOOD] * 2, "tags": ["x"]}, InvalidMessageError, "'tags': 1 rows, but there are 2"),
    ({"value": [GOOD] * 2, "tags": ["x", "a\x02b"]}, InvalidMessageError, "row 1: .* 0x01 or 0x02"),
    ({"value": [GOOD] * 2, "tags": np.array([b"x", b"\xff\xfe"])}, InvalidMessageError, "row 1: .* UTF-8"),
    ({"value": [GOOD] * 2, "tags": "a\x01b"}, InvalidMessageError, "row 0: .* 0x01 or 0x02"),
    ({"value": [GOOD] * 2, "tags": "t" * 40_000}, PropertiesTooLargeError, "row 0: .* 40006 b"),
    ({"value": [GOOD] * 2, "keys": np.array([b"x", b"a b"])}, InvalidMessageError, "row 1: key 'a b': a key is"),
    ({"value": [GOOD] * 2, "keys": np.array([b"x", b"a\x02b"]), "tags": "t"}, InvalidMessageError, "row 1: .* 0x01"),
    ({"value": [GOOD] * 2, "keys": np.array([b"a b", b"x"]), "tags": [5, 6]}, InvalidMessageError, "row 0: key 'a b'"),
    ({"value": [GOOD] * 2, "properties": {"a": [b"x", b""]}}, InvalidMessageError, "row 1: property 'a'=''"),
    ({"value": [GOOD] * 2, "properties": {"": [None, b"x"]}}, InvalidMessageError, "row 1: property ''='x'"),
    ({"value": [GOOD] * 2, "properties": {"a\x01": [None, b"x"]}}, InvalidMessageError, "row 1: .* 0x01 or 0x02"),
    ({"value": [GOOD] * 2, "tags": ["x", "\ud800"]}, InvalidMessageError, "row 1: text that cannot"),
    ({"value": [GOOD] * 2, "keys": ["x", "a b"]}, InvalidMessageError, "row 1: key 'a b': a key is"),
    ({"value": [GOOD] * 2, "keys": [["x"], ["y", ""]]}, InvalidMessageError, "row 1: key '': a key is"),
    ({"value": [GOOD] * 2, "keys": [["x"], ["y", None]]}, InvalidMessageError, "row 1: key '': a key is"),
    ({"value": [GOOD] * 2, "keys": [["x"], 5]}, InvalidMessageError, "keys"),
    ({"value": [GOOD] * 2, "properties": [None, {"a": ""}]}, InvalidMessageError, "row 1: property 'a'=''"),
    ({"value": [GOOD] * 2, "properties": [None, {"a": None}]}, InvalidMessageError, "row 1: the property 'a'=None"),
    ({"value": [GOOD] * 2, "properties": [None, {"": "x"}]}, InvalidMessageError, "row 1: property ''='x'"),
    ({"value": [GOOD] * 2, "properties": [None, 5]}, InvalidMessageError, "row 1: a int, expected a mapping"),
    ({"value": [GOOD] * 2, "properties": pa.array([1, 2])}, InvalidMessageError, "expected a map"),
    (
        {"value": [GOOD] * 2, "properties": pa.array([[], [("a", None)]], MAP)},
        InvalidMessageError,
        "row 1: property 'a'=''",
    ),
    ({"value": [GOOD] * 2, "partition": [0, -1]}, InvalidMessageError, "row 1: queue id -1"),
    ({"value": [GOOD] * 2, "partition": [0, 1 << 31]}, InvalidMessageError, "row 1: 2147483648 has more than 32 bits"),
    ({"value": [GOOD] * 2, "partition": [0, 1.5]}, InvalidMessageError, "row 1: 1.5"),
    ({"value": [GOOD] * 2, "flag": pa.array([0, 1 << 40])}, InvalidMessageError, "row 1: .* has more than 32 bits"),
    ({"value": [GOOD] * 2, "flag": [0, None]}, InvalidMessageError, "row 1: no flag"),
    ({"value": [GOOD] * 2, "flag": [0, 1 << 80]}, InvalidMessageError, "row 1: .* bits"),
    ({"value": [GOOD] * 2, "bornTimestamp": np.array([0, 1 << 63], np.uint64)}, InvalidMessageError, "row 1: .* 64"),
    ({"value": [GOOD] * 2, "bornTimestamp": ["x", "y"]}, InvalidMessageError, "row 0: 'x'"),
    ({"value": [GOOD] * 2, "properties": [None, {"DELAY": "3s"}]}, InvalidMessageError, "DELAY"),
    ({"value": [GOOD] * 2, "offset": [0, 1]}, InvalidMessageError, "'offset': an append takes value"),
    ({"value": [GOOD], "body": [GOOD]}, InvalidMessageError, "'value' is there twice"),
    ({"tags": ["x"]}, InvalidMessageError, "no column 'value'"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "error", "text"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_refused(
    columns: dict[str, Any], error: type[Exception], text: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.append_columns("t", {"value": [GOOD]})
        with pytest.raises(error, match=text) as caught:
            store.append_columns("t", columns)
        assert caught.type is error
        assert store.queues() == {("t", 0): (0, 1)}
    assert_clean(tmp_path / "store")


def test_refused_as_a_whole(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        with pytest.raises(TopicTooLongError):
            store.append_columns("t" * 128, {"value": [GOOD]})
        with pytest.raises(InvalidMessageError, match="expected an Arrow record batch"):
            store.append_columns("t", [GOOD])
        chunks = pa.chunked_array([[GOOD], [None]], pa.binary())
        with pytest.raises(InvalidMessageError, match="no body"):
            store.append_columns("t", pa.table({"value": chunks}))
        assert store.queues() == {}, "a chunk was appended before the next was checked"
        for at in (5, -1, (1 << 31) - 1):  # Arrow itself looks at the outer ones only
            offsets = pa.py_buffer(np.array([0, at, 4], np.int32))
            broken = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"four")])
            with pytest.raises(InvalidMessageError, match="row 0: its bytes lie outside"):
                store.append_columns("t", {"value": broken})
    with pytest.raises(StoreClosedError):
        store.append_columns("t", {"value": [GOOD]})
    assert_clean(tmp_path / "store")


# ---- as durable as puts ----


@pytest.mark.parametrize("uncommon", [False, True])
def test_under_sync_flush_the_rows_are_durable_and_visible(
    tmp_path: Path, uncommon: bool, assert_clean: AssertClean
) -> None:
    changes = {"flush_mode": FlushMode.SYNC, "segment_size": 64 << 10, "queue_file_entries": 50}
    with flightlog.open(tmp_path / "store", StoreSettings.small(**changes)) as store:
        columns: dict[str, Any] = {"value": [b"x" * 1000] * 300}
        if uncommon:
            columns["properties"] = [None] * 299 + [{"WAIT": "true"}]
        found = store.append_columns("t", columns)
        assert found.status is PutStatus.PUT_OK
        assert inside.log(store).flushed == inside.log(store).end == found.physical_offsets[-1] + found.sizes[-1]
        assert store.read_batch("t", columns=["offset"])["offset"].to_pylist() == found.queue_offsets.tolist()
    assert_clean(tmp_path / "store")


@pytest.mark.usefixtures("kernel")
def test_many_threads_append_at_once(tmp_path: Path, assert_clean: AssertClean) -> None:
    count, threads = 1500, 3
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        found: list[Any] = [None] * threads
        start = threading.Barrier(threads + 1)

        def run(number: int) -> None:
            start.wait()
            bodies = [f"{number}-{i}".encode().ljust(1000) for i in range(count)]
            found[number] = store.append_columns("t", {"value": bodies, "partition": np.arange(count) % 2})

        running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        start.wait()
        for i in range(200):
            store.put(Message("t", b"put-%d" % i, queue_id=i % 2))
        for thread in running:
            thread.join()
        for queue_id in (0, 1):
            bodies = store.read_batch("t", queue_id, columns=["value"])["value"].to_pylist()
            assert len(bodies) == count * threads // 2 + 100
            for number in range(threads):
                mine = found[number].queue_offsets[found[number].queue_ids == queue_id].tolist()
                expected = [f"{number}-{i}".encode().ljust(1000) for i in range(queue_id, count, 2)]
                assert [bodies[at] for at in mine] == expected
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("behind", ["encode", "commit"])
def test_an_interrupt_leaves_all_rows_of_a_hold_or_none(
    behind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path / "store", SMALL) as store:
        store.append_columns("t", {"value": [b"first"] * 5})
        encode = ColumnRecords.encode

        def interrupted(self: ColumnRecords, segment: Any, first: int, stop: int) -> None:
            encode(self, segment, first, stop)
            if behind == "commit":
                inside.log(store).end += self.size_of(first, stop)
            raise KeyboardInterrupt

        monkeypatch.setattr(ColumnRecords, "encode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append_columns("t", {"value": [b"second"] * 7, "partition": [0, 1, 0, 1, 0, 0, 0]})
        monkeypatch.undo()
        found = store.append_columns("t", {"value": [b"third"] * 2})
        expected = 5 if behind == "encode" else 10
        assert found.queue_offsets.tolist() == [expected, expected + 1]
        assert len(list(store.read("t"))) == expected + 2
        assert len(list(store.read("t", 1))) == (0 if behind == "encode" else 2)
    assert_clean(tmp_path / "store")


def test_numpy_columns_need_no_pyarrow(tmp_path: Path, assert_clean: AssertClean) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import flightlog, numpy as np\n"
        f"with flightlog.open({str(tmp_path / 'store')!r}, flightlog.StoreSettings.small()) as store:\n"
        "    found = store.append_columns('t', {'body': np.array([b'a', b'b']), 'tags': 'x', 'keys': ['k', None],\n"
        "        'properties': [{'a': 'b'}, None], 'queue_id': np.array([0, 0])})\n"
        "    print(found.queue_offsets.tolist(), [message.body for message in store.read('t')])\n"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[0, 1] [b'a', b'b']\n"
    assert_clean(tmp_path / "store")
