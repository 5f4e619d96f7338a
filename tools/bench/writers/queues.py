"""Queues on SQLite: diskcache.Deque, persist-queue's SQLiteQueue, litequeue. One message a call, no search by key.

Each gets the message as one bytes object. `synchronous` is FULL under sync and NORMAL else, in all three, whatever they
come with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..case import Case
from ..drive import Put
from ..messages import Row
from .key_value import HEAD
from .session import Session

FULL, NORMAL = 2, 1


class QueueSession(Session):
    def __init__(self, case: Case, put: Put, close: Callable[[], object]) -> None:
        super().__init__(case)
        self._put, self._close = put, close

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        return [HEAD + row.key.encode() + b"\0" + row.body for row in rows]

    def put(self, unit: bytes) -> object:
        return self._put(unit)

    def puts(self) -> Sequence[Put]:
        return [self._put]

    def close(self) -> None:
        self._close()


def open_session(folder: Path, case: Case, size: int) -> QueueSession:
    opens = {"diskcache": _diskcache, "persist-queue": _persist_queue, "litequeue": _litequeue}
    return QueueSession(case, *opens[case.who](folder, FULL if case.sync else NORMAL))


def _diskcache(folder: Path, synchronous: int) -> tuple[Put, Callable[[], object]]:
    from diskcache import Cache, Deque

    cache = Cache(str(folder / "cache"), eviction_policy="none", sqlite_synchronous=synchronous)
    return Deque.fromcache(cache).append, cache.close


def _persist_queue(folder: Path, synchronous: int) -> tuple[Put, Callable[[], object]]:
    from persistqueue import SQLiteQueue

    queue = SQLiteQueue(str(folder / "queue"), multithreading=True, auto_commit=True)
    putter: Any = queue._putter
    putter.execute(f"pragma synchronous = {synchronous}")
    return queue.put, queue.close


def _litequeue(folder: Path, synchronous: int) -> tuple[Put, Callable[[], object]]:
    from litequeue import LiteQueue

    queue = LiteQueue(str(folder / "queue.sqlite"))
    queue.conn.execute(f"pragma synchronous = {synchronous}")
    return queue.put, queue.conn.close
