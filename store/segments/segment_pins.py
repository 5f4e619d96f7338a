"""Pins: the part of a log that readers of this process use, so that retention does not remove it.

A register of the whole process, by the folder of the log: a reader and the writer of one store need not know each
other. A reader in another process pins nothing here: what it has mapped survives the removal of its file, and it skips
other removed segments.

There is no Python lock here: everything is single dictionary operations, so that a pin may end in a garbage
collection at any point.
"""

from __future__ import annotations

import os
from pathlib import Path


class SegmentPins:
    """The pins on one log."""

    def __init__(self) -> None:
        self._offsets: dict[int, tuple[int, object]] = {}
        """By pin: physical offset and owner."""
        self.due_below = 0
        """Physical offset below which retention would remove everything that is not pinned."""

    @classmethod
    def of(cls, log_folder: Path) -> SegmentPins:
        """The pins on the log in this folder."""
        return _logs.setdefault(os.path.realpath(log_folder), cls())

    def release_all(self, owner: object) -> None:
        """End all pins of this owner."""
        for hold, (_, whose) in self._offsets.copy().items():
            if whose is owner:
                self._offsets.pop(hold, None)

    def lowest(self, owner: object = None) -> int | None:
        """The lowest pinned physical offset, of this owner or (None) of any; None if there is none."""
        held = self._offsets.copy().values()
        return min((offset for offset, whose in held if owner is None or owner is whose), default=None)


class SegmentPin:
    """Keeps the log from `physical_offset` on, until `release`, or until the object is gone."""

    def __init__(self, holds: SegmentPins, physical_offset: int, owner: object = None) -> None:
        self._pins, self._owner = holds, owner
        self.move(physical_offset)

    def move(self, physical_offset: int) -> None:
        """Pin from this offset on instead."""
        self._pins._offsets[id(self)] = (physical_offset, self._owner)

    def release(self) -> None:
        """End the pin. Calling it twice is fine."""
        self._pins._offsets.pop(id(self), None)

    def __del__(self) -> None:
        self.release()


_logs: dict[str, SegmentPins] = {}

os.register_at_fork(after_in_child=_logs.clear)
