"""The kernel's columns: places, gathering, encoding. What they do, and what they do with numbers that mean harm."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, WalkEnd
from flightlog.store.native import pure

SEED = int(os.environ.get("FLIGHTLOG_COLUMNS_SEED", "20260101"))
HOST, HOST_V6 = bytes(range(8)), bytes(range(20))
INT64_MAX = (1 << 63) - 1
Integers = NDArray[np.int64]
both = pytest.mark.usefixtures("kernel")


def int64(*values: int) -> Integers:
    return np.array(values, np.int64)


def log_of(source: random.Random, count: int) -> tuple[bytes, Integers, Integers]:
    """A log of records of every kind, and where each one stands."""
    out, places = bytearray(), []
    for _ in range(count):
        flags, buffer = source.choice([0, 0x10, 0x20, 0x30]), bytearray(3000)
        size = pure.encode_record(
            *(buffer, 0, source.choice([MAGIC_V1, MAGIC_V2]), 1, 2, source.getrandbits(60), len(out), flags, 5),
            *(HOST_V6 if flags & 0x10 else HOST, 6, HOST_V6 if flags & 0x20 else HOST, 7, -8),
            *(source.randbytes(source.choice([0, 1, 90, 2000])), source.randbytes(source.choice([0, 9, 127]))),
            source.randbytes(source.choice([0, 60])),
        )
        places.append((len(out), size))
        out += buffer[:size]
    return bytes(out), *np.array(places, np.int64).reshape(-1, 2).T.copy()


# ---- gather ----


@both
def test_gather_copies_ranges_in_the_order_asked_for() -> None:
    source = random.Random(SEED)
    data = source.randbytes(25_000)
    for mean in (3, 300, 8000):  # the reference takes other ways for small ranges and for large ones
        starts = np.array([source.randrange(9000) for _ in range(500)])
        sizes = np.array([source.randrange(2 * mean) for _ in range(500)])
        out = np.empty(sizes.sum(), np.uint8)
        assert native.gather(data, starts, sizes, out) == len(out)
        assert out.tobytes() == b"".join(data[i : i + n] for i, n in zip(starts, sizes, strict=True))
    assert native.gather(b"", int64(), int64(), bytearray()) == 0
    assert native.gather(b"", int64(0), int64(0), bytearray()) == 0
    assert native.gather(data, int64(len(data), 0), int64(0, 0), bytearray()) == 0


OUTSIDE = [
    (-1, 1),
    (0, 101),
    (100, 1),
    (101, 0),
    (0, -1),
    (INT64_MAX, 1),
    (1, INT64_MAX),
    (-INT64_MAX - 1, 8),
    (50, 51),
]


@both
@pytest.mark.parametrize(("start", "size"), OUTSIDE)
@pytest.mark.parametrize("before", [0, 1, 40])
def test_gather_refuses_ranges_outside(start: int, size: int, before: int) -> None:
    starts, sizes = int64(*[3] * before, start), int64(*[7] * before, size)
    out = bytearray(b"\xee" * max(0, min(7 * before + size, 1000)))
    kept = bytes(out)
    with pytest.raises(ValueError, match="outside"):
        native.gather(bytes(100), starts, sizes, out)
    assert out == kept, "something was written by a call that failed"


@both
def test_gather_refuses_other_mistakes() -> None:
    data = bytearray(100)
    for room in (0, 9, 11):
        with pytest.raises(ValueError, match="10 bytes"):
            native.gather(data, int64(1, 2), int64(5, 5), bytearray(room))
    with pytest.raises(ValueError, match="shares"):
        native.gather(data, int64(0), int64(10), memoryview(data)[50:60])
    numbers = int64(0, 8)
    with pytest.raises(ValueError, match="shares"):
        native.gather(data, numbers, int64(4, 4), numbers[1:])
    odd: list[Any] = [int64(1), np.zeros(9, np.uint8)]
    for wrong in odd:
        with pytest.raises(ValueError, match="64"):
            native.gather(data, int64(1, 2), wrong, bytearray(2))
    with pytest.raises(BufferError):
        native.gather(data, int64(1), int64(1), bytes(1))
    with pytest.raises(TypeError):
        native.gather(data, [1], int64(1), bytearray(1))  # type: ignore[arg-type]
    data.clear()  # BufferError if anything still held it


# ---- places ----


@both
@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_places_give_the_rows_of_a_walk(count: int) -> None:
    data, positions, sizes = log_of(random.Random(SEED), count)
    walked, found = np.zeros(count, FRAME_DTYPE), np.zeros(count, FRAME_DTYPE)
    assert native.walk(data, 0, len(data), 0, True, walked)[0] == count
    order = np.random.default_rng(SEED).permutation(count)
    shuffled = positions[order], sizes[order]
    assert native.walk_places(data, *shuffled, 0, True, found) == (count, WalkEnd.END)
    assert found.tobytes() == walked[order].tobytes()
    if count:
        assert native.walk_places(data, *shuffled, 0, True, found[1:]) == (count - 1, WalkEnd.ROWS_FULL)
        assert native.walk_places(data, *shuffled, 1, True, found) == (0, WalkEnd.BAD_OFFSET)


@both
def test_places_of_stretches_have_bases_of_their_own() -> None:
    data, positions, sizes = log_of(random.Random(SEED), 30)
    walked, found = np.zeros(30, FRAME_DTYPE), np.zeros(30, FRAME_DTYPE)
    native.walk(data, 0, len(data), 0, True, walked)
    every_third = np.arange(0, 30, 3)
    places, lengths = positions[every_third], sizes[every_third]
    stretches = b"".join(data[at : at + size] for at, size in zip(places.tolist(), lengths.tolist(), strict=True))
    starts = np.cumsum(lengths) - lengths
    bases = places - starts
    assert native.walk_places(stretches, starts, lengths, bases, True, found) == (10, WalkEnd.END)
    for name in ("physical_offset", "queue_offset", "body_crc", "size", "crc_ok"):
        assert (found[name][:10] == walked[name][every_third]).all(), name
    assert (found["position"][:10] == starts).all()
    bases[4] += 1
    assert native.walk_places(stretches, starts, lengths, bases, True, found) == (4, WalkEnd.BAD_OFFSET)
    bases[4] = np.iinfo(np.int64).max  # the place is beyond 64 bits
    assert native.walk_places(stretches, starts, lengths, bases, True, found) == (4, WalkEnd.BAD_OFFSET)
    for wrong in (bases[:9], bases.astype(np.int32)):
        with pytest.raises(ValueError, match="64|one length"):
            native.walk_places(stretches, starts, lengths, wrong, True, found)
    with pytest.raises(TypeError):
        native.walk_places(stretches, starts, lengths, 1.5, True, found)  # type: ignore[arg-type]


@both
def test_places_tell_what_else_stands_there() -> None:
    data, positions, sizes = log_of(random.Random(SEED), 40)
    rows = np.zeros(41, FRAME_DTYPE)
    filler = (50).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True)
    end = len(data)
    for extra, place, expected in (
        (filler, (end, 8), WalkEnd.BLANK),
        (bytes(8), (end, 8), WalkEnd.EMPTY),
        (b"x" * 100, (end, 100), WalkEnd.BAD_MAGIC),
        (b"", (positions[3], sizes[3] + 1), WalkEnd.BAD_LENGTHS),
        (b"", (positions[3], sizes[3] - 1), WalkEnd.TRUNCATED),
        (b"", (positions[3] + 1, 200), WalkEnd.BAD_MAGIC),
        (b"", (0, 7), WalkEnd.BAD_LENGTHS),
        (b"", (end, 0), WalkEnd.BAD_LENGTHS),
    ):
        places = np.append(positions, place[0]), np.append(sizes, place[1])
        assert native.walk_places(data + extra, *places, 0, True, rows) == (40, expected), place
    broken = bytearray(data)
    broken[positions[1] + sizes[1] - 1] ^= 1  # of a body, topic or properties: lengths still add up
    broken[positions[7] + 8] ^= 1
    assert native.walk_places(broken, positions, sizes, 0, True, rows) == (40, WalkEnd.END)
    assert rows["crc_ok"][7] == 0 and rows["crc_ok"][8:40].all()


@both
@pytest.mark.parametrize(("start", "size"), OUTSIDE)
def test_places_outside_are_refused(start: int, size: int) -> None:
    rows = np.full(3 * FRAME_DTYPE.itemsize, 0xA5, np.uint8)
    with pytest.raises(ValueError, match="outside"):
        native.walk_places(bytes(100), int64(0, start), int64(8, size), 0, True, rows)
    assert (rows == 0xA5).all()
    with pytest.raises(ValueError):
        native.walk_places(bytes(100), int64(0), int64(8), 0, True, bytearray(119))
    with pytest.raises(ValueError):
        native.walk_places(bytes(100), int64(0), int64(8, 8), 0, True, bytearray(120))
    with pytest.raises(OverflowError):
        native.walk_places(bytes(100), int64(0), int64(8), 1 << 63, True, bytearray(120))


# ---- encoding ----

COLUMNS = ("queue_ids", "flags", "queue_offsets", "born_timestamps_ms")


def rows_of(source: random.Random, count: int) -> dict[str, Any]:
    bodies, texts = source.randbytes(4000), source.randbytes(1000)
    ranges: dict[str, Any] = {}
    for name, data in (("body", bodies), ("properties", texts)):
        starts = np.array([source.randrange(len(data)) for _ in range(count)], np.int64)
        sizes = np.array([source.randrange(min(300, len(data) - start)) for start in starts], np.int64)
        ranges |= {name: data, f"{name}_starts": starts, f"{name}_sizes": sizes}
    return {
        "queue_ids": np.array([source.randrange(9) for _ in range(count)], np.int32),
        "flags": np.array([source.randrange(-(1 << 31), 1 << 31) for _ in range(count)], np.int32),
        "queue_offsets": np.array([source.getrandbits(62) for _ in range(count)], np.int64),
        "born_timestamps_ms": np.array([-source.getrandbits(62) for _ in range(count)], np.int64),
        **ranges,
    }


def encode(module: Any, buffer: Any, position: int, rows: dict[str, Any], **changes: Any) -> int:
    shared: dict[str, Any] = {"magic": MAGIC_V1, "sys_flag": 0, "physical_offset": 1000, "store_timestamp_ms": 77}
    shared |= {"born_host": HOST, "store_host": HOST, "topic": b"topic"}
    size: int = module.encode_columns(buffer, position, *(shared | rows | changes).values())
    return size


@both
@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize(("magic", "sys_flag"), [(MAGIC_V1, 0), (MAGIC_V2, 0x31), (MAGIC_V1, 0x10)])
def test_columns_are_encoded_as_their_rows_one_by_one(count: int, magic: int, sys_flag: int) -> None:
    rows = rows_of(random.Random(SEED), count)
    born, stored = HOST_V6 if sys_flag & 0x10 else HOST, HOST_V6 if sys_flag & 0x20 else HOST
    shared: dict[str, Any] = {"magic": magic, "sys_flag": sys_flag, "born_host": born, "store_host": stored}
    expected = bytearray(200_000)
    at = 13
    for i in range(count):
        queue_id, flag, queue_offset, born_ms = (int(rows[name][i]) for name in COLUMNS)
        body_at, text_at = int(rows["body_starts"][i]), int(rows["properties_starts"][i])
        body = rows["body"][body_at : body_at + int(rows["body_sizes"][i])]
        text = rows["properties"][text_at : text_at + int(rows["properties_sizes"][i])]
        at += pure.encode_record(
            *(expected, at, magic, queue_id, flag, queue_offset, 1000 + at - 13, sys_flag, born_ms, born, 77, stored),
            *(0, 0, body, b"topic", text),
        )
    buffer = bytearray(200_000)
    assert encode(native, buffer, 13, rows, **shared) == at - 13
    assert buffer == expected


REFUSALS: list[dict[str, Any]] = [
    {"magic": 0},
    {"sys_flag": 0x10},
    {"born_host": b"1234567"},
    {"topic": b"t" * 128},
    {"physical_offset": INT64_MAX - 100},
    *[{name: int64(1)} for name in ("queue_offsets", "body_starts", "properties_sizes")],
    {"queue_ids": np.zeros(41, np.int32)},
    {"flags": np.zeros(3, np.uint8)},
    *[
        {f"{part}_{kind}": np.append(np.zeros(39, np.int64), value)}
        for part in ("body", "properties")
        for kind in ("starts", "sizes")
        for value in (-1, 4001, INT64_MAX, -INT64_MAX - 1)
    ],
    {"properties": bytes(40_000), "properties_sizes": np.append(np.zeros(39, np.int64), 32_768)},
]


@both
@pytest.mark.parametrize("changes", REFUSALS, ids=lambda changes: "-".join(changes))
def test_encode_refuses(changes: dict[str, Any]) -> None:
    rows = rows_of(random.Random(SEED), 40)
    buffer = bytearray(b"\xee" * 300_000)
    with pytest.raises(ValueError):
        encode(native, buffer, 0, rows, **changes)
    assert buffer == b"\xee" * len(buffer), "something was written by a call that failed"


@both
@pytest.mark.parametrize(("magic", "longest"), [(MAGIC_V1, 127), (MAGIC_V2, 32_767)])
def test_the_longest_topic(magic: int, longest: int) -> None:
    rows = rows_of(random.Random(SEED), 1)
    buffer = bytearray(50_000)
    size = encode(native, buffer, 0, rows, magic=magic, topic=b"t" * longest)
    assert encode(native, bytearray(50_000), 0, rows, magic=magic, topic=b"") == size - longest
    with pytest.raises(ValueError, match="topic"):
        encode(native, buffer, 0, rows, magic=magic, topic=b"t" * (longest + 1))


@both
def test_encode_refuses_what_does_not_fit_and_what_shares_memory() -> None:
    rows = rows_of(random.Random(SEED), 40)
    size = encode(native, bytearray(50_000), 0, rows)
    for room, position in ((size - 1, 0), (size, 1), (size, -1), (0, 0), (size, INT64_MAX)):
        buffer = bytearray(room)
        with pytest.raises(ValueError, match="fit"):
            encode(native, buffer, position, rows)
        assert buffer == bytes(room)
    assert encode(native, bytearray(size), 0, rows) == size
    mixed = np.zeros(60_000, np.uint8)
    mixed[50_000:54_000] = np.frombuffer(rows["body"], np.uint8)
    with pytest.raises(ValueError, match="shares"):
        encode(native, mixed, 0, rows, body=mixed[size - 1 : size + 4000])
    assert encode(native, mixed, 0, rows, body=mixed[50_000:54_000]) == size
    with pytest.raises(BufferError):
        encode(native, bytes(50_000), 0, rows)
    with pytest.raises(OverflowError):
        encode(native, bytearray(50_000), 1 << 63, rows)
    with pytest.raises(TypeError):
        encode(native, bytearray(50_000), 0, rows, flags=None)


# ---- both do the same, and nothing outside of the buffers is touched ----


@pytest.fixture
def c() -> ModuleType:
    """The C kernel itself."""
    if "c" not in native.available():
        pytest.skip("the C kernel is not built here")
    from flightlog.store.native import _kernel

    return _kernel


WILD = (0, 1, -1, 7, 8, 91, 127, 4096, 1 << 31, 1 << 32, INT64_MAX, -INT64_MAX - 1, INT64_MAX - 91)


def wilder(source: random.Random, column: Integers) -> Integers:
    column = column.copy()
    for _ in range(source.choice([0, 1, 1, 3])):
        if len(column):
            i = source.randrange(len(column))
            near = int(column[i]) + source.choice([-12, -1, 1, 12])
            column[i] = source.choice([*source.choices(WILD), max(min(near, INT64_MAX), -INT64_MAX - 1)])
    return column


def outcome(call: Any, out: NDArray[np.uint8]) -> tuple[Any, bytes]:
    before = out.tobytes()
    try:
        found: Any = call(out)
    except (ValueError, OverflowError) as e:
        found = type(e)
        assert out.tobytes() == before, "something was written by a call that failed"
    return found, out.tobytes()


def test_kernel_and_reference_agree_on_wild_numbers(c: ModuleType) -> None:
    print(f"FLIGHTLOG_COLUMNS_SEED={SEED}")
    source = random.Random(SEED)
    for _ in range(600):
        log, positions, sizes = log_of(source, source.choice([0, 1, 3, 30]))
        data = bytearray(log)
        for _ in range(source.choice([0, 0, 1, 4])):  # lengths, flags and magics of some frame
            if len(positions):
                at = int(source.choice(positions)) + source.choice([0, 4, 8, 28, 36, 84, 88, source.randrange(120)])
                data[at : at + 4] = (source.choice(WILD) & 0xFFFFFFFF).to_bytes(4, "big")
        # An array of its own: the bytes end where the allocation does, so that a sanitizer sees any step beyond.
        own = np.frombuffer(bytes(data), np.uint8).copy()
        starts, lengths = wilder(source, positions), wilder(source, sizes)
        capacity = source.choice([len(positions), len(positions), 2, 0])
        room = max(0, min(int(lengths.sum()), 1 << 20))
        bases = wilder(source, np.zeros(len(starts), np.int64))
        rows = {
            name: wilder(source, column) if name.endswith(("starts", "sizes")) else column
            for name, column in rows_of(source, source.choice([0, 1, 20])).items()
        }
        calls: list[tuple[Callable[[Any, Any], Any], int]] = [
            (lambda module, out: module.walk_places(own, starts, lengths, 0, True, out), 120 * capacity),
            (lambda module, out: module.walk_places(own, starts, lengths, bases, True, out), 120 * capacity),
            (lambda module, out: module.gather(own, starts, lengths, out), room),
            (lambda module, out: encode(module, out, 0, rows), 20_000),
        ]
        for call, size in calls:
            found = [outcome(partial(call, module), np.full(size, 0xA5, np.uint8)) for module in (c, pure)]
            assert found[0] == found[1]


@both
def test_nothing_outside_is_touched(fenced: memoryview) -> None:
    source = random.Random(SEED)
    for _ in range(300):
        log, positions, sizes = log_of(source, 4)
        if len(log) > len(fenced):
            continue
        for at in (0, len(fenced) - len(log)):
            fenced[at : at + len(log)] = log
            piece = fenced[at : at + len(log)]
            for size in source.choices(WILD, k=3):  # a body's length that promises more than there is
                piece[84:88] = (size & 0xFFFFFFFF).to_bytes(4, "big")
                native.walk_places(piece, positions, sizes, 0, True, bytearray(480))
            out = bytearray(sizes.sum())
            native.gather(piece, positions, sizes, out)
            native.gather(out, int64(0), int64(len(out)), piece)
            assert out == piece
    rows = rows_of(source, 3)
    size = encode(native, bytearray(3000), 0, rows)
    for at in (0, len(fenced) - size):
        assert encode(native, fenced, at, rows) == size
