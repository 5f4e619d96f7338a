"""Messages for later in stores whose power is cut: what came of them (cut_known.py has what else has to be there)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.timer_request import TIMER_TOPIC

if TYPE_CHECKING:
    from flightlog import StoredMessage

LEVELS_MS = (1000, 2000)
LEVELS = " ".join(f"{ms // 1000}s" for ms in LEVELS_MS)
CLOCK_STEP_MS = 1500
"""A writer's clock is as much ahead of that of the one before: so what one of them has put, the next ones deliver."""


class Later:
    """The delayed messages that one look at a store found. Messages are known by their heads."""

    def __init__(self) -> None:
        self._due_ms: dict[bytes, int] = {}
        """Due times of what waits, or did; retention may have taken the record that waited, and left what was
        delivered."""
        self._delivered: list[tuple[bytes, int]] = []
        """And the store time."""

    @property
    def delivered_count(self) -> int:
        return len(self._delivered)

    def is_delivered(self, message: StoredMessage, head: bytes) -> bool:
        """Whether this is not what was put, but what came of it."""
        properties = message.properties
        if message.topic == SCHEDULE_TOPIC:
            self._due_ms[head] = message.store_timestamp_ms + LEVELS_MS[message.queue_id]
        elif message.topic == TIMER_TOPIC:
            self._due_ms[head] = int(properties["TIMER_OUT_MS"]) + 1000  # when that second is over
        elif "REAL_TOPIC" in properties:
            wanted = properties["REAL_TOPIC"], int(properties["REAL_QID"])
            assert (message.topic, message.queue_id) == wanted, f"{message} was delivered elsewhere than to {wanted}"
            self._delivered.append((head, message.store_timestamp_ms))
            return True
        return False

    def check(self) -> None:
        """Nothing came early."""
        early = [(head, at) for head, at in self._delivered if at < self._due_ms.get(head, at)]
        assert not early, f"delivered before {[self._due_ms[head] for head, _ in early][:3]}: {early[:3]}"

    def check_all(self) -> None:
        """Everything came."""
        lost = self._due_ms.keys() - {head for head, _ in self._delivered}
        assert not lost, f"never delivered: {sorted(lost)[:3]}, {len(lost)} in all"
