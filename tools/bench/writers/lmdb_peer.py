"""lmdb: one transaction a call. Async: `sync=False`, `writemap=True`, what its documentation calls fastest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lmdb

from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import Row
from .key_value import Places
from .session import Session, parts

ROOM = 4
"""Its map must be larger than all that will ever be in it."""
MAP_SIZE_MIN = 1 << 30


class LmdbSession(Session):
    def __init__(self, path: Path, load: Load, size: int) -> None:
        self._load = load
        size = max(ROOM * size, MAP_SIZE_MIN)
        self._lmdb = lmdb.open(str(path), map_size=size, sync=load.sync, writemap=not load.sync, max_dbs=2)
        self._messages = self._lmdb.open_db(b"messages")
        self._keys = self._lmdb.open_db(b"keys", dupsort=True)
        self._places = Places()

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return parts(rows, self._load.batch)

    def puts(self) -> Sequence[Put]:
        return [self._put]

    def _put(self, rows: Sequence[Row]) -> None:
        with self._lmdb.begin(write=True) as transaction:
            for place, message, key in self._places.entries(rows):
                transaction.put(place, message, db=self._messages, append=False)
                transaction.put(key, place, db=self._keys)

    def close(self) -> None:
        self._lmdb.close()


def open_session(writer: str, folder: Path, load: Load, size: int) -> LmdbSession:
    return LmdbSession(folder / "lmdb", load, size)
