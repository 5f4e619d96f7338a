"""File systems where blocks that were allocated are no promise: a warning, appends by write calls, never a signal."""

from __future__ import annotations

import errno
import os
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings, TopicColumns
from flightlog.store.disk import file_system
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import DiskFullError, FileSystemWarning
from flightlog.store.state.progress import read_progress
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, mounts

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean, InChild

SETTINGS = StoreSettings(
    segment_size=16 << 10,
    queue_file_entries=50,
    index_slots=100,
    index_entries=400,
    allocate_step_size=4096,
    flush_interval_ms=3_600_000,
)
pytestmark = pytest.mark.filterwarnings("ignore::flightlog.store.errors.FileSystemWarning")


class StillClock:
    """Every record of two stores has the same times."""

    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_s(self) -> float:
        return 1.0


@pytest.fixture
def cow(disk: FaultyDisk) -> FaultyDisk:
    """It claims to be btrfs, and fails the test where a file is mapped for appends."""
    disk.unpromising = "btrfs"
    return disk


def use_everything(store: Store) -> None:
    """Puts of every kind, through several segments."""
    for i in range(20):
        store.put(Message("t", b"%d" % i * 100, tags="a", keys=f"k{i}", queue_id=i % 3))
        store.put_async(Message("t", b"later")).result(60)
        store.put_many([Message("u", b"%d" % j * 50) for j in range(5)])
        store.put_batch([Message("b", b"inner %d" % j) for j in range(3)])
        store.append_columns("c", {"body": [b"%d" % j for j in range(30)], "tags": ["x"] * 30})
    if not store.settings.append_crc_property:  # which refuses it
        store.append_atomically(
            [TopicColumns("t", {"body": [bytes(500)] * 60}), TopicColumns("new", {"body": [b"y"] * 10})]
        )
    store.put(Message("t", b"last"))


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("mode", FlushMode)
def test_the_log_is_the_same_byte_for_byte(
    mode: FlushMode, crc: bool, kernel: str, tmp_path: Path, cow: FaultyDisk, assert_clean: AssertClean
) -> None:
    settings = flightlog.StoreSettings.small(
        segment_size=16 << 10,
        flush_mode=mode,
        append_crc_property=crc,
        prepare_ahead_size=4096,
        flush_interval_ms=SETTINGS.flush_interval_ms,
    )
    logs = []
    for path, disk in ((tmp_path / "written", cow), (tmp_path / "mapped", RealDisk())):
        with flightlog.open(path, settings, disk=disk, clock=StillClock()) as store:
            use_everything(store)
            with flightlog.open_read_only(path) as view:
                assert view.end_physical_offset == inside.log(store).visible
        assert_clean(path)
        logs.append({file.name: file.read_bytes() for file in (path / "commitlog").iterdir()})
    assert logs[0] == logs[1] and len(logs[0]) > 4


def test_opening_for_writing_warns_and_views_do_not(tmp_path: Path, cow: FaultyDisk) -> None:
    path = tmp_path / "store"
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            flightlog.open(path, SETTINGS, disk=cow).close()
        (text,) = [str(each.message) for each in caught if each.category is FileSystemWarning]
        for part in (f"{path} is on btrfs", "SIGBUS", "by write calls", "DiskFullError", "ext4 or XFS"):
            assert part in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flightlog.open_read_only(path, disk=cow).close()
        flightlog.open(path).close()


def test_a_warning_that_is_made_an_error_leaves_everything_as_it_was(tmp_path: Path, cow: FaultyDisk) -> None:
    path = tmp_path / "store"
    with warnings.catch_warnings(), pytest.raises(FileSystemWarning):
        warnings.simplefilter("error")
        flightlog.open(path, SETTINGS, disk=cow)
    assert not (path / "abort").exists()
    flightlog.open(path, SETTINGS, disk=cow).close()


@pytest.mark.parametrize(
    ("magic", "name"),
    [
        (0x9123683E, "btrfs"),
        (0x2FC12FC1, "ZFS"),
        (0x6969, "NFS"),
        (0x794C7630, "overlay"),
        (0x65735546, "virtiofs or another FUSE file system"),
        (0xEF53, None),
        (0x58465342, None),
        (0x01021994, None),
        (0, None),
    ],
)
def test_which_file_systems(magic: int, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "magic_of", lambda descriptor: magic)
    found = RealDisk().find_unpromising(tmp_path)
    assert (None if found is None else found.name) == name


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("closes_full", [False, True])
def test_a_disk_that_runs_full_in_an_append(
    closes_full: bool,
    mode: FlushMode,
    kernel: str,
    tmp_path: Path,
    cow: FaultyDisk,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
) -> None:
    """Blocks were allocated, and the write call finds none all the same; half of the record is written by then."""
    path = tmp_path / "store"
    settings = StoreSettings.small(flush_mode=mode, flush_interval_ms=3_600_000)
    store = flightlog.open(path, settings, disk=cow)
    acknowledged.put(store, *(acknowledged.message() for _ in range(5)))
    fault = cow.fail("write", "commitlog/", errno.ENOSPC)
    for size in (3000, 500, 10):
        with pytest.raises(DiskFullError, match="No space left"):
            store.put(acknowledged.message(size=size))
    assert fault.hits == 3, "what the first one left could not be wiped, and was not written over"
    with pytest.raises(DiskFullError):
        store.append_columns("orders", {"body": [bytes(3000)] * 4})
    assert acknowledged.check(store) == 5
    if closes_full:
        with pytest.raises(DiskFullError):
            store.close()
        cow.heal()
        store = flightlog.open(path, settings, disk=cow)
    cow.heal()
    acknowledged.put(store, *(acknowledged.message(size=size) for size in (10, 500, 3000)))
    assert acknowledged.check(store) == 8
    end = inside.log(store).end
    store.close()
    assert not (path / "commitlog" / f"{0:020d}").read_bytes()[end:].strip(b"\0"), "left behind the log's end"
    assert assert_clean(path).records == 8


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("is_mapped", [False, True])
def test_each_put_is_on_the_progress_page_at_once(
    is_mapped: bool, mode: FlushMode, kernel: str, tmp_path: Path, cow: FaultyDisk
) -> None:
    path, disk = tmp_path / "store", RealDisk() if is_mapped else cow
    with flightlog.open(path, StoreSettings.small(flush_mode=mode), disk=disk) as store:
        for number in range(5):
            result = store.put(Message("t", b"%d" % number))
            known = read_progress(RealDisk(), path)
            assert known is not None and known.appended == result.physical_offset + result.size


def test_a_progress_page_that_has_no_room_is_brought_up_later(
    tmp_path: Path, cow: FaultyDisk, acknowledged: Acknowledged, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, SETTINGS, disk=cow) as store:
        acknowledged.put(store, acknowledged.message())
        cow.fail("write", "flightlog/progress", errno.EDQUOT)  # a page is written whole or not at all
        acknowledged.put(store, *(acknowledged.message() for _ in range(3)))
        store.flush()
        known = read_progress(RealDisk(), path)
        assert known is not None and known.appended < inside.log(store).end and known.flushed <= known.appended
        assert acknowledged.check(store) == 4
        cow.heal()
        acknowledged.put(store, acknowledged.message())
        store.flush()
        known = read_progress(RealDisk(), path)
        assert known is not None and known.appended == known.flushed == inside.log(store).end
    assert assert_clean(path).records == 5


def test_appends_that_belong_together_and_have_no_room(
    tmp_path: Path, cow: FaultyDisk, assert_clean: AssertClean
) -> None:
    path = tmp_path / "store"
    parts = [TopicColumns("t", {"body": [bytes(700)] * 60})]
    for skip in (0, 1, 3, 5):
        store = flightlog.open(path, SETTINGS, disk=cow)
        store.put(Message("t", b"before"))
        before = inside.log(store).end
        cow.fail("write", "commitlog/", errno.ENOSPC, skip=skip)
        with pytest.raises(DiskFullError):
            store.append_atomically(parts)
        cow.heal()
        store.close()
        with flightlog.open(path, disk=cow) as again:
            assert inside.log(again).end in (before, again.recovery_report.end)
            assert {message.body for message in again.read("t")} == {b"before"}
        assert_clean(path)
    with flightlog.open(path, disk=cow) as store:
        store.append_atomically(parts)
        assert len(list(store.read("t"))) == 64
    assert_clean(path)


@contextmanager
def overlay(folder: Path, size: int) -> Iterator[Path]:
    """An overlay of two folders of a small file system in memory."""
    commands = [
        ("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)),
        (
            *("mount", "-t", "overlay", "overlay", "-o"),
            f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work",
            str(folder / "merged"),
        ),
    ]
    subprocess.run(commands[0], check=True)
    try:
        for name in ("lower", "upper", "work", "merged"):
            (folder / name).mkdir()
        subprocess.run(commands[1], check=True)
        try:
            yield folder / "merged"
        finally:
            subprocess.run(["umount", "-l", str(folder / "merged")], check=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
def test_a_real_overlay_that_runs_full(
    mode: FlushMode, tmp_path: Path, acknowledged: Acknowledged, assert_clean: AssertClean, in_child: InChild
) -> None:
    mounts.needs_root()
    settings = StoreSettings.small(segment_size=256 << 10, flush_mode=mode, allocate_step_size=64 << 10)
    (tmp_path / "place").mkdir()

    def fill(place: Path) -> None:
        path, ballast = place / "store", place / "ballast"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store = flightlog.open(path, settings)
        assert ["overlay" in str(each.message) for each in caught if each.category is FileSystemWarning] == [True]
        with store:
            acknowledged.put(store, acknowledged.message())
            ballast.write_bytes(bytes(4 << 20))
            with pytest.raises(DiskFullError):
                for _ in range(100_000):
                    acknowledged.put(store, acknowledged.message(size=700))
            acknowledged.check(store)
            os.unlink(ballast)
            acknowledged.put(store, acknowledged.message())
        with flightlog.open(path) as store:
            assert acknowledged.check(store) == len(acknowledged.bodies)
        assert_clean(path)

    with overlay(tmp_path / "place", 8 << 20) as place:
        in_child(lambda: fill(place))
