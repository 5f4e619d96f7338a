"""Message stores on top of a database: one entry for the message by queue and offset, one for its key; a transaction a
call.

sqlite3      a table with an index by key, write-ahead log. `synchronous` is FULL under sync; NORMAL else, which
             survives a kill and may lose the last transactions in a power cut, as this store's async flush may
lmdb         async: `sync=False`, `writemap=True`, what its documentation calls fastest
rocksdict    RocksDB: one write batch a call, through its write-ahead log; synced a call under sync
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..case import Case
from ..messages import QUEUES, TAG, TOPIC, Row
from .session import Session

PLACE = struct.Struct(">IQ")
"""Queue id, queue offset: in order as bytes."""
HEAD = TOPIC.encode() + b"\0" + TAG.encode() + b"\0"
LMDB_ROOM, LMDB_SIZE_MIN = 4, 1 << 30
"""Its map must be larger than all that will ever be in it."""
TABLE = """
create table message (
    topic text, queue_id integer, queue_offset integer, tags text, key text, body blob,
    primary key (topic, queue_id, queue_offset)
) without rowid
"""
INSERT = "insert into message values (?, ?, ?, ?, ?, ?)"


class Offsets:
    """Gives rows their queue offsets."""

    def __init__(self) -> None:
        self._ends = [0] * QUEUES

    def next(self, row: Row) -> int:
        offset = self._ends[row.queue_id]
        self._ends[row.queue_id] = offset + 1
        return offset

    def entries(self, rows: Iterable[Row]) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(place, message, key) of each."""
        for row in rows:
            key = row.key.encode()
            yield PLACE.pack(row.queue_id, self.next(row)), HEAD + key + b"\0" + row.body, b"key:" + key


class SqliteSession(Session):
    def __init__(self, path: Path, case: Case) -> None:
        super().__init__(case)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(f"pragma synchronous = {'full' if case.sync else 'normal'}")
        self._connection.execute(TABLE)
        self._connection.execute("create index message_key on message (key)")
        self._offsets = Offsets()

    def _place(self, row: Row) -> tuple[str, int, int, str, str, bytes]:
        return TOPIC, row.queue_id, self._offsets.next(row), TAG, row.key, row.body

    def put(self, rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            self._connection.execute(INSERT, self._place(rows[0]))
            return
        self._connection.execute("begin")
        self._connection.executemany(INSERT, map(self._place, rows))
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()


class LmdbSession(Session):
    def __init__(self, path: Path, case: Case, size: int) -> None:
        import lmdb

        super().__init__(case)
        size = max(LMDB_ROOM * size, LMDB_SIZE_MIN)
        self._lmdb = lmdb.open(str(path), map_size=size, sync=case.sync, writemap=not case.sync, max_dbs=2)
        self._messages = self._lmdb.open_db(b"messages")
        self._keys = self._lmdb.open_db(b"keys", dupsort=True)
        self._offsets = Offsets()

    def put(self, rows: Sequence[Row]) -> None:
        with self._lmdb.begin(write=True) as transaction:
            for place, message, key in self._offsets.entries(rows):
                transaction.put(place, message, db=self._messages, append=False)
                transaction.put(key, place, db=self._keys)

    def close(self) -> None:
        self._lmdb.close()


class RocksSession(Session):
    def __init__(self, path: Path, case: Case) -> None:
        import rocksdict

        super().__init__(case)
        self._rocks = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True))
        self._new_batch, self._options = rocksdict.WriteBatch, rocksdict.WriteOptions()
        self._options.sync = case.sync
        self._offsets = Offsets()

    def put(self, rows: Sequence[Row]) -> None:
        batch = self._new_batch(raw_mode=True)
        for place, message, key in self._offsets.entries(rows):
            batch[place] = message
            batch[key] = place
        self._rocks.write(batch, write_opt=self._options)

    def close(self) -> None:
        self._rocks.close()


def open_session(folder: Path, case: Case, size: int) -> Session:
    if case.who == "lmdb":
        return LmdbSession(folder / "lmdb", case, size)
    return (SqliteSession if case.who == "sqlite3" else RocksSession)(folder / case.who, case)
