"""The segment files that the entries of a task lead to, and what it means that one is not there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import CorruptRecordError
from ...store.segments.segment import segment_base, segment_name
from .planning import gone
from .queue_planning import QueueRange

log = logging.getLogger("flightlog.spark")


class SegmentOpening:
    """Opens segments, one at a time."""

    def __init__(
        self,
        disk: Disk,
        of: QueueRange,
        on_damage: Callable[[CorruptRecordError], None],
        *,
        fail_on_data_loss: bool,
    ) -> None:
        """The segments of the log that this range belongs to."""
        self._disk, self._of, self._on_damage, self._fail_on_data_loss = disk, of, on_damage, fail_on_data_loss
        self._file: tuple[int, DiskFile | None] | None = None
        """The segment that was opened last, by its base."""

    def open(self, base: int) -> DiskFile | None:
        """The segment that begins at this physical offset, until the next is opened; None where there is none.

        A segment that is missing behind others goes to `on_damage`. One that retention has removed since the query
        began raises FileGoneError, unless that is to be passed over.
        """
        if self._file is None or self._file[0] != base:
            self.close()
            self._file = base, self._find(base)
        return self._file[1]

    def _find(self, base: int) -> DiskFile | None:
        folders = [Path(folder) for folder in self._of.log.folders]
        for folder in folders:
            with suppress(FileNotFoundError):
                return self._disk.open(folder / segment_name(base))
        path, left = folders[0] / segment_name(base), [e.name for each in folders for e in self._disk.list(each)]
        if any((other := segment_base(name)) is not None and other < base for name in left):
            # Retention begins with the oldest one.
            self._on_damage(CorruptRecordError(path, base, "no segment", "records"))
        else:
            self.meet_loss(path)
        return None

    def meet_loss(self, path: Path) -> None:
        """A file that was there when the query was planned is not any more."""
        if self._fail_on_data_loss or not self._disk.exists(self._of.location.path):
            raise gone(path)
        log.warning("%s: gone since the query began; what it held is passed over", path, extra={"path": str(path)})

    def close(self) -> None:
        """Let go of what is open."""
        file = self._file[1] if self._file is not None else None
        self._file = None
        if file is not None:
            file.close()
