"""A death at every change of the disk: a transaction is visible if and only if it was committed, and once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import FlushMode, Message, Producer, Store, StoredMessage, StoreSettings, Transaction, TransactionChecker
from flightlog import TransactionResolution as Resolution
from flightlog.produce.transaction.half_message import DISCARDED_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.errors import StorePoisonedError
from flightlog.testing import kill
from flightlog.testing.clock import ManualClock
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

TOPIC, GROUP = "t", "g"
MAX_CHANGES = 200
Act = Callable[[Producer, list[Transaction], TransactionChecker, Store], object]

ACTS: dict[str, tuple[Act, set[bytes]]] = {
    "begin": (lambda producer, opened, checker, store: producer.transaction(Message(TOPIC, b"new")), set()),
    "commit": (lambda producer, opened, checker, store: opened[0].commit(), {b"0"}),
    "roll back": (lambda producer, opened, checker, store: opened[0].rollback(), set()),
    "check": (lambda producer, opened, checker, store: checker.check_now(), {b"left-1"}),
    "give up": (lambda producer, opened, checker, store: checker.check_now(), {b"left-1"}),
    "close": (lambda producer, opened, checker, store: store.close(), set()),
}
"""What dies in the middle, and what it has made visible if it does not."""


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("name", ACTS)
def test_a_death_at_every_change_of_the_disk(tmp_path: Path, name: str, mode: FlushMode, cut: bool) -> None:
    for changes in range(MAX_CHANGES):
        died = dies_after(tmp_path / str(changes), name, mode, changes, cut)
        if not died:
            break
    else:
        raise AssertionError(f"more than {MAX_CHANGES} changes")
    assert changes or name != "check"


def dies_after(folder: Path, name: str, mode: FlushMode, changes: int, cut: bool) -> bool:
    act, done = ACTS[name]
    disk, clock = PowerDisk(folder / "store"), ManualClock()
    settings = StoreSettings.small(
        flush_mode=mode, flush_interval_ms=3_600_000, allocate_step_size=4096, prepare_ahead_size=0,
        segment_size=65_536, sync_flush_timeout_ms=240_000, transaction_check_max_count=2,
    )  # fmt: skip
    decided = {b"left-1": Resolution.COMMIT, b"left-2": Resolution.ROLLBACK, b"0": Resolution.COMMIT}
    decided |= {b"new": Resolution.ROLLBACK, b"before": Resolution.COMMIT}

    def open_store() -> tuple[Store, TransactionChecker]:
        store = flightlog.open(disk.root, settings, disk=disk, clock=clock)
        inside.transactions_by_hand(store)
        return store, TransactionChecker(store, GROUP, answer)

    def answer(message: StoredMessage) -> Resolution:
        assert message.body not in visible(store), "asked about what was committed"
        return decided[message.body]

    def visible(store: Store, topic: str = TOPIC) -> list[bytes]:
        return sorted(m.body for found, queue in store.queues() if found == topic for m in store.read(topic, queue))

    store, checker = open_store()
    producer = Producer(store, producer_group=GROUP)
    with producer.transaction(Message(TOPIC, b"before")):
        pass
    opened = [producer.transaction(Message(TOPIC, b"0"))]
    for body in (b"left-1", b"left-2"):
        producer.transaction(Message(TOPIC, body)).unknown()
    store.flush()
    clock.advance(7000)
    if name == "roll back":
        decided[b"0"] = Resolution.ROLLBACK
    if name == "give up":
        decided[b"left-1"], decided[b"left-2"] = Resolution.COMMIT, Resolution.UNKNOWN
        for _ in range(settings.transaction_check_max_count):
            checker.check_now()
            clock.advance(7000)
        store.flush()
    disk.die_after = changes
    died = False
    try:
        act(producer, opened, checker, store)
    except (Died, StorePoisonedError):
        died = True
    disk.die_after = None
    if not died and not store.is_closed:
        assert visible(store) == sorted({b"before", *done})
    kill(store)
    disk.cut(random.Random(changes)) if cut else disk.kill()
    store, checker = open_store()
    if mode is FlushMode.SYNC and not died:
        assert done <= set(visible(store)), "a commit that returned was lost"
    assert set(visible(store)) <= {b"before", b"0", b"left-1"}
    for _ in range(2):
        clock.advance(7000)
        checker.check_now()
    expected = {body for body, answer in decided.items() if answer is Resolution.COMMIT}
    assert visible(store) == sorted(expected)
    assert visible(store, DISCARDED_TOPIC) == [b"left-2"] * (name == "give up")
    assert store.group_offsets("CID_RMQ_SYS_TRANS", HALF_TOPIC)[0] == store.queue_bounds(HALF_TOPIC, 0)[1]
    assert store.verify().is_clean
    store.close()
    return died
