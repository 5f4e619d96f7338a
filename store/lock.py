"""One writer a store: RocketMQ's `lock` file, and a register of the stores that this process has open.

A POSIX record lock on byte 0 excludes other processes, flightlog's and RocketMQ's. It does not exclude a second open in
the same process, and closing *any* descriptor of the file drops it: hence the register, and nothing but this module may
ever open `lock`.

Lock order: `_REGISTER_LOCK` is held for a few instructions and nothing is called under it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref
from pathlib import Path
from typing import Protocol

from .disk import disk_errors
from .errors import StoreLockedError

LOCK_FILE = "lock"
LOCK_CONTENT = b"lock"

Inode = tuple[int, int]


class ForkAware(Protocol):
    """Something whose copy in a forked child must never write."""

    def mark_forked(self) -> None: ...


_register_lock = threading.Lock()
_open_stores: dict[Inode, int] = {}
_fork_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


class StoreLock:
    """The exclusive right to write the store at `root`, until `release`."""

    def __init__(self, root: Path, inode: Inode, descriptor: int) -> None:
        self._root, self._inode, self._descriptor = root, inode, descriptor

    @classmethod
    def acquire(cls, root: Path) -> StoreLock:
        """Take the lock at once or raise StoreLockedError."""
        status = os.stat(root)
        inode = (status.st_dev, status.st_ino)
        with _register_lock:
            if inode in _open_stores:
                raise StoreLockedError(root, "this process")
            _open_stores[inode] = -1
        descriptor = -1
        try:
            with disk_errors(root / LOCK_FILE, "opening the lock"):
                descriptor = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError as e:
                if e.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreLockedError(root, "another process") from None
                raise
            if os.fstat(descriptor).st_size == 0:
                os.pwrite(descriptor, LOCK_CONTENT, 0)
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            with _register_lock:
                _open_stores.pop(inode, None)
            raise
        return cls(root, inode, descriptor)

    def release(self) -> None:
        """Let others write. Calling it twice is fine."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            with _register_lock:
                _open_stores.pop(self._inode, None)


def watch_fork(handle: ForkAware) -> None:
    """Have `handle.mark_forked` called in every child that this process forks."""
    _fork_aware.add(handle)


def _after_fork_in_child() -> None:
    # The parent's threads are gone in the child, perhaps in the middle of holding this lock: it is made anew.
    global _register_lock
    _register_lock = threading.Lock()
    _open_stores.clear()
    for handle in list(_fork_aware):
        handle.mark_forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
