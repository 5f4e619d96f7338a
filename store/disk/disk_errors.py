"""From the errors of the operating system to those that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from ..errors import DiskError, DiskFullError, FileGoneError, SymbolicLinkError, TooManyFilesError

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})


def raise_disk_error(e: OSError, path: Path, what: str, wanted: int = 0) -> NoReturn:
    """Raise the error that says what to do: FileGoneError, which is a FileNotFoundError too, for what is not there,
    SymbolicLinkError for what lies elsewhere. One that is a DiskError already is raised as it is."""
    if isinstance(e, DiskError):
        raise e
    detail = f"{what}: {os.strerror(e.errno) if e.errno else e}"
    if isinstance(e, FileNotFoundError):
        raise FileGoneError(f"{path}: {detail}. If it was there, look after the disk, or restore it") from e
    if e.errno == errno.ELOOP:
        raise SymbolicLinkError(path) from e
    if e.errno in NO_ROOM:
        raise DiskFullError(path, wanted, detail) from e
    if e.errno in NO_DESCRIPTOR:
        raise TooManyFilesError(path, detail) from e
    raise DiskError(f"{path}: {detail}. Look after the disk and the permissions of this path") from e


class disk_errors:
    """Turn an OSError within into the error that says what to do.

    No generator: it stands around every operation, and there may be a million of them at an opening.
    """

    __slots__ = ("_path", "_wanted", "_what")

    def __init__(self, path: Path, what: str, wanted: int = 0) -> None:
        self._path, self._what, self._wanted = path, what, wanted

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(e, OSError) and not isinstance(e, DiskError):
            raise_disk_error(e, self._path, self._what, self._wanted)
