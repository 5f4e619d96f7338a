"""One writer per store: RocketMQ's `lock` file, and a registry of the stores that this process has open.

    byte 0   locked by the writer, flightlog's or RocketMQ's, before it looks at anything
    byte 1   locked by a flightlog writer from the moment when the progress page is its own: the store is *served*.
             RocketMQ never locks it

A POSIX record lock on byte 0 excludes other processes. It does not exclude a second open in the same process, and
closing *any* descriptor of the file drops both locks: hence the registry, and nothing but this module may ever open
`lock`.

Readers ask whether a writer is alive: the registry answers for this process, F_GETLK for all others (it sees none of
the locks of the process that asks). F_GETLK also sees writers in other containers on the same machine, and works on
read-only mounts; the kernel drops the locks of a process that dies.

`_opening` is held from the opening of the file to its locking, or to its closing by a reader that only asks: else the
reader's close could drop a lock that another thread has just taken. A release needs no Python lock: the registry is
changed by single dictionary operations, so that a garbage collection may release a lock at any time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
import weakref
from pathlib import Path
from typing import Protocol

from ..errors import StoreLockedError
from .disk import FILE_MODE, NEVER_ELSEWHERE
from .disk_errors import disk_errors

LOCK_FILE = "lock"
LOCK_CONTENT = b"lock"
WRITER_BYTE, SERVED_BYTE = 0, 1
FLOCK = struct.Struct("@hhqqi4x")
"""C's `struct flock` of 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid."""

Inode = tuple[int, int]


class _Token:
    """The registry's token of one lock."""

    serves = False
    """Whether the progress page is the writer's own."""


class ForkAware(Protocol):
    """Something whose copy in a forked child must never write."""

    def mark_forked(self) -> None: ...


_opening = threading.Lock()
_open_stores: dict[Inode, _Token] = {}
"""Folder of every store that this process has open -> the token of its lock."""
_fork_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


class StoreLock:
    """The exclusive right to write the store at `root`, until `release`, or until the object is gone."""

    def __init__(self, root: Path) -> None:
        with disk_errors(root, "looking at the folder"):
            status = os.stat(root)
        self._root, self._inode = root, (status.st_dev, status.st_ino)
        self._token = _Token()
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
        with disk_errors(path, "locking it"), _opening:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NEVER_ELSEWHERE, FILE_MODE)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, WRITER_BYTE)
            except OSError as e:
                if e.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreLockedError(self._root, "another process") from None
                raise
            if os.fstat(self._descriptor).st_size == 0:
                os.pwrite(self._descriptor, LOCK_CONTENT, 0)

    def serve(self) -> None:
        """Tell readers that the progress page is this writer's own: from now on its marks are exact."""
        with disk_errors(self._root / LOCK_FILE, "locking its second byte"):
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, SERVED_BYTE)
        self._token.serves = True

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


def is_held(root: Path) -> bool:
    """Whether a live writer, flightlog's or RocketMQ's, in this process or another one, holds the store's lock.

    False where no lock can exist: there is no such file, or the store is remote (taken for a copy at rest). Raises
    DiskError where the file cannot be opened: guessing either way would show what is not durable, or hide what is.
    """
    return _is_locked(root, WRITER_BYTE)


def is_served(root: Path) -> bool:
    """Whether a live flightlog writer holds the store, and the progress page is its own. False and raises as
    `is_held`."""
    return _is_locked(root, SERVED_BYTE)


def _is_locked(root: Path, byte: int) -> bool:
    path = root / LOCK_FILE
    try:
        with disk_errors(path, "asking whether a writer holds it"):
            status = os.stat(root)
            with _opening:
                token = _open_stores.get((status.st_dev, status.st_ino))
                if token is not None:
                    return byte == WRITER_BYTE or token.serves
                descriptor = os.open(path, os.O_RDONLY | NEVER_ELSEWHERE)
                try:
                    asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
                    found = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
                finally:
                    os.close(descriptor)
    except FileNotFoundError:
        return False
    return bool(FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def watch_fork(handle: ForkAware) -> None:
    """Have `handle.mark_forked` called in every child that this process forks."""
    _fork_aware.add(handle)


def _after_fork_in_child() -> None:
    global _opening
    _opening = threading.Lock()  # another thread of the parent may have held it
    _open_stores.clear()
    for handle in list(_fork_aware):
        handle.mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
