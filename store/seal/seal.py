"""A seal: what a full segment held when it was finished, in one small file beside the log.

`flightlog/seals/SEGMENT_NAME`, big-endian:

    0    magic               8 bytes, FLSEAL02
    8    segment base        i64
    16   segment size        i64
    24   end of the records  i64   position of the filler
    32   record count        i64
    40   first store time    i64   ms
    48   last store time     i64   ms
    56   block size          i32
    60   block count         i32
    64   boundary count      i32
    68   topic count         i32
    72   CRC32C of each block      u32 each, over every byte of the segment
    ...  record boundaries         i64 each: positions where a record starts, about one a block
    ...  store times               i64 least, i64 greatest, of the records from each boundary to the next one, in ms
    ...  topics                    u16 length, UTF-8, i64 record count
    ...  CRC32C of all the above   u32

A seal of FLSEAL01 is the same without the store times. (A clock can be set back under RocketMQ, so the times of the
first and the last record do not bound the others.)

RocketMQ's own CRC covers bodies only; a seal covers every byte, and gives readers places where a record surely starts.
A missing or stale seal is only a missed shortcut.
"""

from __future__ import annotations

import bisect
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from ..disk.disk import Disk
from ..errors import DiskError
from ..format.frame import WalkEnd
from ..log.log_reader import LogReader
from ..segments.segment import Segment, segment_base, segment_name
from ..state.progress import FLIGHTLOG_FOLDER

SEALS_FOLDER = "seals"
MAGIC_WITHOUT_TIMES, MAGIC = b"FLSEAL01", b"FLSEAL02"
HEADER = struct.Struct(">8s6q4i")
assert HEADER.size == 72
TOPIC_LENGTH = struct.Struct(">H")
TOPIC_COUNT = struct.Struct(">q")
TIMES = struct.Struct(">qq")
CRC = struct.Struct(">I")
BLOCK_SIZE = 1 << 20
TAIL_SIZE = 5 << 20
"""A filler is no longer than this where messages have 4 MiB at most, RocketMQ's default."""
SMALL_SIZE = 4096
"""A seal is at most this much longer than what it speaks of: a topic is longer in its record than in the seal."""


@dataclass(frozen=True)
class Seal:
    """One seal, decoded."""

    base: int
    segment_size: int
    records_end: int
    record_count: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    block_crcs: tuple[int, ...]
    boundaries: tuple[int, ...]
    """Positions in the segment, ascending; the first is 0."""
    topics: dict[str, int]
    """Records a topic, prepared and rollback ones included."""
    store_times_ms: tuple[tuple[int, int], ...] = ()
    """For each boundary, the least and the greatest of the records from there to the next; empty in an old seal."""

    def encode(self) -> bytes:
        parts = [
            HEADER.pack(
                MAGIC if self.store_times_ms else MAGIC_WITHOUT_TIMES,
                self.base,
                self.segment_size,
                self.records_end,
                self.record_count,
                self.first_store_timestamp_ms,
                self.last_store_timestamp_ms,
                BLOCK_SIZE,
                len(self.block_crcs),
                len(self.boundaries),
                len(self.topics),
            ),
            struct.pack(f">{len(self.block_crcs)}I", *self.block_crcs),
            struct.pack(f">{len(self.boundaries)}q", *self.boundaries),
            *(TIMES.pack(*times) for times in self.store_times_ms),
        ]
        for topic, count in self.topics.items():
            raw = topic.encode("utf-8", "surrogatepass")
            parts += [TOPIC_LENGTH.pack(len(raw)), raw, TOPIC_COUNT.pack(count)]
        body = b"".join(parts)
        return body + CRC.pack(crc32c(body))


def decode_seal(raw: bytes) -> Seal | None:
    """None for anything that is not a whole seal."""
    if len(raw) < HEADER.size + CRC.size or crc32c(raw[: -CRC.size]) != CRC.unpack(raw[-CRC.size :])[0]:
        return None
    magic, base, size, end, records, first, last, block_size, blocks, boundaries, topics = HEADER.unpack_from(raw)
    if magic not in (MAGIC, MAGIC_WITHOUT_TIMES) or block_size != BLOCK_SIZE:
        return None
    at = HEADER.size
    try:
        block_crcs = struct.unpack_from(f">{blocks}I", raw, at)
        at += 4 * blocks
        places = struct.unpack_from(f">{boundaries}q", raw, at)
        at += 8 * boundaries
        times: list[tuple[int, int]] = []
        for _ in range(boundaries if magic == MAGIC else 0):
            least, greatest = TIMES.unpack_from(raw, at)
            times.append((least, greatest))
            at += TIMES.size
        counts: dict[str, int] = {}
        for _ in range(topics):
            (length,) = TOPIC_LENGTH.unpack_from(raw, at)
            at += TOPIC_LENGTH.size
            topic = raw[at : at + length].decode("utf-8", "replace")
            at += length
            (counts[topic],) = TOPIC_COUNT.unpack_from(raw, at)
            at += TOPIC_COUNT.size
    except struct.error:
        return None
    if at != len(raw) - CRC.size or any(after <= before for before, after in pairwise((-1, *places))):
        return None
    return Seal(base, size, end, records, first, last, block_crcs, places, counts, tuple(times))


def seal_path(root: Path, base: int) -> Path:
    return root / FLIGHTLOG_FOLDER / SEALS_FOLDER / segment_name(base)


def read_seal(disk: Disk, root: Path, segment: Segment) -> Seal | None:
    """The segment's seal, or None if it is missing, cannot be read, is damaged or another segment's."""
    try:
        file = disk.open(seal_path(root, segment.base))
    except FileNotFoundError:
        return None
    try:
        seal = decode_seal(file.read(0, min(file.size(), segment.size + SMALL_SIZE)))
    except DiskError:
        return None  # as if missing: sealing writes it again
    finally:
        file.close()
    return seal if seal and (seal.base, seal.segment_size) == (segment.base, segment.size) else None


def make_seal(reader: LogReader, segment: Segment, known: BlockCrcs | None = None) -> Seal | None:
    """Read a full segment and describe it; None if it does not end in a filler as a full segment does. `known` are the
    CRCs of those blocks that were computed while it was filled."""
    known = known or BlockCrcs()
    crcs = [known.crc_of(segment, i) for i in range(-(-segment.size // BLOCK_SIZE))]
    topics: Counter[bytes] = Counter()
    boundaries: list[int] = []
    store_times: list[tuple[int, int]] = []
    records = first = last = 0
    scan = reader.scan(segment, 0, segment.size, check_crc=False, mapped=False)
    for piece, rows in scan:
        if not records:
            first = int(rows["store_timestamp_ms"][0])
        last = int(rows["store_timestamp_ms"][-1])
        records += len(rows)
        positions = rows["physical_offset"] - segment.base
        starts = np.flatnonzero(
            np.diff(positions // BLOCK_SIZE, prepend=boundaries[-1] // BLOCK_SIZE if boundaries else -1)
        )
        boundaries += positions[starts].tolist()
        _add_times(store_times, rows["store_timestamp_ms"], starts)
        for at, size in zip(rows["topic_position"].tolist(), rows["topic_size"].tolist(), strict=True):
            topics[bytes(piece[at : at + size])] += 1
    if scan.end is not WalkEnd.BLANK:
        return None
    names = {topic.decode("utf-8", "replace"): count for topic, count in topics.items()}
    return Seal(
        *(segment.base, segment.size, scan.position, records, first, last),
        *(tuple(crcs), tuple(boundaries), names, tuple(store_times)),
    )


def _add_times(found: list[tuple[int, int]], times_ms: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    """Bring `found` up to these records, some of which are boundaries; those before the first one go to the last of
    `found`."""
    groups = starts if len(starts) and starts[0] == 0 else np.concatenate([np.zeros(1, np.int64), starts])
    least, greatest = np.minimum.reduceat(times_ms, groups), np.maximum.reduceat(times_ms, groups)
    pairs: list[tuple[int, int]] = list(zip(least.tolist(), greatest.tolist(), strict=True))
    if len(pairs) > len(starts):
        before, here = found.pop(), pairs.pop(0)
        found.append((min(before[0], here[0]), max(before[1], here[1])))
    found += pairs


def seal_fits(reader: LogReader, segment: Segment, seal: Seal) -> bool:
    """Whether a segment still ends as it did when it was sealed, seen from its last boundary before `TAIL_SIZE` on.

    To be asked where another program may have cut the segment and filled it again. It reads a few blocks; whether
    every byte is as it was, `broken_blocks` tells.
    """
    if not seal.boundaries:
        return False
    last = -1
    # Not from the last boundary of all: behind the new filler the old records may still lie.
    place = bisect.bisect_right(seal.boundaries, max(segment.size - TAIL_SIZE, 0)) - 1
    scan = reader.scan(segment, seal.boundaries[max(place, 0)], segment.size, check_crc=False, mapped=False)
    for _, rows in scan:
        last = int(rows["store_timestamp_ms"][-1])
    ends_alike = (scan.end, scan.position) == (WalkEnd.BLANK, seal.records_end)
    return ends_alike and last == seal.last_store_timestamp_ms


def drop_stale_seals(disk: Disk, root: Path, reader: LogReader, end: int) -> list[str]:
    """Remove the seals of segments that are not full, or not those that were sealed; returns what was done in words."""
    segments = {segment.base: segment for segment in reader.segments}
    dropped: list[str] = []
    folder = root / FLIGHTLOG_FOLDER / SEALS_FOLDER
    for entry in disk.list(folder):
        base = segment_base(entry.name)
        if base is None:
            continue
        segment = segments.get(base)
        seal = None if segment is None or segment.end > end else read_seal(disk, root, segment)
        if segment is None or seal is None or not seal_fits(reader, segment, seal):
            disk.remove(folder / entry.name)
            dropped.append(f"removed the seal of segment {entry.name}, which is not what was sealed")
    if dropped:
        disk.sync_folder(folder)
    return dropped


def drop_seals_below(disk: Disk, root: Path, physical_offset: int) -> list[Path]:
    """Remove the seals of segments that start before this; returns what was removed."""
    dropped: list[Path] = []
    folder = root / FLIGHTLOG_FOLDER / SEALS_FOLDER
    for entry in disk.list(folder):
        base = segment_base(entry.name)
        if base is not None and base < physical_offset:
            disk.remove(folder / entry.name)
            dropped.append(folder / entry.name)
    return dropped


def write_seal(disk: Disk, root: Path, seal: Seal) -> None:
    """Put the seal in place at once: temporary file, sync, rename, sync of the folder."""
    path = seal_path(root, seal.base)
    disk.make_folder(path.parent)
    temporary = path.with_name(path.name + ".tmp")
    file = disk.open(temporary, writable=True, create=True)
    try:
        raw = seal.encode()
        file.resize(len(raw))
        file.write(0, raw)
        file.sync()
    except DiskError:
        disk.remove(temporary)
        raise
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)


class BlockCrcs:
    """CRC32C of a segment's blocks, of its bytes as they come by: who reads them anyway need not read them twice."""

    def __init__(self) -> None:
        self._crcs: list[int] = []
        self._position = self._crc = 0

    @classmethod
    def resumed(cls, blocks: Sequence[tuple[int, int]]) -> BlockCrcs:
        """Goes on behind leading blocks: of each the bytes that came by, and their CRC; only the last may lack some."""
        made = cls()
        for size, crc in blocks:
            made._position += size
            if size == BLOCK_SIZE:
                made._crcs.append(crc)
            else:
                made._crc = crc
                break
        return made

    @property
    def position(self) -> int:
        """Up to where bytes have come by."""
        return self._position

    def crc_so_far(self, i: int) -> int:
        """The CRC of those bytes of block `i` that have come by."""
        return self._crcs[i] if i < len(self._crcs) else self._crc

    def feed(self, position: int, piece: bytes | memoryview) -> None:
        """The bytes from `position` on come next; those of them that came before count once."""
        assert position <= self._position
        view = memoryview(piece)[self._position - position :]
        while len(view):
            part = view[: BLOCK_SIZE - self._position % BLOCK_SIZE]
            self._crc = crc32c(part, self._crc)
            self._position += len(part)
            if self._position % BLOCK_SIZE == 0:
                self._crcs.append(self._crc)
                self._crc = 0
            view = view[len(part) :]

    def broken_blocks(self, segment: Segment, seal: Seal) -> list[int]:
        """Positions of the blocks whose bytes are not those that were sealed; what has not come by is read."""
        return [i * BLOCK_SIZE for i, crc in enumerate(seal.block_crcs) if self.crc_of(segment, i) != crc]

    def crc_of(self, segment: Segment, i: int) -> int:
        """The CRC of block `i`."""
        if i < len(self._crcs):
            return self._crcs[i]
        start, stop, crc = i * BLOCK_SIZE, min((i + 1) * BLOCK_SIZE, segment.size), 0
        if start < self._position:
            start, crc = self._position, self._crc
        return crc32c(segment.read(start, stop - start), crc)


def broken_blocks(segment: Segment, seal: Seal) -> list[int]:
    """Positions of the blocks whose bytes are not those that were sealed."""
    return BlockCrcs().broken_blocks(segment, seal)
