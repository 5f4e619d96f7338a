"""Gather bytes scattered over a piece of the log into Arrow arrays, without a Python object for each value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...store import native

Integers = NDArray[Any]

OFFSET_MAX = (1 << 31) - 1


def gather(buffer: Any, starts: Integers, sizes: Integers) -> Any:
    """A binary array of the bytes [start, start + size) of a buffer, copied: any ranges, in any order.

    Raises ValueError for a range outside the buffer.
    """
    lengths = np.ascontiguousarray(sizes, np.int64)
    ends = _ends(lengths)
    data = pa.allocate_buffer(int(ends[-1]))
    native.gather(buffer, np.ascontiguousarray(starts, np.int64), lengths, data)
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(ends), data])


def binary_array(sizes: Integers, data: Any) -> Any:
    """The binary array of values of these sizes, stored consecutively in an Arrow buffer. Raises ValueError if they are
    larger than an array can be."""
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(_ends(sizes)), data])


def _ends(sizes: Integers) -> NDArray[np.int32]:
    """The offsets of an Arrow array: the start of each value in the data, and the end of the last one."""
    ends = np.cumsum(sizes, dtype=np.int64)
    if len(ends) and ends[-1] > OFFSET_MAX:
        raise ValueError(
            f"{ends[-1]} bytes in one column, an Arrow array takes {OFFSET_MAX}: read fewer messages at a time"
        )
    offsets = np.zeros(len(sizes) + 1, np.int32)
    offsets[1:] = ends
    return offsets


def as_text(raw: Any) -> Any:
    """A binary array without nulls as a string array. Bytes that are not UTF-8 become U+FFFD, as Java decodes them."""
    text = raw.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "replace") for each in raw.to_pylist()], pa.string())
    return text


def bytes_of(array: Any) -> tuple[NDArray[np.uint8], Integers]:
    """The data of a binary or string array without nulls, and the offsets of its elements, the end included."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def spread(values: Any, is_there: NDArray[np.bool_]) -> Any:
    """An array with nulls where `is_there` is false; the values fill the other places in order."""
    if is_there.all():
        return values
    return values.take(pa.array(np.cumsum(is_there) - 1, pa.int64(), mask=~is_there))
