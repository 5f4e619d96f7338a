"""Where the log begins: `flightlog/log-start`, so that a lost oldest segment is not taken for an expired one.

    0   magic               8 bytes, FLSTART1
    8   physical offset     i64, big-endian: every segment from here on belongs to the log
    16  CRC32C of the above u32, big-endian

Invariants:
- Retention writes and syncs the new offset before it removes a segment, so the log never begins above the note. A crash
  in between leaves a segment below the note, which does no harm.
- A reader lists the segments first and reads the note afterwards; retention beside it then cannot look like a loss.
- The note binds only while no other program has written the store since: RocketMQ removes segments without telling.
- A store without a readable note opens as before; the next open for writing makes one.
"""

from __future__ import annotations

import struct
from pathlib import Path

from crc32c import crc32c

from ..disk.disk import Disk
from ..errors import DiskError
from .progress import FLIGHTLOG_FOLDER

LOG_START_FILE = "log-start"
MAGIC = b"FLSTART1"
BODY = struct.Struct(">8sq")
CRC = struct.Struct(">I")
SIZE = BODY.size + CRC.size
assert SIZE == 20  # within one sector: a power cut leaves the old note or the new one


def log_start_path(root: Path) -> Path:
    return root / FLIGHTLOG_FOLDER / LOG_START_FILE


def read_log_start(disk: Disk, root: Path) -> int | None:
    """Physical offset where the log begins; None without a whole note that can be read."""
    try:
        file = disk.open(log_start_path(root))
    except FileNotFoundError:
        return None
    try:
        raw = file.read(0, SIZE)
    except DiskError:
        return None  # as if missing: the next open for writing creates it again
    finally:
        file.close()
    if len(raw) < SIZE or crc32c(raw[: BODY.size]) != CRC.unpack_from(raw, BODY.size)[0]:
        return None
    magic, physical_offset = BODY.unpack_from(raw)
    return int(physical_offset) if magic == MAGIC and physical_offset >= 0 else None


def write_log_start(disk: Disk, root: Path, physical_offset: int) -> None:
    """Note it; durable when this returns. Raises DiskFullError, SyncFailedError, DiskError."""
    disk.make_folder(root / FLIGHTLOG_FOLDER)
    body = BODY.pack(MAGIC, physical_offset)
    file = disk.open(log_start_path(root), writable=True, create=True)
    try:
        is_new = file.size() != SIZE
        file.write(0, body + CRC.pack(crc32c(body)))  # in one piece, over an earlier note
        if is_new:
            file.resize(SIZE)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(root / FLIGHTLOG_FOLDER)
