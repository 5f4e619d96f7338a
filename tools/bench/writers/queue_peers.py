"""Queues on SQLite: diskcache.Deque, persist-queue's SQLiteQueue, litequeue. One message a call, no search by key.

Each gets the message as one bytes object. `synchronous` is FULL under sync and NORMAL else, in all three, whatever they
come with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..loads.drive import Put
from ..loads.load import Load
from ..loads.rows import Row
from .key_value import HEAD
from .session import Session

FULL, NORMAL = 2, 1


class QueueSession(Session):
    def __init__(self, put: Put, close: Callable[[], object]) -> None:
        self._put, self._close = put, close

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return [HEAD + row.key.encode() + b"\0" + row.body for row in rows]

    def puts(self) -> Sequence[Put]:
        return [self._put]

    def close(self) -> None:
        self._close()


def open_session(writer: str, folder: Path, load: Load, size: int) -> QueueSession:
    return {"diskcache": _diskcache, "persist-queue": _persist_queue, "litequeue": _litequeue}[writer](folder, load)


def _diskcache(folder: Path, load: Load) -> QueueSession:
    from diskcache import Cache, Deque

    cache = Cache(str(folder / "cache"), eviction_policy="none", sqlite_synchronous=FULL if load.sync else NORMAL)
    return QueueSession(Deque.fromcache(cache).append, cache.close)


def _persist_queue(folder: Path, load: Load) -> QueueSession:
    from persistqueue import SQLiteQueue

    queue = SQLiteQueue(str(folder / "queue"), multithreading=True, auto_commit=True)
    putter: Any = queue._putter
    putter.execute(f"pragma synchronous = {FULL if load.sync else NORMAL}")
    return QueueSession(queue.put, queue.close)


def _litequeue(folder: Path, load: Load) -> QueueSession:
    from litequeue import LiteQueue

    queue = LiteQueue(str(folder / "queue.sqlite"))
    queue.conn.execute(f"pragma synchronous = {FULL if load.sync else NORMAL}")
    return QueueSession(queue.put, queue.conn.close)
