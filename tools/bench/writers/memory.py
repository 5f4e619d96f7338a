"""What memory allows: copies of the same number of bytes into a mapped file, a record a call or a batch a call.

memcpy         every page of the mapping is there and dirty
fresh pages    the file has its blocks, none of its pages has been touched: each must be faulted in
nothing        a call that does nothing: at a fixed rate, what the loop and other programs cost alone
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....store.disk.allocate import allocate_blocks
from ..cases.workloads import record_size
from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import Row
from . import MEMCPY, NOTHING
from .session import Session, parts


class MemorySession(Session):
    def __init__(self, path: Path, load: Load, size: int, *, warm: bool) -> None:
        self._load = load
        self._record_size = record_size(load.body_size)
        with open(path, "wb+") as file:
            file.truncate(size)
            allocate_blocks(file.fileno(), 0, size)
            os.fsync(file.fileno())
            self._map = mmap.mmap(file.fileno(), size)
        self._target = np.frombuffer(self._map, np.uint8)
        if warm:
            self._target.fill(1)
        self._at = 0

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        source = np.full(self._record_size * self._load.batch, 0x5A, np.uint8)
        return [source[: len(part) * self._record_size] for part in parts(rows, self._load.batch)]

    def puts(self) -> Sequence[Put]:
        return [self._copy] * self._load.threads

    def _copy(self, source: np.ndarray) -> None:
        end = self._at + len(source)
        self._target[self._at : end] = source
        self._at = end

    def close(self) -> None:
        del self._target
        self._map.close()


class NothingSession(Session):
    def __init__(self, load: Load) -> None:
        self._load = load

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return parts(rows, self._load.batch)

    def puts(self) -> Sequence[Put]:
        return [len] * self._load.threads

    def close(self) -> None:
        pass


def open_session(writer: str, folder: Path, load: Load, size: int) -> Session:
    if writer == NOTHING:
        return NothingSession(load)
    return MemorySession(folder / "mapped", load, size, warm=writer == MEMCPY)
