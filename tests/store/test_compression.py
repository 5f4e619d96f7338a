"""Compressed bodies: there and back, in pieces, with a limit, and what is no stream of its kind."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import flightlog
from flightlog import CompressionType, Message, StoreSettings
from flightlog.store.errors import CorruptBodyError, InvalidMessageError, MissingExtraError, UsageError
from flightlog.store.format.compression import compress, compression_of, decompress
from flightlog.tests.support import process

KINDS = list(CompressionType)
NOISE = random.Random(7).randbytes(300_000)
BODIES = [b"", b"a", b"order-1 created " * 4000, NOISE, bytes(5 << 20), NOISE + bytes(1 << 20) + NOISE]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BODIES, ids=len)
def test_there_and_back_with_the_limit_at_its_edge(kind: CompressionType, body: bytes) -> None:
    packed = compress(body, kind)
    assert decompress(packed, kind, len(body)) == body
    assert decompress(packed, kind) == body
    if body:
        with pytest.raises(CorruptBodyError, match=f"{kind.name} body.* more than the {len(body) - 1} bytes allowed"):
            decompress(packed, kind, len(body) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_not_unpacked(kind: CompressionType) -> None:
    bomb = compress(bytes(200 << 20), kind)
    assert len(bomb) < 1 << 20
    with pytest.raises(CorruptBodyError, match="bytes allowed"):
        decompress(bomb, kind)
    with pytest.raises(CorruptBodyError):
        decompress(bomb, kind, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_whole_stream(kind: CompressionType) -> None:
    packed = compress(BODIES[2], kind)
    for cut in (0, 1, 4, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBodyError, match=kind.name):
            decompress(packed[:cut], kind)
    for wrong in (b"no stream at all", b"\xff" * 100, b"\0" * 100, packed[:7] + b"\xa5" * 40 + packed[47:]):
        with pytest.raises(CorruptBodyError, match=kind.name):
            decompress(wrong, kind)
    with pytest.raises(UsageError, match="max_size=-1"):
        decompress(packed, kind, -1)


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_frames_one_after_another(kind: CompressionType) -> None:
    packed = compress(b"first", kind) + compress(b"second", kind)
    assert decompress(packed, kind, 11) == b"firstsecond"
    with pytest.raises(CorruptBodyError):
        decompress(packed, kind, 10)
    with pytest.raises(CorruptBodyError):
        decompress(packed + b"garbage behind the frames", kind)


def test_which_bits_mean_what() -> None:
    assert compression_of(0x700) is None  # bits without bit 0 mean nothing
    expected = {0x001: "ZLIB", 0x101: "LZ4", 0x201: "ZSTD", 0x301: "ZLIB"}
    assert {flags: kind.name for flags in expected if (kind := compression_of(flags))} == expected
    with pytest.raises(CorruptBodyError, match="compression type 5"):
        compression_of(0x501)


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_store(kind: CompressionType, tmp_path: Path) -> None:
    body = b"order created " * 500
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        store.put(Message("t", body, tags="a", compress=kind))
        store.put(Message("t", b"plain"))
        store.put(Message("t", b"no stream", sys_flag=kind.flags))
        packed = store.get("t", 0, 0).messages[0]
        assert packed.body == compress(body, kind) and packed.sys_flag == kind.flags and packed.tags == "a"
        assert packed.decompressed_body() == body
        with pytest.raises(CorruptBodyError):
            packed.decompressed_body(max_size=100)
        iterator = store.read("t", decompress=True)
        message = next(iterator)
        assert (message.body, message.sys_flag, message.size) == (body, 0, packed.size)
        assert message.decompressed_body() == body
        assert next(iterator).body == b"plain"
        with pytest.raises(CorruptBodyError):
            next(iterator)
        assert [m.body for m in store.read("t", decompress=True, on_corrupt="skip")] == [body, b"plain"]
        assert store.corrupt_skipped == 1
        assert store.verify().is_clean


def test_what_a_put_refuses(tmp_path: Path) -> None:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        with pytest.raises(InvalidMessageError, match="compressed already"):
            store.put(Message("t", zlib.compress(b"x"), sys_flag=1, compress=CompressionType.ZLIB))
        with pytest.raises(InvalidMessageError, match="CompressionType"):
            store.put(Message("t", b"x", compress="zlib"))  # type: ignore[arg-type]
        assert store.queues() == {}


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_without_the_extra(kind: CompressionType, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compress(b"x", kind)
    for name in ("lz4", "lz4.frame", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    for call, body in ((compress, b"x"), (decompress, packed)):
        with pytest.raises(MissingExtraError, match=rf"{kind.name} needs the extra .* 'flightlog\[compression\]'"):
            call(body, kind)
    assert decompress(compress(b"x", CompressionType.ZLIB), CompressionType.ZLIB) == b"x"


def test_the_libraries_are_imported_when_they_are_needed() -> None:
    program = (
        "import sys, flightlog; from flightlog.store.format.compression import *;"
        "compress(b'', CompressionType.ZLIB); assert not {'lz4', 'zstandard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=process.LIMIT_S)
