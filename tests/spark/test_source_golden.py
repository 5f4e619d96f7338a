"""Every golden store through Spark, as RocketMQ left it: every message with every field, and not a byte changed."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    Load = Callable[..., DataFrame]
    GetSet = Callable[[str], Path]

pytestmark = pytest.mark.ci

HIDDEN_TOPICS = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
PREPARED, ROLLBACK, TRANSACTION_BITS, INNER_BATCH = 0x4, 0xC, 0xC, 0x80
COMPRESSED, COMPRESSION_BITS = 0x1, 0x701
BODY_AT = 88

ROWS = {
    "abort": 876,
    "abort-cqlag": 992,
    "abort-late": 5321,
    "abort-reopen": 1285,
    "abort-torn": 399,
    "batch-bcq": 1027,
    "clean-cqlag": 926,
    "cqext": 400,
    "default-sizes": 405,
    "delay-tx": 310,
    "lmq": 400,
    "minoffset": 217,
    "preblank": 400,
    "propcrc": 782,
    "rollover": 2941,
    "v1-clean": 400,
    "v2-v6": 933,
}
"""How many rows a plain read has: as numbers, so that no mistake in reading a manifest can hide a missing message."""
FLIPPED_ROWS = {"abort-crcflip": 951, "clean-crcflip": 399}
WITH_INTERNAL_ROWS = {"abort-reopen": 1325, "delay-tx": 400}


@pytest.fixture(scope="module")
def golden_set(golden: GetSet) -> Iterator[GetSet]:
    """As `golden`, and whatever was handed out is the same at the end, to the byte."""
    before: dict[Path, dict[str, tuple[int, str]]] = {}

    def get(name: str) -> Path:
        root = golden(name)
        before.setdefault(root, fingerprint(root / "store"))
        return root

    yield get
    assert before, "something was read"
    for root, files in before.items():
        assert fingerprint(root / "store") == files


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Time of the last change and hash of every file except `lock`, which nobody may open."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "lock":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = (path.stat().st_mtime_ns, digest)
    return found


def broken_offsets(root: Path, note: str) -> list[int]:
    """The physical offset of the record that a note speaks of, where there is that note."""
    key = {"torn.json": "tornMessageOffset", "crcflip.json": "flippedMessageOffset"}[note]
    return [json.loads((root / note).read_text())[key]] if (root / note).exists() else []


def stored_body(store: Path, line: dict[str, Any]) -> bytes:
    """A body as it lies in the log, of a record with IPv4 hosts."""
    (segment,) = {path for path in (store / "commitlog").iterdir() if segment_holds(path, line["commitLogOffset"])}
    with segment.open("rb") as file:
        file.seek(line["commitLogOffset"] - int(segment.name) + BODY_AT)
        body = file.read(line["bodyLen"])
    assert hashlib.sha1(body).hexdigest() == line["bodySha1"]
    return body


def stored_lines(root: Path) -> list[dict[str, Any]]:
    """What was put and is still whole: not expired, torn or flipped; in the order of the log."""
    broken = {*broken_offsets(root, "torn.json"), *broken_offsets(root, "crcflip.json")}
    first_kept = min(int(path.name) for path in (root / "store" / "commitlog").iterdir())
    manifests = sorted(root.glob("manifest*.jsonl"))
    lines = [json.loads(line) for path in manifests for line in path.read_text().splitlines()]
    put = [line for line in lines if line["type"] == "msg" and line["status"] == "PUT_OK"]
    kept = [m for m in put if m["commitLogOffset"] >= first_kept and m["commitLogOffset"] not in broken]
    return sorted(kept, key=lambda line: int(line["commitLogOffset"]))


def is_in_no_queue(line: dict[str, Any]) -> bool:
    return line["sysFlag"] & TRANSACTION_BITS in (PREPARED, ROLLBACK)


def is_hidden(line: dict[str, Any]) -> bool:
    return is_in_no_queue(line) or line["topic"] in HIDDEN_TOPICS


def host(text: str) -> str:
    """A host of the manifest with its address as Python writes it: Java does not shorten an IPv6 address."""
    address, _, port = text.rpartition(":")
    parsed = ipaddress.ip_address(address.strip("[]"))
    return f"[{parsed}]:{port}" if parsed.version == 6 else f"{parsed}:{port}"


def time(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def expected_row(line: dict[str, Any]) -> dict[str, Any]:
    """What a row must hold for a line of a manifest; the body by its hash."""
    keys = [key for key in (line["keys"] or "").split(" ") if key]
    return {
        "key": keys[0].encode() if keys else None,
        "bodySha1": line["bodySha1"],
        "topic": line["topic"],
        "partition": line["queueId"],
        "offset": None if is_in_no_queue(line) else line["queueOffset"],
        "timestamp": time(line["storeTimestamp"]),
        "timestampType": 1,
        "tags": line["tags"],
        "keys": keys,
        "messageId": line["msgId"],
        "uniqKey": line["uniqKey"],
        "bornTimestamp": time(line["bornTimestamp"]),
        "bornHost": host(line["bornHost"]),
        "storeHost": host(line["storeHost"]),
        "physicalOffset": line["commitLogOffset"],
        "batchIndex": None,
        "size": line["size"],
        "flag": line["flag"],
        "sysFlag": line["sysFlag"],
        "bodyCrc": line["bodyCRC"],
        "reconsumeTimes": line["reconsumeTimes"],
        "preparedOffset": line["preparedTransactionOffset"],
        "properties": line["properties"],
    }


def read_rows(frame: DataFrame) -> list[Row]:
    """In the order of the log. Times are compared in UTC, whatever zone the machine is in."""
    return sorted(frame.collect(), key=lambda row: (row.physicalOffset, row.batchIndex or 0))


def found_row(row: Row) -> dict[str, Any]:
    return found_fields(row.asDict())


def found_fields(row: dict[str, Any]) -> dict[str, Any]:
    found = dict(row)
    found["bodySha1"] = hashlib.sha1(found.pop("value")).hexdigest()
    for name in ("timestamp", "bornTimestamp"):
        found[name] = found[name].astimezone(UTC)
    return found


def check(rows: list[Row], lines: list[dict[str, Any]]) -> None:
    assert [row.physicalOffset for row in rows] == [line["commitLogOffset"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        assert found_row(row) == expected_row(line)


@pytest.mark.parametrize("name", [name for name in ROWS if name != "batch-bcq"])
def test_every_message_with_every_field(name: str, golden_set: GetSet, load: Load) -> None:
    root = golden_set(name)
    rows = read_rows(load(root / "store"))
    assert len(rows) == ROWS[name]
    check(rows, [line for line in stored_lines(root) if not is_hidden(line)])


@pytest.mark.parametrize("name", WITH_INTERNAL_ROWS)
def test_internal_records_are_shown_on_request(name: str, golden_set: GetSet, load: Load) -> None:
    root = golden_set(name)
    rows = read_rows(load(root / "store", includeInternal="true"))
    assert len(rows) == WITH_INTERNAL_ROWS[name]
    check(rows, stored_lines(root))


@pytest.mark.parametrize("name", FLIPPED_ROWS)
def test_a_flipped_byte_fails_the_query_or_costs_one_record(name: str, golden_set: GetSet, load: Load) -> None:
    root = golden_set(name)
    flipped = json.loads((root / "crcflip.json").read_text())["flippedMessageOffset"]
    segment = max(path for path in (root / "store" / "commitlog").iterdir() if int(path.name) <= flipped)
    with pytest.raises(Exception, match="CorruptRecordError") as caught:
        load(root / "store").count()
    assert f"{segment}: record at physical offset {flipped}: found a body that differs from its CRC" in str(
        caught.value
    )

    rows = read_rows(load(root / "store", onCorrupt="skip"))
    assert len(rows) == FLIPPED_ROWS[name]
    lines = [line for line in stored_lines(root) if not is_hidden(line)]
    check(rows, lines)
    assert any(row.physicalOffset > flipped for row in rows), "what lies behind the damage is read"


@pytest.mark.parametrize("name", [*(name for name in ROWS if name != "batch-bcq"), *FLIPPED_ROWS])
def test_every_option_together(name: str, golden_set: GetSet, load: Load) -> None:
    """Cut small, with internal records, headers, decompressed bodies, and damage among them: nothing else differs."""
    root = golden_set(name)
    log_size = sum(path.stat().st_size for path in (root / "store" / "commitlog").iterdir())
    choices = {"includeInternal": True, "includeHeaders": True, "decompress": True, "onCorrupt": "rows"}
    rows = [row.asDict() for row in read_rows(load(root / "store", splitBytes=max(log_size // 6, 4096), **choices))]
    lines, damaged = stored_lines(root), [row for row in rows if row["_corrupt"] is not None]
    assert [row["physicalOffset"] for row in damaged] == broken_offsets(root, "crcflip.json")
    rows = [row for row in rows if row.pop("_corrupt") is None]
    assert [row["physicalOffset"] for row in rows] == [line["commitLogOffset"] for line in lines]
    for row, line in zip(rows, lines, strict=True):
        headers = {header["key"]: header["value"].decode() for header in row.pop("headers") or ()}
        assert headers == row["properties"]
        if line["sysFlag"] & COMPRESSED:
            assert row["sysFlag"] == line["sysFlag"] & ~COMPRESSION_BITS
            row["value"], row["sysFlag"] = stored_body(root / "store", line), line["sysFlag"]
        assert found_fields(row) == expected_row(line)


def test_compressed_bodies_are_what_zlib_makes_of_them(golden_set: GetSet, load: Load) -> None:
    root = golden_set("v1-clean")
    packed = {line["commitLogOffset"]: line for line in stored_lines(root) if line["sysFlag"] & COMPRESSED}
    assert len(packed) == 13
    chosen = load(root / "store", decompress=True, columns="physicalOffset,value,sysFlag,bodyCrc")
    rows = [row for row in chosen.collect() if row.physicalOffset in packed]
    assert len(rows) == 13
    for row in rows:
        line = packed[row.physicalOffset]
        assert row.value == zlib.decompress(stored_body(root / "store", line))
        assert (row.sysFlag, row.bodyCrc) == (line["sysFlag"] & ~COMPRESSION_BITS, line["bodyCRC"])


def test_inner_batches_come_unwrapped(golden_set: GetSet, load: Load) -> None:
    root = golden_set("batch-bcq")
    rows = read_rows(load(root / "store"))
    assert len(rows) == ROWS["batch-bcq"]
    lines = stored_lines(root)
    batches = [line for line in lines if line["sysFlag"] & INNER_BATCH]
    assert len(batches) == 33
    starts = {line["commitLogOffset"] for line in batches}
    check(
        [row for row in rows if row.physicalOffset not in starts],
        [line for line in lines if line["commitLogOffset"] not in starts],
    )
    for line in batches:
        of_record = expected_row(line)
        inside = [row for row in rows if row.physicalOffset == line["commitLogOffset"]]
        messages = list(messages_of(root / "store", line))
        assert len(inside) == len(messages) == line["msgNum"]
        for i, (row, own) in enumerate(zip(inside, messages, strict=True)):
            assert row.asDict().pop("value") == own.pop("value")
            assert {**found_row(row), "bodySha1": None, "bodyCrc": None} == {
                **of_record,
                **own,
                "bodySha1": None,
                "bodyCrc": None,
                "uniqKey": None,
                "batchIndex": i,
                "offset": line["queueOffset"] + i,
            }


def messages_of(store: Path, line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is a batch's message's own, read field by field from the record's body."""
    body = stored_body(store, line)
    while body:
        size, _, _, flag, value_size = struct.unpack_from(">5i", body)
        value, rest = body[20 : 20 + value_size], body[22 + value_size : size]
        properties = dict(pair.split("\1") for pair in rest.decode().split("\2") if pair)
        keys = properties.get("KEYS", "").split()
        yield {
            "key": keys[0].encode() if keys else None,
            "value": value,
            "keys": keys,
            "tags": properties.get("TAGS"),
            "flag": flag,
            "size": size,
            "properties": properties,
        }
        body = body[size:]


def segment_holds(path: Path, physical_offset: int) -> bool:
    return int(path.name) <= physical_offset < int(path.name) + path.stat().st_size
