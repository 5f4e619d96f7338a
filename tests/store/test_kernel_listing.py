"""Listing a walk's rows and linking keys: kernel and reference do the same, whatever stands in the records and the
columns.

What is right stands elsewhere: tests/index holds entries and keys to the rules in plain words and to RocketMQ's files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flightlog.index.queue.queue_unit import UNIT_DTYPE
from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_V1, MAGIC_V2
from flightlog.store.format.java_hash import java_hash
from flightlog.store.format.listing import QUEUE_DTYPE, UNIT_SIZE
from flightlog.store.native import pure

HOST = bytes.fromhex("0a000001 0000d431")
INT64_MAX = (1 << 63) - 1
APART = b"SCHEDULE_TOPIC_XXXX"
ARRAYS = ("units", "row_numbers", "queues", "key_hashes", "key_offsets", "key_times")

NAMES = ["TAGS", "KEYS", "UNIQ_KEY", "INNER_MULTI_QUEUE_OFFSET", "DELAY", "MYTAGS", "TAGS2", "KEY", ""]
VALUES = st.one_of(
    st.text("aé \x01", max_size=12),
    st.sampled_from(
        ["", " ", "a b", "  a  ", "Aa", "BB", "polygenelubricants", "12345678", "1234567ä", "😀😀", "k" * 70]
    ),
)
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5).map(
    lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()
)
PIECES = [
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"INNER_MULTI_QUEUE_OFFSET",
    b"\x01",
    b"\x02",
    b" ",
    b"a",
    b"\xff",
    b"\xe4\xb8",
]
PIECES += [b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80", b"\x80", b"ab" * 40]
PROPERTIES = st.one_of(
    PAIRS, PAIRS.map(lambda raw: raw[:-1]), st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join)
)
TOPICS = st.sampled_from([b"t", b"t", b"Aa", b"BB", APART, b"topic-2", "täg".encode(), b"\xff", b"", b"x" * 130])
RECORD = st.tuples(
    TOPICS,
    st.sampled_from([0, 0, 0, 1, 2, -1, (1 << 31) - 1, -(1 << 31)]),
    st.sampled_from([0, 1, 2, 3, -1, INT64_MAX, -INT64_MAX - 1]),
    st.sampled_from([0, 0, 0, 4, 8, 12, 0x80, 0x84, 0x8C, 0x30]),
    PROPERTIES,
)


@pytest.fixture(params=["c", "pure"])
def way(request: pytest.FixtureRequest) -> Any:
    """The kernel, or its reference."""
    if request.param == "c":
        if "c" not in native.available():
            pytest.skip("the C kernel is not built here")
        from flightlog.store.native import _kernel

        return _kernel
    return pure


def log_of(records: list[tuple[bytes, int, int, int, bytes]]) -> tuple[bytes, Any]:
    raw = bytearray()
    for topic, queue_id, queue_offset, sys_flag, properties in records:
        buffer = bytearray(200 + len(topic) + len(properties))
        hosts = [HOST if not sys_flag & bit else HOST + bytes(12) for bit in (0x10, 0x20)]
        magic, offset = MAGIC_V1 if len(topic) < 128 else MAGIC_V2, 7 + len(raw)
        size = pure.encode_record(
            *(buffer, 0, magic, queue_id, 0, queue_offset, offset, sys_flag, 0, hosts[0], 1_700_000_000_123 + offset),
            *(hosts[1], 0, 0),
            *(b"body", topic, properties),
        )
        raw += buffer[:size]
    rows: Any = np.empty(len(records), FRAME_DTYPE)
    assert pure.walk(raw, 0, len(raw), 7, False, rows)[0] == len(records)
    return bytes(raw), rows


def arrays(rows: int, keys: int) -> dict[str, Any]:
    return {
        "units": np.full(UNIT_SIZE * rows, 0xA5, np.uint8),
        "row_numbers": np.full(rows, -7, np.int32),
        "queues": np.full(QUEUE_DTYPE.itemsize * rows, 0xA5, np.uint8),
        "key_hashes": np.full(keys, -7, np.int32),
        "key_offsets": np.full(keys, -7, np.int64),
        "key_times": np.full(keys, -7, np.int64),
    }


def listed(kernel: Any, raw: bytes, rows: Any, room: int) -> tuple[Any, ...]:
    """What it returned and wrote; what it must not touch is part of that."""
    out = arrays(len(rows), room)
    counts = kernel.list_rows(raw, rows, APART, *out.values())
    unit_count, apart_count, queue_count, key_count, _ = counts
    assert (out["units"][UNIT_SIZE * unit_count :] == 0xA5).all()
    assert (out["row_numbers"][unit_count + apart_count :] == -7).all()
    assert (out["queues"][QUEUE_DTYPE.itemsize * queue_count :] == 0xA5).all()
    assert all((out[name][key_count:] == -7).all() for name in ARRAYS[3:])
    return (counts, *(out[name].tobytes() for name in ARRAYS))


# ---- both do the same ----


@given(records=st.lists(RECORD, max_size=12), room=st.integers(0, 40))
@example(records=[(b"t", 0, INT64_MAX, 0, b""), (b"t", 0, -INT64_MAX - 1, 0, b"")], room=0)
@example(records=[(b"Aa", 0, 0, 0, b""), (b"BB", 0, 0, 0, b""), (b"Aa", 0, 1, 0, b"")], room=0)  # one Java hash
@example(records=[(b"t", 0, 0, 0, b"KEYS\x01a\x02INNER_MULTI_QUEUE_OFFSET\x01"), (b"", 0, 0, 0, b"\x02")], room=2)
def test_every_way_lists_the_same(records: list[Any], room: int) -> None:
    raw, rows = log_of(records)
    expected = None
    for kernel in (pure, *(native_kernel() for _ in native.available()[1:])):
        found = listed(kernel, raw, rows, room)
        assert expected in (None, found)
        expected = found


def native_kernel() -> Any:
    from flightlog.store.native import _kernel

    return _kernel


def test_many_queues_of_many_topics(way: Any) -> None:
    """More than any table begins with; each queue's entries in the order of the log."""
    source = np.random.default_rng(1)
    topics, ids = source.integers(0, 40, 3000).tolist(), source.integers(0, 30, 3000).tolist()
    records = [
        (b"topic-%d" % topics[i], ids[i], i, 0, b"TAGS\x01tag-%d\x02KEYS\x01k%d k\x02" % (i % 7, i))
        for i in range(3000)
    ]
    raw, rows = log_of(records)
    out = arrays(3000, 6000)
    unit_count, apart_count, queue_count, key_count, batch_count = way.list_rows(raw, rows, APART, *out.values())
    assert (unit_count, apart_count, key_count, batch_count) == (3000, 0, 6000, 0)
    queues = out["queues"].view(QUEUE_DTYPE)[:queue_count].tolist()
    first_seen = dict.fromkeys(zip(topics, ids, strict=True))
    assert [(topics[first_row], queue_id) for _, first_row, queue_id, _, _ in queues] == list(first_seen)
    numbers, stop = out["row_numbers"].tolist(), 0
    for first_offset, first_row, queue_id, count, is_run in queues:
        here = numbers[stop : stop + count]
        assert here == [i for i in range(3000) if (topics[i], ids[i]) == (topics[first_row], queue_id)]
        assert (first_offset, is_run) == (here[0], int(here == list(range(here[0], here[0] + count))))
        stop += count
    units = out["units"].view(UNIT_DTYPE)
    assert (units["physical_offset"] == rows["physical_offset"][numbers]).all()
    assert (units["size"] == rows["size"][numbers]).all()


def test_topics_of_one_java_hash(way: Any) -> None:
    """Each has its own queue, and to find it takes no longer than to find any other."""
    count = 1 << 11
    topics = [bytes(each) for each in map(b"".join, itertools.product((b"Aa", b"BB"), repeat=11))]
    assert len({java_hash(topic.decode()) for topic in topics}) == 1
    raw, rows = log_of([(topics[i % count], 0, i // count, 0, b"") for i in range(2 * count)])
    out = arrays(2 * count, 0)
    assert way.list_rows(raw, rows, APART, *out.values()) == (2 * count, 0, count, 0, 0)
    queues = out["queues"].view(QUEUE_DTYPE)[:count].tolist()
    assert queues == [(0, i, 0, 2, 1) for i in range(count)]
    assert out["row_numbers"].tolist() == [row for i in range(count) for row in (i, count + i)]


@given(data=st.data(), slot_count=st.sampled_from([1, 2, 7, 3000]), first=st.sampled_from([1, 5, 1 << 30]))
def test_every_way_links_the_same(data: st.DataObject, slot_count: int, first: int) -> None:
    hashes = data.draw(st.lists(st.sampled_from([0, 1, 2, 7, 9, (1 << 31) - 1, -1, -(1 << 31)]), max_size=90))
    times = st.sampled_from([0, -1, 999, 1000, 1001, 50_000, INT64_MAX, -INT64_MAX - 1])
    begin_ms = data.draw(times)
    count = len(hashes)
    columns = (
        np.array(hashes, np.int32),
        np.arange(count) * (1 << 40),
        np.array(data.draw(st.lists(times, min_size=count, max_size=count)), np.int64),
    )
    before = (
        np.array(data.draw(st.lists(st.integers(0, 4), min_size=slot_count, max_size=slot_count)), np.int32)
        if (slot_count < 10)
        else np.arange(slot_count, dtype=np.int32)
    )
    expected = None
    for kernel in (pure, *(native_kernel() for _ in native.available()[1:])):
        slots, stamps = before.copy(), np.zeros(slot_count // 1024 + 2, np.int32)
        entries, in_slot = np.zeros(20 * count, np.uint8), np.zeros(count, np.int32)
        empty = kernel.link_keys(first, begin_ms, slots, *columns, entries, in_slot)
        assert (slots == before).all()
        kernel.set_heads(first, 10, in_slot, slots, stamps)
        found = (empty, entries.tobytes(), in_slot.tobytes(), slots.tobytes(), stamps.tobytes())
        assert expected in (None, found)
        expected = found


# ---- what is wrong is told, and nothing is written ----


ONE = [(b"t", 0, 0, 0, b"KEYS\x01a\x02")]


@pytest.mark.parametrize("field", ["topic", "properties"])
@pytest.mark.parametrize(("position", "size"), [(-1, 1), (0, -1), (0, 1 << 30), (INT64_MAX, 1), (None, 1)])
def test_a_row_that_points_outside(way: Any, field: str, position: int | None, size: int) -> None:
    raw, rows = log_of(ONE * 3)
    rows[1][f"{field}_position"] = len(raw) if position is None else position
    rows[1][f"{field}_size"] = size
    out = arrays(3, 3)
    with pytest.raises(ValueError, match="lie outside of the buffer"):
        way.list_rows(raw, rows, APART, *out.values())
    assert all((out[name] == there).all() for name, there in arrays(3, 3).items())


def shrunk(name: str, by: int) -> Callable[[dict[str, Any]], None]:
    def change(given: dict[str, Any]) -> None:
        given[name] = given[name][: len(given[name]) - by]

    return change


def read_only(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: given[name].tobytes()})


def shared(name: str, other: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: given[other]})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *((shrunk(name, 1), ValueError) for name in ("units", "row_numbers", "queues", "key_offsets", "key_times")),
        *((read_only(name), BufferError) for name in ARRAYS),
        (shared("key_times", "key_offsets"), ValueError),
        (shared("units", "queues"), ValueError),
        (shared("queues", "rows"), ValueError),
        (lambda given: given.update(rows=np.zeros(119, np.uint8)), ValueError),
        (lambda given: given.update(rows=given["rows"][::2]), BufferError),
        (lambda given: given.update(apart_topic="text"), TypeError),
    ],
)
def test_wrong_buffers_of_a_listing(way: Any, change: Callable[[dict[str, Any]], None], error: type[Exception]) -> None:
    raw, rows = log_of(ONE * 3)
    given = {"buffer": raw, "rows": rows, "apart_topic": APART, **arrays(3, 3)}
    change(given)
    before = {
        name: bytes(value)
        for name, value in given.items()
        if isinstance(value, np.ndarray) and value.flags.c_contiguous
    }
    with pytest.raises(error):
        way.list_rows(*given.values())
    assert before == {name: bytes(given[name]) for name in before}
    with pytest.raises(TypeError):
        way.list_rows(*list(given.values())[:-1])


def columns(count: int = 3) -> dict[str, Any]:
    return {
        "first": 1,
        "begin_timestamp_ms": 1,
        "slots": np.zeros(5, np.int32),
        "key_hashes": np.arange(count, dtype=np.int32),
        "key_offsets": np.arange(count),
        "key_times": np.arange(count),
        "entries": np.zeros(20 * count, np.uint8),
        "in_slot": np.zeros(count, np.int32),
    }


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *((shrunk(name, 1), ValueError) for name in ("key_offsets", "key_times", "entries", "in_slot")),
        *((read_only(name), BufferError) for name in ("entries", "in_slot")),
        (shrunk("slots", 5), ValueError),
        (shared("in_slot", "key_hashes"), ValueError),
        *((lambda given, first=first: given.update(first=first), ValueError) for first in (0, -1, (1 << 31) - 3)),
        (lambda given: given.update(first=1 << 31), OverflowError),
        (lambda given: given.update(begin_timestamp_ms=1 << 63), OverflowError),
        (lambda given: given.update(first="1"), TypeError),
    ],
)
def test_wrong_columns_of_keys(way: Any, change: Callable[[dict[str, Any]], None], error: type[Exception]) -> None:
    given = columns()
    change(given)
    with pytest.raises(error):
        way.link_keys(*given.values())
    assert not np.frombuffer(given["entries"], np.uint8).any()


@pytest.mark.parametrize("wrong", [-1, 5000, 2040])  # the last one has no page
def test_a_head_of_no_slot(way: Any, wrong: int) -> None:
    slots, stamps = np.zeros(2050, np.int32), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="outside of slots"):
        way.set_heads(1, 10, np.array([3, wrong], np.int32), slots, stamps)
    assert not slots.any() and not stamps.any()
    way.set_heads(1, 10, np.array([3, 2037, 3], np.int32), slots, stamps)
    assert (slots[3], slots[2037], stamps.tolist()) == (3, 2, [3, 2])
    for first, before in ((0, 0), (1, -1), ((1 << 31) - 1, 0)):
        with pytest.raises(ValueError, match="must lie between"):
            way.set_heads(first, before, np.array([3], np.int32), slots, stamps)
