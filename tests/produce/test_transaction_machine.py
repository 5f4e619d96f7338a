"""Any order of begins, commits, rollbacks, checks, closings, kills and power cuts, and a death in any of their disk
operations: a message is visible if and only if it was committed, and once."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
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
from flightlog import FlushMode, Message, Producer, StoredMessage, StoreSettings, Transaction, TransactionChecker
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import DISCARDED_TOPIC, times_checked
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.errors import StorePoisonedError
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

TOPIC, GROUP = "t", "g"
CHECK_MAX = 3


class TransactionMachine(RuleBasedStateMachine):
    """One store, its disk and its clock, and the application that knows what it has decided."""

    @initialize(mode=st.sampled_from(FlushMode))
    def begin_to_live(self, mode: FlushMode) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="flightlog-transactions-"))
        self.disk = PowerDisk(self.folder / "store")
        self.clock, self.mode, self.number = ManualClock(), mode, 0
        self.open_ones: dict[bytes, Transaction] = {}
        self.decided: dict[bytes, Resolution] = {}
        """What the application says when it is asked about a transaction that has begun."""
        self.committed: set[bytes] = set()
        """A commit returned, and no power cut can have taken its record."""
        self.rolled_back: set[bytes] = set()
        """A rollback returned, and no power cut can have taken its op message: nobody is asked any more."""
        self.open()

    def open(self) -> None:
        self.open_ones = {}
        found = StoreSettings.small(
            flush_mode=self.mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
            transaction_check_max_count=CHECK_MAX, accept_future_store_time=True, sync_flush_timeout_ms=240_000,
        )  # fmt: skip
        self.store = flightlog.open(self.disk.root, found, disk=self.disk, clock=self.clock)
        self.transactions = inside.transactions_by_hand(self.store)
        self.producer = Producer(self.store, producer_group=GROUP, clock=self.clock)
        self.checker = TransactionChecker(self.store, GROUP, self.answer)

    def answer(self, message: StoredMessage) -> Resolution:
        assert message.topic == TOPIC and message.body not in self.visible(), "asked about what was committed"
        assert message.body not in self.open_ones, "asked about what is open"
        assert message.body not in self.rolled_back, "asked about what was rolled back"
        return self.decided[message.body]

    def visible(self) -> Counter[bytes]:
        queues = [queue_id for topic, queue_id in self.store.queues() if topic == TOPIC]
        return Counter(message.body for queue_id in queues for message in self.store.read(TOPIC, queue_id))

    # -- what the application does

    def start(self, body: bytes) -> None:
        self.decided[body] = Resolution.ROLLBACK  # until it has done its own work
        self.open_ones[body] = self.producer.transaction(Message(TOPIC, body))
        self.decided[body] = Resolution.UNKNOWN

    def commit(self, body: bytes) -> None:
        self.decided[body] = Resolution.COMMIT
        transaction = self.open_ones.pop(body)
        transaction.commit()
        if self.mode is FlushMode.SYNC:
            self.committed.add(body)

    def roll_back(self, body: bytes) -> None:
        self.decided[body] = Resolution.ROLLBACK
        transaction = self.open_ones.pop(body)
        transaction.rollback()
        self.rolled_back.add(body)

    def look(self) -> None:
        self.checker.check_now()

    @rule()
    def begins(self) -> None:
        self.number += 1
        self.start(b"%d" % self.number)

    @precondition(lambda self: self.open_ones)
    @rule(data=st.data(), what=st.sampled_from(("commit", "roll back", "unknown", "drop")))
    def ends(self, data: st.DataObject, what: str) -> None:
        body = data.draw(st.sampled_from(sorted(self.open_ones)))
        if what == "commit":
            self.commit(body)
        elif what == "roll back":
            self.roll_back(body)
        else:
            transaction = self.open_ones.pop(body)
            if what == "unknown":
                transaction.unknown()

    @precondition(lambda self: Resolution.UNKNOWN in self.decided.values())
    @rule(data=st.data(), answer=st.sampled_from((Resolution.COMMIT, Resolution.ROLLBACK)))
    def decides(self, data: st.DataObject, answer: Resolution) -> None:
        """The work of a transaction that was left ends."""
        left = [b for b, found in self.decided.items() if found is Resolution.UNKNOWN and b not in self.open_ones]
        if left:
            self.decided[data.draw(st.sampled_from(sorted(left)))] = answer

    @rule(ms=st.sampled_from((1000, 3000, 7000, 31_000)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.transactions.run_due()

    @rule()
    def checks(self) -> None:
        self.look()

    # -- and what befalls it

    @rule()
    def closes(self) -> None:
        self.store.close()
        self.committed |= {body for body in self.visible_after_opening() if self.decided[body] is Resolution.COMMIT}

    def visible_after_opening(self) -> Counter[bytes]:
        self.open()
        return self.visible()

    @rule()
    def is_killed(self) -> None:
        before = self.visible()
        kill(self.store)
        self.disk.kill()
        assert self.visible_after_opening() == before

    @rule(seed=st.integers(0, 1 << 32))
    def loses_power(self, seed: int) -> None:
        kill(self.store)
        self.lose_power(seed)

    def lose_power(self, seed: int) -> None:
        self.disk.cut(random.Random(seed))
        if self.mode is FlushMode.ASYNC:
            self.rolled_back.clear()
        found = self.visible_after_opening()
        assert self.committed <= found.keys(), "what was committed is gone"

    @rule(
        data=st.data(), what=st.sampled_from(("begin", "commit", "roll back", "check")),
        after=st.integers(0, 12), seed=st.none() | st.integers(0, 1 << 32),
    )  # fmt: skip
    def dies_in(self, data: st.DataObject, what: str, after: int, seed: int | None) -> None:
        act: Callable[[], None] = self.look
        if what == "begin":
            self.number += 1
            act = lambda: self.start(b"%d" % self.number)  # noqa: E731
        elif what != "check":
            if not self.open_ones:
                return
            body = data.draw(st.sampled_from(sorted(self.open_ones)))
            act = lambda: self.commit(body) if what == "commit" else self.roll_back(body)  # noqa: E731
        self.disk.die_after = after
        try:
            act()
            if what == "check":
                self.clock.advance(7000)
                act()
        except (Died, StorePoisonedError):  # the latter where a thread of the store met the death first
            pass
        kill(self.store)
        self.disk.die_after = None
        if seed is None:
            self.disk.kill()
            self.open()
        else:
            self.lose_power(seed)

    # -- what holds

    @invariant()
    def visible_if_and_only_if_committed_and_once(self) -> None:
        found = self.visible()
        assert all(count == 1 for count in found.values()), found
        assert all(self.decided[body] is Resolution.COMMIT for body in found), "visible, and not committed"

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            for body in [*self.open_ones]:
                self.commit(body)
            left = {body for body, found in self.decided.items() if found is Resolution.UNKNOWN}
            self.decided |= dict.fromkeys(left, Resolution.COMMIT)
            there = {message.body for message in self.store.read(HALF_TOPIC)}
            for _ in range(2):
                self.clock.advance(7000)
                self.look()
            self.visible_if_and_only_if_committed_and_once()
            given_up = {message.body for message in self.store.read(DISCARDED_TOPIC)}
            assert all(times_checked(message) >= CHECK_MAX for message in self.store.read(DISCARDED_TOPIC))
            expected = {b for b in there if self.decided[b] is Resolution.COMMIT} - given_up
            assert self.visible().keys() == expected
            first, end = self.store.queue_bounds(HALF_TOPIC, 0)
            assert self.store.group_offsets("CID_RMQ_SYS_TRANS", HALF_TOPIC).get(0, 0) == end, (first, end)
            assert self.store.verify().is_clean
        finally:
            self.store.close()
            shutil.rmtree(self.folder)


@pytest.mark.ci
def test_a_message_is_visible_if_and_only_if_it_was_committed(scale: Scale) -> None:
    limits = settings(max_examples=scale.pick(ci=40, full=1000), stateful_step_count=scale.pick(ci=25, full=50))
    run_state_machine_as_test(TransactionMachine, settings=limits)
