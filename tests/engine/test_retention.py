"""Retention: what goes, when, and what readers are told afterwards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import GetStatus, Message, Store, StoreSettings
from flightlog.store.disk.disk import DiskSpace
from flightlog.store.errors import DiskFullError, SegmentGoneError, StoreClosedError, UsageError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

SEGMENT_SIZE = 8192
HOUR_MS = 3_600_000


def settings(**changes: Any) -> StoreSettings:
    sizes: dict[str, Any] = {"segment_size": SEGMENT_SIZE, "queue_file_entries": 10, "index_slots": 20}
    sizes |= {"index_entries": 20, "flush_interval_ms": 3_600_000, "retention_hours": 72}
    return StoreSettings(**(sizes | changes))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    """Its space is what a test sets: 50 per cent used."""

    class SpaceDisk(FaultyDisk):
        used = 50

        def space(self, path: Path) -> DiskSpace:
            assert path.exists()
            return DiskSpace(self.used, 100 - self.used)

    found: Any = SpaceDisk()
    yield found
    found.heal()


@pytest.fixture
def open_store(tmp_path: Path, disk: FaultyDisk, clock: ManualClock) -> Callable[..., Store]:
    def open_it(**changes: Any) -> Store:
        return flightlog.open(tmp_path / "store", settings(**changes), disk=disk, clock=clock)

    return open_it


def fill(store: Store, segments: int = 6) -> None:
    """Two queues that go on, one that ended early, keys everywhere; full segments are sealed."""
    store.put_many([Message("ended", b"%03d" % i, keys=f"ended-{i}") for i in range(25)])
    i = 0
    while inside.log(store).end < (segments - 1) * SEGMENT_SIZE + 1000:
        store.put(Message("t", b"%05d" % i + bytes(400), queue_id=i % 2, keys=f"k-{i}"))
        i += 1
    store.flush()
    inside.maintenance(store).flush_queues()
    assert len(names(store, "commitlog")) == len(names(store, "flightlog/seals")) + 1 == segments


def names(store: Store, folder: str) -> list[str]:
    return sorted(path.name for path in (store.path / folder).rglob("*") if path.is_file())


def set_ages(store: Store, clock: ManualClock, *hours: float) -> None:
    """How long ago the segments were written to, the oldest first."""
    for path, age in zip(sorted((store.path / "commitlog").iterdir()), hours, strict=True):
        at_s = clock.at_ms / 1000 - age * 3600
        os.utime(path, (at_s, at_s))


def set_hour(clock: ManualClock, hour: int) -> None:
    """Move the clock to the next time that it is this hour of local time."""
    while time.localtime(clock.at_ms / 1000).tm_hour != hour:
        clock.at_ms += HOUR_MS


def numbers(messages: list[Any]) -> list[int]:
    return [int(message.body[:5]) for message in messages]


def test_by_age_oldest_first_and_never_the_last(
    open_store: Callable[..., Store], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with open_store() as store:
        fill(store)
        kept = {key: list(store.read(*key)) for key in store.queues()}
        set_ages(store, clock, 100, 72, 71.9, 90, 90, 90)
        report = store.clean_up()
        assert [path.name for path in report.segments] == [f"{0:020d}", f"{SEGMENT_SIZE:020d}"], (
            "not behind a young one"
        )
        assert report.min_physical_offset == 2 * SEGMENT_SIZE and report.held is None and report.used_ratio == 50
        assert names(store, "commitlog") == [f"{i * SEGMENT_SIZE:020d}" for i in range(2, 6)]
        assert names(store, "flightlog/seals") == [f"{i * SEGMENT_SIZE:020d}" for i in range(2, 5)]
        assert store.queues()["ended", 0] == (25, 25)
        for key in (("t", 0), ("t", 1)):
            first, end = store.queues()[key]
            assert first > 0 and end == len(kept[key])
            assert list(store.read(*key)) == kept[key][first:]
            result = store.get(*key, first - 1)
            assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_TOO_SMALL, first)
            assert store.get(*key, first, 1).messages == [kept[key][first]]
        result = store.get("ended", 0, 3)
        assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_TOO_SMALL, 25)
        assert store.get("ended", 0, 25).status is GetStatus.OFFSET_OVERFLOW_ONE
        assert store.query("t", "k-0").messages == [] and store.message_at(0) is None
        assert not store.was_stored("nothing") and store.offset_at("ended", 0, 0) == 25
        # Queue files behind the log's start are gone, each queue's last one is there; index files likewise.
        assert names(store, "consumequeue/ended/0") == [f"{400:020d}"]
        assert [path.parent.name for path in report.queue_files].count("0") >= 2 and report.index_files
        assert store.clean_up().segments == []
        set_ages(store, clock, 100, 100, 100, 100)
        assert len(store.clean_up().segments) == 3, "the last segment stays"
        assert store.put(Message("ended", b"more")).queue_offset == 25
        assert not store.verify().findings
        bounds = store.queues()
    assert_clean(store.path)
    with open_store() as store:
        assert store.queues() == bounds
        assert store.recovery_report.scanned_from == store.recovery_report.end, "nothing was scanned"
    assert_clean(store.path)


def test_what_is_not_dispatched_stays(
    open_store: Callable[..., Store], clock: ManualClock, assert_clean: AssertClean
) -> None:
    """It is old, full and flushed; but queues and keys know nothing of it, and a flush of them brings nothing new."""
    with open_store() as store:
        fill(store)
        inside.flush_service(store).stop()
        dispatcher, retention = inside.dispatcher(store), inside.maintenance(store).retention
        set_ages(store, clock, *[100] * 6)
        retention._flush_queues_to = lambda physical_offset: None
        positions = dispatcher.position, dispatcher.index_position
        for queues, keys, first in ((SEGMENT_SIZE - 1, positions[1], 0), (positions[0], SEGMENT_SIZE - 1, 0)):
            dispatcher.position, dispatcher.index_position = queues, keys
            assert retention.round(72, is_asked_for=True).min_physical_offset == first
        dispatcher.position = dispatcher.index_position = 2 * SEGMENT_SIZE
        assert retention.round(72, is_asked_for=True).min_physical_offset == 2 * SEGMENT_SIZE
        dispatcher.position, dispatcher.index_position = positions
    assert_clean(store.path)


def test_nothing_goes_unasked(open_store: Callable[..., Store], disk: Any, clock: ManualClock) -> None:
    with open_store(retention_hours=None) as store:
        fill(store)
        set_ages(store, clock, *6 * [1e5])
        disk.used = 99
        store.put(Message("t", b"99999"))
        report = store.clean_up()
        assert (report.segments, report.queue_files, report.used_ratio) == ([], [], None)
        inside.maintenance(store).clean_up()
        assert len(names(store, "commitlog")) == 6
        assert len(store.clean_up(1).segments) == 5, "asked"
        assert not store.verify().findings


def test_the_hours_of_the_day_and_the_disk_ratio(
    open_store: Callable[..., Store], disk: Any, clock: ManualClock
) -> None:
    """What a round of the service takes; 3 of the 7 segments are old."""
    with open_store(clean_batch_count=1, delete_when="04;22", disk_max_used_percent=75) as store:
        fill(store, 7)

        def a_round(hour: int, used: int) -> int:
            set_hour(clock, hour)
            set_ages(store, clock, *([100.0] * 7)[len(gone) :][:3], *([1.0] * 7)[len(gone) + 3 :])
            disk.used = used
            report = inside.maintenance(store).clean_up(72)
            gone.extend(report.segments)
            return len(report.segments)

        gone: list[Path] = []
        assert [a_round(hour, 50) for hour in (3, 5, 12, 21, 23)] == [0, 0, 0, 0, 0]
        assert (a_round(4, 50), a_round(22, 50)) == (1, 1)
        assert (a_round(12, 75), a_round(12, 76)) == (0, 1)
        # Nothing is old any more from here on.
        set_ages(store, clock, *4 * [1.0])
        disk.used = 85
        assert inside.maintenance(store).clean_up(72).segments == []
        disk.used = 86
        assert len(inside.maintenance(store).clean_up(72).segments) == 1
        store.put(Message("t", b"1"))
        assert not store.verify().findings


def test_puts_are_refused_above_the_warning_ratio_and_taken_again(
    open_store: Callable[..., Store], disk: Any, clock: ManualClock
) -> None:
    with open_store(clean_forcibly=False) as store:
        fill(store)
        set_ages(store, clock, *6 * [1.0])
        before = inside.log(store).end
        for used, is_taken in ((90, True), (91, False), (90, False), (86, False), (85, True), (90, True), (100, False)):
            disk.used = used
            assert inside.maintenance(store).clean_up(72).segments == [], "not old, and not by force"
            if is_taken:
                store.put_many([Message("t", b"1"), Message("t", b"2")])
            else:
                with pytest.raises(DiskFullError, match=f"{used} per cent"):
                    store.put(Message("t", b"no"))
                with pytest.raises(DiskFullError):
                    store.put_many([Message("t", b"no")])
                with pytest.raises(DiskFullError):
                    store.put_async(Message("t", b"no"))
        assert inside.log(store).end > before and len(list(store.read("t", 0))) > 10, "reads go on"
        disk.used = 85  # no round since: the put looks by itself
        store.put(Message("t", b"3"))
        assert not store.verify().findings


def test_an_iterator_holds_what_it_is_yet_to_read(
    open_store: Callable[..., Store], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with open_store() as store:
        fill(store)
        set_ages(store, clock, *6 * [100.0])
        whole = list(store.read("t", 0))
        waiting, begun = store.read("t", 0), store.read("t", 0)
        assert next(begun) == whole[0]
        report = store.clean_up()
        assert report.segments == [] and report.held == store.path / "commitlog" / f"{0:020d}"
        assert [whole[0], *begun] == whole
        assert len(store.clean_up().segments) == 5
        first = store.queues()["t", 0][0]
        assert list(waiting) == whole[first:] and first > 0, "one that had not begun holds nothing"
        abandoned = store.read("t", 0)
        next(abandoned)
        del abandoned
        dropped = store.read("t", 0)
        next(dropped)
    with open_store() as store:
        assert inside.lowest_pin(store) is None, "a closed store's iterators hold nothing"
        with pytest.raises(StoreClosedError):
            next(dropped)
    assert_clean(store.path)


def test_a_view_of_this_process_holds_its_log_until_it_is_refreshed(
    open_store: Callable[..., Store], clock: ManualClock, assert_clean: AssertClean
) -> None:
    with open_store() as store:
        fill(store)
        set_ages(store, clock, *6 * [100.0])
        with flightlog.open_read_only(store.path) as view, flightlog.open_read_only(store.path) as other:
            whole, bounds = list(view.read("t", 0)), view.queues()
            begun = view.read("t", 0)
            next(begun)
            assert store.clean_up().held is not None
            other.refresh()
            view.refresh()
            assert view.queues() == bounds, "its iterator holds"
            assert [whole[0], *begun] == whole
            assert store.clean_up().held is not None
            # Each refresh lets go of the segment that was to go; the views need not agree on when.
            for _ in range(5):
                view.refresh()
                other.refresh()
                store.clean_up()
            assert len(names(store, "commitlog")) == 1
            view.refresh()
            assert view.queues() == store.queues() and view.verify().is_clean
            first = view.queues()["t", 0][0]
            assert list(view.read("t", 0)) == whole[first:]
    assert_clean(store.path)


def test_a_view_of_another_process_is_told(open_store: Callable[..., Store], clock: ManualClock) -> None:
    """Seen from another process there are no holds here."""
    with open_store() as store:
        fill(store)
        set_ages(store, clock, *6 * [100.0])
        view = flightlog.open_read_only(store.path)
        mapped, unmapped = view.segments[1], view.segments[2]
        content = bytes(mapped.mapping())
        last = list(view.read("t", 0))[-1]
        seen = flightlog.open_read_only(store.path)
        begun = seen.read("t", 0)
        next(begun)
        for each in (view, seen):
            inside.unpin(each)
        inside.release_queues(seen)
        assert len(store.clean_up().segments) == 5
        assert bytes(mapped.mapping()) == content
        with pytest.raises(SegmentGoneError, match="refresh"):
            type(unmapped)(unmapped.disk, unmapped.path, unmapped.base, unmapped.size).read(0, 1)
        first, end = store.queues()["t", 0]
        fresh = view.get("t", 0, 0)  # its queue file is gone
        assert (fresh.status, fresh.next_queue_offset) == (GetStatus.OFFSET_TOO_SMALL, first - first % 10)
        assert view.get("ended", 0, 24).status in (GetStatus.MESSAGE_WAS_REMOVING, GetStatus.FOUND)
        assert list(begun)[-1] == last, "what has gone is passed over"
        for one in (view, seen):
            one.refresh()
            assert one.queues() == store.queues() and one.queues()["t", 0] == (first, end)
            assert one.get("t", 0, first - 1).status is GetStatus.OFFSET_TOO_SMALL
            assert list(one.read("t", 0))[-1] == last and one.verify().is_clean
            one.close()


def test_sealing_and_retention_of_one_segment_take_turns(
    open_store: Callable[..., Store], clock: ManualClock, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """A segment that is being sealed is removed after that, and the store is not poisoned."""
    with open_store() as store:
        fill(store)
        store.put_many([Message("t", b"%05d" % i + bytes(1000)) for i in range(9)])  # one more is full
        set_ages(store, clock, *7 * [100.0])
        disk.hold("write", "seals/", times=1)
        sealing = threading.Thread(target=inside.maintenance(store).flush_queues)
        sealing.start()
        assert disk.held.acquire(timeout=60)
        reports: list[Any] = []
        cleaning = threading.Thread(target=lambda: reports.append(store.clean_up()))
        cleaning.start()
        disk.release()
        for thread in (sealing, cleaning):
            thread.join(60)
        assert len(reports[0].segments) == 6 and inside.log(store).poison is None
        assert names(store, "flightlog/seals") == []
        inside.maintenance(store).flush_queues()
        store.put(Message("t", b"1"))
        assert not store.verify().findings
    assert_clean(store.path)


def test_the_service_cleans_up_by_itself(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flightlog.engine.services.flush_service.FIRST_CLEAN_UP_S", 0)
    wanted = settings(clean_interval_ms=1, flush_interval_ms=1, delete_when=";".join(map(str, range(24))))
    with flightlog.open(tmp_path / "store", wanted, disk=disk) as store:
        came = inside.segments_removed(store)
        fault = disk.fail("remove", "commitlog/", 5, times=2)
        store.put_many([Message("t", b"%05d" % i + bytes(400)) for i in range(60)])
        store.flush()
        for path in sorted((store.path / "commitlog").iterdir()):
            os.utime(path, (0, 0))
        assert came.wait(process.LIMIT_S) and fault.hits == 2, "an error is no end of it"
        store.put(Message("t", b"1"))
        assert not store.verify().findings
    assert_clean(store.path)


def test_an_asked_for_age_that_makes_no_sense(open_store: Callable[..., Store]) -> None:
    with open_store() as store:
        for hours in (-1, 1.5, "3"):
            with pytest.raises(UsageError, match="retention_hours="):
                store.clean_up(hours)  # type: ignore[arg-type]


def test_after_the_end_nothing_is_removed(open_store: Callable[..., Store], clock: ManualClock) -> None:
    store = open_store()
    fill(store)
    set_ages(store, clock, *6 * [100.0])
    maintenance = inside.maintenance(store)
    store.close()
    with pytest.raises(StoreClosedError):
        store.clean_up()
    with pytest.raises(StoreClosedError):
        maintenance.clean_up(1)
    assert len(names(store, "commitlog")) == 6


def test_by_size_oldest_first_at_any_age_and_hour(open_store: Callable[..., Store], clock: ManualClock) -> None:
    set_hour(clock, 15)
    with open_store(retention_hours=None, retention_bytes=2 * SEGMENT_SIZE) as store:
        fill(store)  # five full segments, and a bit
        assert [path.name for path in store.clean_up().segments] == [
            f"{base:020}" for base in (0, SEGMENT_SIZE, 2 * SEGMENT_SIZE)
        ]
        assert store.clean_up().segments == [], "two and a bit remain"
        assert not store.verify().findings
    with open_store(retention_hours=None, retention_bytes=0) as store:
        assert len(store.clean_up().segments) == 2 and len(names(store, "commitlog")) == 1, "the last one stays"
        assert store.clean_up(0).segments == [] and not store.verify().findings
    with open_store(retention_bytes=1 << 62) as store:
        assert store.clean_up().segments == []


def test_the_service_cleans_up_by_size(tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flightlog.engine.services.flush_service.FIRST_CLEAN_UP_S", 0)
    wanted = settings(clean_interval_ms=1, flush_interval_ms=1, retention_hours=None, retention_bytes=SEGMENT_SIZE)
    with flightlog.open(tmp_path / "store", wanted, disk=disk) as store:
        came = inside.segments_removed(store)
        store.put_many([Message("t", b"%05d" % i + bytes(400)) for i in range(60)])
        store.flush()
        assert came.wait(process.LIMIT_S)


def test_groups_that_lag_are_named_before_their_messages_go(
    open_store: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(retention_hours=None, retention_bytes=4 * SEGMENT_SIZE) as store:
        fill(store)
        ends = {queue_id: store.queue_bounds("t", queue_id)[1] for queue_id in (0, 1)}
        for queue_id, end in ends.items():
            store.commit_offset("ahead", "t", queue_id, end)
        store.commit_offset("behind", "ended", 0, 20)
        store.commit_offset("behind", "t", 1, 0)
        with caplog.at_level("WARNING", "flightlog.retention"):
            assert len(store.clean_up().segments) == 1
        records = [record for record in caplog.records if record.name == "flightlog.retention"]
        told = {(record.__dict__["group"], record.__dict__["topic"]): record.__dict__["unread"] for record in records}
        lost = [store.queue_bounds("t", queue_id)[0] for queue_id in (0, 1)]
        assert all(lost) and told == {("behind", "ended"): 5, ("behind", "t"): sum(lost)}, "it began in one of two"
        assert all("is to go, and group behind has yet to consume" in record.getMessage() for record in records)
