"""The common form of input columns: byte strings as ranges of a buffer, numbers as arrays, properties as pairs.

This module converts numpy arrays and Python sequences; `arrow_intake.py` converts Arrow arrays. Values are copied only
where necessary: a column's own memory may be read until the call that takes it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.errors import InvalidMessageError

BODIES = "value"
"""The column that accepts only bytes: as in a put, a body cannot be text."""

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Ranges:
    """Byte strings: item i is data[starts[i] : starts[i] + sizes[i]]. A missing item has size 0."""

    data: NDArray[np.uint8]
    starts: Integers
    sizes: Integers
    is_there: Mask | None = None
    """Which items are present; None if all are."""

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, items: Any) -> Ranges:
        """A selection of items, by index, mask or slice."""
        is_there = None if self.is_there is None else self.is_there[items]
        return Ranges(self.data, self.starts[items], self.sizes[items], is_there)

    def present(self) -> Mask:
        return np.ones(len(self), np.bool_) if self.is_there is None else self.is_there

    def repeated(self, count: int) -> Ranges:
        """The single item repeated `count` times, without copying it."""
        starts, sizes = (np.ndarray(count, np.int64, each, strides=(0,)) for each in (self.starts, self.sizes))
        return Ranges(self.data, starts, sizes)

    def filled(self) -> Ranges:
        """The same items, with empty ones marked as missing."""
        return Ranges(self.data, self.starts, self.sizes, None if self.sizes.all() else self.sizes > 0)

    def has_empty(self) -> bool:
        """Whether an item is present but empty."""
        if self.is_there is None:
            return not self.sizes.all()
        return bool((self.is_there & (self.sizes == 0)).any())

    def check(self, name: str) -> None:
        """Raise InvalidMessageError if a range is outside of the data."""
        good = (self.starts >= 0) & (self.sizes >= 0) & (self.sizes <= len(self.data))
        good &= self.starts <= len(self.data) - np.where(good, self.sizes, 0)
        if not good.all():
            raise InvalidMessageError("its bytes lie outside of the buffer", row=int(good.argmin()), column=name)


@dataclass(slots=True)
class Lists:
    """A list of byte strings for each row: row i has values[starts[i] : starts[i] + counts[i]]."""

    values: Ranges
    starts: Integers
    counts: Integers


@dataclass(slots=True)
class Pairs:
    """Properties as pairs: pair i belongs to row rows[i], its name is names[codes[i]]."""

    rows: Integers
    """Ascending."""
    names: list[bytes]
    codes: Integers
    values: Ranges


@dataclass(slots=True)
class Fields:
    """Properties as columns: a name and a value for each row. A row with a missing value lacks the property."""

    columns: list[tuple[bytes, Ranges]]

    def pairs(self) -> Pairs:
        parts = []
        for name, column in self.columns:
            rows = np.flatnonzero(column.present())
            parts.append(Pairs(rows, [name], np.zeros(len(rows), np.int64), column.take(rows)))
        return merge(parts)


def missing(count: int) -> Ranges:
    zeros = np.zeros(count, np.int64)
    return Ranges(np.empty(0, np.uint8), zeros, zeros, np.zeros(count, np.bool_))


def ranges_of(name: str, values: Any) -> Ranges:
    """A column of bytes or text: a numpy array of type S, V, U or object, rows of bytes (uint8 of two dimensions), or a
    sequence of bytes, text and None. Raises InvalidMessageError for anything else."""
    if not isinstance(values, np.ndarray):
        return _of_objects(name, values)
    kind = values.dtype.kind
    if kind in "OU" and values.ndim == 1:
        return _of_objects(name, values.tolist())
    is_bytes = (kind == "S" or (kind == "V" and values.dtype.fields is None)) and values.ndim == 1
    if not is_bytes and not (values.dtype == np.uint8 and values.ndim == 2):
        raise InvalidMessageError(
            f"column {name!r}: a numpy array of {values.dtype} with {values.ndim} dimensions, expected bytes (S, V, "
            "rows of uint8) or objects"
        )
    count = len(values)
    width = values.dtype.itemsize if is_bytes else values.shape[1]
    cells = np.ascontiguousarray(values).view(np.uint8).reshape(count, width)
    sizes = np.full(count, width, np.int64)
    if kind == "S" and width:  # as in numpy, trailing zeros are not part of the value
        sizes = np.char.str_len(values).astype(np.int64)
    return Ranges(cells.reshape(-1), np.arange(count, dtype=np.int64) * width, sizes)


def _of_objects(name: str, values: Iterable[Any]) -> Ranges:
    parts = [_encoded(name, row, value) for row, value in enumerate(values)]
    present = np.array([part is not None for part in parts], np.bool_)
    raw = [part or b"" for part in parts]
    sizes = np.array([len(part) for part in raw], np.int64)
    data = np.frombuffer(b"".join(raw), np.uint8)
    return Ranges(data, np.cumsum(sizes) - sizes, sizes, None if present.all() else present)


def _encoded(name: str, row: int, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str) or name == BODIES:
        expected = "bytes" if name == BODIES else "bytes or text"
        raise InvalidMessageError(f"a {type(value).__name__}, expected {expected}", row=row, column=name)
    try:
        return value.encode()
    except UnicodeEncodeError as e:
        raise InvalidMessageError(f"text that cannot be written as UTF-8 ({e})", row=row, column=name) from e


def each_alone(values: Ranges) -> Lists:
    """Lists of at most one byte string: none where the value is missing or empty."""
    return Lists(values, np.arange(len(values)), (values.present() & (values.sizes > 0)).astype(np.int64))


def one_for_all(name: str, value: str, count: int) -> Ranges:
    """A column with the same text in every row."""
    raw = _encoded(name, 0, value) or b""
    one = Ranges(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64))
    return one.repeated(count)


def lists_of(name: str, values: Any) -> Lists | Ranges:
    """A column of keys: for each row a text, a sequence of texts, or None. Returns Ranges if no row has several."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return ranges_of(name, values)
    flat: list[Any] = []
    counts: list[int] = []
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, (str, bytes, Sequence, np.ndarray)):
            raise InvalidMessageError(f"a {type(value).__name__}, expected texts", row=row, column=name)
        is_one = isinstance(value, (str, bytes))
        several = () if value is None or not len(value) else (value,) if is_one else tuple(value)
        flat += several
        counts.append(len(several))
    lengths = np.array(counts, np.int64)
    return Lists(_of_objects(name, flat), np.cumsum(lengths) - lengths, lengths)


def pairs_of(name: str, values: Any, count: int) -> Pairs | Fields:
    """A column of properties: a mapping of names to columns, or a sequence of mappings and None."""
    if isinstance(values, Mapping):
        return fields_of([(field, ranges_of(f"{name}.{field}", column)) for field, column in values.items()], count)
    codes: dict[bytes, int] = {}
    rows: list[int] = []
    found: list[int] = []
    flat: list[Any] = []
    for row, mapping in enumerate(values):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise InvalidMessageError(f"a {type(mapping).__name__}, expected a mapping", row=row, column=name)
        for key, value in (mapping or {}).items():
            if key is None or value is None:
                raise InvalidMessageError(f"the property {key!r}={value!r} has no text", row=row, column=name)
            rows.append(row)
            found.append(codes.setdefault(_encoded(name, row, key) or b"", len(codes)))
            flat.append(value)
    if len(values) != count:
        raise InvalidMessageError(f"column {name!r}: {len(values)} rows, but there are {count} bodies")
    return Pairs(np.array(rows, np.int64), list(codes), np.array(found, np.int64), _of_objects(name, flat))


def fields_of(fields: list[tuple[str, Ranges]], count: int) -> Fields:
    """Properties whose values stand in a column each."""
    for field, column in fields:
        if len(column) != count:
            raise InvalidMessageError(f"property {field!r}: {len(column)} rows, expected {count}")
    return Fields([(_encoded("properties", 0, field) or b"", column) for field, column in fields])


def merge(parts: Sequence[Pairs]) -> Pairs:
    """All pairs, ordered by row, and within a row in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    codes: dict[bytes, int] = {}
    renamed = [np.array([codes.setdefault(name, len(codes)) for name in part.names], np.int64) for part in parts]
    rows = np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)])
    order = np.argsort(rows, kind="stable")
    found = np.concatenate(
        [np.empty(0, np.int64), *(new[part.codes] for new, part in zip(renamed, parts, strict=True))]
    )
    return Pairs(rows[order], list(codes), found[order], _concatenated([part.values for part in parts]).take(order))


def _concatenated(parts: Sequence[Ranges]) -> Ranges:
    """Concatenate columns. Of each column's data, only the used range is copied."""
    pieces: list[NDArray[np.uint8]] = []
    starts: list[Integers] = [np.empty(0, np.int64)]
    size = 0
    for part in parts:
        first = int(part.starts.min()) if len(part) else 0
        stop = int((part.starts + part.sizes).max()) if len(part) else 0
        pieces.append(part.data[first:stop])
        starts.append(part.starts - first + size)
        size += stop - first
    sizes = np.concatenate([np.empty(0, np.int64), *(part.sizes for part in parts)])
    present = np.concatenate([np.empty(0, np.bool_), *(part.present() for part in parts)])
    return Ranges(np.concatenate([np.empty(0, np.uint8), *pieces]), np.concatenate(starts), sizes, present)


def numbers_of(name: str, values: Any, count: int, bits: int) -> tuple[Integers, Mask]:
    """A column of whole numbers, and which rows have one. `values` is one number for all rows, a numpy array, or a
    sequence of numbers and None. Raises InvalidMessageError for other values, and for numbers of more than `bits`."""
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        values = [int(values)] * count
    present = np.ones(count, np.bool_)
    if not isinstance(values, np.ndarray) or values.dtype.kind == "O":
        listed = list(values)
        for row, value in enumerate(listed):
            if value is not None and (not isinstance(value, (int, np.integer)) or isinstance(value, bool)):
                raise InvalidMessageError(f"{value!r}, expected a whole number", row=row, column=name)
        present = np.array([value is not None for value in listed], np.bool_)
        values = [0 if value is None else int(value) for value in listed]
        bad = next((row for row, value in enumerate(values) if not -1 << 63 <= value < 1 << 63), None)
        if bad is not None:
            raise InvalidMessageError(f"{values[bad]} has more than {bits} bits", row=bad, column=name)
        values = np.array(values, np.int64)
    elif values.dtype.kind == "M":
        present = ~np.isnat(values)
        values = np.where(present, values.astype("datetime64[ms]").astype(np.int64), 0)
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise InvalidMessageError(
            f"column {name!r}: {values.dtype} of {values.ndim} dimensions, expected whole numbers"
        )
    highest = (1 << bits - 1) - 1
    fits = values <= highest
    if bits < 64:
        fits &= values >= ~highest
    if not fits.all():
        row = int(fits.argmin())
        raise InvalidMessageError(f"{values[row]} has more than {bits} bits", row=row, column=name)
    return values.astype(np.int64), present
