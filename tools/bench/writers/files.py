"""Plain files: references, not peers, because nothing of them can be found again.

raw loop         pwrite of the records of a call and, under sync, an fdatasync; the file has its blocks beforehand, as
                 a segment has
buffered file    Python's own buffered writing of the bodies and keys, under sync flushed and synced a call
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ....store.disk.allocate import allocate_blocks
from ..cases.workloads import record_size
from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import Row
from . import FILE
from .session import Session, parts


class RawLoop(Session):
    def __init__(self, path: Path, load: Load, size: int) -> None:
        self._load = load
        self._record_size = record_size(load.body_size)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, size)
        allocate_blocks(self._descriptor, 0, size)
        os.fsync(self._descriptor)
        self._at = 0

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return [bytes(len(part) * self._record_size) for part in parts(rows, self._load.batch)]

    def puts(self) -> Sequence[Put]:
        return [self._put_and_sync if self._load.sync else self._put] * self._load.threads

    def _put(self, records: bytes) -> None:
        at = self._at
        self._at = at + len(records)
        os.pwrite(self._descriptor, records, at)

    def _put_and_sync(self, records: bytes) -> None:
        self._put(records)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class BufferedFile(Session):
    def __init__(self, path: Path, load: Load) -> None:
        self._load = load
        self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - closed with the session

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        batches = parts(rows, self._load.batch)
        return [b"".join(row.key.encode() + row.body for row in batch) for batch in batches]

    def puts(self) -> Sequence[Put]:
        return [self._put_and_sync if self._load.sync else self._file.write] * self._load.threads

    def _put_and_sync(self, records: bytes) -> None:
        self._file.write(records)
        self._file.flush()
        os.fsync(self._file.fileno())

    def drain(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def open_session(writer: str, folder: Path, load: Load, size: int) -> RawLoop | BufferedFile:
    return BufferedFile(folder / "buffered", load) if writer == FILE else RawLoop(folder / "raw", load, size)
