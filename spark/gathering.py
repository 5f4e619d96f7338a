"""Bytes that lie scattered over a piece of the log, gathered into Arrow arrays without a Python object for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[Any]


def gather(buffer: Any, starts: Integers, sizes: Integers) -> Any:
    """A binary array of the bytes [start, start + size) of an Arrow buffer, copied.

    Two ranges may be one and the same; otherwise they do not overlap. They come in any order.

    The buffer itself is looked at as a binary array whose offsets are every start and every end in turn: each second
    element is what is wanted, the others are what lies between, and one `take` leaves those out.
    """
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    ends = starts + sizes
    if (starts[1:] < ends[:-1]).any():
        # The messages of an inner batch share their record's fields: each range once, in order, serves those too.
        _, first, which = np.unique(starts, return_index=True, return_inverse=True)
        return gather(buffer, starts[first], sizes[first]).take(pa.array(which))
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    alternating = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    return alternating.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def as_text(raw: Any) -> Any:
    """A binary array without nulls as a string array; what is not UTF-8 becomes U+FFFD, as Java decodes it."""
    text = raw.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "replace") for each in raw.to_pylist()], pa.string())
    return text


def bytes_of(array: Any) -> tuple[NDArray[np.uint8], Integers]:
    """The data of a binary or string array without nulls, and the offset of every element and of the end in it."""
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return data[offsets[0] : offsets[-1]], offsets - offsets[0]


def spread(values: Any, is_there: NDArray[np.bool_]) -> Any:
    """The values in the places where `is_there` holds, nulls elsewhere; one value for every place that holds."""
    if is_there.all():
        return values
    return values.take(pa.array(np.cumsum(is_there) - 1, pa.int64(), mask=~is_there))
