"""A queue in a SQLite table, as applications build it: the baseline of the messaging benchmark.

It is tuned: a write-ahead log, one connection shared by all threads, so that none waits for a file lock, a semaphore
if it does not poll, and one transaction for each message, whose deletion is committed when the listener returns.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class SqliteQueue:
    """Thread-safe. Each message is delivered once, and again if its consumer raises."""

    def __init__(self, path: Path, *, is_sync: bool, poll_s: float | None = None) -> None:
        """`poll_s`: consumers look every so many seconds, as those of another process would, instead of being woken."""
        self._poll_s = poll_s
        self._lock, self._count = threading.Lock(), threading.Semaphore(0)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(f"pragma synchronous = {'full' if is_sync else 'normal'}")
        self._connection.execute("create table queue (number integer primary key autoincrement, body blob not null)")

    def put(self, body: bytes) -> None:
        with self._lock:
            self._connection.execute("insert into queue (body) values (?)", (body,))
        self._count.release()

    def put_many(self, bodies: Sequence[bytes]) -> None:
        """Put messages in one transaction."""
        with self._lock:
            self._connection.execute("begin")
            self._connection.executemany("insert into queue (body) values (?)", [(body,) for body in bodies])
            self._connection.execute("commit")
        self._count.release(len(bodies))

    @contextmanager
    def taken(self) -> Iterator[bytes]:
        """Context manager: wait for the first message; delete it on exit, or put it back after an error."""
        take = "delete from queue where number = (select min(number) from queue) returning body"
        has_taken = False
        while not has_taken:
            if self._poll_s is None:
                self._count.acquire()
            with self._lock:
                self._connection.execute("begin immediate")
                try:
                    for (body,) in self._connection.execute(take).fetchall():
                        has_taken = True
                        yield body
                except BaseException:
                    self._connection.execute("rollback")
                    self._count.release()
                    raise
                self._connection.execute("commit")
            if not has_taken and self._poll_s is not None:
                time.sleep(self._poll_s)

    def __len__(self) -> int:
        with self._lock:
            [(count,)] = self._connection.execute("select count(*) from queue").fetchall()
        return int(count)

    def __enter__(self) -> SqliteQueue:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
