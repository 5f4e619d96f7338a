"""What the kernel accepts as an integer and as a buffer, and the error for anything else."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from ...format.frame import FRAME_DTYPE

if TYPE_CHECKING:
    from typing_extensions import Buffer

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


def integer(value: int, name: str, bits: int) -> int:
    """The value as an int of that many bits, sign included. Raises TypeError or OverflowError."""
    number = index(value)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise OverflowError(f"{name} does not fit into {bits} bits")
    return number


def readable(buffer: Buffer) -> memoryview:
    """The bytes of any C-contiguous buffer. Raises TypeError or BufferError."""
    try:
        view = memoryview(buffer)
    except ValueError as e:  # some exporters' word for it
        raise BufferError(f"the buffer cannot be read: {e}") from e
    if not view.c_contiguous:
        raise BufferError("the buffer is not C-contiguous")
    if view.ndim == 1 and view.format == "B":
        return view
    if view.nbytes == 0:  # cast() refuses a zero in the shape
        return memoryview(bytearray() if not view.readonly else b"")
    return view.cast("B")


def writable(buffer: Buffer, name: str) -> memoryview:
    """The same for a buffer that is written to. Raises BufferError too if it is read-only."""
    view = readable(buffer)
    if view.readonly:
        raise BufferError(f"{name} is read-only")
    return view


def column(view: memoryview, bits: int) -> list[int] | None:
    """A copy of a column of integers of the host's byte order; None unless it is a whole number of them."""
    if len(view) * 8 % bits:
        return None
    numbers: list[int] = np.frombuffer(bytes(view), f"i{bits // 8}").tolist()
    return numbers


def row_count(rows: memoryview) -> int:
    """How many rows of FRAME_DTYPE the buffer has. Raises ValueError unless it is a whole number of them."""
    count, rest = divmod(len(rows), FRAME_DTYPE.itemsize)
    if rest:
        raise ValueError(f"rows has {len(rows)} bytes, which is no multiple of {FRAME_DTYPE.itemsize}")
    return count


def is_inside(data: memoryview, start: int, size: int) -> bool:
    """Whether the range lies in the data."""
    return start >= 0 and size >= 0 and start + size <= len(data)


def share(one: memoryview, other: memoryview) -> bool:
    """Whether they have a byte in common."""
    if not len(one) or not len(other):
        return False
    return bool(np.may_share_memory(np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)))


def check_no_overlap(inputs: Iterable[memoryview], outputs: list[memoryview]) -> None:
    """Raises ValueError if a buffer that is written to shares memory with any other."""
    others = list(inputs)
    for output in outputs:
        if any(share(output, other) for other in others):
            raise ValueError("a buffer that is written to shares memory with another")
        others.append(output)
