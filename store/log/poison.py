"""Poison: after a failed sync or a failed service a log appends, acknowledges and syncs nothing until it is reopened.

The operating system reports a failed write only once, and an interrupt may come with every call. So an error is first
noted among the conditions, which keeps puts off the fast path; until it is judged, every read of `cause` judges it. An
interrupt alone poisons nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import DiskError, DiskFullError, FlightlogError, SyncFailedError
from ..native.fast_path_protocol import FastPathProtocol
from ..native.group_commit_protocol import GroupCommitProtocol
from .fast_path_conditions import FastPathConditions


def failed_sync_behind(error: BaseException, outer: BaseException | None) -> BaseException | None:
    """The failed sync that raised `error`, or that is in its context because an interrupt came meanwhile; else None.

    `outer` is the exception that the caller of the store was handling before.
    """
    failure: BaseException | None = error
    while failure is not None and failure is not outer:
        if isinstance(failure, DiskError):
            return failure if isinstance(failure, SyncFailedError) else None
        if isinstance(failure, OSError):  # on its way to become a SyncFailedError
            return failure
        failure = failure.__context__
    return None


log = logging.getLogger("flightlog.store")


class Poison:
    """The poison of one open log. Thread-safe, without a lock."""

    def __init__(
        self,
        root: Path,
        conditions: FastPathConditions,
        fast_path: FastPathProtocol[Any, Any],
        group_commit: GroupCommitProtocol,
    ) -> None:
        self._root, self._conditions, self._fast_path, self._group_commit = root, conditions, fast_path, group_commit
        self._is_told = False
        self.wake_ups: list[Callable[[], object]] = []
        """Called once there is a cause, by the thread that found it: they must take no lock."""

    @property
    def cause(self) -> BaseException | None:
        """The error that ended puts and syncs; None if there is none."""
        conditions = self._conditions
        for error, outer in conditions.suspects():
            found = failed_sync_behind(error, outer)
            if found is not None:
                conditions.poison_once(found)
            conditions.acquit(error)  # only this one: others may have come meanwhile
        return conditions.poison

    def judge(self, error: BaseException, outer: BaseException | None) -> None:
        """Poison the log if a failed sync is behind `error`; `outer` is the exception that its caller was handling
        before."""
        self._conditions.suspect(error, outer)
        self._tell()

    def refuse_all(self, cause: BaseException) -> None:
        """Append, acknowledge and sync nothing any more. The first cause counts."""
        if self.cause is None:
            self._conditions.poison_once(cause)
        self._tell()

    def _tell(self) -> None:
        """Call the wake-ups and log the cause, once."""
        cause = self.cause
        if cause is not None and not self._is_told:
            self._is_told = True
            for notify in tuple(self.wake_ups):
                notify()
            tell_poison(self._root, cause, self._group_commit.synced_to, self._fast_path.end)


def tell_poison(root: Path, cause: BaseException, flushed: int, end: int) -> None:
    """Log that the store at `root` takes no more puts; with a traceback unless the disk failed."""
    log.error(
        "%s: takes no more puts: %s",
        *(root, cause if isinstance(cause, FlightlogError) else repr(cause)),
        exc_info=None if isinstance(cause, DiskError | OSError) else cause,
        extra={"path": str(root), "cause": repr(cause), "flushed": flushed, "physical_offset": end},
    )


def tell_room(root: Path, lack: DiskFullError | None, end: int) -> None:
    """Log that the disk is full; `lack` None: that it has room again."""
    extra = {"path": str(root), "physical_offset": end}
    if lack is None:
        log.info("%s: there is room on the disk again", root, extra=extra)
    else:
        log.warning("%s: the disk is full, puts are refused: %s", root, lack, extra=extra | {"wanted": lack.wanted})
