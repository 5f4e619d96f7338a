"""When segments go: RocketMQ's rule (`DefaultMessageStore.CleanCommitLogService`).

    per cent of the disk in use        puts                  segments
    above disk_warning_percent           refused from now on   the oldest go, whatever their age
    above disk_clean_forcibly_percent    as they were          the same
    above disk_max_used_percent          taken again           those that are old enough go
    below                              the same              those that are old enough go, in the hours of delete_when

A segment is old enough when its file was last written to `retention_hours` ago or longer. Of several disks that hold
the log the emptiest one decides; where that of the queues is fuller, it says the same. `clean_forcibly=False` turns the
first two lines' removals into the third's. Without `retention_hours` none of this applies.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from ...store.disk.disk import DiskSpace
from ...store.settings import StoreSettings

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Due:
    """What a look at clock and disk says is to go."""

    by_age: bool
    """Segments that are old enough."""
    at_once: bool
    """The oldest ones, whatever their age."""


class RetentionRule:
    """The rule of one open store. It is told the time and the space, and remembers whether the disk was full."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._hours = {int(hour) for hour in settings.delete_when.split(";") if hour}
        self.is_disk_full = False
        """Whether puts are refused: from above the warning ratio until the disk is at the forcible one again."""
        self.used_ratio = 0
        """Per cent of the disk in use at the last look."""

    def look(self, log_spaces: Iterable[DiskSpace], queue_space: DiskSpace) -> None:
        """Take note of how full the disks are."""
        self.used_ratio = max(min(space.used_ratio for space in log_spaces), queue_space.used_ratio)
        if self.used_ratio > self._settings.disk_warning_percent:
            self.is_disk_full = True
        elif self.used_ratio <= self._settings.disk_clean_forcibly_percent:
            self.is_disk_full = False

    def due(self, now_ms: int) -> Due:
        """What is to go now, by the last look."""
        settings = self._settings
        must_make_room = self.used_ratio > min(settings.disk_clean_forcibly_percent, settings.disk_warning_percent)
        is_time = time.localtime(now_ms / 1000).tm_hour in self._hours
        by_age = is_time or must_make_room or self.used_ratio > settings.disk_max_used_percent
        return Due(by_age, must_make_room and settings.clean_forcibly)
