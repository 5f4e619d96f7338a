"""What the machine can do at best: references, not peers, because nothing of them can be found again.

memcpy           copies of the same number of bytes into a mapped file, all of whose pages are there and dirty
fresh pages      the same; the file has its blocks, none of its pages has been touched: each must be faulted in
raw loop         pwrite of the records of a call and, under sync, an fdatasync; the file has its blocks beforehand, as
                 a segment has
nothing          a call that does nothing: at a fixed rate, what the loop and other programs cost alone
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....store.disk.allocate import allocate_blocks
from ..case import MEMCPY, NOTHING, RAW_LOOP, Case
from ..messages import Row, parts
from .session import Session


class Memory(Session):
    def __init__(self, path: Path, case: Case, size: int) -> None:
        super().__init__(case)
        with open(path, "wb+") as file:
            file.truncate(size)
            allocate_blocks(file.fileno(), 0, size)
            os.fsync(file.fileno())
            self._map = mmap.mmap(file.fileno(), size)
        self._target = np.frombuffer(self._map, np.uint8)
        if case.who == MEMCPY:
            self._target.fill(1)
        self._at = 0

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        source = np.full(self._case.record_size * self._case.batch, 0x5A, np.uint8)
        return [source[: len(part) * self._case.record_size] for part in parts(rows, self._case.batch)]

    def put(self, source: np.ndarray) -> None:
        end = self._at + len(source)
        self._target[self._at : end] = source
        self._at = end

    def close(self) -> None:
        del self._target
        self._map.close()


class RawLoop(Session):
    def __init__(self, path: Path, case: Case, size: int) -> None:
        super().__init__(case)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._descriptor, size)
        allocate_blocks(self._descriptor, 0, size)
        os.fsync(self._descriptor)
        self._at = 0

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return [bytes(len(part) * self._case.record_size) for part in parts(rows, self._case.batch)]

    def put(self, records: bytes) -> None:
        at = self._at
        self._at = at + len(records)
        os.pwrite(self._descriptor, records, at)
        if self._case.sync:
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Nothing(Session):
    def put(self, unit: object) -> None:
        pass


def open_session(folder: Path, case: Case, size: int) -> Session:
    if case.who == NOTHING:
        return Nothing(case)
    return (RawLoop if case.who == RAW_LOOP else Memory)(folder / "file", case, size)
