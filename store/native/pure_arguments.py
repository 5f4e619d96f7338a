"""What the kernel accepts as an integer and as a buffer, and the error for anything else."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


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
