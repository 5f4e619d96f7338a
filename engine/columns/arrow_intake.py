"""Arrow arrays as columns of an append. Slices are handled without a copy; a null is a missing value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ...store.errors import InvalidMessageError
from .column_buffers import Fields, Integers, Lists, Mask, Pairs, Ranges, fields_of, missing
from .column_buffers import numbers_of as checked_numbers

types = pa.types


def batches_of(given: Any) -> list[Mapping[str, Any]]:
    """A record batch, a table, or any object with an Arrow stream, as one mapping of names to arrays for each chunk."""
    if not isinstance(given, (pa.RecordBatch, pa.Table)):
        given = pa.table(given)
    names = given.schema.names
    batches = [given] if isinstance(given, pa.RecordBatch) else given.to_batches()
    for name in names:
        if names.count(name) > 1:
            raise InvalidMessageError(f"column {name!r} is there {names.count(name)} times, expected once")
    return [dict(zip(names, batch.columns, strict=True)) for batch in batches]


def _plain(values: Any) -> Any:
    """The values as one array, without dictionary encoding and not of a view type."""
    array = values
    if isinstance(values, pa.ChunkedArray):
        array = (
            values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([pa.array([], values.type), *values.chunks])
        )
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    return array


def _present(array: Any) -> Mask | None:
    if not array.null_count:
        return None
    present: Mask = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    return present


def _items(buffer: Any, kind: Any, offset: int, count: int) -> Any:
    if buffer is None or not count:
        return np.zeros(count, kind)
    return np.frombuffer(buffer, kind, count, offset * np.dtype(kind).itemsize)


def ranges_of(name: str, values: Any) -> Ranges:
    """A column of bytes or text."""
    array = _plain(values)
    kind, count = array.type, len(array)
    if types.is_null(kind):
        return missing(count)
    present = _present(array)
    if types.is_fixed_size_binary(kind):
        width = kind.byte_width
        starts = (array.offset + np.arange(count, dtype=np.int64)) * width
        sizes = np.full(count, width, np.int64)
    elif types.is_binary(kind) or types.is_string(kind) or types.is_large_binary(kind) or types.is_large_string(kind):
        of = np.int64 if types.is_large_binary(kind) or types.is_large_string(kind) else np.int32
        offsets = _items(array.buffers()[1], of, array.offset, count + 1 if count else 0).astype(np.int64)
        starts, sizes = offsets[:-1], np.diff(offsets)
    else:
        raise InvalidMessageError(f"column {name!r}: an Arrow array of {kind}, expected binary or string")
    if present is not None:  # the bytes under a null are not a value
        starts, sizes = np.where(present, starts, 0), np.where(present, sizes, 0)
    buffer = array.buffers()[-1]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.empty(0, np.uint8)
    found = Ranges(data, starts, sizes, present)
    found.check(name)
    return found


def _bounds(array: Any) -> tuple[Integers, Integers]:
    """Start and count of the items of each list or map; both 0 for a null."""
    of = np.int64 if types.is_large_list(array.type) else np.int32
    offsets = _items(array.buffers()[1], of, array.offset, len(array) + 1 if len(array) else 0).astype(np.int64)
    starts, counts, present = offsets[:-1], np.diff(offsets), _present(array)
    if present is not None:
        starts, counts = np.where(present, starts, 0), np.where(present, counts, 0)
    return starts, counts


def lists_of(name: str, values: Any) -> Lists | Ranges:
    """A column of keys: one key for each row, or a list of keys; nulls are allowed."""
    array = _plain(values)
    if types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if not (types.is_list(array.type) or types.is_large_list(array.type)):
        return ranges_of(name, array)
    starts, counts = _bounds(array)
    return Lists(ranges_of(name, array.values), starts, counts)


def pairs_of(name: str, values: Any) -> Pairs | Fields:
    """A column of properties: a map of text to text, or a struct with a field for each property."""
    array = _plain(values)
    if types.is_null(array.type):
        return fields_of([], len(array))
    if types.is_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        columns = [ranges_of(f"{name}.{field}", column) for field, column in zip(names, array.flatten(), strict=True)]
        return fields_of(list(zip(names, columns, strict=True)), len(array))
    if not types.is_map(array.type):
        raise InvalidMessageError(
            f"column {name!r}: an Arrow array of {array.type}, expected a map of texts or a struct"
        )
    starts, counts = _bounds(array)
    ends = np.cumsum(counts)
    count = int(ends[-1]) if len(ends) else 0
    items = np.repeat(starts - (ends - counts), counts) + np.arange(count)
    keys = array.keys.take(pa.array(items)).dictionary_encode()
    values_of = ranges_of(f"{name}.value", array.items).take(items)
    names_of = keys.dictionary.cast(pa.large_binary()).to_pylist()
    codes = keys.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Pairs(np.repeat(np.arange(len(array)), counts), names_of, codes, values_of)


def numbers_of(name: str, values: Any, bits: int) -> tuple[Integers, Mask]:
    """A column of whole numbers, or of timestamps, which are converted to ms."""
    array = _plain(values)
    if types.is_timestamp(array.type):
        unit = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}[array.type.unit]
        numbers, present = _numbers(name, array.view(pa.int64()), 64)
        limit = ((1 << 63) - 1) // unit[0]
        if (numbers > limit).any() or (numbers < -limit).any():
            raise InvalidMessageError(f"column {name!r}: a time beyond 64 bits of ms")
        return numbers * unit[0] // unit[1], present
    return _numbers(name, array, bits)


def _numbers(name: str, array: Any, bits: int) -> tuple[Integers, Mask]:
    count, present = len(array), _present(array)
    if types.is_null(array.type):
        return np.zeros(count, np.int64), np.zeros(count, np.bool_)
    if not types.is_integer(array.type):
        raise InvalidMessageError(f"column {name!r}: an Arrow array of {array.type}, expected whole numbers")
    values = _items(array.buffers()[1], array.type.to_pandas_dtype(), array.offset, count)
    if present is not None:
        values = np.where(present, values, 0)
    numbers, everywhere = checked_numbers(name, values, count, bits)
    return numbers, everywhere if present is None else present
