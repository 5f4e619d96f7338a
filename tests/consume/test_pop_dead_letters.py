"""Messages that a group pops and gives up, in a store that is killed or loses its power at each step of the disk: each
is a dead letter, once, and nothing else is."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PoppedMessage, StoreSettings
from flightlog.consume.pop.order_table import OrderTable
from flightlog.store.errors import FlightlogError
from flightlog.testing import ManualClock
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

COUNT, MAX_ATTEMPTS = 6, 2
BAD = {b"1", b"4"}
INVISIBLE_MS, AGAIN_MS = 3_000, 9_000
ROUNDS, SETTLE_ROUNDS = 4, 6


@dataclass
class Group:
    """One that works on what it receives. The bad ones run into their time, or are forwarded in their last attempt."""

    popped: PoppedStore
    forwards: bool
    done: set[bytes] = field(default_factory=set)
    attempts: dict[bytes, int] = field(default_factory=dict)

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            while messages := self.popped.receive(4, invisible_ms=INVISIBLE_MS, max_attempts=MAX_ATTEMPTS):
                for each in messages:
                    self._try(each)
            self.popped.clock.advance(AGAIN_MS)
            self.popped.run_timers()
            self.popped.revive()
            inside.save_pops(self.popped.store)

    def _try(self, each: PoppedMessage) -> None:
        assert each.attempt > self.attempts.get(each.body, 0), f"attempt {each.attempt} of {each.body!r} once more"
        self.attempts[each.body] = each.attempt
        store = self.popped.store
        if each.body not in BAD:
            self.done.add(each.body)
            store.ack(each.handle)
        elif self.forwards and each.attempt == MAX_ATTEMPTS:
            store.pop_service.forward_to_dead_letters(each.handle, each.attempt)


def begin(disk: PowerDisk, mode: FlushMode, is_ordered: bool) -> PoppedStore:
    settings = StoreSettings.small(
        flush_mode=mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
        segment_size=65_536, sync_flush_timeout_ms=240_000,
    )  # fmt: skip
    popped = PoppedStore(disk.root, settings=settings, disk=disk)
    popped.store.create_topic("orders", 1)
    popped.store.update_group("g", is_ordered=is_ordered)
    popped.put(*range(COUNT))
    popped.store.flush()
    return popped


def lives(folder: Path, mode: FlushMode, cut: bool, is_ordered: bool, forwards: bool, stride: int) -> Iterator[Group]:
    """One for every `stride`th step of the disk at which its process dies, opened again."""
    for step in range(stride // 2, 10_000, stride):
        disk = PowerDisk(folder / str(step))
        popped = begin(disk, mode, is_ordered)
        group = Group(popped, forwards)
        disk.die_after = step
        try:
            group.work(ROUNDS)
            died = disk.left is not None
        except (Died, FlightlogError):
            died = True
        with suppress(Died):
            popped.kill()
        disk.cut(random.Random(step)) if cut else disk.kill()
        disk.die_after = None
        popped.open()
        if cut and mode is FlushMode.ASYNC:
            group.attempts.clear()  # which may not have been durable
        yield group
        if not died:
            return
        shutil.rmtree(disk.root)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("forwards", [False, True], ids=["given up", "forwarded"])
@pytest.mark.parametrize("is_ordered", [False, True], ids=["spread", "ordered"])
@pytest.mark.parametrize("cut", [False, True], ids=["kill", "cut"])
@pytest.mark.parametrize("mode", FlushMode)
def test_what_is_given_up_is_a_dead_letter_once(
    tmp_path: Path, scale: Scale, mode: FlushMode, cut: bool, is_ordered: bool, forwards: bool
) -> None:
    for group in lives(tmp_path, mode, cut, is_ordered, forwards, scale.pick(ci=43, full=1)):
        group.work(SETTLE_ROUNDS)
        store = group.popped.store
        letters = Counter(letter.body for letter in store.dead_letters("g"))
        assert letters == dict.fromkeys(BAD, 1), (group.popped.root.name, letters)
        assert group.done == {b"%d" % number for number in range(COUNT)} - BAD, group.popped.root.name
        assert store.verify().is_clean
        store.close()


def test_messages_of_one_batch_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """They have one physical offset, and these no uniq keys."""
    clock = ManualClock()
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as store:
        store.create_topic("orders", 1, attributes={"queue.type": "BatchCQ"})
        store.update_group("g", is_ordered=True)
        store.put_batch([Message("orders", b"a"), Message("orders", b"b")])
        assert len(store.receive("g", "orders", invisible_ms=1_000, max_attempts=1)) == 2
        clock.advance(2_000)
        assert store.receive("g", "orders", invisible_ms=1_000, max_attempts=1) == []
        assert [letter.body for letter in store.dead_letters("g")] == [b"a", b"b"]


def test_what_is_received_again_after_a_reset_can_be_given_up_again(tmp_path: Path) -> None:
    popped = PoppedStore(tmp_path / "store")
    popped.put(1)
    for attempts in (1, 2):
        [again] = popped.receive(invisible_ms=INVISIBLE_MS)
        popped.store.pop_service.forward_to_dead_letters(again.handle, 1)
        assert len(list(popped.store.dead_letters("g"))) == attempts
        popped.clock.advance(1)
        popped.store.reset_offset("g", "orders", "first")
    popped.receive(invisible_ms=INVISIBLE_MS)
    popped.pass_time(AGAIN_MS)
    assert popped.numbers() == [1]
    popped.store.close()


def test_a_message_is_forwarded_once_however_often_that_is_asked(tmp_path: Path) -> None:
    popped = PoppedStore(tmp_path / "store")
    popped.put(1)
    [received] = popped.receive()
    for _ in range(3):
        popped.store.pop_service.forward_to_dead_letters(received.handle, 1)
    assert len(list(popped.store.dead_letters("g"))) == 1
    popped.store.close()


def test_what_was_given_up_behind_another_message_does_not_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends between dead letter and acknowledgement, and the queue is popped again for the message before:
    that is a later pop than the one that the dead letter belongs to."""
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=True)
    popped.put(1, 2, 3)
    _, second, _ = popped.receive(invisible_ms=INVISIBLE_MS)

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(OrderTable, "set", dies)
        with pytest.raises(Died):
            popped.store.pop_service.forward_to_dead_letters(second.handle, 1)
    popped.reopen(killed=True)
    came = []
    for _ in range(4):
        popped.pass_time(AGAIN_MS)
        for each in popped.receive(invisible_ms=INVISIBLE_MS):
            came.append(int(each.body))
            popped.store.ack(each.handle)
    assert came == [1, 3] and [letter.body for letter in popped.store.dead_letters("g")] == [b"2"]
    popped.store.close()


def test_pops_of_one_millisecond_make_no_message_a_dead_letter_twice(tmp_path: Path) -> None:
    """The second one has a time that is ahead of the clock, and so of its dead letter."""
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=True)
    popped.put(1, 2)
    [first] = popped.receive(1)
    popped.store.ack(first.handle)
    [second] = popped.receive(1)
    for _ in range(2):
        popped.store.pop_service.forward_to_dead_letters(second.handle, 1)
    assert popped.receive(1) == []
    popped.put(3)
    assert len(popped.receive(1)) == 1
    popped.store.pop_service.forward_to_dead_letters(second.handle, 1)  # behind the next pop
    assert [letter.body for letter in popped.store.dead_letters("g")] == [b"2"]
    popped.store.close()


@pytest.mark.parametrize("has_changed", [False, True], ids=["received once more", "its time was changed"])
def test_a_handle_that_counts_no_more_gives_no_ordered_message_up(tmp_path: Path, has_changed: bool) -> None:
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=True)
    popped.put(1)
    [old] = popped.receive(attempt_id="a")
    if has_changed:
        popped.store.change_invisible(old.handle, AGAIN_MS // 4)
    else:
        popped.receive(attempt_id="a")
    popped.clock.advance(AGAIN_MS // 2)
    with pytest.raises(flightlog.ExpiredHandleError):
        popped.store.pop_service.forward_to_dead_letters(old.handle, 1)
    popped.pass_time(10 * AGAIN_MS)
    assert [each.body for each in popped.receive()] == [b"1"] and not list(popped.store.dead_letters("g"))
    popped.store.close()
