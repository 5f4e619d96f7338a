"""sqlite3 as a message store: a table by queue and offset, an index by key, write-ahead log, a transaction a call.

`synchronous` is FULL under sync; NORMAL else, which survives a kill and may lose the last transactions in a power cut,
as this store's async flush may.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cases.workloads import QUEUES, TOPIC
from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import TAG, Row
from .session import Session, parts

TABLE = """
create table message (
    topic text, queue_id integer, queue_offset integer, tags text, key text, body blob,
    primary key (topic, queue_id, queue_offset)
) without rowid
"""
INSERT = "insert into message values (?, ?, ?, ?, ?, ?)"


class SqliteSession(Session):
    def __init__(self, path: Path, load: Load) -> None:
        self._load = load
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(f"pragma synchronous = {'full' if load.sync else 'normal'}")
        self._connection.execute(TABLE)
        self._connection.execute("create index message_key on message (key)")
        self._ends = [0] * QUEUES

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return rows if self._load.batch == 1 else parts(rows, self._load.batch)

    def puts(self) -> Sequence[Put]:
        return [self._put if self._load.batch == 1 else self._put_many]

    def _place(self, row: Row) -> tuple[str, int, int, str, str, bytes]:
        offset = self._ends[row.queue_id]
        self._ends[row.queue_id] = offset + 1
        return TOPIC, row.queue_id, offset, TAG, row.key, row.body

    def _put(self, row: Row) -> None:
        self._connection.execute(INSERT, self._place(row))

    def _put_many(self, rows: Sequence[Row]) -> None:
        self._connection.execute("begin")
        self._connection.executemany(INSERT, map(self._place, rows))
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()


def open_session(writer: str, folder: Path, load: Load, size: int) -> SqliteSession:
    return SqliteSession(folder / "messages.sqlite", load)
