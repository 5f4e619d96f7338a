"""How much one `get` may answer.

RocketMQ gives a consumer less at a time where it has fallen far behind: what lies further from the log's end than a
part of the machine's memory is taken to be on disk and no longer in the page cache. No limit holds back the first
message, so one that is larger than all of them can be read.

(RocketMQ's `DefaultMessageStore#isTheBatchFull` and `#estimateInMemByCommitOffset`.)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ...index.queue.queue_unit import UNIT_SIZE
from ...store.settings import StoreSettings

DEFAULT_MAX_COUNT = 32
MAX_ANSWER_SIZE = 128 << 20
"""Bytes of records that no answer exceeds, but with a single record."""
LEAST_MAX_SIZE = 100
"""A smaller `max_size` counts as this."""


@cache
def physical_memory_size() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class GetLimits:
    """The limits that settings make; sizes in bytes of records."""

    memory_max_size: int
    memory_max_count: int
    disk_max_size: int
    disk_max_count: int
    memory_window_size: int
    """Records that start at most this many bytes before the log's end count as in memory."""
    scan_size: int

    @classmethod
    def of(cls, settings: StoreSettings) -> GetLimits:
        return cls(
            settings.get_memory_max_size,
            settings.get_memory_max_count,
            settings.get_disk_max_size,
            settings.get_disk_max_count,
            int(physical_memory_size() * (settings.access_memory_percent / 100)),
            settings.get_scan_size,
        )

    def scan_entries(self, max_count: int) -> int:
        """How many entries a get looks at, matching or not, before it answers what it has."""
        return -(-max(self.scan_size, max_count * UNIT_SIZE) // UNIT_SIZE)

    def is_full(self, count: int, size: int, next_size: int, distance: int) -> bool:
        """Whether `count` messages of `size` bytes leave no room for one of `next_size`, `distance` bytes before the
        log's end."""
        if distance <= self.memory_window_size:
            return size + next_size > self.memory_max_size or count >= self.memory_max_count
        return size + next_size > self.disk_max_size or count >= self.disk_max_count


def clamp_max_size(max_size: int | None) -> int:
    """The bytes of records that an answer may have when `max_size` is asked for."""
    return MAX_ANSWER_SIZE if max_size is None else min(max(max_size, LEAST_MAX_SIZE), MAX_ANSWER_SIZE)
