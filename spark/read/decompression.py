"""Compressed bodies as they were before, for the records of a piece of the log (store/format/compression.py has the
kinds)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.errors import CorruptBodyError
from ...store.format.compression import compression_of, decompress
from ...store.format.frame import Rows
from ...store.format.sys_flag import COMPRESSED, COMPRESSION_MASK

HELD_SIZE = 4 << 20
"""Bytes of decompressed bodies that are held at a time, unless one body alone has more: a piece of the log can become a
thousand times as large."""

IsKept = Callable[[Any, CorruptBodyError], bool]
"""Asked about the row of a body that cannot be decompressed: whether it stays, with its body as it is stored."""


def decompressed(
    piece: bytes | memoryview, rows: Rows, left: NDArray[np.bool_], is_kept: IsKept
) -> Iterator[tuple[bytes | memoryview, Rows]]:
    """The same records in the same order, but for those in `left` with no body compressed, nor called so by `sys_flag`.

    They come in parts, each with the piece that its rows point into: the given one, and the bodies behind it. Raises
    MissingExtraError, and what `is_kept` raises.
    """
    compressed = np.flatnonzero(((rows["sys_flag"] & COMPRESSED) != 0) & ~left)
    if not len(compressed):
        yield piece, rows
        return
    rows = rows.copy()
    stays = np.ones(len(rows), np.bool_)
    bodies: list[bytes] = []
    size = done = 0
    for i in compressed.tolist():
        row = rows[i]
        try:
            body = _body(piece, row)
        except CorruptBodyError as e:
            stays[i] = is_kept(row, e)
            continue
        if bodies and size + len(body) > HELD_SIZE:
            yield b"".join((piece, *bodies)), rows[done:i][stays[done:i]]
            bodies, size, done = [], 0, i
        row["body_position"], row["body_size"] = len(piece) + size, len(body)
        row["sys_flag"] &= ~(COMPRESSED | COMPRESSION_MASK)
        bodies.append(body)
        size += len(body)
    yield b"".join((piece, *bodies)), rows[done:][stays[done:]]


def _body(piece: bytes | memoryview, row: Any) -> bytes:
    kind = compression_of(int(row["sys_flag"]))
    assert kind is not None
    start = int(row["body_position"])
    return decompress(bytes(piece[start : start + int(row["body_size"])]), kind)
