"""Any order of puts, deliveries, settings of the clock, saves, closings, kills and power cuts: nothing that was durable
is lost, nothing comes early, and twice only what a death took the note of."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

LEVELS_MS = 1000, 5000, 3_600_000


class DelayMachine(RuleBasedStateMachine):
    """One store, its disk and its clock, and what is known of every message."""

    @initialize(mode=st.sampled_from(FlushMode))
    def begin(self, mode: FlushMode) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flightlog-delays-"))
        self.disk = PowerDisk(self.folder / "store")
        self.clock = ManualClock()
        self.mode, self.number = mode, 0
        self.due_ms: dict[bytes, int] = {}
        """Due time of every message that was put and may still be there."""
        self.lasting: set[bytes] = set()
        """Those that no power cut may take."""
        self.may_repeat: set[bytes] = set()
        """Delivered when no note of it was on the disk, and then a death came."""
        self.unsaved: set[bytes] = set()
        self.seen = 0
        """Queue offset up to which the deliveries were judged."""
        self.open()

    def open(self) -> None:
        settings = StoreSettings.small(
            delay_levels="1s 5s 1h", flush_mode=self.mode, flush_interval_ms=3_600_000, allocate_step_size=4096,
            prepare_ahead_size=0, accept_future_store_time=True, sync_flush_timeout_ms=240_000,
        )  # fmt: skip
        self.store = flightlog.open(self.disk.root, settings, disk=self.disk, clock=self.clock)
        inside.delay_service(self.store).stop()
        self.judge()  # the thread may have delivered something before it was stopped

    def judge(self) -> None:
        for message in self.store.read("t", 0, self.seen):
            assert message.store_timestamp_ms >= self.due_ms[message.body], "early"
            self.unsaved.add(message.body)
            if self.mode is FlushMode.SYNC:
                self.lasting.add(message.body)
            self.seen += 1

    @rule(level=st.integers(1, 3), count=st.integers(1, 4))
    def put(self, level: int, count: int) -> None:
        bodies = [b"%d" % (self.number + i) for i in range(count)]
        self.number += count
        results = self.store.put_many([Message("t", body, delay_level=level) for body in bodies])
        for body, result in zip(bodies, results, strict=True):
            self.due_ms[body] = result.store_timestamp_ms + LEVELS_MS[level - 1]
        if self.mode is FlushMode.SYNC:
            self.lasting.update(bodies)

    @rule(ms=st.sampled_from((1, 500, 1000, 5000, 3_600_000)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(ms=st.sampled_from((-7_200_000, -3000, 3000, 7_200_000)))
    def the_clock_is_set(self, ms: int) -> None:
        self.clock.at_ms += ms

    @rule()
    def deliver(self) -> None:
        while inside.delay_service(self.store).deadlines.run_due() == 0:
            pass
        self.judge()

    @rule()
    def save(self) -> None:
        inside.delay_service(self.store).save()
        self.lasting.update(self.due_ms)  # it makes the log durable first, if it has anything to say
        if not self.unsaved:
            self.store.flush()
        self.unsaved.clear()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.lasting.update(self.due_ms)
        self.unsaved.clear()
        self.open()

    @rule()
    def is_killed(self) -> None:
        self.die()
        self.disk.kill()
        self.open()

    @precondition(lambda self: self.number)
    @rule(seed=st.integers(0, 1 << 32))
    def loses_power(self, seed: int) -> None:
        self.die()
        self.disk.cut(random.Random(seed))
        with flightlog.open_read_only(self.disk.root) as view:  # the next opening delivers others in place of these
            self.seen = min(self.seen, len(list(view.read("t"))))
        self.open()
        there = {m.body for level in range(3) for m in self.store.read("SCHEDULE_TOPIC_XXXX", level)}
        assert self.lasting <= there, "what was durable is gone"
        self.due_ms = {body: due for body, due in self.due_ms.items() if body in there}

    def die(self) -> None:
        self.may_repeat |= self.unsaved
        self.unsaved.clear()
        kill(self.store)

    @invariant()
    def twice_comes_only_what_may(self) -> None:
        found = Counter(m.body for m in self.store.read("t"))
        assert {body for body, count in found.items() if count > 1} <= self.may_repeat

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            # Now and once more where the clock was set back: store times never run backwards.
            self.clock.at_ms = max([self.clock.at_ms, *self.due_ms.values()])
            while (wait_s := inside.delay_service(self.store).deadlines.run_due()) is not None:
                self.clock.advance(max(int(wait_s * 1000), 1))
            self.judge()
            self.twice_comes_only_what_may()
            found = {m.body for m in self.store.read("t")}
            assert self.due_ms.keys() <= found, "lost"
            assert self.store.verify().is_clean
        finally:
            self.store.close()
            shutil.rmtree(self.folder)


@pytest.mark.ci
def test_what_is_delayed_comes_once_and_not_before_its_time(scale: Scale) -> None:
    limits = settings(max_examples=scale.pick(ci=40, full=1000), stateful_step_count=scale.pick(ci=25, full=50))
    run_state_machine_as_test(DelayMachine, settings=limits)
