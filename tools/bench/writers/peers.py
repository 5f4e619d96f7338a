"""Installed peers, as message stores: databases with one entry for the message by queue and offset and one for its key,
a transaction a call; and queues on SQLite, which take one message as bytes a call and find none by its key.

sqlite3        a table with an index by key, write-ahead log. `synchronous` is FULL under sync; NORMAL else, which
               survives a kill and may lose the last transactions in a power cut, as this store's async flush may
lmdb           async: `sync=False`, `writemap=True`, what its documentation calls fastest
rocksdict      RocksDB: one write batch a call, through its write-ahead log; synced a call under sync
diskcache      its Deque
persist-queue  its SQLiteQueue
litequeue      its LiteQueue; `synchronous` is as sqlite3's in all three, whatever they come with
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..case import Case
from ..drive import Put
from ..messages import QUEUES, TAG, TOPIC, Row, parts
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
FULL, NORMAL = 2, 1
Opened = tuple[Put, Callable[[], object]]
"""Its call, and what closes it."""


class PeerSession(Session):
    def __init__(self, case: Case, put: Put, close: Callable[[], object]) -> None:
        super().__init__(case)
        self._put, self._close = put, close

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        if self._case.who in DATABASES:
            return parts(rows, self._case.batch)
        return [_value(row, row.key.encode()) for row in rows]

    def put(self, unit: Any) -> object:
        return self._put(unit)

    def puts(self) -> Sequence[Put]:
        return [self._put]

    def close(self) -> None:
        self._close()


def open_session(folder: Path, case: Case, size: int) -> PeerSession:
    return PeerSession(case, *(DATABASES | ON_SQLITE)[case.who](folder / case.who, case, size))


def _value(row: Row, key: bytes) -> bytes:
    return HEAD + key + b"\0" + row.body


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
            yield PLACE.pack(row.queue_id, self.next(row)), _value(row, key), b"key:" + key


def _synchronous(case: Case) -> int:
    return FULL if case.sync else NORMAL


def _sqlite(path: Path, case: Case, size: int) -> Opened:
    connection, offsets = sqlite3.connect(path, isolation_level=None), Offsets()
    for text in ("pragma journal_mode = wal", f"pragma synchronous = {_synchronous(case)}", TABLE):
        connection.execute(text)
    connection.execute("create index message_key on message (key)")

    def values(row: Row) -> tuple[str, int, int, str, str, bytes]:
        return TOPIC, row.queue_id, offsets.next(row), TAG, row.key, row.body

    def put(rows: Sequence[Row]) -> None:
        if len(rows) == 1:
            connection.execute(INSERT, values(rows[0]))
            return
        connection.execute("begin")
        connection.executemany(INSERT, map(values, rows))
        connection.execute("commit")

    return put, connection.close


def _lmdb(path: Path, case: Case, size: int) -> Opened:
    import lmdb

    size, offsets = max(LMDB_ROOM * size, LMDB_SIZE_MIN), Offsets()
    environment = lmdb.open(str(path), map_size=size, sync=case.sync, writemap=not case.sync, max_dbs=2)
    messages, keys = environment.open_db(b"messages"), environment.open_db(b"keys", dupsort=True)

    def put(rows: Sequence[Row]) -> None:
        with environment.begin(write=True) as transaction:
            for place, message, key in offsets.entries(rows):
                transaction.put(place, message, db=messages, append=False)
                transaction.put(key, place, db=keys)

    return put, environment.close


def _rocks(path: Path, case: Case, size: int) -> Opened:
    import rocksdict

    rocks, offsets = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True)), Offsets()
    new_batch, options = rocksdict.WriteBatch, rocksdict.WriteOptions()
    options.sync = case.sync

    def put(rows: Sequence[Row]) -> None:
        batch = new_batch(raw_mode=True)
        for place, message, key in offsets.entries(rows):
            batch[place] = message
            batch[key] = place
        rocks.write(batch, write_opt=options)

    return put, rocks.close


def _diskcache(path: Path, case: Case, size: int) -> Opened:
    from diskcache import Cache, Deque

    cache = Cache(str(path), eviction_policy="none", sqlite_synchronous=_synchronous(case))
    return Deque.fromcache(cache).append, cache.close


def _persist_queue(path: Path, case: Case, size: int) -> Opened:
    from persistqueue import SQLiteQueue

    queue = SQLiteQueue(str(path), multithreading=True, auto_commit=True)
    putter: Any = queue._putter
    putter.execute(f"pragma synchronous = {_synchronous(case)}")
    return queue.put, queue.close


def _litequeue(path: Path, case: Case, size: int) -> Opened:
    from litequeue import LiteQueue

    queue = LiteQueue(str(path))
    queue.conn.execute(f"pragma synchronous = {_synchronous(case)}")
    return queue.put, queue.conn.close


DATABASES = {"sqlite3": _sqlite, "lmdb": _lmdb, "rocksdict": _rocks}
ON_SQLITE = {"diskcache": _diskcache, "persist-queue": _persist_queue, "litequeue": _litequeue}
