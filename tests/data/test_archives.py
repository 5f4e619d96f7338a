"""The committed RocketMQ stores are what README.md beside them says; read with nothing but the standard library."""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parent
DEMO_COPY = DATA.parents[1] / "tools" / "data" / "rocketmq-5.3.3-orders.tar.xz"
ATOMIC_LIMIT_SIZE = 250_000
DEMO_LIMIT_SIZE = 100_000
SEGMENT_SIZE = 1 << 16
QUEUE_FILE_SIZE = 20 * 20
BLANK_MAGIC = 0xCBD43194
V1, V2 = "0xdaa320a7", "0xdaa320ab"
BORN_IPV6, STORE_IPV6 = 0x10, 0x20
LAGGING = 14

Line = dict[str, Any]


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{name}.tar.xz") as tar:
        tar.extractall(folder / name)
    return folder / name


@pytest.fixture(params=["rocketmq-clean", "rocketmq-halted"])
def unpacked(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(request.param, tmp_path)


def manifest(folder: Path, name: str = "manifest.jsonl") -> dict[str, list[Line]]:
    lines = defaultdict(list)
    for text in (folder / name).read_text(encoding="ascii").splitlines():
        line = json.loads(text)
        lines[line["type"]].append(line)
    return dict(lines)


def segments(folder: Path) -> dict[int, bytes]:
    return {int(path.name): path.read_bytes() for path in sorted((folder / "store" / "commitlog").iterdir())}


def queue_entries(folder: Path) -> int:
    entries = 0
    for path in folder.glob("store/consumequeue/*/*/*"):
        assert path.stat().st_size == QUEUE_FILE_SIZE
        entries += sum(size > 0 for _, size, _ in struct.iter_unpack(">qiq", path.read_bytes()))
    return entries


def test_they_stay_small() -> None:
    sizes = {path.name: path.stat().st_size for path in DATA.glob("*.tar.xz")}
    names = ("clean", "halted", "collisions", "index-behind", "phantoms")
    assert set(sizes) == {f"rocketmq-{name}.tar.xz" for name in names}
    assert sum(sizes.values()) < ATOMIC_LIMIT_SIZE
    assert sizes["rocketmq-clean.tar.xz"] < DEMO_LIMIT_SIZE


def test_the_demo_carries_the_clean_one() -> None:
    assert DEMO_COPY.read_bytes() == (DATA / "rocketmq-clean.tar.xz").read_bytes()


def test_every_manifest_line_is_the_record_at_its_place(unpacked: Path) -> None:
    log = segments(unpacked)
    assert all(len(segment) == SEGMENT_SIZE for segment in log.values())
    end = 0
    fillers = 0
    for message in manifest(unpacked)["msg"]:
        offset, size = message["commitLogOffset"], message["size"]
        if offset != end:  # only the filler at the end of a segment lies between two messages
            room, magic = struct.unpack_from(">iI", log[end - end % SEGMENT_SIZE], end % SEGMENT_SIZE)
            assert (magic, end + room) == (BLANK_MAGIC, offset)
            fillers += 1
        position = offset % SEGMENT_SIZE
        record = log[offset - position][position : position + size]
        assert hashlib.sha1(record).hexdigest() == message["rawSha1"]
        end = offset + size
    assert fillers >= 2
    assert end == manifest(unpacked)["summary"][0]["maxPhyOffset"]


def test_the_variety_is_there(unpacked: Path) -> None:
    messages = manifest(unpacked)["msg"]
    assert {m["status"] for m in messages} == {"PUT_OK"}
    assert {m["magic"] for m in messages} == {V1, V2}
    assert {m["kind"] for m in messages} == {"plain", "v2", "empty", "noprops", "batch", "order"}
    assert {m["sysFlag"] & (BORN_IPV6 | STORE_IPV6) for m in messages} == {0, BORN_IPV6, STORE_IPV6, 0x30}
    assert any(not text.isascii() for m in messages for text in m["properties"].values())
    assert len(list((unpacked / "store" / "index").iterdir())) >= 2
    assert any(int(path.name) > 0 for path in unpacked.glob("store/consumequeue/*/*/*"))


def test_each_order_is_whole_and_in_order_in_one_queue(unpacked: Path) -> None:
    orders = defaultdict(list)
    for message in manifest(unpacked)["msg"]:
        if message["topic"] == "orders":
            orders[message["keys"]].append(message)
    assert len(orders) >= 25
    for steps in orders.values():
        assert [m["tags"] for m in steps] == ["create", "pay", "deduct"]
        assert len({m["queueId"] for m in steps}) == 1
        assert [m["queueOffset"] for m in steps] == sorted(m["queueOffset"] for m in steps)


def test_one_ended_cleanly_and_one_was_halted(unpacked: Path) -> None:
    lines = manifest(unpacked)
    halted = unpacked.name == "rocketmq-halted"
    assert (unpacked / "store" / "abort").exists() == halted
    assert lines["summary"][0]["end"] == ("halt" if halted else "clean")
    assert queue_entries(unpacked) == len(lines["msg"]) - (LAGGING if halted else 0)


def test_keys_and_tags_collide(tmp_path: Path) -> None:
    folder = unpack("rocketmq-collisions", tmp_path)
    messages = manifest(folder)["msg"]
    keys = [(m["topic"], key) for m in messages for key in (m["keys"] or "").split(" ") if key]
    for topic in ("stock", "parcels"):
        for family in (("Aa", "BB"), ("AaAa", "AaBB", "BBAa", "BBBB")):
            assert len({(topic, key) for key in family} & set(keys)) >= 2
    assert {m["tags"] for m in messages} >= {"Aa", "BB"}
    assert any(len(set(found)) < len(found) for found in ((m["keys"] or "").split(" ") for m in messages))
    unique = [m["uniqKey"] for m in messages if m["uniqKey"]]
    assert len(set(unique)) < len(unique)
    assert len(list((folder / "store" / "index").iterdir())) >= 4


def test_index_ends_where_the_first_session_did(tmp_path: Path) -> None:
    folder = unpack("rocketmq-index-behind", tmp_path)
    first, second = manifest(folder, "manifest-1.jsonl")["msg"], manifest(folder)["msg"]
    assert len(first) == len(second) == 50
    ends = [struct.unpack_from(">q", path.read_bytes(), 24)[0] for path in (folder / "store" / "index").iterdir()]
    assert max(m["commitLogOffset"] for m in first if m["keys"] or m["uniqKey"]) == max(ends)
    assert sum(bool(m["keys"]) for m in second) >= 25
    assert queue_entries(folder) == 100
    assert not (folder / "store" / "abort").exists()


def test_one_entry_is_a_phantom(tmp_path: Path) -> None:
    folder = unpack("rocketmq-phantoms", tmp_path)
    torn = json.loads((folder / "torn.json").read_text())["tornMessageOffset"]
    first, second = manifest(folder, "manifest-1.jsonl")["msg"], manifest(folder)["msg"]
    assert first[-1]["commitLogOffset"] == second[0]["commitLogOffset"] == torn
    assert first[-1]["topic"] == "stock" and {m["topic"] for m in second} == {"parcels"}
    assert queue_entries(folder) == len(first) + len(second) == 80
    assert not (folder / "store" / "abort").exists()
