"""How a segment comes into its folder: at its full length, where the file system can do that."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.segments.segment import AppendSegment
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support.process import LIMIT_S

if TYPE_CHECKING:
    AssertClean = Callable[[Path], None]

SIZE = 1 << 20


class WithoutUnnamed(RealDisk):
    """As NFS is."""

    def open_unnamed(self, path: Path) -> RealFile | None:
        return None


def test_a_segment_has_its_length_before_its_name(tmp_path: Path, assert_clean: AssertClean) -> None:
    """A RocketMQ that was started beside the store removed the segment between both, and with it what was put."""
    disk, folder = FaultyDisk(), tmp_path / "commitlog"
    settings = StoreSettings.small(segment_size=SIZE, flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, settings, disk=disk) as store, ThreadPoolExecutor() as pool:
        for operation in ("resize", "sync"):  # the first segment, and one that nothing was prepared for
            disk.hold(operation, "/commitlog/")
            before = os.listdir(folder) if folder.exists() else []
            putting = pool.submit(store.put_many, [Message("t", bytes(100_000))] * 12)
            assert disk.held.acquire(timeout=LIMIT_S)
            assert os.listdir(folder) == before
            disk.release()
            putting.result(LIMIT_S)
            assert len(os.listdir(folder)) > len(before)
    assert_clean(tmp_path)


@pytest.mark.parametrize("case", ["there is one", "not linked", "no such files"])
def test_a_segment_that_cannot_be_made_without_a_name(case: str, tmp_path: Path) -> None:
    disk = WithoutUnnamed() if case == "no such files" else FaultyDisk()
    path = tmp_path / f"{0:020}"
    if isinstance(disk, FaultyDisk):
        disk.fail("link", path.name, errno.ENOENT)  # as where /proc is not mounted
    if case == "there is one":
        path.write_bytes(b"kept")
    segment = AppendSegment(disk, path, 0, SIZE)
    segment.create()
    segment.allocate_up_to(100, 100, 0)
    segment.store(50, b"x" * 50)
    segment.sync()
    segment.close()
    if isinstance(disk, FaultyDisk):
        assert disk.count("link") == (case == "not linked"), "a file that is there is never met without a name"
    found = path.read_bytes()
    assert len(found) == SIZE and found[50:100] == b"x" * 50
    assert (found[:4] == b"kept") == (case == "there is one")
