"""What the commit log tells the log of the application: one line when it refuses puts, one when it takes them again."""

from __future__ import annotations

import logging
from pathlib import Path

from ..errors import DiskError, DiskFullError, FlightlogError

log = logging.getLogger("flightlog.store")


def tell_poison(root: Path, cause: BaseException, flushed: int, end: int) -> None:
    """The store at `root` takes no more puts. With a traceback, if it was not the disk."""
    log.error(
        "%s: takes no more puts: %s",
        *(root, cause if isinstance(cause, FlightlogError) else repr(cause)),
        exc_info=None if isinstance(cause, DiskError | OSError) else cause,
        extra={"path": str(root), "cause": repr(cause), "flushed": flushed, "physical_offset": end},
    )


def tell_room(root: Path, lack: DiskFullError | None, end: int) -> None:
    """Room begins to lack; None: there is some again."""
    extra = {"path": str(root), "physical_offset": end}
    if lack is None:
        log.info("%s: there is room on the disk again", root, extra=extra)
    else:
        log.warning("%s: the disk is full, puts are refused: %s", root, lack, extra=extra | {"wanted": lack.wanted})
