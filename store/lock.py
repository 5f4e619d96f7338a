"""One writer a store: RocketMQ's `lock` file, and a register of the stores that this process has open.

A POSIX record lock on byte 0 excludes other processes, flightlog's and RocketMQ's. It does not exclude a second open in
the same process, and closing *any* descriptor of the file drops it: hence the register, and nothing but this module may
ever open `lock`.

There is no Python lock here: the register is changed by single dictionary operations, so that a lock may be let go by a
garbage collection, wherever that comes in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from pathlib import Path
from typing import Protocol

from .disk import FILE_MODE, NEVER_ELSEWHERE
from .disk_errors import disk_errors
from .errors import StoreLockedError

LOCK_FILE = "lock"
LOCK_CONTENT = b"lock"

Inode = tuple[int, int]


class ForkAware(Protocol):
    """Something whose copy in a forked child must never write."""

    def mark_forked(self) -> None: ...


_open_stores: dict[Inode, object] = {}
"""Folder of every store that this process has open -> the token of its lock."""
_fork_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


class StoreLock:
    """The exclusive right to write the store at `root`, until `release`, or until the object is gone."""

    def __init__(self, root: Path) -> None:
        with disk_errors(root, "looking at the folder"):
            status = os.stat(root)
        self._root, self._inode = root, (status.st_dev, status.st_ino)
        self._token = object()
        self._descriptor = -1

    @classmethod
    def acquire(cls, root: Path) -> StoreLock:
        """Take the lock at once or raise StoreLockedError."""
        lock = cls(root)
        watch_fork(lock)
        try:
            lock._take()
        except BaseException:
            lock.release()
            raise
        return lock

    def _take(self) -> None:
        if _open_stores.setdefault(self._inode, self._token) is not self._token:
            raise StoreLockedError(self._root, "this process")
        path = self._root / LOCK_FILE
        with disk_errors(path, "locking it"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NEVER_ELSEWHERE, FILE_MODE)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError as e:
                if e.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreLockedError(self._root, "another process") from None
                raise
            if os.fstat(self._descriptor).st_size == 0:
                os.pwrite(self._descriptor, LOCK_CONTENT, 0)

    def release(self) -> None:
        """Let others write. Calling it twice is fine."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        # Only now: closing the descriptor would drop the lock of the next holder in this process.
        if _open_stores.get(self._inode) is self._token:
            del _open_stores[self._inode]

    def mark_forked(self) -> None:
        """In a forked child, which has no lock yet that closing the descriptor could drop: the parent keeps its own."""
        self.release()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.release()


def watch_fork(handle: ForkAware) -> None:
    """Have `handle.mark_forked` called in every child that this process forks."""
    _fork_aware.add(handle)


def _after_fork_in_child() -> None:
    _open_stores.clear()
    for handle in list(_fork_aware):
        handle.mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
