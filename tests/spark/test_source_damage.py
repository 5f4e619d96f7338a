"""The option onCorrupt in its three ways: golden stores that RocketMQ or a disk damaged, and damage drawn by lot."""

from __future__ import annotations

import itertools
import json
import logging
import logging.handlers
import os
import random
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.engine.open.tail_scan import Damage, scan_tail
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.plan.log_planning import LogRange
from flightlog.spark.read.reading import RangeReader
from flightlog.spark.schema import COLUMNS, CORRUPT, arrow_schema, spark_schema
from flightlog.store.errors import CorruptRecordError
from flightlog.store.format.sys_flag import INNER_BATCH
from flightlog.tests.support import damage, sound_stores
from flightlog.tests.support.planning import plan

if TYPE_CHECKING:
    GetSet = Callable[[str], Path]

SCHEMA = arrow_schema(spark_schema((), COLUMNS), COLUMNS)
HEADS = ["topic", "partition", "offset", "physicalOffset", "batchIndex", "size", "_corrupt"]
"""Columns that say nothing about what is in a body."""
NULLS = {column.name: None for column in COLUMNS}
Row = dict[str, Any]


def ranges_of(path: Path, split_bytes: int = 256 << 20) -> list[LogRange]:
    return list(itertools.chain.from_iterable(plan(path, split_bytes)))


def schema_of(names: Sequence[str]) -> Any:
    return arrow_schema(spark_schema(list(names)), [CORRUPT] if CORRUPT.name in names else [])


def read(ranges: Iterable[LogRange], on_corrupt: Any, schema: Any = SCHEMA, **choices: Any) -> tuple[list[Row], int]:
    """The rows, and how many damaged places were left out, as the log says."""
    reader = RangeReader(schema, ReadOptions(on_corrupt=on_corrupt, **choices))
    handler, log = logging.handlers.BufferingHandler(10_000), logging.getLogger("flightlog.spark")
    log.addHandler(handler)
    try:
        rows = [row for piece in ranges for batch in reader.read(piece) for row in batch.to_pylist()]
    finally:
        log.removeHandler(handler)
    said = " ".join(record.getMessage() for record in handler.buffer)
    return rows, sum(map(int, re.findall(r"left out (\d+) damaged places", said)))


def in_all_ways(path: Path, split_bytes: int = 256 << 20, **choices: Any) -> list[Row]:
    """Read it in each way; they must agree. Returns the rows of onCorrupt=rows that are damaged."""
    ranges = ranges_of(path, split_bytes)
    kept, skipped = read(ranges, "skip", **choices)
    shown, left_out = read(ranges, "rows", **choices)
    assert [row for row in shown if row["_corrupt"] is None] == kept
    damaged = [row for row in shown if row["_corrupt"] is not None]
    assert (len(damaged), 0) == (skipped, left_out)
    check_columns_alone(ranges, shown, kept, choices)
    if not damaged:
        assert read(ranges, "fail", **choices) == (kept, 0)
        return []
    first = damaged[0]["_corrupt"]
    with pytest.raises(CorruptRecordError) as caught:
        read(ranges, "fail", **choices)
    error = caught.value
    assert (str(error.path), error.physical_offset, error.found) == tuple(first.values())
    offsets = [row["_corrupt"]["offset"] if row["_corrupt"] else row["physicalOffset"] for row in shown]
    assert offsets == sorted(offsets), "damage stands where it lies in the log"
    return damaged


def check_columns_alone(ranges: list[LogRange], shown: list[Row], kept: list[Row], choices: dict[str, Any]) -> None:
    """Without the columns that tell of bodies the rows are the same ones. Only a query that fails at damage passes by
    a body that nobody asked for; its rows are then those that there were before the damage."""
    schema = schema_of(HEADS)

    def heads(rows: list[Row]) -> list[Row]:
        return [{name: row[name] for name in HEADS} for row in rows]

    assert read(ranges, "skip", schema, **choices)[0] == heads(kept)
    assert read(ranges, "rows", schema, **choices)[0] == heads(shown)
    failing = [row for row in shown if row["_corrupt"] and not is_of_body_alone(row, **choices)]
    if not failing:
        sound = [{**row, "_corrupt": None} for row in heads(shown)]
        assert read(ranges, "fail", schema, **choices) == (sound, 0)
        return
    with pytest.raises(CorruptRecordError) as caught:
        read(ranges, "fail", schema, **choices)
    assert caught.value.physical_offset == failing[0]["_corrupt"]["offset"]


def is_of_body_alone(row: Row, *, decompress: bool = False, **_: Any) -> bool:
    """Whether nothing but the row's value and its CRC depends on what is damaged there."""
    is_single = row["physicalOffset"] is not None and not row["sysFlag"] & INNER_BATCH
    return is_single and not decompress and row["_corrupt"]["reason"] == "a body that differs from its CRC"


def scanned(path: Path) -> list[Damage]:
    """What `verify` says of the log."""
    with flightlog.open_read_only(path) as view:
        whole = scan_tail(
            view.log_reader, view.shutdown_state, view.min_physical_offset, view.end_physical_offset, for_writing=False
        )
        said = {(finding.path, finding.offset) for finding in view.verify().findings}
        assert {(damage.path, damage.physical_offset) for damage in whole.damage} <= said
        return whole.damage


def check_against_verify(path: Path, damaged: list[Row]) -> None:
    """Every place that verify knows is there, and every place that is there lies in one that verify knows."""
    known = scanned(path)
    found = [(row["_corrupt"]["file"], row["_corrupt"]["offset"]) for row in damaged]
    assert {(str(damage.path), damage.physical_offset) for damage in known} <= set(found)
    for _, offset in found:
        assert any(
            each.physical_offset <= offset and (each.resumes_at is None or offset < each.resumes_at) for each in known
        ), offset


# -- golden stores


@pytest.mark.parametrize(("name", "kept"), [("abort-crcflip", 951), ("clean-crcflip", 399)])
def test_a_flipped_byte_of_a_golden_store(name: str, kept: int, golden: GetSet) -> None:
    root = golden(name)
    note = json.loads((root / "crcflip.json").read_text())
    (damaged,) = in_all_ways(root / "store")
    assert damaged["_corrupt"]["offset"] == damaged["physicalOffset"] == note["flippedMessageOffset"]
    assert damaged["_corrupt"]["reason"] == "a body that differs from its CRC"
    lines = [json.loads(line) for line in (root / "manifest.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if line.get("commitLogOffset") == note["flippedMessageOffset"]]
    assert (damaged["topic"], damaged["partition"], damaged["offset"], damaged["size"], damaged["bodyCrc"]) == tuple(
        line[name] for name in ("topic", "queueId", "queueOffset", "size", "bodyCRC")
    )
    assert len(damaged["value"]) == line["bodyLen"]
    assert zlib.crc32(damaged["value"]) & 0x7FFFFFFF != line["bodyCRC"], "the body is what lies there"
    assert len(read(ranges_of(root / "store"), "skip")[0]) == kept
    counted, _ = read(ranges_of(root / "store"), "fail", schema_of(["topic", "partition", "offset"]))
    assert len(counted) == kept + 1, "nobody asked for the body"
    for name in ("value", "bodyCrc"):
        with pytest.raises(CorruptRecordError, match="differs from its CRC"):
            read(ranges_of(root / "store"), "fail", schema_of([name]))
    check_against_verify(root / "store", [damaged])


def test_a_torn_tail_is_no_damage(golden: GetSet) -> None:
    """Its message was never acknowledged, and a writer cuts it."""
    root = golden("abort-torn")
    assert in_all_ways(root / "store") == []
    assert len(read(ranges_of(root / "store"), "fail")[0]) == 399


# -- our own damage


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segments of 4 KiB and records of every kind, some compressed, some in batches, some of a deleted topic."""
    path = tmp_path_factory.mktemp("damage") / "store"
    sound = sound_stores
    with flightlog.open(path, sound.SETTINGS) as opened:
        sound.fill(opened, 120)
        assert opened.verify().is_clean
    return path


@pytest.mark.parametrize("split_bytes", [4096, 256 << 20])
@pytest.mark.parametrize("include_internal", [False, True])
def test_a_sound_store_is_the_same_in_all_ways(store: Path, split_bytes: int, include_internal: bool) -> None:
    for decompress in (False, True):
        choices = {"include_internal": include_internal, "decompress": decompress}
        assert in_all_ways(store, split_bytes, **choices) == []


@pytest.mark.parametrize("number", range(40))
def test_damage_in_the_log_by_lot(number: int, store: Path, tmp_path: Path) -> None:
    """Bytes in place, in one segment or a few; the ways agree with each other and with verify."""
    dice = random.Random(f"{os.environ['FLIGHTLOG_SEED']} {number}")
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    segments = sorted((copy / "commitlog").iterdir())
    for path in dice.sample(segments, dice.choice((1, 1, 2, 5))):
        path.write_bytes(damage.damaged(path.read_bytes(), dice, [], damage.IN_PLACE)[:4096].ljust(4096, b"\0"))
    damaged = in_all_ways(copy, include_internal=number % 2 == 0)
    if number % 2 == 0:
        in_all_ways(copy, 4096, include_internal=True, decompress=True)
    check_against_verify(copy, damaged)
    for row in damaged:
        assert row["physicalOffset"] in (None, row["_corrupt"]["offset"])
        assert row["store"] == "store"
        if row["physicalOffset"] is None:
            assert {**row, "_corrupt": None, "store": None} == NULLS


def test_a_damaged_inner_batch_fails_whatever_the_columns(store: Path, tmp_path: Path) -> None:
    """What rows it is, its body says."""
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    rows, _ = read(ranges_of(copy), "fail")
    offset = next(row["physicalOffset"] for row in rows if row["batchIndex"] == 1)
    path = copy / "commitlog" / f"{offset - offset % 4096:020d}"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"1 in ", offset % 4096)] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptRecordError) as caught:
        read(ranges_of(copy), "fail", schema_of(["topic"]))
    assert (caught.value.physical_offset, caught.value.found) == (offset, "a body that differs from its CRC")


def cut_short(segments: list[Path]) -> None:
    with segments[2].open("r+b") as file:
        file.truncate(1000)


def remove_one(segments: list[Path]) -> None:
    segments[2].unlink()


def remove_two(segments: list[Path]) -> None:
    segments[2].unlink()
    segments[3].unlink()


def zero_the_end(segments: list[Path]) -> None:
    segments[-1].write_bytes(bytes(4096))


def remove_the_end(segments: list[Path]) -> None:
    segments[-1].unlink()


@pytest.mark.parametrize(
    ("harm", "place", "reason"),
    [
        (cut_short, 2, "a segment file of 1000 bytes, not 4096"),
        (remove_one, 2, "no segment file"),
        (remove_two, 2, "no segment file"),
        (zero_the_end, -1, "the end of the last segment, before what was synced"),
        (remove_the_end, -1, "the end of the last segment, before what was synced"),
    ],
)
@pytest.mark.parametrize("split_bytes", [4096, 256 << 20])
def test_a_lost_part_of_the_log_is_damage(
    harm: Callable[[list[Path]], None], place: int, reason: str, split_bytes: int, store: Path, tmp_path: Path
) -> None:
    """Nothing in the files that are there tells of it."""
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    segments = sorted((copy / "commitlog").iterdir())
    while not segments[-1].read_bytes().strip(b"\0"):
        segments.pop().unlink()  # made ahead
    harm(segments)
    (damaged,) = in_all_ways(copy, split_bytes)
    assert damaged == {**NULLS, "store": "store", "_corrupt": damaged["_corrupt"]}
    assert (damaged["_corrupt"]["offset"], damaged["_corrupt"]["reason"]) == (int(segments[place].name), reason)


def test_a_file_made_ahead_is_no_part_of_the_log(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "store"))
    last = max((copy / "commitlog").iterdir())
    (copy / "commitlog" / f"{int(last.name) + 4096:020d}").write_bytes(bytes(100))
    assert in_all_ways(copy) == []
