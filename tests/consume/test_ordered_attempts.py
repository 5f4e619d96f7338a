"""Attempts at the message that an ordered queue waits for: counted over members, restarts, kills and power cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings, Subscription
from flightlog.consume.retry.starts import SLOT_SIZE
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import PowerDisk

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

END = ("close", "kill", "cut")


class Lives:
    """One store, in one life after the other."""

    def __init__(self, root: Path, mode: FlushMode) -> None:
        self.root, self.disk, self.clock = root, PowerDisk(root), ManualClock(1_700_000_000_000)
        self._settings = StoreSettings.small(flush_mode=mode, flush_interval_ms=3_600_000)
        self.store = self.opened()

    def opened(self) -> Store:
        return flightlog.open(self.root, self._settings, disk=self.disk, clock=self.clock)

    def end(self, how: str) -> None:
        """A store that is closed, killed, or has its power cut; and its next life."""
        if how == "close":
            self.store.close()
        else:
            kill(self.store)
        if how == "kill":
            self.disk.kill()
        elif how == "cut":
            self.disk.cut()
        self.store = self.opened()

    def subscribe(self, **options: Any) -> Subscription:
        return self.store.subscribe("orders", "g", ordered=True, idle_s=0, **options)

    def rest(self) -> None:
        """Past the second that a queue rests after a failure."""
        self.clock.advance(1_001)


@pytest.fixture(params=FlushMode)
def lives(request: pytest.FixtureRequest, tmp_path: Path, assert_clean: AssertClean) -> Iterator[Lives]:
    lives = Lives(tmp_path / "store", request.param)
    lives.store.create_topic("orders", 1)
    lives.store.put_many(Message("orders", b"%d" % number) for number in range(4))
    lives.store.flush()
    yield lives
    lives.store.close()
    assert_clean(lives.root)


@pytest.mark.parametrize("how", END)
def test_a_message_that_fails_once_a_life_is_a_dead_letter_after_its_attempts(lives: Lives, how: str) -> None:
    for attempt in (1, 2, 3):
        [message] = lives.subscribe(max_attempts=3).poll(1)
        assert (message.body, message.attempt) == (b"0", attempt)
        assert message.send_back()
        lives.end(how)
    [message] = lives.subscribe(max_attempts=3).poll(1)  # a power cut may have taken the letter: it was sent again now
    assert (message.body, message.attempt) == (b"1", 1)
    lives.end("close")
    assert [(letter.body, letter.reconsume_times) for letter in lives.store.dead_letters("g")] == [(b"0", 3)]


def test_the_next_member_goes_on_with_the_count(lives: Lives) -> None:
    with lives.subscribe() as member:
        [message] = member.poll(1)
        assert message.send_back()
    lives.rest()
    with lives.subscribe() as member:
        [message] = member.poll(1)
        assert (message.body, message.attempt) == (b"0", 2)
        assert message.ack()
        assert [(message.body, message.attempt) for message in member.poll(1)] == [(b"1", 1)]


def test_what_is_done_is_forgotten(lives: Lives) -> None:
    starts = lives.root / "flightlog" / "starts"
    for _ in range(2):
        with lives.subscribe() as member:
            [message] = member.poll(1)
            assert message.retry_later(1.0)
        assert starts.stat().st_size
        lives.end("close")
        assert starts.stat().st_size == 2 * SLOT_SIZE
    with lives.subscribe() as member:
        [message] = member.poll(1)
        assert message.attempt == 3 and message.ack()
    lives.end("close")
    assert starts.stat().st_size == 0


@pytest.mark.parametrize("how", END)
def test_of_a_batch_those_count_that_had_as_many_attempts_as_the_first(lives: Lives, how: str) -> None:
    with lives.subscribe() as member:
        for message in member.poll(2):
            assert message.send_back()
        lives.rest()
        batch = member.poll(3)
        assert [message.attempt for message in batch] == [2, 2, 1]
        assert sum(message.send_back() for message in reversed(batch)) == 3
    lives.end(how)
    with lives.subscribe() as member:
        found = [(message.body, message.attempt, message.ack()) for _ in range(4) for message in member.poll(1)]
    assert found == [(b"0", 3, True), (b"1", 3, True), (b"2", 1, True), (b"3", 1, True)]


@pytest.mark.parametrize(
    "told",
    [
        lambda store: store.reset_offset("g", "orders", to="first"),
        lambda store: store.delete_group("g"),
    ],
)
def test_a_group_that_is_told_to_go_on_elsewhere_begins_to_count_again(
    lives: Lives, told: Callable[[Store], object]
) -> None:
    with lives.subscribe() as member:
        [message] = member.poll(1)
        assert message.send_back()
    lives.end("close")
    told(lives.store)
    lives.end("close")
    [message] = lives.subscribe(start=flightlog.StartFrom.FIRST).poll(1)
    assert (message.body, message.attempt) == (b"0", 1)


def test_attempts_at_what_a_power_cut_took_count_for_no_other_message(lives: Lives) -> None:
    lives.store.put(Message("bills", b"lost", queue_id=0))
    with lives.store.subscribe("bills", "g2", ordered=True, idle_s=0) as member:
        [message] = member.poll(1)
        assert message.send_back()
    lives.end("cut")
    lives.store.put(Message("bills", b"next", queue_id=0))
    [message] = lives.store.subscribe("bills", "g2", ordered=True, idle_s=0).poll(1)
    assert (message.body, message.attempt) in [(b"next", 1), (b"lost", 2)]


def test_of_an_inner_batch_those_count_that_failed(lives: Lives) -> None:
    lives.store.put_batch(Message("batches", b"%d" % number) for number in range(3))
    with lives.store.subscribe("batches", "g3", ordered=True, idle_s=0) as member:
        first, second = member.poll(2)
        assert first.ack() and second.send_back()
        lives.rest()
        found = [(message.body, message.attempt, message.ack()) for _ in range(2) for message in member.poll(1)]
    assert found == [(b"1", 2, True), (b"2", 1, True)]
