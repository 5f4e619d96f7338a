"""RocketMQ's `checkpoint`: up to which store time the log, the queues and the index were flushed.

    at   word                     width
    0    physicMsgTimestamp       i64  ms   the commit log
    8    logicsMsgTimestamp       i64  ms   the consume queues
    16   indexMsgTimestamp        i64  ms   the last full index file
    24   masterFlushedOffset      i64       replication (5.x)
    32   confirmPhyOffset         i64       (5.x)
    40   zeros to 4096

RocketMQ 4.9 uses the first three words. A process halted in its first second leaves 4096 zero bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from ..disk.disk import Disk
from ..settings import PAGE_SIZE

CHECKPOINT_FILE = "checkpoint"
WORDS = 5
CHECKPOINT = struct.Struct(f">{WORDS}q")
assert CHECKPOINT.size == 40

RECOVERY_MARGIN_MS = 3000
"""RocketMQ distrusts this much before the earlier of the two flush times."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The five words."""

    physic_timestamp_ms: int = 0
    logics_timestamp_ms: int = 0
    index_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0

    @property
    def min_timestamp_ms(self) -> int:
        """Everything stored before this time was flushed, log and queues."""
        return max(0, min(self.physic_timestamp_ms, self.logics_timestamp_ms) - RECOVERY_MARGIN_MS)

    @property
    def words(self) -> tuple[int, ...]:
        return (
            self.physic_timestamp_ms,
            self.logics_timestamp_ms,
            self.index_timestamp_ms,
            self.master_flushed_offset,
            self.confirm_physical_offset,
        )

    def encode(self) -> bytes:
        """The whole file: 4096 bytes."""
        return CHECKPOINT.pack(*self.words).ljust(PAGE_SIZE, b"\0")


def decode_checkpoint(raw: bytes) -> Checkpoint | None:
    """None where the file is too short to hold the words; recovery then trusts nothing that it would have said."""
    return Checkpoint(*CHECKPOINT.unpack_from(raw)) if len(raw) >= CHECKPOINT.size else None


def read_checkpoint(disk: Disk, root: Path) -> Checkpoint | None:
    """The checkpoint of the store at `root`; None if it is missing or truncated."""
    try:
        file = disk.open(root / CHECKPOINT_FILE)
    except FileNotFoundError:
        return None
    try:
        return decode_checkpoint(file.read(0, PAGE_SIZE))
    finally:
        file.close()


def write_checkpoint(disk: Disk, root: Path, checkpoint: Checkpoint) -> None:
    """Overwrite the page in place, as RocketMQ does, and sync it: 40 bytes within one sector tear nothing."""
    path = root / CHECKPOINT_FILE
    is_new = not disk.exists(path)
    file = disk.open(path, writable=True, create=True)
    try:
        file.write(0, checkpoint.encode())
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(root)
