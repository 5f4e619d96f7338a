"""What a store tells the log: one line an event, under a name of the part, with its facts as fields."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import DiskFullError, StorePoisonedError, SyncFailedError
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.conftest import Told
    from flightlog.tests.engine.conftest import AssertClean

SMALL = StoreSettings(segment_size=16 << 10, queue_file_entries=50, key_index=False, flush_interval_ms=3_600_000)


class Lines:
    """What was logged since it was asked last."""

    def __init__(self, caplog: pytest.LogCaptureFixture, told: Told) -> None:
        self._caplog, self._told = caplog, told

    def take(self) -> list[tuple[str, str, str]]:
        """(logger, level, text)."""
        return [(record.name, record.levelname, record.getMessage()) for record in self.records()]

    def records(self) -> list[logging.LogRecord]:
        found = self._told()
        self._caplog.clear()
        return found

    def one(self, name: str, level: str, **fields: Any) -> str:
        """The text of the one line that there is, which has these fields."""
        [record] = self.records()
        assert (record.name, record.levelname) == (f"flightlog.{name}", level), record.getMessage()
        found = record.__dict__
        assert {key: found.get(key) for key in fields} == fields
        assert str(found["path"]) in record.getMessage()
        return record.getMessage()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, told: Told) -> Lines:
    caplog.set_level(logging.DEBUG, "flightlog")
    return Lines(caplog, told)


def test_open_and_close(tmp_path: Path, lines: Lines, assert_clean: AssertClean) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SMALL) as store:
        recovered, opened = lines.records()
        assert (recovered.name, opened.name) == ("flightlog.recovery", "flightlog.store")
        assert {record.levelname for record in (recovered, opened)} == {"INFO"}
        assert opened.__dict__["physical_offset"] == 0 and opened.__dict__["last_writer"] == "NOBODY"
        end = store.put(Message("orders", b"one")).size
        assert list(store.read("orders")) and lines.take() == [], "puts and reads tell nothing"
    text = lines.one("store", "INFO", path=str(path), physical_offset=end, flushed=end, messages=1)
    assert text == f"{path}: closed cleanly at physical offset {end}"
    store.close()
    assert lines.take() == []
    assert_clean(path)


def test_recovery(killed: Path, lines: Lines, assert_clean: AssertClean) -> None:
    lines.take()
    with flightlog.open(killed) as store:
        report = store.recovery_report
        recovered, _ = lines.records()
        found = recovered.__dict__
        assert (recovered.name, recovered.levelname) == ("flightlog.recovery", "INFO")
        assert (found["path"], found["last_writer"]) == (str(killed), "FLIGHTLOG_KILLED")
        assert (found["scanned_from"], found["physical_offset"]) == (report.scanned_from, report.end)
        assert (found["records_scanned"], found["entries_dispatched"]) == (150, report.entries_dispatched)
        assert found["entries_dispatched"] > 0 and found["keys_put"] == report.keys_put
    assert_clean(killed)


def test_a_cut(killed: Path, numbered: Any, lines: Lines, assert_clean: AssertClean) -> None:
    last = numbered.offsets(killed)[-1]
    numbered.reboot(killed)
    segment = killed / "commitlog" / f"{last // numbered.SEGMENT_SIZE * numbered.SEGMENT_SIZE:020d}"
    with segment.open("r+b") as file:
        file.seek(last % numbered.SEGMENT_SIZE + 60)
        file.write(bytes(60))
    lines.take()
    with flightlog.open(killed):
        cut, _, _ = lines.records()
        found = cut.__dict__
        assert (cut.name, cut.levelname) == ("flightlog.recovery", "WARNING")
        assert (found["path"], found["physical_offset"]) == (str(killed), last)
        assert found["cut"] and f"cut-{last:020d}" in cut.getMessage()
    assert_clean(killed)


def test_poison(tmp_path: Path, lines: Lines, assert_clean: AssertClean) -> None:
    path, disk = tmp_path / "store", FaultyDisk()
    with flightlog.open(path, SMALL, disk=disk) as store:
        end = store.put(Message("orders", b"one")).size
        lines.take()
        disk.fail("sync", "commitlog/", errno.EIO)
        with pytest.raises(SyncFailedError):
            store.flush()
        text = lines.one("store", "ERROR", path=str(path), flushed=0, physical_offset=end)
        assert "takes no more puts" in text and "Input/output error" in text
        for call in (store.flush, lambda: store.put(Message("orders", b"two"))):
            with pytest.raises(StorePoisonedError):
                call()
        assert lines.take() == [], "it is told once"
        disk.heal()
    assert "the next open recovers it" in lines.one("store", "WARNING", path=str(path), physical_offset=end)
    with flightlog.open(path, SMALL):
        pass
    assert_clean(path)


def test_a_service_that_fails_poisons_and_tells_it_once(
    tmp_path: Path, lines: Lines, assert_clean: AssertClean
) -> None:
    path, disk = tmp_path / "store", FaultyDisk()
    sync = StoreSettings(segment_size=16 << 10, key_index=False, flush_mode=FlushMode.SYNC, flush_interval_ms=1)
    with flightlog.open(path, sync, disk=disk) as store:
        store.put(Message("orders", b"one"))
        lines.take()
        disk.fail("sync", "commitlog/", errno.EIO)
        with pytest.raises(StorePoisonedError):
            store.put_async(Message("orders", b"one")).result(60)
    told = [line for line in lines.take() if "takes no more puts" in line[2] and line[1] == "ERROR"]
    assert len(told) == 1
    disk.heal()
    with flightlog.open(path):
        pass
    assert_clean(path)


def test_a_full_disk(tmp_path: Path, lines: Lines, assert_clean: AssertClean) -> None:
    path, disk = tmp_path / "store", FaultyDisk()
    with flightlog.open(path, SMALL, disk=disk) as store:
        lines.take()
        disk.fail("*", "commitlog/", errno.ENOSPC)
        for _ in range(3):
            with pytest.raises(DiskFullError):
                store.put(Message("orders", b"one"))
        text = lines.one("store", "WARNING", path=str(path), physical_offset=0)
        assert "the disk is full" in text
        disk.heal()
        store.put(Message("orders", b"one"))
        assert "room on the disk again" in lines.one("store", "INFO", path=str(path))
    assert_clean(path)


def test_no_room_for_queue_entries(tmp_path: Path, lines: Lines, assert_clean: AssertClean) -> None:
    path, disk = tmp_path / "store", FaultyDisk()
    with flightlog.open(path, SMALL, disk=disk) as store:
        end = store.put(Message("orders", b"one")).size
        lines.take()
        disk.fail("*", "consumequeue/", errno.ENOSPC)
        assert list(store.read("orders")) == list(store.read("orders")) == []
        lines.one("dispatch", "WARNING", path=str(path), physical_offset=0, lag=end)
        disk.heal()
        assert len(list(store.read("orders"))) == 1
        assert "room for queue entries" in lines.one("dispatch", "INFO", path=str(path))
    assert_clean(path)


def test_a_view_tells_what_it_found(closed: Path, lines: Lines) -> None:
    lines.take()
    with flightlog.open_read_only(closed) as view:
        end = view.end_physical_offset
    lines.one("read_only", "INFO", path=str(closed), physical_offset=end, last_writer="FLIGHTLOG_CLOSED")
