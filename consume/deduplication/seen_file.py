"""The file of a deduplication window: notes of ids, appended.

    FOLDER/seen       a header, then records
    FOLDER/seen.tmp   the next `seen`, until it is complete and synced

A record has 32 bytes, little-endian, so that none crosses a sector:

    0  CRC-32 of the rest   4
    4  kind                 4    1 seen, 2 forgotten
    8  time of the note     8    ms since 1970
    16 BLAKE2b of the id    16

What a power cut leaves of records that were not synced is any of their sectors, so that one that does not check says
nothing about those behind it: it is left out, with a warning.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import DamagedStoreError, FileGoneError, SyncFailedError

log = logging.getLogger("flightlog.consume")

FILE, NEXT_FILE = "seen", "seen.tmp"
HEADER: Final = b"flightlog seen ids, format 1\n".ljust(32, b"\0")
CHECKED = struct.Struct("<Iq16s")
RECORD = struct.Struct("<IIq16s")
assert len(HEADER) == RECORD.size == 32
SEEN, FORGOTTEN = 1, 2


class Note(NamedTuple):
    """An id was seen, or forgotten."""

    kind: int
    time_ms: int
    digest: bytes


def digest_of(id: bytes) -> bytes:
    return hashlib.blake2b(id, digest_size=16).digest()


class SeenFile:
    """Appends and rewrites by one thread at a time; a sync may run beside appends."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk, self.path = disk, folder / FILE
        self._file: DiskFile | None = None
        self.count = 0
        """Records."""
        self.failure: BaseException | None = None
        """Failure of a sync, or of a rewrite that may have replaced the file: what was written since may be lost."""

    def read(self) -> Iterator[Note]:
        """The records that check, the oldest first. Raises DamagedStoreError if this is another kind of file."""
        try:
            file = self._disk.open(self.path)
        except FileGoneError:
            return
        try:
            content = file.read(0, file.size())
        finally:
            file.close()
        if content[: len(HEADER)] != HEADER:
            raise DamagedStoreError(
                f"{self.path}: found {content[:32]!r}, expected the ids of a DeduplicationWindow. Restore the file, or "
                "remove it: every id is new then"
            )
        stop = len(content) // RECORD.size * RECORD.size
        left_out = len(content) - stop
        for crc, *fields in RECORD.iter_unpack(memoryview(content)[len(HEADER) : stop]):
            if crc == zlib.crc32(CHECKED.pack(*fields)):
                yield Note(*fields)
            else:
                left_out += RECORD.size
        if left_out:
            path = str(self.path)
            log.warning("%s: left out %d bytes that are no whole records", path, left_out, extra={"path": path})

    def rewrite(self, notes: Iterable[Note]) -> None:
        """Replace the file by these notes; durable when this returns. An error before the new file has the name leaves
        the old one in use."""
        folder, new = self.path.parent, self.path.with_name(NEXT_FILE)
        records = [_packed(note) for note in notes]
        file = self._disk.open(new, writable=True, create=True)
        try:
            file.resize(0)  # what an interrupted rewrite left there
            file.write(0, HEADER + b"".join(records))
            file.sync()
        finally:
            file.close()
        try:
            self._disk.rename(new, self.path)
            self._disk.sync_folder(folder)
            self.close()
            self._file = self._disk.open(self.path, writable=True)
        except BaseException as e:  # either of the two files may have the name after a crash
            self.failure = e
            raise
        self.count = len(records)

    def append(self, note: Note) -> None:
        """Durable after `sync`. After an error the next one takes its place."""
        assert self._file is not None
        self._file.write(len(HEADER) + self.count * RECORD.size, _packed(note))
        self.count += 1

    def sync(self) -> None:
        assert self._file is not None
        try:
            self._file.sync()
        except SyncFailedError as e:
            self.failure = e
            raise

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _packed(note: Note) -> bytes:
    return RECORD.pack(zlib.crc32(CHECKED.pack(*note)), *note)
