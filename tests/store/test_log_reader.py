"""Small looks into the log: a record's store time by its fixed fields, and what the log holds no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptRecordError, StoreClosedError
from flightlog.store.log.log_reader import LogReader
from flightlog.store.segments.log_files import list_log_files

if TYPE_CHECKING:
    from flightlog import PutResult
    from flightlog.tests.store.conftest import ManualClock

SEGMENT_SIZE = 4096
HOSTS = (("127.0.0.1", 1), ("2001:db8::1", 2))


@pytest.fixture
def results(clock: ManualClock, tmp_path: Path) -> list[PutResult]:
    """Where 40 messages lie, of born hosts and store hosts of both lengths, each with a time of its own."""
    found = []
    for store_host in HOSTS:
        settings = StoreSettings(segment_size=SEGMENT_SIZE, store_host=store_host)
        with flightlog.open(tmp_path, settings, clock=clock) as store:
            for i in range(20):
                clock.at_ms += 7
                found.append(store.put(Message("t", bytes(300), born_timestamp_ms=i, born_host=HOSTS[i % 2])))
    return found


@pytest.fixture
def log(results: list[PutResult], tmp_path: Path) -> Iterator[LogReader]:
    disk = RealDisk()
    reader = LogReader(disk, list_log_files(disk, tmp_path / "commitlog"))
    yield reader
    reader.close()


def test_the_store_time_whatever_the_hosts_are(results: list[PutResult], log: LogReader) -> None:
    found = [log.store_timestamp_ms_at(result.physical_offset, result.size) for result in results]
    assert found == [result.store_timestamp_ms for result in results] and len(set(found)) == 40


def test_another_place_or_size_is_no_record(results: list[PutResult], log: LogReader) -> None:
    place, size = results[5].physical_offset, results[5].size
    for physical_offset, of_size, words in (
        *((place + 1, size, "no record"), (place, size + 1, f"a record of {size} bytes"), (place, 50, "reaches past")),
        *((place, 0, "reaches past"), (place, -1, "reaches past"), (SEGMENT_SIZE - 10, size, "no segment")),
        *((1 << 40, size, "no segment"), (-5, size, "no segment"), (log.files_end, size, "no segment")),
        *((place, SEGMENT_SIZE, "no segment"), (log.files_end - 91, 91, "no record|reaches past")),
    ):
        with pytest.raises(CorruptRecordError, match=words) as raised:
            log.store_timestamp_ms_at(physical_offset, of_size)
        assert raised.value.physical_offset == physical_offset


def test_a_file_that_is_gone(results: list[PutResult], log: LogReader, tmp_path: Path) -> None:
    in_second = next(result for result in results if result.physical_offset >= SEGMENT_SIZE)
    (tmp_path / "commitlog" / f"{SEGMENT_SIZE:020d}").unlink()
    for look in (
        lambda: log.store_timestamp_ms_at(in_second.physical_offset, in_second.size),
        lambda: log.message(in_second.physical_offset, in_second.size),
        lambda: log.message_at(in_second.physical_offset),
    ):
        with pytest.raises(CorruptRecordError, match="no file any more") as raised:
            look()
        assert raised.value.path.name == f"{SEGMENT_SIZE:020d}"


def test_a_gap_hides_no_segment_behind_it(results: list[PutResult], log: LogReader, tmp_path: Path) -> None:
    """A segment's place is guessed from the offset: with gaps, the guess is too high."""
    log.close()
    for base in (SEGMENT_SIZE, 3 * SEGMENT_SIZE):
        (tmp_path / "commitlog" / f"{base:020d}").unlink()
    disk = RealDisk()
    reader = LogReader(disk, list_log_files(disk, tmp_path / "commitlog", tolerant=True))
    assert [segment.base // SEGMENT_SIZE for segment in reader.segments] == [0, 2, 4]
    for at in range(0, reader.files_end, SEGMENT_SIZE // 2):
        segment, number = reader.segment_at(at), at // SEGMENT_SIZE
        assert (None if segment is None else segment.base) == (None if number in (1, 3) else number * SEGMENT_SIZE)
    assert reader.segment_at(reader.files_end) is None
    reader.close()


def test_what_the_log_has_let_go(log: LogReader, tmp_path: Path) -> None:
    folder = tmp_path / "commitlog"
    borders = (-1, 0, SEGMENT_SIZE - 1, SEGMENT_SIZE, 2 * SEGMENT_SIZE, 1 << 40)
    assert [log.was_released(at) for at in borders] == [True, False, False, False, False, False]
    (folder / f"{SEGMENT_SIZE:020d}").unlink()  # from the middle: that is no expiry
    assert [log.was_released(at) for at in borders] == [True, False, False, False, False, False]
    (folder / f"{0:020d}").unlink()
    assert [log.was_released(at) for at in borders] == [True, True, True, True, False, False]
    log.segments = log.segments[2:]
    assert [log.was_released(at) for at in borders] == [True, True, True, True, False, False]


def test_where_the_next_segment_starts(log: LogReader) -> None:
    places = (0, 1, SEGMENT_SIZE - 1, SEGMENT_SIZE)
    assert [log.next_segment_offset(at) for at in places] == [SEGMENT_SIZE] * 3 + [2 * SEGMENT_SIZE]


def test_after_close(results: list[PutResult], log: LogReader) -> None:
    log.close()
    with pytest.raises(StoreClosedError):
        log.store_timestamp_ms_at(results[0].physical_offset, results[0].size)
