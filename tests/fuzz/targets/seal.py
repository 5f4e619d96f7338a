"""Seals. A right CRC is put behind every input, too: else none would come past it."""

from __future__ import annotations

from crc32c import crc32c

from flightlog.store.disk.disk import RealDisk
from flightlog.store.log.log_reader import LogReader
from flightlog.store.seal.seal import CRC, Seal, broken_blocks, decode_seal, read_seal, seal_fits, seal_path
from flightlog.store.segments.segment import Segment
from flightlog.tests.support import scratch

SEGMENT_SIZE = 4096


def one(data: bytes) -> None:
    for raw in (data, data + CRC.pack(crc32c(data))):
        seal = decode_seal(raw)
        if seal is None:
            continue
        assert len(seal.block_crcs) * 4 + len(seal.boundaries) * 8 <= len(raw)
        assert decode_seal(seal.encode()) == seal
        _use(raw)


def _use(raw: bytes) -> None:
    name = "commitlog/00000000000000000000"
    root = scratch.fill(
        {str(seal_path(scratch.scratch_folder(), 0).relative_to(scratch.scratch_folder())): raw, name: b""}
    )
    (root / name).write_bytes(bytes(SEGMENT_SIZE))
    segment = Segment(RealDisk(), root / name, 0, SEGMENT_SIZE)
    try:
        seal = read_seal(RealDisk(), root, segment)
        if seal is not None:
            assert (seal.base, seal.segment_size) == (0, SEGMENT_SIZE)
            reader = LogReader.__new__(LogReader)
            reader._closed, reader.check_crc_property = False, False
            assert not seal_fits(reader, segment, seal), "nothing is in the segment"
            assert all(0 <= place < SEGMENT_SIZE for place in broken_blocks(segment, seal))
    finally:
        segment.close()


def seeds() -> list[bytes]:
    seal = Seal(0, SEGMENT_SIZE, 4000, 12, 1, 2, (crc32c(bytes(SEGMENT_SIZE)),), (0, 2000), {"orders": 7, "ü": 5})
    return [seal.encode()[: -CRC.size], seal.encode(), Seal(4096, 4096, 4000, 0, 0, 0, (), (), {}).encode()]
