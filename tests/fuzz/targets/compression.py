"""Compressed bodies. The first byte chooses the flags, the others are the body."""

from __future__ import annotations

import zlib

from flightlog.store.errors import CorruptBodyError
from flightlog.store.format.compression import CompressionType, compress, compression_of, decompress

LIMIT = 1 << 16


def one(data: bytes) -> None:
    flags, body = data[0] if data else 0, data[1:]
    try:
        kind = compression_of((flags & 7) << 8 | flags >> 7)
    except CorruptBodyError:
        assert flags & 7 > 3
        return
    if kind is None:
        return
    assert decompress(compress(body, kind), kind, len(body)) == body
    try:
        found = decompress(body, kind, LIMIT)
    except CorruptBodyError:
        found = None
    assert found is None or len(found) <= LIMIT
    if kind is CompressionType.ZLIB:
        assert found == _plain(body)


def _plain(body: bytes) -> bytes | None:
    """What Python's own reader makes of a zlib stream that ends and keeps to the limit."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body, LIMIT + 1)
    except zlib.error:
        return None
    return found if stream.eof and len(found) <= LIMIT else None


def seeds() -> list[bytes]:
    bodies = (b"", b"hello hello hello", bytes(100_000))
    made = [(0x80 | kind.value >> 8, compress(body, kind)) for kind in CompressionType for body in bodies]
    return [bytes([flags]) + body for flags, body in made] + [bytes([flags]) + body * 2 for flags, body in made[3:8]]
