"""What a store says of itself, open, read-only, poisoned, out of room."""

from __future__ import annotations

import dataclasses
import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.statistics import TopicStatistics
from flightlog.engine.write.putting import TIMED_EVERY
from flightlog.store.errors import DiskFullError, StoreClosedError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock, WatchOpens

HELD = StoreSettings(
    segment_size=16 << 10, queue_file_entries=50, index_slots=100, index_entries=400, flush_interval_ms=3_600_000
)
"""The service never comes round: what is dispatched and synced is what the test asks for."""


def message(number: int, queue_id: int = 0, topic: str = "orders") -> Message:
    return Message(topic, b"%05d" % number, keys=f"k{number}", queue_id=queue_id)


def test_totals_and_rates(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD, clock=clock) as store:
        first = store.statistics()
        assert first.puts is not None and (first.puts.messages, first.puts.size, first.puts.messages_per_s) == (0, 0, 0)
        results = [store.put(message(i)) for i in range(10)] + store.put_many(message(i) for i in range(10, 20))
        clock.at_ms += 2000
        puts = store.statistics().puts
        assert puts is not None
        assert (puts.messages, puts.size) == (20, sum(result.size for result in results))
        assert (puts.messages_per_s, puts.size_per_s) == (10.0, puts.size / 2)
    with flightlog.open(tmp_path / "store", HELD, clock=clock) as store:
        puts = store.statistics().puts
        assert puts is not None and puts.messages == 0, "since the store was opened"
    assert_clean(tmp_path / "store")


def test_one_put_in_sixteen_is_timed(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD) as store:
        for i in range(5 * TIMED_EVERY + 3):
            store.put(message(i))
        puts = store.statistics().puts
        assert puts is not None and puts.put_ms.count == 5
        assert 0 < puts.put_ms.p50 <= puts.put_ms.p90 <= puts.put_ms.p99 <= puts.put_ms.maximum
    assert_clean(tmp_path / "store")


def test_lags_come_and_go(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD, clock=clock) as store:
        none = store.statistics().lag
        assert dataclasses.astuple(none) == (0, 0, 0, 0, 0)
        size = store.put(message(0)).size
        clock.at_ms += 1500
        size += store.put(message(1)).size
        clock.at_ms += 250
        assert dataclasses.astuple(store.statistics().lag) == (size, size, size, 1750, size)
        assert store.statistics().lag.dispatch_size == size, "asking dispatches nothing"
        assert len(list(store.read("orders"))) == 2
        assert dataclasses.astuple(store.statistics().lag) == (0, 0, size, 1750, size)
        store.flush()
        assert dataclasses.astuple(store.statistics().lag) == (0, 0, 0, 0, size)
        inside.maintenance(store).flush_queues()
        assert store.statistics().lag == none
    assert_clean(tmp_path / "store")


def test_the_age_of_what_lies_behind_a_filler(tmp_path: Path, clock: ManualClock, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD, clock=clock) as store:
        store.put(Message("orders", bytes(10_000)))
        store.flush()
        clock.at_ms += 1000
        behind = store.put(Message("orders", bytes(10_000)))
        assert behind.physical_offset == 16 << 10
        clock.at_ms += 300
        assert store.statistics().lag.flush_age_ms == 300
    assert_clean(tmp_path / "store")


def test_without_a_key_index(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", dataclasses.replace(HELD, key_index=False)) as store:
        store.put(message(0))
        found = store.statistics()
        assert found.lag.index_size is None and found.sizes.index_files == 0
    assert_clean(tmp_path / "store")


def test_syncs_and_the_groups_that_they_serve(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD) as store:
        for count in (3, 1, 8):
            store.put_many(message(i) for i in range(count))
            store.flush()
        syncs = store.statistics().syncs
        assert syncs is not None and (syncs.count, syncs.sync_ms.count) == (3, 3)
        assert syncs.sync_ms.maximum > 0
        assert (syncs.group_messages.p50, syncs.group_messages.maximum) == (3, 8)
    assert_clean(tmp_path / "store")


def test_skew_of_queues(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", HELD) as store:
        store.put_many(message(i, queue_id) for queue_id, count in enumerate((1, 2, 9)) for i in range(count))
        store.put_many(message(i, i % 2, "parcels") for i in range(8))
        store.queues()
        found = store.statistics()
        assert found.topics == (TopicStatistics("orders", 3, 12, 1, 9), TopicStatistics("parcels", 2, 8, 4, 4))
        assert [(topic.mean_depth, topic.skew) for topic in found.topics] == [(4.0, 2.25), (4.0, 1.0)]
        assert (found.sizes.topics, found.sizes.queues, found.sizes.messages) == (2, 5, 20)
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.statistics().topics == found.topics
    assert_clean(tmp_path / "store")


def test_totals_are_exact_whoever_puts(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", dataclasses.replace(HELD, segment_size=1 << 20)) as store:

        def put() -> None:
            for i in range(200):
                store.put(message(i))

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            store.statistics()  # beside puts
        for thread in threads:
            thread.join()
        puts = store.statistics().puts
        assert puts is not None and puts.messages == 800
    assert_clean(tmp_path / "store")


def test_poison_is_told(tmp_path: Path, assert_clean: AssertClean) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path / "store", dataclasses.replace(HELD, flush_mode=FlushMode.SYNC), disk=disk) as store:
        store.put(message(0))
        assert store.statistics().poison is None
        disk.fail("sync", "commitlog/", errno.EIO)
        with pytest.raises(SyncFailedError):
            store.put(message(1))
        found = store.statistics()
        assert found.poison is not None and "Input/output error" in found.poison
        assert found.syncs is not None and found.syncs.count == 1, "the failed one is none"
        assert found.lag.flush_size is not None and found.lag.flush_size > 0
    disk.heal()
    with flightlog.open(tmp_path / "store", HELD) as store:
        assert store.statistics().poison is None
    assert_clean(tmp_path / "store")


def test_a_lack_of_room_is_told(tmp_path: Path, assert_clean: AssertClean) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path / "store", HELD, disk=disk) as store:
        disk.fail("*", "consumequeue/", errno.ENOSPC)
        store.put(message(0))
        assert list(store.read("orders")) == []
        assert store.statistics().lacks_room
        with pytest.raises(DiskFullError):
            store.put(message(1))
        disk.heal()
        store.put(message(1))
        assert len(list(store.read("orders"))) == 2
        assert not store.statistics().lacks_room
    assert_clean(tmp_path / "store")


def test_cut_tails_and_seals(tmp_path: Path, closed: Path, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(closed) as view:
        sizes = view.statistics().sizes
        assert sizes.sealed_segments == sizes.segments - 1 > 1
        assert (sizes.cut_tails, sizes.cut_size) == (0, 0)
        assert sizes.log_size == view.end_physical_offset - view.min_physical_offset
        assert sizes.disk_free_size > 0
    (closed / "flightlog" / "cut-00000000000000004096").write_bytes(bytes(77))
    with flightlog.open_read_only(closed) as view:
        sizes = view.statistics().sizes
        assert (sizes.cut_tails, sizes.cut_size) == (1, 77)
    assert_clean(closed)


def test_a_killed_store_tells_its_lags(killed: Path, assert_clean: AssertClean) -> None:
    with flightlog.open_read_only(killed) as view:
        found, progress = view.statistics(), view.shutdown_state.progress
        assert progress is not None
        assert found.lag.dispatch_size == progress.visible - progress.dispatched > 0
        assert found.lag.flush_size == progress.appended - progress.flushed > 0
        assert found.lag.recovery_size == progress.appended - progress.queues_flushed > found.lag.flush_size
        assert (found.puts, found.syncs, found.poison) == (None, None, None)
    assert_clean(killed)


def test_a_store_of_rocketmq(golden: Callable[[str], Path]) -> None:
    with flightlog.open_read_only(golden("rollover") / "store") as view:
        found = view.statistics()
        assert found.lag == type(found.lag)(None, None, None, 0, None), "nothing there tells"
        assert (found.sizes.segments, found.sizes.index_files) == (23, 13)
        assert found.sizes.messages == sum(end - first for first, end in view.queues().values())


def test_it_is_cheap_and_touches_nothing(closed: Path, watch_opens: WatchOpens) -> None:
    with flightlog.open_read_only(closed) as view, watch_opens() as opened:
        view.statistics()
    assert [path for path, _ in opened if path.startswith(str(closed))] == []


def test_it_is_frozen_and_can_be_written_as_json(closed: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(closed) as store:
        found = store.statistics()
        written: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(found), default=str))
        assert written["sizes"]["messages"] == found.sizes.messages and written["puts"]["messages"] == 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.poison = "no"  # type: ignore[misc]
    for handle in (store, view_of(closed)):
        with pytest.raises(StoreClosedError):
            handle.statistics()
    assert_clean(closed)


def view_of(path: Path) -> flightlog.ReadOnlyStore:
    """A closed one."""
    with flightlog.open_read_only(path) as view:
        return view
