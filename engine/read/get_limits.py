"""Limits of one `get`: number of messages and bytes.

The limits are lower for a consumer that lags far behind: records further from the log's end than a fraction of the
machine's memory count as on disk, no longer in the page cache. The first message is always returned, even if it is
larger than every limit.

RocketMQ: `DefaultMessageStore#isTheBatchFull`, `#estimateInMemByCommitOffset`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ...index.queue.queue_unit import UNIT_SIZE
from ...store.settings import StoreSettings

DEFAULT_MAX_COUNT = 32
MAX_ANSWER_SIZE = 128 << 20
"""Upper limit of an answer in bytes of records; a single larger record is still returned."""
LEAST_MAX_SIZE = 100
"""A smaller `max_size` is raised to this."""


@cache
def physical_memory_size() -> int:
    """The machine's physical memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class GetLimits:
    """The limits from a store's settings; sizes in bytes of records."""

    memory_max_size: int
    memory_max_count: int
    disk_max_size: int
    disk_max_count: int
    memory_window_size: int
    """Records that start at most this many bytes before the end of the log count as in memory."""
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
        """The number of queue entries that a get reads, matching its filter or not, before it returns what it has."""
        return -(-max(self.scan_size, max_count * UNIT_SIZE) // UNIT_SIZE)

    def is_full(self, count: int, size: int, next_size: int, distance: int) -> bool:
        """Whether an answer with `count` messages of `size` bytes has no room for another of `next_size` bytes that is
        `distance` bytes before the end of the log."""
        if distance <= self.memory_window_size:
            return size + next_size > self.memory_max_size or count >= self.memory_max_count
        return size + next_size > self.disk_max_size or count >= self.disk_max_count


def clamp_max_size(max_size: int | None) -> int:
    """The limit in bytes of records for a requested `max_size`."""
    return MAX_ANSWER_SIZE if max_size is None else min(max(max_size, LEAST_MAX_SIZE), MAX_ANSWER_SIZE)
