"""What becomes of damage that a task comes by: the option `onCorrupt`.

fail   the first damaged place is raised
skip   it is left out, counted, and told in the log, range by range
rows   it is a row, whose column `_corrupt` says where it is and what was found
"""

from __future__ import annotations

import logging
from pathlib import Path

from ...store.errors import CorruptQueueError, CorruptRecordError
from ..options.options import OnCorrupt

log = logging.getLogger("flightlog.spark")


DamageError = CorruptRecordError | CorruptQueueError
"""A damaged record, or an entry of a queue that is none of a message."""


class Corruption:
    """Meets damage and counts it."""

    def __init__(self, on_corrupt: OnCorrupt) -> None:
        self._fails = on_corrupt == "fail"
        self.shows = on_corrupt == "rows"
        """Whether a damaged place is a row."""
        self.places = 0
        """Records and stretches of bytes that were damaged."""
        self._told = 0
        self._first: DamageError | None = None

    def meet(self, damage: DamageError) -> None:
        """Count it. Raises it where it is to fail the query."""
        if self._fails:
            raise damage
        self.places += 1
        self._first = self._first or damage

    def tell(self, path: Path, stretch: str) -> None:
        """Say in the log what was left out of this stretch of a file: all since the last call."""
        first, count = self._first, self.places - self._told
        self._first, self._told = None, self.places
        if first is None or self.shows:
            return
        log.warning(
            "%s: left out %d damaged places in %s, the first at %s %d: %s",
            path,
            count,
            stretch,
            "physical offset" if isinstance(first, CorruptRecordError) else f"{first.path}, entry",
            offset_of(first),
            first.found,
            extra={"path": str(first.path), "offset": offset_of(first)},
        )


def offset_of(damage: DamageError) -> int:
    """The physical offset of a record, the queue offset of an entry."""
    return damage.physical_offset if isinstance(damage, CorruptRecordError) else damage.queue_offset
