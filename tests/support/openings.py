"""How a store is opened in a random life: settings, and the time of day."""

from __future__ import annotations

import random

from flightlog import FlushMode, StoreSettings
from flightlog.tests.support.model import Limits

NEVER_MS = 3_600_000
STORE_HOSTS = (("127.0.0.1", 10911), ("127.0.0.1", 10911), ("fe80::1", 1))


class HeldClock:
    """Moves between steps only."""

    def __init__(self) -> None:
        self.at_ms = 1_900_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


class Openings:
    """Settings for one store after another: sizes and limits stay, the rest is drawn anew."""

    def __init__(self, dice: random.Random, limits: Limits) -> None:
        self._dice, self._limits = dice, limits
        self._index_slots, self._index_entries = (
            dice.randint(1, 20),
            dice.choice((10, 40, 100, 200)) + dice.randrange(9),
        )
        self._is_far = dice.random() < 0.5
        """Whether the log counts as too large for this machine's memory, so that gets have the limits for that."""

    def settings(self) -> StoreSettings:
        """The service thread never comes round: its rounds are steps of the life."""
        dice, limits = self._dice, self._limits
        near, far = (limits.answer_count, limits.answer_size), (1, 1)
        if self._is_far:
            near, far = far, near
        return StoreSettings(
            rocketmq_strict=False,
            segment_size=limits.segment_size,
            queue_file_entries=limits.queue_file_entries,
            index_slots=self._index_slots,
            index_entries=self._index_entries,
            key_index=dice.random() < 0.9,
            flush_mode=dice.choice(list(FlushMode)),
            flush_interval_ms=NEVER_MS,
            queue_flush_interval_ms=NEVER_MS,
            index_flush_interval_ms=NEVER_MS,
            allocate_step_size=dice.choice((4096, 1 << 20)),
            store_host=dice.choice(STORE_HOSTS),
            access_memory_percent=0 if self._is_far else 40,
            get_memory_max_count=near[0],
            get_memory_max_size=near[1],
            get_disk_max_count=far[0],
            get_disk_max_size=far[1],
            get_scan_size=limits.scan_size,
        )
