"""The kernel's property texts and queue offsets: what it makes of columns, what it refuses; and kernel and reference
agree."""

from __future__ import annotations

import os
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flightlog.store import native
from flightlog.store.native import pure

SEED = int(os.environ.get("FLIGHTLOG_COLUMNS_SEED", "20260101"))
INT64_MAX = (1 << 63) - 1
Integers = NDArray[np.int64]
Property = tuple[Any, Any, Any, Any]
both = pytest.mark.usefixtures("kernel")


def int64(*values: int) -> Integers:
    return np.array(values, np.int64)


def property_of(name: bytes, values: list[bytes]) -> Property:
    """One of a column each, with something between the values that belongs to none."""
    sizes = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(sizes + 2) - sizes - 1
    return name + b"\x01", b"".join(b"\x02" + value + b"\x01" for value in values), starts, sizes


def texts_of(*properties: Property, rows: int, module: Any = native) -> tuple[list[bytes], bool]:
    sizes = np.full(rows, -1, np.int64)
    text, is_plain = module.property_texts(properties, sizes)
    assert type(text) is bytes and len(text) == sizes.sum() and type(is_plain) is bool
    ends = np.cumsum(sizes).tolist()
    return [text[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)], is_plain


# ---- texts ----


@both
def test_each_row_has_the_properties_that_are_not_empty_there() -> None:
    keys, one = property_of(b"KEYS", [b"k1", b"", b"k33"]), (b"TAGS\x01", b"--tag", int64(2), int64(3))
    assert texts_of(keys, one, rows=3) == (
        [b"KEYS\x01k1\x02TAGS\x01tag\x02", b"TAGS\x01tag\x02", b"KEYS\x01k33\x02TAGS\x01tag\x02"],
        True,
    )
    assert texts_of(one, keys, rows=3)[0][0] == b"TAGS\x01tag\x02KEYS\x01k1\x02"
    assert texts_of(rows=2) == ([b"", b""], True)
    assert texts_of((*keys[:2], int64(), int64()), one, rows=0) == ([], True)
    assert texts_of((b"a\x01", b"", int64(0), int64(0)), rows=2) == ([b"", b""], True)


@both
@pytest.mark.parametrize("size", [*range(1, 70), 127, 128, 129, 5000])
def test_values_of_every_size(size: int) -> None:
    value = random.Random(size).choices(range(32, 127), k=size)
    values = [bytes(value), b"x", bytes(value[::-1])]
    texts, is_plain = texts_of(property_of(b"n" * size, values), rows=3)
    assert texts == [b"n" * size + b"\x01" + each + b"\x02" for each in values]
    assert is_plain


@both
@pytest.mark.parametrize("odd", [b"\x01", b"\x02", b"\x80", "ä".encode()])
def test_what_is_not_plain_is_told_wherever_it_stands(odd: bytes) -> None:
    values = [b"value %06d" % row for row in range(1500)]
    for row, place in ((0, 0), (700, 5), (1499, 12)):
        changed = [*values]
        changed[row] = values[row][:place] + odd + values[row][place:]
        texts, is_plain = texts_of(property_of(b"a", changed), rows=1500)
        assert texts[row] == b"a\x01" + changed[row] + b"\x02"
        assert not is_plain
    assert texts_of(property_of(b"a", values), rows=1500)[1]
    assert not texts_of(property_of(b"a" + odd, values), rows=1500)[1]


@both
def test_texts_of_other_columns_are_refused() -> None:
    good, rows = property_of(b"a", [b"one", b"two"]), np.full(2, -1, np.int64)
    name, data, starts, sizes = good
    wrong: list[tuple[Any, type[Exception]]] = [
        ([good], TypeError),
        ((list(good),), TypeError),
        ((good[:3],), TypeError),
        ((good, (name, data, starts, None)), TypeError),
        (((name, np.zeros((4, 4), np.uint8)[:, ::2], starts, sizes),), BufferError),
        (((name, data, starts[:1], sizes),), ValueError),
        (((name, data, np.zeros(3, np.int64), np.zeros(3, np.int64)),), ValueError),
        (((name, data, starts, sizes.astype(np.int32)),), ValueError),
        (((name, data, starts, rows),), ValueError),
        *[
            (((name, data, int64(*pair), int64(1, 1)),), ValueError)
            for pair in ((0, -1), (0, len(data)), (INT64_MAX, 0), (-INT64_MAX - 1, 0))
        ],
        *[
            ((good, (name, data, int64(0, 0), int64(1, size))), ValueError)
            for size in (-1, len(data) + 1, INT64_MAX, -INT64_MAX - 1)
        ],
        (((name, data, int64(len(data)), int64(1)),), ValueError),
    ]
    for properties, error in wrong:
        with pytest.raises(error):
            native.property_texts(properties, rows)
        assert rows.tolist() == [-1, -1], "something was written by a call that failed"
    for sizes_out, kind in ((bytes(16), BufferError), (bytearray(15), ValueError), (5, TypeError)):
        with pytest.raises(kind):
            native.property_texts((good,), sizes_out)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        native.property_texts((good,))  # type: ignore[call-arg]


# ---- queue offsets ----


@both
@pytest.mark.parametrize("queues", [1, 2, 3, 7, 64, 1000])
def test_rows_are_counted_within_their_queues(queues: int) -> None:
    source = random.Random(queues)
    ids = sorted(source.sample(range(-5, 1 << 31), queues))
    rows = np.array(source.choices(ids, k=3000), np.int32)
    following, expected = {each: source.getrandbits(62) for each in ids}, []
    before = np.array(list(following.values()), np.int64)
    for each in rows.tolist():
        expected.append(following[each])
        following[each] += 1
    offsets = np.full(3000, -1, np.int64)
    assert native.number_rows(rows, np.array(ids, np.int32), before, offsets) is None  # type: ignore[func-returns-value]
    assert offsets.tolist() == expected
    assert before.tolist() == list(following.values())


@both
def test_numbers_of_other_columns_are_refused() -> None:
    ids, rows = np.array([1, 5, 9], np.int32), np.array([5, 5, 1], np.int32)
    following, offsets = int64(10, 50, 90), int64(-1, -1, -1)
    shared = np.zeros(8, np.int64)
    wrong: list[tuple[tuple[Any, ...], type[Exception]]] = [
        ((np.array([5, 5, 4], np.int32), ids, following, offsets), ValueError),
        ((np.array([5, 5, 10], np.int32), ids, following, offsets), ValueError),
        ((np.array([5, 5, -1], np.int32), ids, following, offsets), ValueError),
        ((rows, np.array([9, 5, 1], np.int32), following, offsets), ValueError),
        ((rows, np.array([1, 5, 5], np.int32), following, offsets), ValueError),
        ((rows, ids[:0], following[:0], offsets), ValueError),
        ((rows, ids, following[:2], offsets), ValueError),
        ((rows, ids, following, offsets[:2]), ValueError),
        ((bytes(11), ids, following, offsets), ValueError),
        ((rows, bytes(13), following, offsets), ValueError),
        ((rows, ids, shared[:3], shared[2:5]), ValueError),
        ((rows, shared[:2].view(np.int32)[1:], shared[:3], offsets), ValueError),
        ((rows, ids, bytes(24), offsets), BufferError),
        ((rows, ids, following, bytes(24)), BufferError),
        ((None, ids, following, offsets), TypeError),
        ((rows, ids, following), TypeError),
    ]
    for arguments, error in wrong:
        with pytest.raises(error):
            native.number_rows(*arguments)
        assert following.tolist() == [10, 50, 90] and offsets.tolist() == [-1, -1, -1]
    native.number_rows(rows[:0], ids[:0], following[:0], offsets[:0])
    native.number_rows(rows[:0], ids, following, offsets[:0])
    highest = int64(INT64_MAX)
    native.number_rows(rows[:2], np.array([5], np.int32), highest, offsets[:2])
    assert offsets.tolist() == [INT64_MAX, -INT64_MAX - 1, -1] and highest.tolist() == [1 - INT64_MAX - 1]


# ---- both do the same ----

WILD = (0, 1, -1, 7, 20, 200, 4096, 1 << 32, INT64_MAX, -INT64_MAX - 1)


@pytest.fixture
def c() -> ModuleType:
    """The C kernel itself."""
    if "c" not in native.available():
        pytest.skip("the C kernel is not built here")
    from flightlog.store.native import _kernel

    return _kernel


def test_kernel_and_reference_agree_on_wild_texts(c: ModuleType) -> None:
    print(f"FLIGHTLOG_COLUMNS_SEED={SEED}")
    source = random.Random(SEED)
    refused = 0
    for _ in range(800):
        rows, properties = source.choice([0, 1, 3, 30]), []
        for _ in range(source.randrange(4)):
            data = bytes(source.choices(range(source.choice([256, 128, 3])), k=source.choice([0, 5, 200])))
            items = 1 if source.random() < 0.3 else rows
            starts = np.array([source.randrange(len(data) + 1) for _ in range(items)], np.int64)
            sizes = np.array([source.randrange(len(data) + 1 - start) for start in starts.tolist()], np.int64)
            if items and source.random() < 0.2:
                source.choice([starts, sizes])[source.randrange(items)] = source.choice(WILD)
            properties.append(
                (source.randbytes(source.choice([0, 1, 9])), np.frombuffer(data, np.uint8), starts, sizes)
            )
        found: list[Any] = []
        for module in (c, pure):
            try:
                found.append(texts_of(*properties, rows=rows, module=module))
            except ValueError:
                found.append(ValueError)
        assert found[0] == found[1]
        refused += found[0] is ValueError
    assert 0 < refused < 400
