"""The files of a store's queues that are in use, kept open: to open one takes longer than to read an entry.

Invariants:
- At most `most` of them are open, whatever the number of queues; what was not used for longest goes first, about.
- A file is given out only while it has its name: one that was removed or replaced by any program is reopened, or
  the caller gets the error that an open would raise.
- After removing a file, call `forget`, which releases its descriptor. A file is never closed while a reader uses it: it
  is closed when nothing refers to it any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import SegmentGoneError, TooManyFilesError

MORE_LOOKS = 20
"""How often files are listed again because one is gone. A file that stays listed and cannot be opened is an error."""

Found = TypeVar("Found")


def look_again_where_files_go(look: Callable[[], Found]) -> Found:
    """Return the result of `look`, which lists files and reads them; call it again if another process removed one
    meanwhile.

    Raises SegmentGoneError for a segment of the log at once: the caller has to start over.
    """
    for left in range(MORE_LOOKS, -1, -1):
        try:
            return look()
        except FileNotFoundError as e:
            if isinstance(e, SegmentGoneError) or not left:
                raise
    raise AssertionError("the last look returns or raises")


MOST_OPEN_FILES = 64
"""A process may often open no more than 1,024 files, and may have many stores."""


class _Kept:
    """An open file."""

    __slots__ = ("file", "is_writable", "was_used")

    def __init__(self, file: DiskFile, is_writable: bool) -> None:
        self.file, self.is_writable = file, is_writable
        self.was_used = False
        """Since it was last considered for closing."""


class QueueFiles:
    """The open files of all queues of a store. Thread-safe; getting a file that is open takes no lock."""

    def __init__(self, disk: Disk, most: int = MOST_OPEN_FILES) -> None:
        self._disk, self._most = disk, most
        self._kept: dict[Path, _Kept] = {}
        self._lock = threading.Lock()
        """Held to add or remove a file."""
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, path: Path, *, writable: bool = False, create: bool = False) -> DiskFile:
        """The open file; do not close it. Raises FileGoneError, and as the disk does."""
        kept = self._kept.get(path)
        if kept is not None and (kept.is_writable or not writable) and kept.file.has_name():
            kept.was_used = True
            return kept.file
        try:
            file = self._disk.open(path, writable=writable, create=create)
        except FileNotFoundError:
            self.forget(path)
            raise
        except TooManyFilesError:
            if not self._kept:
                raise
            self.forget_all()
            file = self._disk.open(path, writable=writable, create=create)
        self._keep(path, _Kept(file, writable))
        return file

    def _keep(self, path: Path, kept: _Kept) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._kept.pop(path, None)
            while len(self._kept) >= self._most:
                self._let_one_go()
            self._kept[path] = kept
        if not kept.file.has_name():  # removed since it was opened, and who did so has perhaps looked here before
            self.forget(path)

    def _let_one_go(self) -> None:
        for _ in range(self._most):
            path = next(iter(self._kept))
            kept = self._kept.pop(path)
            if not kept.was_used:
                return
            kept.was_used = False
            self._kept[path] = kept
        del self._kept[next(iter(self._kept))]

    def forget(self, path: Path) -> None:
        """Release a file that was removed."""
        with self._lock:
            self._kept.pop(path, None)

    def forget_all(self) -> None:
        """Release every file; each is opened again on its next use."""
        with self._lock:
            self._kept.clear()

    def close(self) -> None:
        """Keep none open from now on. Calling it twice is fine; readers that are still at it open what they need."""
        self._is_closed = True
        self.forget_all()
