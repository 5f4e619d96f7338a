"""Sync the part of the log that the last writer left in the page cache, before anything is built on it.

The disk is the slowest part of an open after a kill. So the sync starts as soon as the end of the log is known, in a
separate thread if there is much to do, continues with the queues once they are brought up to the log, and is awaited
after the keys are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from ...store.disk.thread_start import thread_start_errors
from ...store.log.log_reader import LogReader
from ...store.segments.log_files import LogFolders

WRITE_SIZE = 4 << 20
"""Bytes of the log that are rewritten at a time."""
MUCH = 4 * WRITE_SIZE
"""Bytes from which on a thread is used."""


THREAD = "flightlog-log-sync"


class LogSync:
    """The sync of one open; `close` closes its files. A file stays open from the write to the sync: only then does the
    sync report a write that failed in between.
    """

    def __init__(self, disk: Disk, reader: LogReader) -> None:
        self._disk, self._reader = disk, reader
        self._files: dict[Path, DiskFile] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: list[Future[None]] = []

    def begin(self, start: int, end: int) -> None:
        """Start rewriting [start, end): `sync` waits for it, and raises its errors."""
        if end - start > MUCH and threading.main_thread().is_alive():  # a program that is ending starts no threads
            self._pool = ThreadPoolExecutor(1, THREAD)
        self.follow(lambda: self.write_again(start, end))

    def follow(self, work: Callable[[], None]) -> None:
        """Run this work after the work started before; `sync` raises its errors."""
        if self._pool is None:
            work()
        else:
            with thread_start_errors(THREAD):
                self._under_way.append(self._pool.submit(work))

    def write_again(self, start: int, end: int) -> None:
        """Rewrite [start, end) unchanged, and start the writeback; below `start` everything is known to be durable.
        After a failed sync Linux marks the pages clean, and the next sync succeeds without having written them.
        """
        for segment, first, last in self._reader.segments_between(start, end) if start < end else ():
            file = self._opened(segment.path)
            for position in range(first, last, WRITE_SIZE):
                size = min(WRITE_SIZE, last - position)
                file.write(position, file.read(position, size))
                file.will_sync(position, size)

    def sync(self, start: int, end: int, folders: LogFolders) -> None:
        """Return once [start, end) is durable. Raises SyncFailedError."""
        for under_way in self._under_way:
            under_way.result()
        # Include the byte behind the end: a segment that begins there is about to be used, and the name of its file may
        # not be durable.
        for segment, _, _ in self._reader.segments_between(start, end + 1):
            self._opened(segment.path).sync()
        for folder in folders.writable:
            self._disk.sync_folder(folder)

    def _opened(self, path: Path) -> DiskFile:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._disk.open(path, writable=True)
        return file

    def close(self) -> None:
        """Close every file, after waiting for writes in progress."""
        if self._pool is not None:
            self._pool.shutdown()
        while self._files:
            self._files.popitem()[1].close()
