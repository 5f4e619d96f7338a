"""A store that is popped from, on a clock that a test moves; timers and check points are worked off by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flightlog
from flightlog import Message, PoppedMessage, StoreSettings
from flightlog.store.disk.disk import Disk
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside

STEP_MS = 1000


@dataclass
class PoppedStore:
    """Open from the beginning. `pass_time` is all that makes messages come again."""

    root: Path
    clock: ManualClock = field(default_factory=ManualClock)
    settings: StoreSettings = field(default_factory=StoreSettings.small)
    disk: Disk | None = None

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.store = flightlog.open(self.root, self.settings, clock=self.clock, disk=self.disk)
        inside.delay_service(self.store).stop()
        inside.pop_by_hand(self.store)

    def reopen(self, *, killed: bool = False) -> None:
        """A later life."""
        if killed:
            self.kill()
        else:
            self.store.close()
        self.open()

    def kill(self) -> None:
        """What was not written yet is lost."""
        inside.pop_saves_nothing(self.store)
        kill(self.store)

    def put(self, *numbers: int, topic: str = "orders", queue_id: int = 0, **fields: Any) -> None:
        for number in numbers:
            self.store.put(Message(topic, b"%d" % number, queue_id=queue_id, **fields))

    def receive(self, max_count: int = 32, *, group: str = "g", **options: Any) -> list[PoppedMessage]:
        return self.store.receive(group, "orders", max_count, **{"invisible_ms": 10_000, **options})

    def numbers(self, max_count: int = 32, **options: Any) -> list[int]:
        """What a receive returns."""
        return numbers_of(self.receive(max_count, **options))

    def run_timers(self) -> None:
        """Deliver what is due."""
        while inside.delay_service(self.store).deadlines.run_due() == 0:
            pass

    def revive(self) -> None:
        self.store.pop_service.revive()

    def pass_time(self, ms: int) -> None:
        for _ in range(0, ms, STEP_MS):
            self.clock.advance(STEP_MS)
            self.run_timers()
            self.revive()


def numbers_of(messages: list[PoppedMessage]) -> list[int]:
    return [int(each.body) for each in messages]
