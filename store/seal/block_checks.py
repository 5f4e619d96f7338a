"""Whether bytes of the log are still what was put: a reader's look at seals, block by block.

RocketMQ's CRC covers a record's body alone. A seal, and the open segment's below the durable mark, covers every byte;
to ask it for one record costs the reading of the block's covered bytes, 1 MiB at most, once for each block, and again
for a block that has grown since. Behind what is covered a read costs a look into the seal each time.
"""

from __future__ import annotations

from pathlib import Path

from crc32c import crc32c

from ..disk.disk import Disk
from ..segments.segment import Segment
from .open_seal import read_slots
from .seal import BLOCK_SIZE, Seal, read_seal


class BlockChecks:
    """Block checks of one reader of a store that flightlog wrote last. Thread-safe."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk, self._root = disk, root
        self._seals: dict[int, Seal] = {}
        self._looked: dict[int, tuple[int, bool]] = {}
        """By a block's physical offset: how many of its bytes were looked at, and whether they are sound."""

    def first_broken(self, segment: Segment, position: int, size: int) -> int | None:
        """Position of the first block of these bytes that is not as it was sealed. What no seal covers passes, and what
        was sound when it was first looked at. Raises DiskError."""
        for start in range(position - position % BLOCK_SIZE, position + size, BLOCK_SIZE):
            looked, is_sound = self._looked.get(segment.base + start, (0, True))
            if looked < min(position + size - start, BLOCK_SIZE):
                looked, is_sound = self._look(segment, start, looked, is_sound)
                self._looked[segment.base + start] = looked, is_sound
            if not is_sound:
                return start
        return None

    def _look(self, segment: Segment, start: int, looked: int, was_sound: bool) -> tuple[int, bool]:
        """How much of a block is covered now, and whether that is sound; what covers no more than before is not read
        a second time."""
        block = start // BLOCK_SIZE
        seal = self._seals.get(segment.base) or read_seal(self._disk, self._root, segment)
        if seal is not None:
            self._seals[segment.base] = seal
            covered, crc = min(BLOCK_SIZE, segment.size - start), seal.block_crcs[block]
        else:
            covered, crc = read_slots(self._disk, self._root, segment).get(block, (0, 0))
        if covered <= looked:
            return looked, was_sound
        return covered, crc32c(segment.read(start, covered)) == crc
