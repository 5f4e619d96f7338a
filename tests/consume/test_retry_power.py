"""Messages that fail, in a store that is killed or loses its power at each step of the disk: every message is handled,
or is a dead letter after its last attempt, once."""

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
from flightlog import FlushMode, Message, Store, StoreSettings
from flightlog.store.errors import FlightlogError
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

MAX_ATTEMPTS = 3
COUNT = 8
BAD = {b"2", b"5"}
SETTLE_ROUNDS = 40


@dataclass
class Known:
    """What the application has seen."""

    done: set[bytes] = field(default_factory=set)
    """Acknowledged as handled."""
    attempts: dict[bytes, int] = field(default_factory=dict)
    """The highest attempt of each that was sent back and answered."""


def settings_of(mode: FlushMode) -> StoreSettings:
    return StoreSettings.small(
        flush_mode=mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
        delay_levels=" ".join(["1s"] * 18), accept_future_store_time=True, offset_save_interval_ms=3_600_000,
        rebalance_interval_ms=3_600_000, sync_flush_timeout_ms=240_000,
    )  # fmt: skip


def consume(store: Store, clock: ManualClock, known: Known, receive_count: int) -> None:
    """Handle messages: those that are bad fail. The offsets are saved in between."""
    with store.subscribe("t", "g", max_attempts=MAX_ATTEMPTS, on_dead_letter=lambda message: None) as member:
        for number in range(receive_count):
            message = member.receive(0)
            if message is None:
                clock.advance(1_000)
                while inside.delay_service(store).deadlines.run_due() == 0:
                    pass
                continue
            if message.body in BAD:
                if message.send_back():
                    known.attempts[message.body] = max(known.attempts.get(message.body, 0), message.attempt)
            elif message.ack():
                known.done.add(message.body)
            if number % 5 == 4:
                inside.group_offsets(store).save()


def opened(disk: PowerDisk, mode: FlushMode, clock: ManualClock) -> Store:
    store = flightlog.open(disk.root, settings_of(mode), disk=disk, clock=clock)
    inside.delay_service(store).stop()
    inside.groups_without_thread(store)
    return store


def steps(root: Path, mode: FlushMode, way: str, stride: int) -> Iterator[tuple[Store, ManualClock, Known, int]]:
    """One store for every `stride`th step of the disk at which its process dies, opened again."""
    for step in range(0, 10_000, stride):
        disk, clock, known = PowerDisk(root / str(step)), ManualClock(), Known()
        disk.root.mkdir()
        store = opened(disk, mode, clock)
        store.create_topic("t", 2)
        store.put_many(Message("t", b"%d" % number, queue_id=number % 2) for number in range(COUNT))
        store.flush()
        disk.die_after = step
        try:
            consume(store, clock, known, 30)
            has_died = disk.left is not None
        except (Died, FlightlogError):
            has_died = True
        with suppress(Died):
            kill(store)
        if way == "kill":
            disk.kill()
        else:
            disk.cut(random.Random(step) if way == "cut" else None)
        disk.die_after = None
        yield opened(disk, mode, clock), clock, known, step
        if not has_died:
            return
        shutil.rmtree(disk.root)
    raise AssertionError("it does not end")


def settle(store: Store, clock: ManualClock, known: Known) -> None:
    for _ in range(SETTLE_ROUNDS):
        consume(store, clock, known, 5)
        store.flush()  # what is sent back waits for no sync, and under sync flush is seen behind it alone


@pytest.mark.parametrize("way", ["kill", "cut", "cut to what was synced"])
@pytest.mark.parametrize("mode", FlushMode)
def test_no_message_is_lost_and_failed_ones_are_dead_letters_once(
    tmp_path: Path, scale: Scale, mode: FlushMode, way: str
) -> None:
    for store, clock, known, step in steps(tmp_path, mode, way, scale.pick(ci=17, full=1)):
        settle(store, clock, known)
        letters = Counter((letter.body, letter.reconsume_times) for letter in store.dead_letters("g"))
        assert letters == {(body, MAX_ATTEMPTS): 1 for body in BAD}, (step, letters)
        assert known.done == {b"%d" % number for number in range(COUNT)} - BAD, step
        store.close()
