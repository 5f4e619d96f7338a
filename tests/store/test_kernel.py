"""The kernel and its pure reference do what the format says: CRC, encoding, walking. Every test here runs over both."""

from __future__ import annotations

import array
import mmap
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, WalkEnd

pytestmark = pytest.mark.usefixtures("kernel")

BORN_V4 = bytes.fromhex("0a0000010000d431")  # 10.0.0.1:54321
STORE_V4 = bytes.fromhex("c0a8010200002a9f")  # 192.168.1.2:10911
BORN_V6 = bytes.fromhex("20010db8000000000000000000000001 0000d431")  # [2001:db8::1]:54321
STORE_V6 = bytes.fromhex("00000000000000000000000000000001 00002a9f")  # [::1]:10911

PLAIN: dict[str, Any] = {
    "position": 0,
    "magic": MAGIC_V1,
    "queue_id": 3,
    "flag": 0,
    "queue_offset": 7,
    "physical_offset": 1024,
    "sys_flag": 0,
    "born_timestamp_ms": 1_700_000_000_000,
    "born_host": BORN_V4,
    "store_timestamp_ms": 1_700_000_000_123,
    "store_host": STORE_V4,
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "body": b"Hello RocketMQ",
    "topic": b"TopicTest",
    "properties": b"KEYS\x01k1\x02UNIQ_KEY\x010A000001000118B4AAC20000000A0000\x02TAGS\x01TagA\x02",
}
V6: dict[str, Any] = {
    "magic": MAGIC_V2,
    "queue_id": 0,
    "queue_offset": 0,
    "physical_offset": 4096,
    "sys_flag": 0x30,
    "born_host": BORN_V6,
    "store_host": STORE_V6,
    "reconsume_times": 1,
    "body": b"v2",
    "topic": b"%RETRY%" + b"g" * 123,
    "properties": b"TAGS\x01TagB\x02",
}
PLAIN_HEX = (
    "000000ae daa320a7 69c865ed 00000003 00000000 0000000000000007 0000000000000400 00000000"
    "0000018bcfe56800 0a0000010000d431 0000018bcfe5687b c0a8010200002a9f 00000000 0000000000000000"
    "0000000e 48656c6c6f20526f636b65744d51 09 546f70696354657374 003c"
    "4b455953016b3102 554e49515f4b455901304130303030303130303031313842344141433230303030303030413030303002"
    "5441475301 5461674102"
)
V6_HEX = (
    "00000102 daa320ab 706b9d0f 00000000 00000000 0000000000000000 0000000000001000 00000030"
    "0000018bcfe56800 20010db8000000000000000000000001 0000d431 0000018bcfe5687b"
    "00000000000000000000000000000001 00002a9f 00000001 0000000000000000"
    f"00000002 7632 0082 25524554525925 {'67' * 123} 000a 54414753015461674202"
)
ENOUGH_FOR_BULK = 60


def encode(buffer: Any, **changes: Any) -> int:
    return native.encode_record(buffer, *{**PLAIN, **changes}.values())


def encoded(**changes: Any) -> bytes:
    buffer = bytearray(1 << 20)
    return bytes(buffer[: encode(buffer, **changes)])


def log(count: int, **changes: Any) -> bytearray:
    """`count` records one behind the other, as a log that begins at physical offset 0."""
    out = bytearray()
    for i in range(count):
        out += encoded(
            **{**changes, "physical_offset": len(out), "queue_offset": i, "body": bytes([i % 256]) * (i % 37)}
        )
    return out


def walk(
    buffer: Any, start: int = 0, stop: int | None = None, base: int = 0, check_crc: bool = True, capacity: int = 1000
) -> tuple[Any, int, WalkEnd]:
    rows = np.zeros(capacity, FRAME_DTYPE)
    count, position, end = native.walk(buffer, start, len(buffer) if stop is None else stop, base, check_crc, rows)
    assert not rows[count:].tobytes().strip(b"\0"), "a row beyond those counted was written"
    return rows[:count], position, WalkEnd(end)


# ---- CRC ----


def test_crc_is_zlibs_without_its_top_bit_at_every_length_and_alignment() -> None:
    data = np.random.default_rng(1).bytes(400)
    for size in range(301):
        for first in range(0, 17, 1 if size < 40 else 5):
            piece = memoryview(data)[first : first + size]
            assert native.masked_crc32(piece) == zlib.crc32(piece) & 0x7FFFFFFF
    big = np.random.default_rng(2).bytes((1 << 20) + 13)
    assert native.masked_crc32(big) == zlib.crc32(big) & 0x7FFFFFFF
    assert native.masked_crc32(b"v2") == 0x706B9D0F  # the unmasked one is F06B9D0F
    assert native.masked_crc32(b"") == 0


def test_crc_by_every_way_of_this_cpu(kernel: str) -> None:
    if kernel == "pure":
        assert native.masked_crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF  # the standard check value
        return
    from flightlog.store.native import _kernel

    data = np.random.default_rng(3).bytes(3000)
    for size in [*range(700), 1023, 1024, 1025, 2047, 2999]:
        for first in (0, 1):
            piece = data[first : first + size]
            ways = _kernel._masked_crc32_all_ways(piece)
            assert set(ways) == {zlib.crc32(piece) & 0x7FFFFFFF}


# ---- encoding ----


@pytest.mark.parametrize(("changes", "hex_"), [({}, PLAIN_HEX), (V6, V6_HEX)], ids=["V1 IPv4", "V2 IPv6"])
def test_record_has_exactly_these_bytes(changes: dict[str, Any], hex_: str) -> None:
    expected = bytes.fromhex(hex_)
    buffer = bytearray(b"\xee" * (len(expected) + 30))
    assert encode(buffer, position=11, **changes) == len(expected)
    assert buffer == b"\xee" * 11 + expected + b"\xee" * 19


INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.fixed_dictionaries(
    {
        "magic": st.sampled_from([MAGIC_V1, MAGIC_V2]),
        "queue_id": INT32,
        "flag": INT32,
        "queue_offset": INT64,
        "sys_flag": INT32,
        "born_timestamp_ms": INT64,
        "born_host": st.binary(min_size=20, max_size=20),
        "store_timestamp_ms": INT64,
        "store_host": st.binary(min_size=20, max_size=20),
        "reconsume_times": INT32,
        "prepared_transaction_offset": INT64,
        "body": st.binary(max_size=600),
        "topic": st.binary(max_size=127),
        "properties": st.binary(max_size=300),
    }
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(RECORDS, max_size=30), st.integers(0, 40), INT64)
def test_walk_finds_what_was_encoded(records: list[dict[str, Any]], start: int, base: int) -> None:
    base = min(base, (1 << 63) - (1 << 20))
    buffer, position = bytearray(b"\xaa" * (1 << 16)), start
    for record in records:
        for host, bit in (("born_host", 0x10), ("store_host", 0x20)):
            record[host] = record[host] if record["sys_flag"] & bit else record[host][:8]
        record |= {"position": position, "physical_offset": base + position}
        record["size"] = encode(buffer, **{name: record[name] for name in PLAIN})
        position += record["size"]
    rows, reached, end = walk(buffer, start, position, base)
    assert (len(rows), reached, end) == (len(records), position, WalkEnd.END)
    for row, record in zip(rows, records, strict=True):
        for name in FRAME_DTYPE.names or ():
            if name in record:
                assert row[name] == record[name], name
        for name in ("body", "topic", "properties"):
            at, size = int(row[f"{name}_position"]), int(row[f"{name}_size"])
            assert buffer[at : at + size] == record[name]
        assert row["body_crc"] == zlib.crc32(record["body"]) & 0x7FFFFFFF
        assert (row["crc_ok"], row["reserved"]) == (1, 0)


def buffers(size: int) -> Iterator[Any]:
    yield bytearray(size)
    yield memoryview(bytearray(size))
    yield np.zeros(size, np.uint8)
    yield np.zeros((4, size // 32), np.int64)
    yield array.array("i", bytes(size))
    yield mmap.mmap(-1, size)


def test_any_contiguous_buffer_will_do() -> None:
    expected = bytes.fromhex(PLAIN_HEX)
    for buffer in buffers(4096):
        assert encode(buffer, position=5) == len(expected)
        assert bytes(memoryview(buffer).cast("B") if not isinstance(buffer, mmap.mmap) else buffer)[5:179] == expected
        assert native.walk(buffer, 5, 179, 1024 - 5, True, np.zeros(2, FRAME_DTYPE)) == (1, 179, WalkEnd.END)
    sources: list[Callable[[bytes], Any]] = [bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)]
    parts = ("born_host", "store_host", "body", "topic", "properties")
    for make in sources:
        assert encoded(**{part: make(PLAIN[part]) for part in parts}) == expected
    words = array.array("i", [1, -2, 3, 4])
    assert encoded(body=words) == encoded(body=words.tobytes())
    assert native.masked_crc32(words) == native.masked_crc32(words.tobytes())
    assert encoded(body=np.zeros((0, 3))) == encoded(body=b"")


def test_parts_may_lie_where_the_record_goes() -> None:
    content = bytes(range(256)) * 4
    places = {"body": (100, 300), "topic": (250, 300), "properties": (0, 120), "born_host": (120, 128)}
    places["store_host"] = (300, 308)
    for names in (*[[name] for name in places], list(places)):
        for position in range(0, 400, 3):
            buffer = bytearray(content)
            view = memoryview(buffer)
            size = encode(buffer, position=position, **{name: view[slice(*places[name])] for name in names})
            expected = encoded(**{name: content[slice(*places[name])] for name in names})
            assert buffer == content[:position] + expected + content[position + size :]


WATCHER = """
import mmap, sys, time
import numpy as np
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE
size, rounds = int(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[1], "r+b") as file:
    view, rows = memoryview(mmap.mmap(file.fileno(), 0)), np.zeros(1, FRAME_DTYPE)
found, deadline = [], time.monotonic() + 240
def wait(ready):
    while not ready():
        if time.monotonic() > deadline:
            sys.exit("the writer is gone")
for i in range(1, rounds + 1):
    wait(lambda: view[-1] == i)
    view[-2] = i
    wait(lambda: any(view[:8]))
    found.append((*native.walk(view, 0, size, 0, True, rows)[::2], int(rows[0]["crc_ok"])))
    view[-3] = i
print(set(found))
"""


def test_record_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """A reader in another process sees nothing, and then all of the record: size and magic are stored last."""
    body, rounds = os.urandom(8 << 20), 20
    size = len(encoded(body=b"")) + len(body)
    path = tmp_path / "shared"
    path.write_bytes(bytes(size + 3))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        command = [sys.executable, "-c", WATCHER, str(path), str(size), str(rounds)]
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            for i in range(1, rounds + 1):
                shared[:size] = bytes(size)
                shared[-1] = i
                while shared[-2] != i and watcher.poll() is None:
                    pass
                encode(shared, physical_offset=0, body=body)
                while shared[-3] != i and watcher.poll() is None:
                    pass
            assert watcher.communicate(timeout=240)[0].strip() == "{(1, 0, 1)}"
        finally:
            watcher.kill()
            watcher.wait()


# ---- walking ----


def patched(raw: bytes, at: int, value: int, size: int = 4) -> bytes:
    return raw[:at] + value.to_bytes(size, "big", signed=value < 0) + raw[at + size :]


@pytest.mark.parametrize("before", [0, 1, 23, 24, 25, ENOUGH_FOR_BULK])
def test_every_reason_to_stop(before: int) -> None:
    """The frame behind `before` good records decides; both ways of the reference, one by one and in bulk, come to
    it."""
    head = bytes(log(before))
    here = len(head)
    v1 = encoded(physical_offset=here, body=b"b" * 20)
    v2 = encoded(**V6 | {"physical_offset": here, "body": b"b" * 20})
    blank, zero = MAGIC_BLANK.to_bytes(4, "big", signed=True), bytes(64)
    assert v1[84:88] == v2[108:112] == bytes([0, 0, 0, 20])
    cases: list[tuple[WalkEnd, bytes]] = [
        (WalkEnd.END, b""),
        (WalkEnd.END, v1[:7]),
        (WalkEnd.EMPTY, zero),
        (WalkEnd.EMPTY, zero[:8]),
        (WalkEnd.BLANK, b"\0\0\0\x08" + blank),
        (WalkEnd.BLANK, b"\x7f\xff\xff\xff" + blank + zero),
        (WalkEnd.BAD_LENGTHS, b"\0\0\0\x07" + blank + zero),
        (WalkEnd.BAD_LENGTHS, b"\0\0\0\0" + blank + zero),
        (WalkEnd.BAD_LENGTHS, b"\xff\xff\xff\xff" + blank + zero),
        (WalkEnd.BAD_MAGIC, patched(v1, 4, 0)),
        (WalkEnd.BAD_MAGIC, patched(v1, 4, MAGIC_V1 + 1)),
        (WalkEnd.BAD_MAGIC, patched(patched(v1, 4, 5), 0, 0)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 0, 0)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 0, -1)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 0, 90)[:8]),  # found before the frame is held against what is left
        (WalkEnd.TRUNCATED, patched(v1, 0, 91)[:90]),
        (WalkEnd.BAD_LENGTHS, patched(v2, 0, 91)[:8]),
        (WalkEnd.BAD_LENGTHS, patched(v2, 0, 92 + 23)),  # enough for IPv4 hosts, not for these
        (WalkEnd.TRUNCATED, v1[:-1]),
        (WalkEnd.TRUNCATED, v1[:8]),
        (WalkEnd.TRUNCATED, patched(v1, 0, 0x7FFFFFFF)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 0, len(v1) - 1)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 0, len(v1) + 1) + b"\0"),
        (WalkEnd.BAD_LENGTHS, patched(v1, 84, -1)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 84, 21)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 84, 0x7FFFFFFF)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 84, -0x80000000)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 36, 0x10)),  # sysFlag: the fields behind are elsewhere
        (WalkEnd.BAD_LENGTHS, patched(v1, 108, 255, 1)),  # topic size
        (WalkEnd.BAD_LENGTHS, patched(v2, 132, -1, 2)),
        (WalkEnd.BAD_LENGTHS, patched(v2, 132, 0x7FFF, 2)),
        (WalkEnd.BAD_LENGTHS, patched(v1, 118, -1, 2)),  # properties size
        (WalkEnd.BAD_LENGTHS, patched(v1, 118, 61, 2)),
        (WalkEnd.BAD_OFFSET, patched(v1, 28, here + 1, 8)),
        (WalkEnd.BAD_OFFSET, patched(v2, 28, -1, 8)),
    ]
    good = encoded(physical_offset=here)
    for expected, tail in cases:
        for behind in (b"", good * 3 if expected not in (WalkEnd.END, WalkEnd.TRUNCATED) else b""):
            rows, position, end = walk(head + tail + behind)
            assert (len(rows), position, end) == (before, here, expected), tail[:12].hex()
    rows, position, end = walk(head + v1 + v2[:5])
    assert (len(rows), position, end) == (before + 1, here + len(v1), WalkEnd.END)


def test_records_of_every_kind_behind_each_other() -> None:
    kinds: list[dict[str, Any]] = [{}, {"magic": MAGIC_V2}, {"sys_flag": 0x10, "born_host": BORN_V6}, V6]
    data = bytearray()
    for i in range(100):
        data += encoded(**{**kinds[i % 4], "physical_offset": len(data)})
    rows, position, end = walk(data)
    assert (len(rows), position, end) == (100, len(data), WalkEnd.END)
    assert [int(row["position"]) for row in rows] == [int(row["physical_offset"]) for row in rows]


@pytest.mark.parametrize("count", [3, ENOUGH_FOR_BULK])
def test_wrong_body_is_reported_and_passed(count: int) -> None:
    data = log(count)
    rows, _, _ = walk(data)
    hit = count - 2
    data[int(rows[hit]["body_position"])] ^= 1
    data[int(rows[0]["position"]) + 8] ^= 0x40  # an empty body whose CRC is not 0
    rows, position, end = walk(data)
    assert (len(rows), position, end) == (count, len(data), WalkEnd.END)
    assert [i for i, ok in enumerate(rows["crc_ok"]) if not ok] == [0, hit]
    assert walk(data, check_crc=False)[0]["crc_ok"].all()


def test_topics_of_128_to_255_bytes_are_read_from_v1() -> None:
    short, topic_size_at = encoded(topic=b"t" * 100), 88 + len(PLAIN["body"])
    raw = short[:topic_size_at] + bytes([200]) + b"t" * 200 + short[topic_size_at + 1 + 100 :]
    for count in (1, ENOUGH_FOR_BULK):
        size = len(short) + 100
        data = b"".join(patched(patched(raw, 0, size), 28, i * size, 8) for i in range(count))
        rows, _, end = walk(data)
        assert (set(rows["topic_size"].tolist()), len(rows), end) == ({200}, count, WalkEnd.END)


@pytest.mark.parametrize("capacity", [1, 7, 24, 50, 99, 100, 101])
def test_full_rows_are_continued(capacity: int) -> None:
    data = log(100)
    whole, _, _ = walk(data + b"1234567")
    assert walk(data, capacity=0)[1:] == (0, WalkEnd.ROWS_FULL)
    assert walk(data, len(data) - 7, capacity=0)[1:] == (len(data) - 7, WalkEnd.END)
    position, found, end = 0, [], WalkEnd.ROWS_FULL
    while end is WalkEnd.ROWS_FULL:
        rows, position, end = walk(data + b"1234567", position, capacity=capacity)
        assert len(rows) == capacity or end is WalkEnd.END
        found.append(rows)
    assert (position, end) == (len(data), WalkEnd.END)
    assert np.concatenate(found).tobytes() == whole.tobytes()


def test_a_place_beyond_64_bits_is_no_place() -> None:
    """Physical base plus position may exceed what the field can hold; it must not wrap around to a match."""
    data = bytearray()
    base = (1 << 63) - 1 - 5000
    while len(data) < 20_000:
        place = base + len(data)
        data += encoded(physical_offset=place if place < 1 << 63 else place - (1 << 64))
    rows, position, end = walk(data, base=base)
    assert (position, end) == (len(rows) * 174, WalkEnd.BAD_OFFSET)
    assert len(rows) == 5000 // 174 + 1
    low = -(1 << 63)
    data = bytearray(b"".join(encoded(physical_offset=low + i * 174) for i in range(ENOUGH_FOR_BULK)))
    assert walk(data, base=low)[1:] == (len(data), WalkEnd.END)
