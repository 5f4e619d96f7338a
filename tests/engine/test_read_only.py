"""The read-only view: beside a live writer, over damaged stores, and never a trace of it on the disk."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, GetStatus, Message, StoreSettings
from flightlog.engine import read_only
from flightlog.engine.open.shutdown_state import LastWriter, ShutdownState
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError, StoreChangingError, StoreClosedError, StoreNotFoundError
from flightlog.store.state.progress import read_progress
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Fingerprint, WatchOpens

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10)
SLOW = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_interval_ms=3_600_000)
"""The service thread never comes round: what is dispatched is dispatched by reads alone."""


def body(number: int) -> bytes:
    return b"%05d" % number + bytes(number % 300)


def message(number: int) -> Message:
    return Message("t", body(number), tags="A", queue_id=number % 2)


def numbers(store: flightlog.ReadOnlyStore) -> list[int]:
    """What the store holds, each message checked, in the order of the log."""
    found = sorted((m for key in store.queues() for m in store.read(*key)), key=lambda m: m.physical_offset)
    for m in found:
        assert m.body == body(int(m.body[:5]))
    return [int(m.body[:5]) for m in found]


def test_beside_a_live_writer(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SLOW) as store:
        with flightlog.open_read_only(tmp_path) as view:
            assert numbers(view) == [] and view.shutdown_state.last_writer is LastWriter.NOBODY
        for i in range(10):
            store.put(message(i))
        with flightlog.open_read_only(tmp_path) as view:
            assert view.shutdown_state.last_writer is LastWriter.FLIGHTLOG_KILLED
            assert numbers(view) == list(range(10))
            assert view.report.entries_dispatched == 10, "the writer has not dispatched them: they are in memory"
            for i in range(10, 300):
                store.put(message(i))
            assert numbers(view) == list(range(10)), "a view stands still until it is told"
            view.refresh()
            assert numbers(view) == list(range(300))
            assert view.queues() == {("t", 0): (0, 150), ("t", 1): (0, 150)}
            assert view.verify().is_clean and store.verify().is_clean
            assert len(view.segments) > 10
    assert_clean(tmp_path)


def test_a_view_of_an_empty_store_grows(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store, flightlog.open_read_only(tmp_path) as view:
        assert (view.queues(), view.end_physical_offset) == ({}, 0)
        for i in range(200):
            result = store.put(message(i))
            view.refresh()
            assert view.end_physical_offset == result.physical_offset + result.size
        assert numbers(view) == list(range(200))
    assert_clean(tmp_path)


def test_refresh_costs_what_is_new(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([message(i) for i in range(500)])
        store.queues()
        with flightlog.open_read_only(tmp_path) as view:
            scanned = view.report.records_scanned
            for i in range(500, 520):
                store.put(message(i))
                view.refresh()
                view.refresh()
            assert view.report.records_scanned - scanned == 20
    assert_clean(tmp_path)


def test_a_view_outlives_the_writer(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Close and open again, with other epochs: a refresh sees each new state, and what is there stays."""
    view: flightlog.ReadOnlyStore | None = None
    for round_number in range(4):
        with flightlog.open(tmp_path, SETTINGS) as store:
            store.put_many([message(i) for i in range(round_number * 50, round_number * 50 + 50)])
            view = view or flightlog.open_read_only(tmp_path)
            view.refresh()
            assert numbers(view) == list(range(round_number * 50 + 50))
            assert view.shutdown_state.last_writer.name == "FLIGHTLOG_KILLED"
        view.refresh()
        assert numbers(view) == list(range(round_number * 50 + 50))
        assert view.shutdown_state.last_writer.name == "FLIGHTLOG_CLOSED"
    assert view is not None and view.verify().is_clean
    view.close()
    assert_clean(tmp_path)


def test_refreshes_at_rest_leave_no_descriptors_behind(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([message(i) for i in range(100)])
    with flightlog.open_read_only(tmp_path) as view:
        assert numbers(view) == list(range(100))
        before = len(process.descriptors(tmp_path))
        for _ in range(50):
            view.refresh()
            assert len(numbers(view)) == 100
        assert len(process.descriptors(tmp_path)) <= before + 2


def test_what_is_not_durable_is_not_visible_under_sync_flush(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Not to this process, not to a view, and not where a put did not wait for it."""
    disk = FaultyDisk()
    settings = StoreSettings(
        segment_size=SEGMENT_SIZE,
        queue_file_entries=10,
        flush_mode=FlushMode.SYNC,
        flush_interval_ms=3_600_000,
        sync_flush_timeout_ms=50,
    )
    with flightlog.open(tmp_path, settings, disk=disk) as store:
        store.put(message(0))
        fault = disk.hold("sync", "commitlog/")
        results: list[flightlog.PutResult] = []
        putter = threading.Thread(target=lambda: results.append(store.put(message(2))))
        putter.start()
        while not fault.hits:
            time.sleep(0.001)
        late = store.put(message(4))  # finds the sync under way, and does not wait for ever
        assert late.status is flightlog.PutStatus.FLUSH_DISK_TIMEOUT
        assert (late.queue_offset, results) == (2, [])
        progress = read_progress(RealDisk(), tmp_path)
        assert progress is not None and progress.appended > progress.visible == progress.flushed
        assert store.get("t", 0, 1).status is GetStatus.OFFSET_OVERFLOW_ONE
        assert [m.body for m in store.read("t")] == [body(0)]
        with flightlog.open_read_only(tmp_path) as view:
            assert numbers(view) == [0]
            view.refresh()
            assert numbers(view) == [0]
            disk.release()
            putter.join(60)
            assert [r.status for r in results] == [flightlog.PutStatus.PUT_OK]
            view.refresh()
            assert numbers(view)[:2] == [0, 2]
            store.flush()
            view.refresh()
            assert numbers(view) == [0, 2, 4]
        assert [m.body for m in store.read("t")] == [body(0), body(2), body(4)]
    assert_clean(tmp_path)


def test_it_leaves_no_trace(
    tmp_path: Path, fingerprint: Callable[[Path], Fingerprint], watch_opens: WatchOpens
) -> None:
    """A view of a store of ours, closed or killed, starts no thread, takes no lock and writes nothing; it opens `lock`
    only to ask whether the writer of a store that was not closed is alive."""
    with flightlog.open(tmp_path / "s", SETTINGS) as store:
        store.put_many([message(i) for i in range(100)])
        pages = {name: (tmp_path / "s" / name).read_bytes() for name in ("abort", "flightlog/progress")}
    for killed in (False, True):
        if killed:
            for name, content in pages.items():
                (tmp_path / "s" / name).write_bytes(content)
        before, threads = fingerprint(tmp_path / "s"), process.threads()
        with watch_opens() as opened, flightlog.open_read_only(tmp_path / "s") as view:
            assert process.threads() <= threads
            assert numbers(view) == list(range(100))
            assert view.verify().is_clean
            view.refresh()
        assert fingerprint(tmp_path / "s") == before
        here = [(Path(path), flags) for path, flags in opened if path.startswith(str(tmp_path))]
        assert here and any(path.name == "lock" for path, _ in here) == killed
        assert not [path for path, flags in here if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)]


def test_where_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError, match="no such folder"):
        flightlog.open_read_only(tmp_path / "none")
    with pytest.raises(StoreNotFoundError, match="commitlog"):
        flightlog.open_read_only(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_store_without_a_segment(tmp_path: Path, assert_clean: AssertClean) -> None:
    (tmp_path / "commitlog").mkdir()
    with flightlog.open_read_only(tmp_path) as view:
        assert (view.queues(), view.end_physical_offset, view.min_physical_offset) == ({}, 0, 0)
        assert view.get("t", 0, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
        with pytest.raises(CorruptRecordError):
            view.log_reader.message_at(0)
        view.refresh()
    assert_clean(tmp_path)


def test_a_closed_view(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put(message(0))
    view = flightlog.open_read_only(tmp_path)
    iterator = view.read("t")
    kept = next(view.read("t"))
    view.close()
    view.close()
    calls: list[Callable[[], object]] = [
        *(view.queues, view.refresh, view.verify, lambda: view.get("t", 0, 0), lambda: view.read("t")),
        *(lambda: view.offset_at("t", 0, 0), lambda: view.estimate_count("t", 0, 0, 1, tags="A")),
        *(lambda: view.message_at(0), lambda: view.message_by_id("0" * 32), lambda: next(iterator)),
    ]
    for call in calls:
        with pytest.raises(StoreClosedError, match="open it again"):
            call()
    assert kept.body == body(0), "what was read stays"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A closed store of 200 messages and some twenty segments."""
    with flightlog.open(tmp_path, SETTINGS) as store:
        store.put_many([message(i) for i in range(200)])
    return tmp_path


def test_a_stray_file_is_noted_and_passed(damaged: Path) -> None:
    (damaged / "commitlog" / "notes.txt").write_bytes(b"x")
    with flightlog.open_read_only(damaged) as view:
        assert numbers(view) == list(range(200))
        assert any("notes.txt" in line for line in view.report.damage)
        assert any(f.path.name == "notes.txt" for f in view.verify().findings)


def test_a_queue_file_of_the_wrong_length_is_made_up_for(damaged: Path) -> None:
    path = damaged / "consumequeue" / "t" / "1" / f"{200:020d}"
    path.write_bytes(path.read_bytes()[:-1])
    with flightlog.open_read_only(damaged) as view:
        assert numbers(view) == list(range(200))
        assert any(str(path) in line for line in view.report.damage)


def test_a_missing_queue_is_made_up_for(damaged: Path) -> None:
    for path in (damaged / "consumequeue" / "t" / "1").iterdir():
        path.unlink()
    with flightlog.open_read_only(damaged) as view:
        assert numbers(view) == list(range(200))
    (damaged / "consumequeue" / "t" / "1").rmdir()
    with flightlog.open_read_only(damaged) as view:
        assert numbers(view) == list(range(200))
        assert view.report.entries_dispatched == 100


@pytest.mark.parametrize("kept", ["all", "last"])
def test_a_missing_first_queue_file_is_made_up_for(kept: str, damaged: Path) -> None:
    folder = damaged / "consumequeue" / "t" / "1"
    for path in sorted(folder.iterdir())[: 1 if kept == "all" else -1]:
        path.unlink()
    with flightlog.open_read_only(damaged) as view:
        found = numbers(view)
        assert found == list(range(200))


def test_a_missing_segment_is_noted_and_passed(damaged: Path) -> None:
    with flightlog.open_read_only(damaged) as view:
        lost = {
            int(m.body[:5]) for key in view.queues() for m in view.read(*key) if m.physical_offset // SEGMENT_SIZE == 3
        }
    (damaged / "commitlog" / f"{3 * SEGMENT_SIZE:020d}").unlink()
    with flightlog.open_read_only(damaged) as view:
        found = [int(m.body[:5]) for key in view.queues() for m in view.read(*key, on_corrupt="skip")]
        assert sorted(found) == sorted(set(range(200)) - lost)
        assert view.corrupt_skipped == len(lost) > 3
        assert any(f"{3 * SEGMENT_SIZE:020d}" in line for line in view.report.damage)


@pytest.mark.parametrize("with_queues", [True, False])
def test_a_record_without_structure_is_passed(with_queues: bool, damaged: Path) -> None:
    """Zeros, garbage, a wrong length: the records behind are found again, and read with or without their queues."""
    with flightlog.open_read_only(damaged) as view:
        victims = [m for key in view.queues() for m in view.read(*key) if int(m.body[:5]) in (20, 21, 90, 150)]
    victims.sort(key=lambda m: m.physical_offset)
    for number, victim in enumerate(victims):
        segment = damaged / "commitlog" / f"{victim.physical_offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
        raw, at = bytearray(segment.read_bytes()), victim.physical_offset % SEGMENT_SIZE
        raw[at : at + 8] = (bytes(8), b"\xff" * 8, b"\0\0\0\x60\xda\xa3\x20\xa7", b"\x7f\0\0\0\xda\xa3\x20\xa7")[number]
        segment.write_bytes(raw)
    if not with_queues:
        shutil.rmtree(damaged / "consumequeue")
    with flightlog.open_read_only(damaged) as view:
        found = [int(m.body[:5]) for key in view.queues() for m in view.read(*key, on_corrupt="skip")]
        assert sorted(found) == sorted(set(range(200)) - {20, 21, 90, 150})
        assert view.corrupt_skipped == 4
        findings = [f.offset for f in view.verify().findings if f.path.parent.name == "commitlog"]
        # The second one follows the first one at once: no intact record lies between them, so they are one damage.
        assert {v.physical_offset for v in (victims[0], *victims[2:])} <= set(findings)


def test_a_store_that_never_stands_still_is_an_error_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """It went on with a view whose files were closed."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        store.put(Message("t", b"x"))
    looks = 0

    def is_stale(self: ShutdownState, disk: object) -> bool:
        nonlocal looks
        looks += 1
        return looks <= still_after

    monkeypatch.setattr(ShutdownState, "is_stale", is_stale)
    still_after = read_only.MORE_LOOKS + 1
    with pytest.raises(StoreChangingError, match=f"during each of {still_after} attempts"):
        flightlog.open_read_only(tmp_path / "store")
    looks, still_after = 0, read_only.MORE_LOOKS
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert [message.body for message in view.read("t")] == [b"x"]
    monkeypatch.undo()
    assert_clean(tmp_path / "store")
