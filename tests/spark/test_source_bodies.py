"""Decompressed bodies and headers, without Spark: every kind, what is none, batches, and how much is held."""

from __future__ import annotations

import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import CompressionType, Message, StoreSettings
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import COLUMNS, HEADERS, arrow_schema, spark_schema
from flightlog.store.errors import CorruptRecordError, MissingExtraError
from flightlog.store.format.compression import compress
from flightlog.store.format.inner_batch import encode_inner
from flightlog.store.format.sys_flag import COMPRESSED, COMPRESSION_MASK, INNER_BATCH, NEED_UNWRAP
from flightlog.tests.support.planning import plan

SCHEMA = arrow_schema(spark_schema((), COLUMNS), COLUMNS)
SYS_FLAG_AT = 36
KINDS = list(CompressionType)


def batches(path: Path, **choices: Any) -> list[Any]:
    reader = RangeReader(SCHEMA, ReadOptions(**choices))
    return [batch for pack in plan(path, 256 << 20) for piece in pack for batch in reader.read(piece)]


def rows(path: Path, **choices: Any) -> list[dict[str, Any]]:
    return [row for batch in batches(path, **choices) for row in batch.to_pylist()]


def put(path: Path, *messages: Message, **settings: Any) -> Path:
    with flightlog.open(path, StoreSettings(segment_size=32 << 20, rocketmq_strict=False, **settings)) as store:
        for message in messages:
            store.put(message)
        assert store.verify().is_clean
    return path


def packed(body: bytes, kind: CompressionType, sys_flag: int = 0) -> Message:
    return Message("t", compress(body, kind), tags="a", sys_flag=sys_flag | kind.flags)


def test_bodies_of_every_kind_as_they_were(tmp_path: Path) -> None:
    dice, bodies = random.Random(1), list[bytes]()
    messages = []
    for number in range(300):
        body = dice.randbytes(dice.choice((0, 1, 100, 5000))) + bytes(dice.choice((0, 10, 90_000)))
        bodies.append(body)
        kind = dice.choice((None, *KINDS))
        messages.append(Message("t", body, compress=kind) if kind and number % 2 else Message("t", body))
        if kind and number % 2 == 0:
            messages[-1] = packed(body, kind, 0x300 if kind is CompressionType.ZLIB and number % 3 else 0)
    path = put(tmp_path, *messages)
    stored, found = rows(path), rows(path, decompress=True)
    assert [row["value"] for row in found] == bodies
    assert not any(row["sysFlag"] & (COMPRESSED | COMPRESSION_MASK) for row in found)
    with flightlog.open_read_only(path) as view:
        read = [(m.body, m.sys_flag) for m in view.read("t", 0, decompress=True)]
    assert [(row["value"], row["sysFlag"] & ~0x30) for row in found] == [(body, flag & ~0x30) for body, flag in read]
    assert any(row["sysFlag"] & COMPRESSED for row in stored)
    for before, after in zip(stored, found, strict=True):
        assert {**after, "value": 0, "sysFlag": 0} == {**before, "value": 0, "sysFlag": 0}


BROKEN = [
    (Message("t", b"no stream", sys_flag=COMPRESSED), "a body of 9 bytes is no ZLIB stream"),
    (Message("t", compress(b"x" * 999, CompressionType.LZ4)[:-3], sys_flag=0x101), "in the middle of its stream"),
    (Message("t", b"x", sys_flag=0x501), "names compression type 5"),
    (packed(bytes(65 << 20), CompressionType.ZSTD), "more than the 67108864 bytes allowed"),
]


@pytest.mark.parametrize(("broken", "reason"), BROKEN)
def test_a_body_that_cannot_be_decompressed_is_damage(broken: Message, reason: str, tmp_path: Path) -> None:
    around = [packed(b"before", CompressionType.ZLIB), broken, packed(b"behind", CompressionType.ZSTD)]
    path = put(tmp_path, *around)
    assert [row["value"] for row in rows(path)] == [message.body for message in around], "nobody looks"
    with pytest.raises(CorruptRecordError, match=reason) as caught:
        rows(path, decompress=True)
    kept = rows(path, decompress=True, on_corrupt="skip")
    assert [row["value"] for row in kept] == [b"before", b"behind"]
    before, damaged, behind = rows(path, decompress=True, on_corrupt="rows")
    assert [before, behind] == kept
    assert (damaged["value"], damaged["sysFlag"] & 0x701, damaged["tags"]) == (
        *(broken.body, broken.sys_flag & 0x701, broken.tags),
    )
    assert damaged["_corrupt"] == {
        "file": str(caught.value.path),
        "offset": caught.value.physical_offset,
        "reason": caught.value.found,
    }
    assert damaged["_corrupt"]["offset"] == damaged["physicalOffset"]


def test_a_compressed_inner_batch_is_unwrapped(tmp_path: Path) -> None:
    inner = [b"one", b"two" * 1000, b""]
    body = b"".join(encode_inner(each, i, b"KEYS\1k%d\2" % i) for i, each in enumerate(inner))
    path = put(tmp_path, Message("t", b"first"), packed(body, CompressionType.ZLIB), packed(b"none", KINDS[0]))
    _, *stored = rows(path)
    for row in stored:  # nothing of ours writes such a batch
        with (path / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(row["physicalOffset"] + SYS_FLAG_AT)
            file.write((row["sysFlag"] | INNER_BATCH | NEED_UNWRAP).to_bytes(4, "big"))
    assert len(rows(path)) == 3
    found = rows(path, decompress=True)
    assert [row["value"] for row in found] == [b"first", *inner, b"none"]
    assert [row["batchIndex"] for row in found] == [None, 0, 1, 2, None]
    assert [row["key"] for row in found[1:4]] == [b"k0", b"k1", b"k2"]


def test_what_small_bodies_become_is_not_held_at_once(tmp_path: Path) -> None:
    """One piece of the log stands for 400 MB."""
    path = put(tmp_path, *[packed(bytes(4 << 20), CompressionType.ZLIB)] * 100)
    assert sum(row["size"] for row in rows(path)) < 4 << 20
    options, sizes = ReadOptions(decompress=True), list[int]()
    reader = RangeReader(arrow_schema(spark_schema(["value"])), options)
    tracemalloc.start()
    for pack in plan(path, 256 << 20):
        for batch in reader.read(pack[0]):
            sizes.append(batch.nbytes)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(sizes) >= 100 * (4 << 20) and max(sizes) < 5 << 20
    assert most < 64 << 20


def test_a_missing_library_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, packed(b"x" * 100, CompressionType.LZ4))
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    for on_corrupt in ("fail", "skip", "rows"):
        with pytest.raises(MissingExtraError, match="flightlog\\[compression\\]"):
            rows(path, decompress=True, on_corrupt=on_corrupt)


def test_headers_are_the_properties(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        Message("t", b"", properties={"ä": "ü", "n": "1"}, keys=("a", "b"), tags="x"),
        Message("t", b""),
        Message("t", b"", properties={"n": "2"}),
    )
    found = rows(path)
    assert [row["headers"] is None for row in found] == [False, True, False]
    for row in found:
        headers = [(each["key"], each["value"].decode()) for each in row["headers"] or ()]
        assert headers == row["properties"]
    assert {"key": "ä", "value": "ü".encode()} in found[0]["headers"]
    assert SCHEMA.field(HEADERS.name).type == batches(path)[0].schema.field(HEADERS.name).type
