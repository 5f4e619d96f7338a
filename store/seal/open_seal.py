"""The seal of the segment that is still being filled: `flightlog/open-seal`, a slot for each block of 1 MiB.

Slot i, 16 bytes, big-endian:

    0    covered bytes    u32   from the start of block i on
    4    CRC32C           u32   of these bytes
    8    check            u32   CRC32C of segment base (i64), block number, covered bytes and CRC (u32 each)
    12   0                u32

A slot speaks of bytes that a sync has made durable; nothing writes them a second time. So the file itself is never
synced: a slot that a power cut tore or took back covers fewer bytes, or none. Slots of an earlier segment fail their
check. When the segment is full its seal takes these CRCs over (seal.py), and the next segment takes the file.

The file binds only while flightlog wrote last: another program may have cut the segment and filled it again. Opening
for writing then removes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path

from crc32c import crc32c

from ..disk.disk import Disk
from ..errors import DiskError
from ..segments.segment import Segment
from ..state.progress import FLIGHTLOG_FOLDER
from .seal import BLOCK_SIZE, BlockCrcs

OPEN_SEAL_FILE = "open-seal"
ROUND_SIZE = 256 << 20
"""Bytes that one flush round reads at most: about 100 ms of CPU."""
SLOT = struct.Struct(">III4x")
CHECKED = struct.Struct(">qIII")
assert SLOT.size == 16


def open_seal_path(root: Path) -> Path:
    return root / FLIGHTLOG_FOLDER / OPEN_SEAL_FILE


def read_slots(disk: Disk, root: Path, segment: Segment) -> dict[int, tuple[int, int]]:
    """Block number -> (covered bytes, their CRC), as the file says of this segment; nothing if it cannot be read."""
    try:
        file = disk.open(open_seal_path(root))
        try:
            raw = file.read(0, -(-segment.size // BLOCK_SIZE) * SLOT.size)
        finally:
            file.close()
    except (FileNotFoundError, DiskError):
        return {}  # missing, or as good as that
    found = {}
    for block, (covered, crc, check) in enumerate(SLOT.iter_unpack(raw[: len(raw) - len(raw) % SLOT.size])):
        fits = 0 < covered <= min(BLOCK_SIZE, segment.size - block * BLOCK_SIZE)
        if fits and check == _check(segment, block, covered, crc):
            found[block] = covered, crc
    return found


def _check(segment: Segment, block: int, covered: int, crc: int) -> int:
    return crc32c(CHECKED.pack(segment.base, block, covered, crc))


def broken_blocks(segment: Segment, slots: dict[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """(position, CRC found) of the blocks whose covered bytes are not those that were put. Raises DiskError."""
    for block, (covered, crc) in slots.items():
        found = crc32c(segment.read(block * BLOCK_SIZE, covered))
        if found != crc:
            yield block * BLOCK_SIZE, found


def drop_stale_open_seal(disk: Disk, root: Path, segments: list[Segment], end: int, *, is_ours: bool) -> None:
    """Remove the file if another program wrote last, or if it speaks of bytes behind `end`. Raises DiskError."""
    if not disk.exists(open_seal_path(root)):
        return
    for segment in reversed(segments):
        slots = read_slots(disk, root, segment)
        if slots:
            last = max(slots)
            if is_ours and segment.base + last * BLOCK_SIZE + slots[last][0] <= end:
                return
            break
    disk.remove(open_seal_path(root))
    disk.sync_folder(root / FLIGHTLOG_FOLDER)


class OpenSeal:
    """The writer's side. Used by one thread at a time."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk, self._root = disk, root
        self._base = -1
        self._crcs = BlockCrcs()

    def crcs_of(self, segment: Segment) -> BlockCrcs:
        """What is known of this segment: from this session, else from the file."""
        if segment.base != self._base:
            slots = read_slots(self._disk, self._root, segment)
            leading = takewhile(lambda block: block in slots, count())
            self._crcs = BlockCrcs.resumed([slots[block] for block in leading])
            self._base = segment.base
        return self._crcs

    def cover(self, segment: Segment, stop: int) -> None:
        """Cover the segment up to position `stop`, below which every byte is durable, but no more than ROUND_SIZE
        bytes. Raises DiskError: then later calls cover what this one did not."""
        crcs = self.crcs_of(segment)
        stop = min(stop, crcs.position + ROUND_SIZE)
        first = crcs.position // BLOCK_SIZE
        if crcs.position >= stop:
            return
        while crcs.position < stop:
            size = min(stop, (crcs.position // BLOCK_SIZE + 1) * BLOCK_SIZE) - crcs.position
            crcs.feed(crcs.position, segment.read(crcs.position, size))
        slots = bytearray()
        for block in range(first, -(-stop // BLOCK_SIZE)):
            covered, crc = min(BLOCK_SIZE, stop - block * BLOCK_SIZE), crcs.crc_so_far(block)
            slots += SLOT.pack(covered, crc, _check(segment, block, covered, crc))
        self._base = -1  # what the file does not take is covered once more
        file = self._disk.open(open_seal_path(self._root), writable=True, create=True)
        try:
            file.write(first * SLOT.size, bytes(slots))
        finally:
            file.close()
        self._base = segment.base
