"""The oldest segments are lost, or were removed by retention: the note of where the log begins tells which."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DiskError, MissingSegmentsError
from flightlog.store.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from flightlog.store.state.log_start import log_start_path, read_log_start, write_log_start
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SEGMENT_SIZE = 8192
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=20, index_slots=20, index_entries=80)


@pytest.fixture
def path(tmp_path: Path, kernel: str) -> Path:
    """A store of several segments, closed."""
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        store.put_many([Message("t", b"%03d" % i + bytes(300)) for i in range(100)])
    return tmp_path / "store"


def segment(path: Path, number: int) -> Path:
    return path / "commitlog" / f"{number * SEGMENT_SIZE:020d}"


def count(path: Path) -> int:
    with flightlog.open_read_only(path) as view:
        return len(list(view.read("t")))


def write_as_broker(path: Path, *, killed: bool) -> None:
    """As if RocketMQ had written last."""
    if killed:
        (path / "abort").write_bytes(b"4711")
        return
    found = read_checkpoint(RealDisk(), path)
    assert found is not None
    write_checkpoint(RealDisk(), path, Checkpoint(found.physic_timestamp_ms, found.logics_timestamp_ms, 0, 0, 77))


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_the_oldest_segment_lost_is_a_finding_and_refuses_writing(lost: int, killed: bool, path: Path) -> None:
    if killed:
        with flightlog.open(path, replace(SETTINGS, flush_interval_ms=3_600_000)) as store:
            store.put(Message("t", b"100"))
            shutil.copytree(path, path.parent / "killed")
        path = path.parent / "killed"
    for number in range(lost):
        segment(path, number).unlink()
    seals = sorted((path / "flightlog" / "seals").iterdir())
    with pytest.raises(
        MissingSegmentsError, match=r"begins at physical offset .*Restore .*delete .*log-start"
    ) as caught:
        flightlog.open(path)
    assert (caught.value.found, caught.value.expected) == (lost * SEGMENT_SIZE, 0)
    assert sorted((path / "flightlog" / "seals").iterdir()) == seals, "nothing was changed"
    with flightlog.open_read_only(path) as view:
        assert 0 < len(list(view.read("t"))) < 100
        assert [line for line in view.report.damage if "retention has removed nothing from 0 on" in line]
        (finding,) = view.verify().findings
        assert finding.path == path / "commitlog" and finding.offset == 0
        assert f"the log begins at {lost * SEGMENT_SIZE}" in finding.meaning and "log-start" in finding.mend


def test_each_way_out_helps(path: Path, assert_clean: AssertClean) -> None:
    kept = segment(path, 0).read_bytes()
    segment(path, 0).unlink()
    with pytest.raises(MissingSegmentsError):
        flightlog.open(path)
    segment(path, 0).write_bytes(kept)
    flightlog.open(path).close()
    assert_clean(path)
    assert count(path) == 100
    segment(path, 0).unlink()
    log_start_path(path).unlink()
    flightlog.open(path).close()
    assert read_log_start(RealDisk(), path) == SEGMENT_SIZE
    assert_clean(path)
    segment(path, 1).unlink()
    with pytest.raises(MissingSegmentsError, match=f"expected {SEGMENT_SIZE}:"):
        flightlog.open(path)


@pytest.mark.parametrize("killed", [False, True])
def test_after_another_program_the_gap_is_reported_and_writing_stays_open(
    killed: bool, path: Path, assert_clean: AssertClean
) -> None:
    segment(path, 0).unlink()
    write_as_broker(path, killed=killed)
    with flightlog.open_read_only(path) as view:
        report = view.verify()
        assert [oddity for oddity in report.oddities if "another program has written the store since" in oddity]
        assert not [finding for finding in report.findings if "no segment file" in finding.meaning]
        assert [line for line in view.report.damage if "another program" in line]
    with flightlog.open(path) as store:
        assert [line for line in store.recovery_report.damage if "another program" in line]
        assert store.put(Message("t", b"new")).queue_offset == 100
    assert read_log_start(RealDisk(), path) == SEGMENT_SIZE
    assert not [oddity for oddity in assert_clean(path).oddities if "another program" in oddity]


def test_what_retention_removed_is_no_loss(path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(path, replace(SETTINGS, clean_batch_count=2)) as store:
        start = store.clean_up(0).min_physical_offset
        assert start == 2 * SEGMENT_SIZE
        assert read_log_start(RealDisk(), path) == start and store.verify().is_clean
    assert_clean(path)
    flightlog.open(path).close()
    assert_clean(path)
    segment(path, 2).unlink()
    with pytest.raises(MissingSegmentsError, match=f"expected {start}:"):
        flightlog.open(path)


def test_retention_notes_the_start_before_it_removes_a_segment(path: Path, assert_clean: AssertClean) -> None:
    """Killed between the two: the segment is still there, and the store opens."""
    disk = FaultyDisk()
    with flightlog.open(path, disk=disk) as store:
        disk.fail("remove", "commitlog", errno.EIO)
        with pytest.raises(DiskError):
            store.clean_up(0)
        disk.heal()
        assert read_log_start(RealDisk(), path) == SEGMENT_SIZE and segment(path, 0).exists()
    assert_clean(path)
    assert count(path) == 100
    flightlog.open(path).close()
    assert read_log_start(RealDisk(), path) == 0, "the log still begins there"
    assert_clean(path)


@pytest.mark.parametrize("note", [None, b"", b"FLSTART1", bytes(20), b"\xff" * 20])
def test_a_store_without_a_readable_note_opens_as_before(
    note: bytes | None, path: Path, assert_clean: AssertClean
) -> None:
    segment(path, 0).unlink()
    log_start_path(path).unlink()
    if note is not None:
        log_start_path(path).write_bytes(note)
    assert_clean(path)
    flightlog.open(path).close()
    assert read_log_start(RealDisk(), path) == SEGMENT_SIZE
    assert_clean(path)


@pytest.mark.parametrize("bit", range(0, 160, 7))
def test_a_flipped_bit_in_the_note_is_no_alarm(bit: int, tmp_path: Path) -> None:
    write_log_start(RealDisk(), tmp_path, 3 * SEGMENT_SIZE)
    assert read_log_start(RealDisk(), tmp_path) == 3 * SEGMENT_SIZE
    raw = bytearray(log_start_path(tmp_path).read_bytes())
    raw[bit // 8] ^= 1 << bit % 8
    log_start_path(tmp_path).write_bytes(raw)
    assert read_log_start(RealDisk(), tmp_path) is None
