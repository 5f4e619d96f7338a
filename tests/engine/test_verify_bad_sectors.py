"""Verify on a disk with bad sectors: each is a finding, and everything else is checked."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.engine.verify.findings import Finding
from flightlog.store.disk.bad_sectors import MOST_SECTORS, SECTOR_SIZE, BadSectors
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.errors import DiskError
from flightlog.testing.faulty_disk import FaultyDisk

SEGMENT_SIZE = 64 << 10
SETTINGS = StoreSettings(
    segment_size=SEGMENT_SIZE, queue_file_entries=1000, index_slots=500, index_entries=2000, flush_interval_ms=3_600_000
)
COUNT = 1200
BAD = (3 * SECTOR_SIZE + 100, 4 * SECTOR_SIZE + 1)
"""Bytes that cannot be read, over the border of two sectors."""


class BadFile(RealFile):
    bad = (0, 0)

    def read(self, position: int, size: int) -> bytes:
        if position < self.bad[1] and self.bad[0] < position + size:
            raise DiskError(f"{self.path}: reading") from OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(position, size)


class BadDisk(RealDisk):
    """A real disk, of which the bytes `bad` of one file cannot be read. No file of it is mapped."""

    maps_files = False

    def __init__(self, path: Path, bad: tuple[int, int]) -> None:
        self.path, self.bad = path, bad

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        file = super().open(path, writable=writable, create=create)
        found = BadFile(path, os.dup(file.descriptor), writable)
        if path == self.path:
            found.bad = self.bad
        return found


def put(store: flightlog.Store) -> None:
    store.put_many([Message("t", b"%05d" % i + bytes(i % 300), queue_id=i % 2, keys=f"k{i}") for i in range(COUNT)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with flightlog.open(tmp_path / "store", SETTINGS) as store:
        put(store)
    return tmp_path / "store"


def segment(root: Path, number: int) -> Path:
    return root / "commitlog" / f"{number * SEGMENT_SIZE:020d}"


def check(found: list[Finding], path: Path, base: int = 0, bad: tuple[int, int] = BAD) -> None:
    """One finding names the sectors; those beside it are of the same file, or of what it should say."""
    start, stop = bad[0] // SECTOR_SIZE * SECTOR_SIZE, -(-bad[1] // SECTOR_SIZE) * SECTOR_SIZE
    [unreadable] = [finding for finding in found if "cannot be read" in finding.meaning]
    assert (unreadable.path, unreadable.offset) == (path, base + start)
    assert (
        f"bytes {start} to {stop - 1} of the file" in unreadable.meaning and f"{stop - start} byt" in unreadable.meaning
    )


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("number", [0, 2])
def test_in_a_sealed_segment(number: int, root: Path) -> None:
    path, other = segment(root, number), segment(root, 1)
    raw = bytearray(other.read_bytes())
    raw[200:204] = b"\xee" * 4  # damage elsewhere is still found
    other.write_bytes(raw)
    with flightlog.open_read_only(root, disk=BadDisk(path, BAD)) as view:
        report = view.verify()
    check(report.findings, path, number * SEGMENT_SIZE)
    assert any(f.path == other and "differs from its seal" in f.meaning for f in report.findings)
    assert {f.path for f in report.findings} >= {path, other}
    assert report.records > COUNT - 200, "all others are checked"


def test_in_the_segment_that_is_being_filled(root: Path) -> None:
    last = max((root / "commitlog").iterdir())
    with flightlog.open_read_only(root, disk=BadDisk(last, (5000, 5001))) as view:
        check(view.verify().findings, last, int(last.name), (5000, 5001))


@pytest.mark.parametrize("folder", ["consumequeue/t/0", "index"])
def test_in_what_is_derived(folder: str, root: Path) -> None:
    path, bad = min((root / folder).iterdir()), (4100, 5000)
    with flightlog.open_read_only(root, disk=BadDisk(path, bad)) as view:
        report = view.verify()
    check(report.findings, path, 0, bad)
    assert report.records == COUNT and all(folder in str(finding.path) for finding in report.findings)


def test_beside_its_writer(root: Path) -> None:
    path = segment(root, 1)
    with flightlog.open(root, SETTINGS, disk=BadDisk(path, BAD)) as store:
        check(store.verify().findings, path, SEGMENT_SIZE)


def test_where_not_even_a_view_can_be_opened(root: Path) -> None:
    """What a killed writer left is looked at by every opening; `flightlog verify` reads around it all the same."""
    (root / "abort").touch()
    (root / "flightlog" / "progress").unlink()
    path = segment(root, 1)
    with pytest.raises(DiskError):
        flightlog.open_read_only(root, disk=BadDisk(path, BAD))
    with flightlog.open_read_only(root, disk=BadSectors.around(BadDisk(path, BAD))) as view:
        check(view.verify().findings, path, SEGMENT_SIZE)


def test_other_errors_are_raised(root: Path) -> None:
    disk = FaultyDisk()
    with flightlog.open_read_only(root, disk=BadSectors.around(disk)) as view:
        disk.fail("read", "commitlog/", errno.EACCES)
        with pytest.raises(DiskError, match="Permission denied"):
            view.verify()


def test_a_dying_disk_is_not_tried_sector_by_sector(tmp_path: Path) -> None:
    path, size = tmp_path / "file", (2 * MOST_SECTORS + 100) * SECTOR_SIZE
    with path.open("wb") as file:
        file.truncate(size)
    tries = 0

    class Counted(BadDisk):
        def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
            nonlocal tries
            tries += 1
            return super().open(path, writable=writable, create=create)

    disk = BadSectors(Counted(path, (0, size)))
    opened = disk.open(path)
    assert opened.read(10, size) == bytes(size - 10)
    assert list(disk.found()) == [(path, 0, size)]
    assert opened.size() == size and tries == 1
    opened.close()
