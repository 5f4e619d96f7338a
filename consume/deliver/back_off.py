"""The delay before a failed message is redelivered."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.arguments import check_seconds
from ...store.errors import UsageError


@dataclass(frozen=True)
class BackOff:
    """A delay that doubles after each failure, from `first_s` to at most `most_s` seconds."""

    first_s: float = 1.0
    most_s: float = 60.0

    def __post_init__(self) -> None:
        check_seconds("first_s", self.first_s)
        check_seconds("most_s", self.most_s)
        if not 0 <= self.first_s <= self.most_s:
            raise UsageError(f"{self}: expected seconds, 0 or more, the first no longer than the longest")

    def delay_s(self, attempt: int) -> float:
        """Seconds to wait after this many attempts, 1 or more."""
        return min(self.most_s, self.first_s * 2.0 ** min(attempt - 1, 63))


SUSPENSION = BackOff(1.0, 1.0)
"""Back-off of a queue that is consumed in order: RocketMQ's `suspendCurrentQueueTimeMillis`."""
