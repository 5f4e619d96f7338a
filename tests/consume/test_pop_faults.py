"""A death at every change of the disk in the middle of a call of pop: nothing is lost, nothing comes while it is
invisible, no attempt is forgotten, and what comes twice is what docs/messaging.md says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import FlushMode, Message, PopHandle, StoreSettings
from flightlog.consume.pop import pop_service
from flightlog.store.errors import StorePoisonedError
from flightlog.testing import kill
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

HELD_MS, OVER_MS = 20_000, 1_000
MAX_CHANGES = 300
HELD, OVER, ACKED, FAILED, FRESH = range(5)
"""Is invisible; comes back in the act; was acknowledged; came back before; was never popped."""
BEFORE = {HELD: 1, OVER: 1, FAILED: 1}
"""Deliveries that were answered before the act."""
Act = Callable[[PoppedStore, PopHandle], object]


def dead_letter(popped: PoppedStore, held: PopHandle) -> None:
    """FAILED had its attempt."""
    assert popped.numbers(max_attempts=1, invisible_ms=HELD_MS) == [FRESH]


def forward(popped: PoppedStore, held: PopHandle) -> None:
    popped.store.pop_service.forward_to_dead_letters(held, 1)


ACTS: dict[str, Act] = {
    "receive": lambda popped, held: popped.receive(invisible_ms=HELD_MS),
    "ack": lambda popped, held: popped.store.ack(held),
    "change": lambda popped, held: popped.store.change_invisible(held, HELD_MS),
    "revive": lambda popped, held: popped.pass_time(6_000),
    "dead letter": dead_letter,
    "forward": forward,
    "close": lambda popped, held: popped.store.close(),
}
TWICE = {"change": {HELD}}
"""What may come twice after a death in the act."""
DEAD = {"dead letter": FAILED, "forward": HELD}
"""What the act gives up."""


@pytest.fixture(autouse=True)
def looked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes again, so that each receive gets what the test means."""
    monkeypatch.setattr(pop_service, "RETRY_FIRST_PERCENT", 0)


@pytest.mark.parametrize(("name", "cut"), [(name, number % 2 == 0) for number, name in enumerate(ACTS)])
def test_a_death_in_the_middle(tmp_path: Path, name: str, cut: bool) -> None:
    dies_after(tmp_path, name, FlushMode.SYNC, 1, cut)


@pytest.mark.ci
@pytest.mark.parametrize("cut", [False, True], ids=["killed", "cut"])
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("name", ACTS)
def test_a_death_at_every_change_of_the_disk(
    tmp_path: Path, name: str, mode: FlushMode, cut: bool, scale: Scale
) -> None:
    step = scale.pick(ci=19, full=1)
    lives(tmp_path, name, mode, cut, range(sum(map(ord, f"{name}{mode}{cut}")) % step, MAX_CHANGES, step))


def test_a_death_between_the_two_records_of_a_change_brings_the_message_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new check point is there, the acknowledgement of the old one is not: the order of RocketMQ's
    `appendCheckPointThenAckOrigin`. In the other order the message would be lost."""
    popped = PoppedStore(tmp_path / "store")
    popped.put(1)
    [held] = popped.receive(invisible_ms=OVER_MS)
    putter = inside.engine(popped.store).putter
    park_many = putter.park_many

    def dies(messages: list[Message]) -> None:
        park_many(messages[:1])
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(putter, "park_many", dies)
        with pytest.raises(Died):
            popped.store.change_invisible(held.handle, HELD_MS)
    popped.reopen(killed=True)
    came, attempts = drain(popped)
    assert came == {1: 2} and attempts == {1: 2}
    assert popped.store.verify().is_clean
    popped.store.close()


def lives(folder: Path, name: str, mode: FlushMode, cut: bool, deaths: range) -> None:
    """One life a death, until the act gets through before it."""
    for changes in deaths:
        if not dies_after(folder / str(changes), name, mode, changes, cut):
            return
    raise AssertionError(f"more than {MAX_CHANGES} changes")


def dies_after(folder: Path, name: str, mode: FlushMode, changes: int, cut: bool) -> bool:
    disk = PowerDisk(folder / "store")
    popped, held = begin(disk, mode)
    disk.die_after = changes
    died = False
    try:
        ACTS[name](popped, held)
    except (Died, StorePoisonedError):
        died = True
    disk.die_after = None
    kill(popped.store)
    disk.cut(random.Random(changes)) if cut else disk.kill()
    popped.open()
    is_known = not died and (mode is FlushMode.SYNC or not cut)
    """What the act answered cannot have been lost."""
    if name != "revive":
        assert HELD not in popped.numbers(invisible_ms=1000), "it comes while it is invisible"
    came, attempts = drain(popped)
    dead = [int(message.body) for message in popped.store.dead_letters("g")]
    assert_fates(name, is_known, came, attempts, dead)
    assert popped.store.verify().is_clean
    popped.store.close()
    return died


def begin(disk: PowerDisk, mode: FlushMode) -> tuple[PoppedStore, PopHandle]:
    """A store with a message of each kind, all of it durable, and the handle of HELD."""
    settings = StoreSettings.small(
        flush_mode=mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
        segment_size=65_536, sync_flush_timeout_ms=240_000,
    )  # fmt: skip
    popped = PoppedStore(disk.root, settings=settings, disk=disk)
    popped.store.create_topic("orders", 1)
    popped.put(FAILED)
    popped.receive(invisible_ms=OVER_MS)
    popped.pass_time(6_000)
    popped.put(HELD, ACKED, OVER)
    popped.store.queue_bounds("orders", 0)  # dispatched: else a receive of one message takes FAILED
    [held] = popped.receive(1, invisible_ms=HELD_MS)
    [acked] = popped.receive(1, invisible_ms=HELD_MS)
    popped.store.ack(acked.handle)
    popped.receive(1, invisible_ms=OVER_MS)
    popped.store.put(Message("orders", b"%d" % FRESH))
    popped.store.flush()
    return popped, held.handle


def drain(popped: PoppedStore) -> tuple[Counter[int], dict[int, int]]:
    """Acknowledge all that comes until nothing is left: how often each came, and the last attempt of each."""
    came: Counter[int] = Counter()
    attempts: dict[int, int] = {}
    for _ in range(3):
        popped.pass_time(2 * HELD_MS)
        while messages := popped.receive():
            for each in messages:
                came[int(each.body)] += 1
                attempts[int(each.body)] = each.attempt
            popped.store.ack(*(each.handle for each in messages))
    return came, attempts


def assert_fates(name: str, is_known: bool, came: Counter[int], attempts: dict[int, int], dead: list[int]) -> None:
    gone = {ACKED, *dead}
    if name == "ack" and is_known:
        gone.add(HELD)
    if name in DEAD and is_known:
        assert dead == [DEAD[name]]
    assert dead in ([], [DEAD.get(name)])
    may_be_gone = gone | ({HELD} if name == "ack" else set())
    assert not gone & came.keys(), f"{gone & came.keys()} come again"
    assert {HELD, OVER, FAILED, FRESH} - may_be_gone <= came.keys(), "lost"
    twice = {number for number, count in came.items() if count > 1}
    assert twice <= TWICE.get(name, set()), f"{twice} came twice"
    assert max(came.values()) <= 2
    known = BEFORE | ({FRESH: 1} if name == "receive" and is_known else {})
    for number, count in known.items():
        if number in attempts:
            assert attempts[number] > count, f"{number}: attempt {attempts[number]} after {count}"
