"""rocksdict (RocksDB): one write batch a call, through its write-ahead log; synced a call under sync."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch, WriteOptions

from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import Row
from .key_value import Places
from .session import Session, parts


class RocksSession(Session):
    def __init__(self, path: Path, load: Load) -> None:
        self._load = load
        self._rocks = Rdict(str(path), Options(raw_mode=True))
        self._options = WriteOptions()
        self._options.sync = load.sync
        self._places = Places()

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return parts(rows, self._load.batch)

    def puts(self) -> Sequence[Put]:
        return [self._put]

    def _put(self, rows: Sequence[Row]) -> None:
        batch = WriteBatch(raw_mode=True)
        for place, message, key in self._places.entries(rows):
            batch[place] = message
            batch[key] = place
        self._rocks.write(batch, write_opt=self._options)

    def close(self) -> None:
        self._rocks.close()


def open_session(writer: str, folder: Path, load: Load, size: int) -> RocksSession:
    return RocksSession(folder / "rocks", load)
