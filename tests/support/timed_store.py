"""A store whose timers are run by hand, on a clock that is set by hand, and what is to come out of it.

timed = TimedStore(root, clock)
timed.put("orders", 1, deliver_at_ms=...); clock.at_ms += 5000; timed.run()
timed.kill()                                # then another one over the same folder, or disk
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.delay.store_timers import StoreTimerHost
from flightlog.schedule.delivered import DueMessage
from flightlog.schedule.timer_wheel_store import TimerWheelStore
from flightlog.store.disk.disk import Disk, RealDisk
from flightlog.testing import kill
from flightlog.tests.support import inside

START_MS = 1_700_000_000_000
NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=1 << 16,
    queue_file_entries=100,
    index_slots=5,
    index_entries=20,
    key_index=False,
    deliver_delayed=False,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)
SMALL: dict[str, Any] = {"roll_window_s": 600, "file_size": 52 * 20 + 30, "slot_count": 4096}
"""A wheel of little more than an hour, so that a test need not wait for a turn of it."""


@dataclass
class SetClock:
    """Shows what it was set to."""

    at_ms: int = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@dataclass
class TimedStore:
    """Open from the beginning."""

    root: Path
    clock: SetClock
    disk: Disk = field(default_factory=RealDisk)
    options: dict[str, Any] = field(default_factory=lambda: SMALL)

    def __post_init__(self) -> None:
        self.store = store = flightlog.open(self.root, SETTINGS, disk=self.disk, clock=self.clock)
        self.deliver: Callable[[Sequence[DueMessage]], int] = inside.putter(store).deliver
        """What timers are delivered by. A test may put something of its own in between."""
        self.around = StoreTimerHost(
            inside.log(store),
            inside.queue_table(store),
            store.recovery_report.last_writer,
            inside.maintenance(store).catch_up,
            lambda deliveries: self.deliver(deliveries),
        )
        self.timers = TimerWheelStore(self.disk, self.root, self.around, **self.options)
        try:
            self.timers.open()
        except BaseException:
            self.kill()
            raise

    def put(self, topic: str, number: int, deliver_at_ms: int, queue_id: int = 0) -> None:
        """A timer whose uniq key is its number."""
        properties = {"TIMER_DELIVER_MS": str(deliver_at_ms)}
        self.store.put(Message(topic, b"%d" % number, properties=properties, uniq_key=str(number), queue_id=queue_id))

    def cancel(self, topic: str, number: int, deliver_at_ms: int) -> None:
        self.store.cancel_timer(topic, str(number), deliver_at_ms)

    def run(self) -> int | None:
        return self.timers.run(self.clock.at_ms)

    def delivered(self, topic: str = "orders", queue_id: int = 0) -> list[int]:
        """Numbers of what is in the topic, in order."""
        return [int(message.body) for message in self.store.read(topic, queue_id)]

    def close(self) -> None:
        """Save, and close as one should."""
        self.timers.save(self.clock.at_ms)
        self.timers.close()
        self.store.close()

    def kill(self) -> None:
        """Let go as a process that dies."""
        self.timers.close()
        kill(self.store)
