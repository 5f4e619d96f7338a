"""Rounds of the flush service under a clock that the test holds: what is synced when, and what is said of it.

The service's thread is stopped, and its rounds are called: nothing here depends on time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.state.checkpoint import read_checkpoint
from flightlog.store.state.progress import Progress, read_progress
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

FIXED_SIZE = 91 + 1
"""Bytes of a record of topic `t` without a body."""
PAGE = 4096
HOUR_MS = 3_600_000
ENTRIES_OF_TWO_PAGES = 410
"""The first number of 20-byte entries that fill two pages."""


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


class Rounds:
    """A store whose rounds come when the test says so."""

    def __init__(self, path: Path, disk: FaultyDisk, clock: ManualClock, assert_clean: AssertClean) -> None:
        self._path, self._disk, self._clock, self._assert_clean = path, disk, clock, assert_clean
        self._stores: list[flightlog.Store] = []

    def open(self, **changes: Any) -> flightlog.Store:
        sizes: dict[str, Any] = {"segment_size": 1 << 20, "queue_file_entries": 1000, "key_index": False}
        store = flightlog.open(self._path, StoreSettings(**(sizes | changes)), disk=self._disk, clock=self._clock)
        inside.flush_service(store).stop()
        self._stores.append(store)
        return store

    def after(self, ms: int) -> tuple[int, int]:
        """A round `ms` later: how often it synced segments, and the checkpoint, which the queues end with."""
        self._clock.at_ms += ms
        before = self._counts()
        inside.flush_what_is_due(self._stores[-1])
        log_syncs, queue_flushes = self._counts()
        return log_syncs - before[0], queue_flushes - before[1]

    def _counts(self) -> tuple[int, int]:
        return self._disk.count("sync", "/commitlog/"), self._disk.count("sync", "/checkpoint")

    @property
    def progress(self) -> Progress:
        found = read_progress(RealDisk(), self._path)
        assert found is not None
        return found

    def end(self) -> None:
        for store in self._stores:
            store.close()
        self._assert_clean(self._path)


@pytest.fixture
def rounds(tmp_path: Path, disk: FaultyDisk, clock: ManualClock, assert_clean: AssertClean) -> Iterator[Rounds]:
    found = Rounds(tmp_path / "store", disk, clock, assert_clean)
    yield found
    found.end()


def filling(size: int) -> Message:
    """A message whose record takes `size` bytes."""
    return Message("t", bytes(size - FIXED_SIZE))


def test_fewer_pages_than_the_least_wait(rounds: Rounds) -> None:
    store = rounds.open(queue_flush_interval_ms=HOUR_MS, rocketmq_strict=False)
    store.put(filling(1000))
    assert rounds.after(500) == (1, 1), "what is written after a long silence is flushed with the next round"
    store.put(filling(4 * PAGE - 1000 - 1))  # one byte short of the fourth page's end
    for _ in range(5):
        assert rounds.after(500) == (0, 0)
    store.put(filling(FIXED_SIZE))
    assert rounds.after(500) == (1, 0)
    assert inside.log(store).flushed == inside.log(store).end
    assert rounds.after(500) == (0, 0)


@pytest.mark.parametrize(
    ("flushed", "end", "dirty_pages"),
    [(4095, 4190, 1), (4096, 8191, 0), (4096, 8192, 1), (4000, 12289, 3), (100, 16383, 3), (100, 16384, 4)],
)
def test_pages_are_counted_by_their_borders(rounds: Rounds, flushed: int, end: int, dirty_pages: int) -> None:
    """As RocketMQ does: write / 4096 - flush / 4096."""
    store = rounds.open()
    store.put(filling(flushed))
    store.flush()
    assert not inside.log(store).is_dirty()
    store.put(filling(end - flushed))
    assert inside.log(store).end == end
    assert inside.log(store).is_dirty()
    assert inside.log(store).is_dirty(dirty_pages or 1) is bool(dirty_pages)
    assert not inside.log(store).is_dirty(dirty_pages + 1)


def test_the_thorough_interval_syncs_a_single_byte(rounds: Rounds) -> None:
    store = rounds.open(queue_flush_interval_ms=HOUR_MS)
    store.put(filling(100))
    assert rounds.after(500) == (1, 1)
    store.put(filling(100))
    synced = [rounds.after(500)[0] for _ in range(20)]
    assert synced == [0] * 19 + [1], "10 s after the last thorough one"
    assert rounds.after(HOUR_MS)[0] == 0
    store.put(filling(100))
    assert rounds.after(500)[0] == 1, "long after the last thorough one"


def test_a_full_segment_is_synced_whatever_the_pages(rounds: Rounds) -> None:
    store = rounds.open(segment_size=2 * PAGE, flush_least_pages=100, queue_flush_interval_ms=HOUR_MS)
    store.put(filling(5000))
    rounds.after(500)
    store.put(filling(100))
    assert rounds.after(500) == (0, 0)
    store.put(filling(5000))  # opens the second segment; the first has 3,092 bytes and a filler that nobody has synced
    assert rounds.after(500) == (2, 0)
    assert inside.log(store).flushed == inside.log(store).end > 2 * PAGE


@pytest.mark.parametrize("mode", FlushMode)
def test_an_idle_store_syncs_nothing(mode: FlushMode, rounds: Rounds, disk: FaultyDisk) -> None:
    store = rounds.open(flush_mode=mode)
    store.put_many([filling(100)] * 10)
    rounds.after(500)
    rounds.after(60_000)
    before = disk.counts.copy()
    for ms in (500, 1000, 10_000, 60_000, HOUR_MS):
        assert rounds.after(ms) == (0, 0)
    assert disk.counts == before, "it does nothing at all on the disk"
    assert inside.next_round_s(store) == float("inf")


def test_under_sync_flush_a_round_syncs_what_no_put_has(rounds: Rounds) -> None:
    """What an interrupted put left behind, or one that waited too long."""
    store = rounds.open(flush_mode=FlushMode.SYNC)
    store.put(filling(100))
    rounds.after(500)
    assert rounds.after(500) == (0, 0)
    store.put(Message("t", b"nobody waits for it", wait_store_ok=False))
    assert store.queues()["t", 0] == (0, 1)
    assert rounds.after(500)[0] == 1
    assert store.queues()["t", 0] == (0, 2)


def test_queues_are_flushed_by_pages_of_entries_over_all_of_them(rounds: Rounds) -> None:
    store = rounds.open()
    store.put(Message("t", b"first"))
    assert rounds.after(500)[1] == 1
    queues = [Message("t", b"x", queue_id=i) for i in range(10)]
    for _ in range((ENTRIES_OF_TWO_PAGES - 10) // 10):
        store.put_many(queues)
    assert rounds.after(1000)[1] == 0
    assert rounds.progress.queues_flushed < rounds.progress.dispatched == inside.log(store).end
    store.put_many(queues)
    assert rounds.after(0)[1] == 1, "the interval has passed: the pages were what it waited for"
    assert rounds.progress.queues_flushed == inside.log(store).end
    for _ in range(ENTRIES_OF_TWO_PAGES // 10):
        store.put_many(queues)
    assert rounds.after(999)[1] == 0, "the pages are there: the interval is what it waits for"
    assert rounds.after(1)[1] == 1


def test_queues_are_flushed_when_the_log_begins_a_segment(rounds: Rounds) -> None:
    """Else recovery could have to go through any number of large messages."""
    store = rounds.open(segment_size=2 * PAGE)
    store.put(filling(3000))
    assert rounds.after(500)[1] == 1
    store.put(filling(3000))
    assert rounds.after(1000)[1] == 0
    store.put(filling(3000))
    assert rounds.after(0)[1] == 1
    assert (store.path / "flightlog" / "seals").exists(), "and the full segment is sealed"


def test_a_single_entry_waits_for_the_thorough_interval(rounds: Rounds) -> None:
    store = rounds.open()
    store.put(filling(100))
    assert rounds.after(500)[1] == 1
    store.put(filling(100))
    flushed = [rounds.after(1000)[1] for _ in range(60)]
    assert flushed == [0] * 59 + [1]
    assert rounds.progress.queues_flushed == inside.log(store).end


def test_records_that_no_queue_lists_count_in_the_end(rounds: Rounds) -> None:
    """Prepared messages have no entries; the word must pass them all the same, or recovery would read them for ever."""
    store = rounds.open()
    store.put(filling(100))
    rounds.after(500)
    store.put(Message("t", b"prepared", sys_flag=4))
    assert rounds.after(1000)[1] == 0
    assert rounds.after(60_000)[1] == 1
    assert rounds.progress.queues_flushed == inside.log(store).end


@pytest.mark.ci
def test_checkpoint_and_progress_speak_only_of_what_is_durable(
    rounds: Rounds, disk: FaultyDisk, clock: ManualClock, scale: Scale, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment in which a word is written: no record that it speaks of, and no entry, waits for a sync. While a
    round syncs, others put and read."""
    store = rounds.open(segment_size=16 * PAGE, queue_flush_least_pages=0, flush_least_pages=2, rocketmq_strict=False)
    clock.step_ms = 1  # every record has a time of its own
    chance = random.Random(11)
    unsynced_queues: dict[Path, int] = {}
    """Queue files that were written since their last sync, and below which physical offset each is complete."""
    newest_below: dict[int, int] = {0: 0}
    moments = 0
    is_quiet = True
    meet = disk.meet

    def put() -> None:
        result = store.put(Message("t", bytes(chance.randrange(3000)), queue_id=chance.randrange(3)))
        newest_below[result.physical_offset + result.size] = result.store_timestamp_ms

    def put_late() -> None:
        """In the middle of a round: what it syncs is already decided."""
        nonlocal is_quiet
        is_quiet = True
        put()
        if chance.random() < 0.5:
            store.queues()  # a reader dispatches it
        is_quiet = False

    def watch(operation: str, path: Path) -> None:
        nonlocal moments
        if operation == "sync" and not is_quiet and chance.random() < 0.3:
            put_late()
        if path.parent.parent.parent.name == "consumequeue":
            if operation == "write":
                unsynced_queues.setdefault(path, inside.dispatcher(store).position)
            elif operation == "sync":
                unsynced_queues.pop(path, None)
        if (operation, path.name) == ("write", "checkpoint"):
            moments += 1
            assert rounds.progress.queues_flushed <= inside.log(store).flushed
        if (operation, path.name) == ("sync", "progress") and not store.is_closed:
            checkpoint = read_checkpoint(RealDisk(), store.path)
            assert checkpoint is not None
            assert rounds.progress.queues_flushed <= min(unsynced_queues.values(), default=inside.log(store).end)
            durable_ms = newest_below[inside.log(store).flushed]
            assert checkpoint.physic_timestamp_ms <= durable_ms
            assert checkpoint.logics_timestamp_ms <= durable_ms
            assert rounds.progress.store_timestamp_ms >= newest_below[rounds.progress.queues_flushed]
            assert rounds.progress.queues_flushed <= rounds.progress.flushed == inside.log(store).flushed
        meet(operation, path)

    monkeypatch.setattr(disk, "meet", watch)
    for _ in range(scale.pick(ci=150, full=2000)):
        for _ in range(chance.randrange(4)):
            put()
        if chance.random() < 0.2:
            store.queues()  # a reader dispatches what is not synced
        is_quiet = False
        rounds.after(chance.choice((10, 500, 1000)))
        is_quiet = True
    assert moments > 50
