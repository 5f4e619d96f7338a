"""What the kernel and its reference do with bytes, arguments and neighbours that mean harm; and that both do the
same."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import zlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flightlog.store import native
from flightlog.store.format.frame import FRAME_DTYPE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, WalkEnd
from flightlog.store.native import pure

ONE_BY_ONE = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MUTATIONS = 20_000
HOST, HOST_V6 = bytes(range(8)), bytes(range(20))

NAMES = (
    *("position", "magic", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp_ms"),
    *("born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset"),
    *("body", "topic", "properties"),
)
VALUES = (0, MAGIC_V1, 1, 2, 3, 4, 0, 5, HOST, 6, HOST, 7, 8, b"body", b"topic", b"properties")
PLAIN: dict[str, Any] = dict(zip(NAMES, VALUES, strict=True))
INT32_FIELDS = ("magic", "queue_id", "flag", "sys_flag", "reconsume_times")
INT64_FIELDS = tuple(name for name in NAMES[:13] if name not in INT32_FIELDS and not name.endswith("host"))


def encode(buffer: Any, **changes: Any) -> int:
    return native.encode_record(buffer, *{**PLAIN, **changes}.values())


def logs(source: random.Random) -> tuple[bytes, list[int]]:
    """A small log of records of every kind, perhaps ending in a filler; and where its frames stand."""
    out, places = bytearray(), []
    for _ in range(source.choice([1, 3, 8, 30, 60, 60])):
        buffer, flags = bytearray(2000), source.choice([0, 0, 0x10, 0x20, 0x30])
        changes = {
            "magic": source.choice([MAGIC_V1, MAGIC_V1, MAGIC_V2]),
            "physical_offset": len(out),
            "sys_flag": flags,
            "born_host": HOST_V6 if flags & 0x10 else HOST,
            "store_host": HOST_V6 if flags & 0x20 else HOST,
            "body": source.randbytes(source.choice([0, 1, 15, 16, 17, 90, 300])),
            "topic": source.randbytes(source.choice([0, 1, 9, 127])),
            "properties": source.randbytes(source.choice([0, 1, 60])),
            "queue_offset": source.getrandbits(63),
            "prepared_transaction_offset": -source.getrandbits(60),
        }
        size = pure.encode_record(buffer, *{**PLAIN, **changes}.values())
        places.append(len(out))
        out += buffer[:size]
    if source.random() < 0.3:
        out += (100).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big", signed=True) + bytes(92)
    return bytes(out), places


# ---- both do the same ----


@pytest.fixture
def c() -> ModuleType:
    """The C kernel itself."""
    if "c" not in native.available():
        pytest.skip("the C kernel is not built here")
    from flightlog.store.native import _kernel

    return _kernel


def agree(c: ModuleType, data: bytes, start: int, stop: int, base: int, check: bool, capacity: int) -> None:
    # An array of its own: the bytes end where the allocation does, so that a sanitizer sees any step beyond.
    own = np.frombuffer(data, np.uint8).copy()
    tables = [np.full(capacity * FRAME_DTYPE.itemsize, 0xA5, np.uint8) for _ in range(2)]
    found = [module.walk(own, start, stop, base, check, rows) for module, rows in zip((c, pure), tables, strict=True)]
    raw, (count, position, end) = tables[0].tobytes(), found[0]
    assert (raw, found[0]) == (tables[1].tobytes(), found[1]), (data.hex(), start, stop, base, check, capacity)
    assert end in list(WalkEnd)
    assert start <= position <= stop
    assert raw[count * FRAME_DTYPE.itemsize :] == b"\xa5" * (len(raw) - count * FRAME_DTYPE.itemsize)
    rows = np.frombuffer(raw, FRAME_DTYPE, count)
    assert rows["size"].sum() == position - start
    assert (rows["position"] == start + np.cumsum(rows["size"]) - rows["size"]).all()
    for part, behind in (("body", 1), ("topic", 2), ("properties", 0)):
        at, size = rows[f"{part}_position"], rows[f"{part}_size"]
        assert ((at >= rows["position"] + 88) & (at + size + behind <= rows["position"] + rows["size"])).all()


INTERESTING = (0, 1, -1, 7, 8, 90, 91, 92, 103, 115, 127, 128, 255, 0x7FFF, 0x7FFFFFFF, -0x80000000, MAGIC_V1, MAGIC_V2)


def mutated(source: random.Random, log: tuple[bytes, list[int]], other: bytes) -> bytes:
    out, places = bytearray(log[0]), log[1]
    for _ in range(source.choice([0, 1, 1, 1, 2, 5])):
        at = source.randrange(len(out) + 1)
        if source.random() < 0.7:  # where magics, flags and lengths are, in any frame
            at = source.choice(places) + source.choice([0, 4, 8, 28, 36, 84, 88, 96, 108, source.randrange(120)])
        match source.randrange(6):
            case 0:
                out[at : at + 1] = source.randbytes(1)
            case 1:
                out[at : at + 4] = (source.choice(INTERESTING) & 0xFFFFFFFF).to_bytes(4, "big")
            case 2:
                field = int.from_bytes(out[at : at + 4], "big") + source.choice([-12, -2, -1, 1, 2, 12, 256])
                out[at : at + 4] = (field & 0xFFFFFFFF).to_bytes(4, "big")
            case 3:
                del out[at:]
            case 4:
                cut = source.randrange(len(other))
                out[at:] = other[cut : cut + source.randrange(400)]
            case _:
                out[at : at + source.randrange(40)] = bytes(source.randrange(40))
    return bytes(out)


@pytest.mark.parametrize("seed", range(4))
def test_kernel_and_reference_agree_on_mutated_logs(seed: int, c: ModuleType) -> None:
    source = random.Random(seed)
    whole = [logs(source) for _ in range(40)]
    for _ in range(MUTATIONS // 4):
        data = mutated(source, source.choice(whole), source.choice(whole)[0])
        start = 0 if source.random() < 0.8 else source.randrange(len(data) + 1)
        stop = len(data) if source.random() < 0.8 else source.randint(start, len(data))
        base = 0 if source.random() < 0.9 else source.choice([1, -1, (1 << 63) - 1, -(1 << 63), (1 << 63) - 500])
        agree(c, data, start, stop, base, source.random() < 0.5, source.choice([0, 1, 24, 25, 26, 100, 100, 100]))


HITS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)))
MAGICS = st.sampled_from([MAGIC_V1, MAGIC_V2, MAGIC_BLANK, 0])


@ONE_BY_ONE
@given(noise=st.binary(max_size=300), magic=MAGICS, size=st.integers(0, 310), seed=st.integers(0, 1 << 32), hits=HITS)
def test_kernel_and_reference_agree_on_what_hypothesis_thinks_of(
    c: ModuleType, noise: bytes, magic: int, size: int, seed: int, hits: list[tuple[int, int]]
) -> None:
    headed = size.to_bytes(4, "big") + magic.to_bytes(4, "big", signed=True) + noise
    log = bytearray(logs(random.Random(seed))[0])
    for at, value in hits:
        log[at % len(log)] = value
    for data in (noise, headed, bytes(log), bytes(log[: seed % len(log)])):
        agree(c, data, 0, len(data), 0, True, 70)


@ONE_BY_ONE
@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(INT64_FIELDS, st.integers(-(1 << 64), 1 << 64) | st.integers(-5, 300)),
            **dict.fromkeys(INT32_FIELDS, st.integers(-(1 << 32), 1 << 32) | st.sampled_from([MAGIC_V2, 0x10, 0x30])),
            "born_host": st.sampled_from([HOST, HOST_V6, b"", b"1234567", None]),
            "store_host": st.sampled_from([HOST, HOST_V6, bytearray(8), 8]),
            "body": st.binary(max_size=200),
            "topic": st.binary(max_size=130) | st.just(b"t" * 32_768),
            "properties": st.just(b"p" * 32_767) | st.just(b"p" * 32_768) | st.just("p"),
        },
    ),
    room=st.sampled_from([0, 1, 91, 118, 119, 300, 70_000]),
)
def test_kernel_and_reference_encode_the_same_or_refuse_alike(
    c: ModuleType, changes: dict[str, Any], room: int
) -> None:
    results = []
    for module in (c, pure):
        buffer = np.full(room, 0xEE, np.uint8)
        before, found = buffer.tobytes(), None
        try:
            found = module.encode_record(memoryview(buffer), *{**PLAIN, **changes}.values())
        except (TypeError, ValueError, OverflowError) as e:
            found = type(e)
            assert buffer.tobytes() == before, "something was written by a call that failed"
        results.append((found, buffer.tobytes()))
    assert results[0] == results[1]


# ---- nothing outside the buffer is touched ----


@pytest.mark.usefixtures("kernel")
def test_crc_stays_inside(fenced: memoryview) -> None:
    fenced[:] = random.Random(5).randbytes(len(fenced))
    for size in range(600):
        for piece in (fenced[:size], fenced[len(fenced) - size :]):
            assert native.masked_crc32(piece) == zlib.crc32(piece) & 0x7FFFFFFF


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("flags", [0, 0x10, 0x20, 0x30, -1])
@pytest.mark.parametrize("magic", [MAGIC_V1, MAGIC_V2])
def test_short_frames_at_the_very_end(fenced: memoryview, magic: int, flags: int) -> None:
    """A frame of every size at the end of what may be read, whose flags and lengths promise more than there is."""
    rows = np.zeros(2, FRAME_DTYPE)
    for size in range(8, 160):
        for filler in (0, 1, 0x7F, 0xFF):
            frame = bytearray([filler]) * 160
            frame[0:8] = size.to_bytes(4, "big") + magic.to_bytes(4, "big", signed=True)
            frame[36:40] = flags.to_bytes(4, "big", signed=True)
            start = len(fenced) - size
            fenced[start:] = frame[:size]
            assert native.walk(fenced, start, len(fenced), 1, True, rows)[:2] == (0, start)


@pytest.mark.usefixtures("kernel")
def test_walk_and_encode_stay_inside(fenced: memoryview) -> None:
    source, rows = random.Random(6), np.zeros(80, FRAME_DTYPE)
    for _ in range(400):
        data = mutated(source, logs(source), b"\xff" * 400)[: source.randrange(len(fenced))]
        for at in (0, len(fenced) - len(data)):
            fenced[at : at + len(data)] = data
            _, position, _ = native.walk(fenced[at : at + len(data)], 0, len(data), 0, True, rows)
            assert 0 <= position <= len(data)
    size = encode(fenced)
    assert encode(fenced, position=len(fenced) - size) == size
    with pytest.raises(ValueError):
        encode(fenced, position=len(fenced) - size + 1)


# ---- wrong arguments ----
ROOM = 100_000
REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    *[({name: value}, OverflowError) for name in INT64_FIELDS for value in (1 << 63, -(1 << 63) - 1, 1 << 80)],
    *[({name: value}, OverflowError) for name in INT32_FIELDS for value in (1 << 31, -(1 << 31) - 1, 1 << 80)],
    *[({name: value}, TypeError) for name in (*INT64_FIELDS, *INT32_FIELDS) for value in (1.0, "1", None)],
    *[({name: value}, TypeError) for name in ("born_host", "store_host", *NAMES[13:]) for value in ("text", 7)],
    *[({name: np.zeros(16, np.uint8)[::2]}, BufferError) for name in ("born_host", "body", "topic")],
    ({"magic": 0}, ValueError),
    ({"magic": float(MAGIC_V1)}, TypeError),
    ({"position": -1}, ValueError),
    ({"position": (1 << 63) - 1}, ValueError),
    ({"topic": b"t" * 128}, ValueError),
    ({"magic": MAGIC_V2, "topic": b"t" * 32_768}, ValueError),
    ({"properties": b"p" * 32_768}, ValueError),
    ({"body": b"b" * ROOM}, ValueError),
    ({"born_host": HOST_V6}, ValueError),
    ({"store_host": HOST_V6}, ValueError),
    ({"sys_flag": 0x10}, ValueError),
    ({"sys_flag": 0x20, "born_host": HOST_V6}, ValueError),
    ({"born_host": b"1234567"}, ValueError),
    # Integers are looked at first, then buffers, then values.
    ({"queue_id": 1 << 31, "body": "text", "magic": 0}, OverflowError),
    ({"body": "text", "magic": 0}, TypeError),
]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("changes", "error"), REFUSED, ids=str)
def test_encode_refuses(changes: dict[str, Any], error: type[Exception]) -> None:
    buffer = bytearray(b"\xee" * ROOM)  # enough for the texts that are too long: not fitting is another reason
    with pytest.raises(error) as caught:
        encode(buffer, **changes)
    assert caught.type is error
    assert buffer == b"\xee" * ROOM


@pytest.mark.usefixtures("kernel")
def test_buffers_that_cannot_be_written_to() -> None:
    read_only, closed = mmap.mmap(-1, 4096, access=mmap.ACCESS_READ), mmap.mmap(-1, 4096)
    closed.close()
    released = memoryview(bytearray(4096))
    released.release()
    fixed = np.zeros(4096, np.uint8)
    fixed.flags.writeable = False
    for buffer in (bytes(4096), memoryview(bytes(4096)), read_only, closed, released, fixed):
        with pytest.raises(BufferError):
            encode(buffer)
    gaps: list[Any] = [memoryview(bytearray(4096))[::2], np.zeros((64, 64), np.uint8).T]
    for gappy in gaps:
        with pytest.raises(BufferError):
            encode(gappy)
        with pytest.raises(BufferError):
            native.walk(gappy, 0, 0, 0, True, bytearray(120))
        with pytest.raises(BufferError):
            native.masked_crc32(gappy)
    for wrong in (None, "text", 5, [0] * 4096):
        with pytest.raises(TypeError):
            encode(wrong)
        with pytest.raises(TypeError):
            native.masked_crc32(wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("kernel")
def test_walk_refuses() -> None:
    data, rows = bytes(100), np.zeros(3, FRAME_DTYPE)
    fixed = np.frombuffer(bytes(120), FRAME_DTYPE)
    for start, stop in ((-1, 50), (51, 50), (0, 101), (101, 101), (0, -1), (0, (1 << 63) - 1)):
        with pytest.raises(ValueError):
            native.walk(data, start, stop, 0, True, rows)
    for far in ((1 << 63, 0, 0), (0, 1 << 63, 0), (0, 0, 1 << 63), (0, 0, -(1 << 63) - 1)):
        with pytest.raises(OverflowError):
            native.walk(data, *far, True, rows)
    odds: list[Any] = [(0.0, 9, 0, True, rows), (0, "9", 0, True, rows), (0, 9, None, True, rows), (0, 9, 0, True)]
    for odd in odds:
        with pytest.raises(TypeError):
            native.walk(data, *odd)
    with pytest.raises(ValueError):
        native.walk(data, 0, 100, 0, True, bytearray(119))
    for table in (bytes(120), fixed, rows[::2]):
        with pytest.raises(BufferError):
            native.walk(data, 0, 100, 0, True, table)
    assert native.walk(data, 100, 100, 0, True, bytearray()) == (0, 100, WalkEnd.END)
    assert native.walk(data, 0, 100, 0, True, bytearray()) == (0, 0, WalkEnd.ROWS_FULL)


# ---- process life ----


@pytest.mark.usefixtures("kernel")
def test_buffers_are_let_go() -> None:
    for buffer in (mmap.mmap(-1, 4096), bytearray(4096)):
        rows = np.zeros(100, FRAME_DTYPE)
        size = encode(buffer, physical_offset=0)
        native.walk(buffer, 0, 4096, 0, True, rows)
        native.masked_crc32(buffer)
        for wrong in ({"topic": b"t" * 128}, {"topic": "text"}, {"position": 4096 - size + 1}):
            with pytest.raises((ValueError, TypeError)):
                encode(buffer, **wrong)
        with pytest.raises(ValueError):
            native.walk(buffer, 0, 5000, 0, True, rows)
        buffer.close() if isinstance(buffer, mmap.mmap) else buffer.clear()  # BufferError if anything still holds it


def run_python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True).stdout


def test_choice(kernel: str) -> None:
    with pytest.raises(ValueError, match="'c' or 'pure'"):
        native.use("fortran")
    assert kernel == native.NAME
    code = "from flightlog.store import native; print(native.NAME, *native.available())"
    assert run_python(code, FLIGHTLOG_PURE="1").split() == ["pure", "pure"]
    without = run_python(code, FLIGHTLOG_PURE="0").split()
    assert without == ["c", "c", "pure"] or ("c" not in native.available() and without == ["pure", "pure"])
    code = f"import sys; sys.modules['flightlog.store.native._kernel'] = None; {code}\n"
    code += (
        "try: native.use('c')\nexcept ImportError as e: print(type(e).__name__, 'C compiler' in str(e), native.NAME)"
    )
    assert run_python(code, FLIGHTLOG_PURE="0") == "pure pure\nKernelUnavailableError True pure\n"
