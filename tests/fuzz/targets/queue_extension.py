"""A queue's extension: two files with anything in them, and addresses that lead anywhere."""

from __future__ import annotations

import numpy as np

from flightlog.index.queue.queue_extension import ADDRESS_BASE, HEAD, QueueExtension
from flightlog.index.queue.queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_DTYPE
from flightlog.store.segments.segment import segment_name
from flightlog.tests.support import limited_disk, scratch

limited = limited_disk

FILE_SIZE = 120


def one(data: bytes) -> None:
    """Eight bytes a tags code, then the files."""
    codes, *files = scratch.split(data, 3)
    names = [segment_name(i * FILE_SIZE) for i in range(2)]
    root = scratch.fill({f"x/{name}": part for name, part in zip(names, files, strict=True) if part})
    extension = QueueExtension(limited.LimitedDisk(2000, 1 << 20, 1 << 12), root / "x", FILE_SIZE)
    units = np.zeros(len(codes) // 8, UNIT_DTYPE)
    units["tags_code"] = np.frombuffer(codes, ">i8", len(units))
    resolved = extension.resolved(units)
    for before, after in zip(units["tags_code"].tolist(), resolved["tags_code"].tolist(), strict=True):
        unit = extension.unit(before)
        assert after == (before if unit is None else unit.tags_code)
        assert unit is None or (before <= HIGHEST_EXTENSION_ADDRESS < after and unit.size >= HEAD.size)
        if -(1 << 63) <= before - ADDRESS_BASE < 1 << 62:
            extension.begin_behind(before if before <= HIGHEST_EXTENSION_ADDRESS else None)
            assert extension.end is not None and extension.end >= 0
    extension.expire(ADDRESS_BASE + FILE_SIZE)
    extension.begin_behind(None)
    put = np.array([(0, 100, 7), (100, 100, -8), (200, 100, 1 << 40)] * 3, UNIT_DTYPE)
    addressed = extension.put(put, np.arange(len(put), dtype=np.int64))
    assert extension.resolved(addressed).tolist() == put.tolist()


def seeds() -> list[bytes]:
    heads = [HEAD.pack(HEAD.size, tags_code, 17, 0) for tags_code in (1, -5, 1 << 40, 4, 9)]
    mapped = HEAD.pack(HEAD.size + 8, 77, 17, 8) + bytes(8)
    file = (b"".join(heads[:3]) + mapped + b"\xff\xff").ljust(FILE_SIZE, b"\0")
    places = [ADDRESS_BASE + place for place in (0, 20, 40, 60, FILE_SIZE, FILE_SIZE + 20, 5 * FILE_SIZE, 119)]
    codes = b"".join(value.to_bytes(8, "big", signed=True) for value in (*places, 5, HIGHEST_EXTENSION_ADDRESS))
    return [scratch.join(codes, file, b"".join(heads).ljust(FILE_SIZE, b"\0")), scratch.join(codes, file, b"")]
