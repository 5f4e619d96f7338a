"""Compressed bodies: what the compression bits of a record's `sysFlag` stand for.

    bit 0   bits 8-10   the body is
    0                   as it is
    1       0 or 3      one zlib stream
    1       1           LZ4 frames
    1       2           zstd frames

RocketMQ's producers compress bodies of 4 KiB or more (zlib unless told otherwise); its store never looks. zlib is
Python's own, the other two need the extra `compression`.

(RocketMQ's `MessageSysFlag`, `CompressionType`, `ZlibCompressor`, `Lz4Compressor` and `ZstdCompressor`.)
"""

from __future__ import annotations

import enum
import zlib
from importlib import import_module
from typing import Any

from ..errors import CorruptBodyError, MissingExtraError, UsageError
from .sys_flag import COMPRESSED, COMPRESSION_MASK

MAX_DECOMPRESSED_SIZE = 64 << 20
"""Default limit of a decompressed body in bytes: a few kilobytes can expand to gigabytes."""
ZLIB_LEVEL = 5
"""The level of RocketMQ's producers."""


class CompressionType(enum.Enum):
    """How a body is compressed; the value is the bits of `sysFlag`."""

    ZLIB = 0x300
    LZ4 = 0x100
    ZSTD = 0x200

    @property
    def flags(self) -> int:
        """The bits of `sysFlag` for a body compressed this way."""
        return COMPRESSED | self.value


def compression_of(sys_flag: int) -> CompressionType | None:
    """How the body of a record is compressed; None if it is not. Raises CorruptBodyError for bits without a meaning."""
    if not sys_flag & COMPRESSED:
        return None
    bits = sys_flag & COMPRESSION_MASK
    try:
        return CompressionType(bits) if bits else CompressionType.ZLIB
    except ValueError:
        raise CorruptBodyError(f"sys_flag {sys_flag:#x} names compression type {bits >> 8}; expected 0 to 3") from None


def compress(body: bytes, kind: CompressionType) -> bytes:
    """Compress a body so that RocketMQ's clients can decompress it. Raises MissingExtraError."""
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, ZLIB_LEVEL)
    if kind is CompressionType.LZ4:
        # RocketMQ's LZ4 library refuses frames whose blocks depend on each other.
        raw: bytes = _library("lz4.frame", kind).compress(body, block_linked=False)
        return raw
    raw = _library("zstandard", kind).ZstdCompressor().compress(body)
    return raw


def decompress(body: bytes, kind: CompressionType, max_size: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """Decompress a body; never produces more than `max_size` bytes.

    Raises CorruptBodyError if the body is not one whole stream of this kind, or would be larger, MissingExtraError, and
    UsageError for a `max_size` below 0.
    """
    if max_size < 0:
        raise UsageError(f"max_size={max_size}: expected 0 or more")
    make, error = _DECOMPRESSORS[kind](kind)
    found = bytearray()
    rest = body
    try:
        while True:
            stream = make()
            # Ask for one byte more than allowed, to detect a larger body; 0 would mean "no limit".
            found += stream.decompress(rest, max_size + 1 - len(found))
            if len(found) > max_size:
                raise CorruptBodyError(
                    f"a {kind.name} body of {len(body)} bytes becomes more than the {max_size} bytes allowed (max_size)"
                )
            if not stream.eof:
                raise CorruptBodyError(f"a {kind.name} body of {len(body)} bytes ends in the middle of its stream")
            rest = stream.unused_data
            if not rest or kind is CompressionType.ZLIB:  # RocketMQ ignores bytes behind a zlib stream
                return bytes(found)
    except error as e:
        raise CorruptBodyError(f"a body of {len(body)} bytes is no {kind.name} stream: {e}") from e


class _ZstdStream:
    """Decompress one zstd frame. The library's streams have no output limit, so it gets small pieces, whose output is
    bounded: a block of 4 bytes expands to 128 KiB at most."""

    PIECE_SIZE = 256

    def __init__(self, library: Any) -> None:
        self._stream = library.ZstdDecompressor().decompressobj()
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    def decompress(self, data: bytes, max_size: int) -> bytes:
        found = bytearray()
        at = 0
        while at < len(data) and len(found) < max_size and not self.eof:
            found += self._stream.decompress(data[at : at + self.PIECE_SIZE])
            at += self.PIECE_SIZE
        self.unused_data = self._stream.unused_data + data[at:]
        return bytes(found[:max_size])


def _library(name: str, kind: CompressionType) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as e:
        raise MissingExtraError("compression", f"a body compressed by {kind.name}") from e


def _zlib(_: CompressionType) -> tuple[Any, type[Exception]]:
    return zlib.decompressobj, zlib.error


def _lz4(kind: CompressionType) -> tuple[Any, type[Exception]]:
    return _library("lz4.frame", kind).LZ4FrameDecompressor, RuntimeError


def _zstd(kind: CompressionType) -> tuple[Any, type[Exception]]:
    library = _library("zstandard", kind)
    return lambda: _ZstdStream(library), library.ZstdError


_DECOMPRESSORS = {CompressionType.ZLIB: _zlib, CompressionType.LZ4: _lz4, CompressionType.ZSTD: _zstd}
