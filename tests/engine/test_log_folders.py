"""A commit log in several folders, as RocketMQ's `storePathCommitLog` names them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import DiskSpace, RealDisk
from flightlog.store.errors import DamagedStoreError, StoreNotFoundError

SIZE = 64 << 10
FOLDERS = ("disk-b/log", "disk-a/log", "disk-c/log")
IN_TURN = ("disk-a/log", "disk-b/log", "disk-c/log")
BODY = b"x" * 1000


def settings(folders: tuple[str, ...] = FOLDERS, read_only: tuple[str, ...] = ()) -> StoreSettings:
    return StoreSettings.small(
        segment_size=SIZE,
        commit_log_folders=folders,
        commit_log_read_only_folders=read_only,
        allocate_step_size=4096,
    )


def fill(path: Path, wanted: StoreSettings, count: int = 600) -> int:
    """Returns how many messages the store has then."""
    with flightlog.open(path, wanted) as store:
        store.put_many([Message("orders", b"%06d" % i + BODY) for i in range(count)])
        bodies = [m.body for m in store.read("orders")]
        assert store.verify().is_clean
    return len(bodies)


def segments(path: Path) -> dict[str, list[int]]:
    """Numbers of the segments in each folder."""
    return {
        name: sorted(int(file.name) // SIZE for file in (path / name).iterdir())
        for name in IN_TURN
        if (path / name).exists()
    }


def assert_clean(path: Path, wanted: StoreSettings, count: int) -> None:
    with flightlog.open_read_only(path, wanted) as view:
        assert sum(1 for _ in view.read("orders")) == count
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


def test_segments_are_made_in_turn(tmp_path: Path) -> None:
    assert fill(tmp_path, settings()) == 600
    found = segments(tmp_path)
    count = sum(map(len, found.values()))
    assert count > 9 and found == {name: list(range(i, count, 3)) for i, name in enumerate(IN_TURN)}
    assert not (tmp_path / "commitlog").exists()
    assert fill(tmp_path, settings(), 300) == 900  # the order in which they are named means nothing
    assert_clean(tmp_path, settings(FOLDERS[::-1]), 900)


def test_absolute_folders_elsewhere(tmp_path: Path) -> None:
    path, other = tmp_path / "store", tmp_path / "other"
    wanted = settings((str(other),))
    assert fill(path, wanted) == 600
    assert {file.name for file in other.iterdir()} == {f"{i * SIZE:020d}" for i in range(len(list(other.iterdir())))}
    assert_clean(path, wanted, 600)
    with pytest.raises(StoreNotFoundError):
        flightlog.open_read_only(path)


def test_segments_move_and_become_read_only(tmp_path: Path) -> None:
    """As an operator does whose disk is full: the folder gets no more segments, and its old ones are still read."""
    fill(tmp_path, settings())
    (tmp_path / "disk-d").mkdir()
    shutil.move(tmp_path / "disk-b" / "log" / f"{SIZE:020d}", tmp_path / "disk-d")
    wanted = settings(("disk-b/log", "disk-c/log"), ("disk-a/log", "disk-d"))
    before = segments(tmp_path)
    assert fill(tmp_path, wanted, 400) == 1000
    after = segments(tmp_path)
    assert after["disk-a/log"] == before["disk-a/log"]
    assert [file.name for file in (tmp_path / "disk-d").iterdir()] == [f"{SIZE:020d}"]
    first = max(map(max, before.values())) + 1
    for i, name in enumerate(("disk-b/log", "disk-c/log")):
        new = [number for number in after[name] if number >= first]
        assert new and all(number % 2 == i for number in new)
    assert_clean(tmp_path, wanted, 1000)


def test_recovery_cuts_and_syncs_where_the_segment_is(tmp_path: Path) -> None:
    fill(tmp_path, settings())
    number = max(map(max, segments(tmp_path).values()))
    last = tmp_path / IN_TURN[number % 3] / f"{number * SIZE:020d}"
    with flightlog.open_read_only(tmp_path, settings()) as view:
        end = view.end_physical_offset
    (tmp_path / "abort").write_bytes(b"1")  # as if RocketMQ had been killed
    with last.open("r+b") as file:
        file.seek(end - number * SIZE)
        file.write(b"torn" * 8)
    behind = tmp_path / IN_TURN[(number + 1) % 3] / f"{(number + 1) * SIZE:020d}"
    behind.write_bytes(bytes(SIZE))  # prepared by it
    with flightlog.open(tmp_path, settings()) as store:
        report = store.recovery_report
        assert report.end == end and any("cut 32 bytes" in line for line in report.cut)
        assert not behind.exists()
    with last.open("rb") as file:
        file.seek(end - number * SIZE)
        assert not any(file.read())
    assert (tmp_path / "flightlog" / f"cut-{end:020d}").read_bytes() == b"torn" * 8
    assert_clean(tmp_path, settings(), 600)


def test_the_oldest_go_from_every_folder(tmp_path: Path) -> None:
    fill(tmp_path, settings())
    with flightlog.open(tmp_path, settings()) as store:
        report = store.clean_up(0)
        removed = len(report.segments)
        assert removed == 10 and {file.parent for file in report.segments} == {tmp_path / name for name in IN_TURN}
        assert min(number for there in segments(tmp_path).values() for number in there) == removed
        count = sum(1 for _ in store.read("orders"))
    assert_clean(tmp_path, settings(), count)


def test_a_segment_in_two_folders_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, settings())
    twice = tmp_path / "disk-b" / "log" / f"{0:020d}"
    shutil.copy(tmp_path / "disk-a" / "log" / twice.name, twice)
    with pytest.raises(DamagedStoreError, match="too, expected it once"):
        flightlog.open(tmp_path, settings())
    with flightlog.open_read_only(tmp_path, settings()) as view:
        assert sum(1 for _ in view.read("orders")) == 600
        assert any("expected it once" in line for line in view.report.damage)
    twice.unlink()
    assert_clean(tmp_path, settings(), 600)


def test_a_folder_that_is_not_named_is_missed(tmp_path: Path) -> None:
    path, names = tmp_path / "store", tuple(str(tmp_path / name) for name in FOLDERS)
    fill(path, settings(names))
    with pytest.raises(DamagedStoreError, match=f"expected {SIZE:020d} between them"):
        flightlog.open(path, settings(names[1:]))
    assert_clean(path, settings(names), 600)


def test_a_folder_on_a_full_disk_is_passed_over(tmp_path: Path) -> None:
    class OneFullDisk(RealDisk):
        full = "disk-a"

        def space(self, path: Path) -> DiskSpace:
            return DiskSpace(86, 14) if self.full in str(path.relative_to(tmp_path)) else DiskSpace(85, 15)

    disk = OneFullDisk()
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        for full in ("disk-a", "disk", "disk-c"):  # the second time all of them are
            disk.full = full
            store.put_many([Message("orders", BODY)] * 200)
        assert store.verify().is_clean
    found = segments(tmp_path)
    count = sum(map(len, found.values()))
    place = {number: name for name, numbers in found.items() for number in numbers}
    by_turn = {IN_TURN[1:][number % 2] for number in range(3)}
    assert {place[number] for number in range(3)} == by_turn == set(IN_TURN[1:])
    assert all(place[number] == IN_TURN[number % 3] for number in range(4, 7))
    assert all(place[number] == IN_TURN[:2][number % 2] for number in range(count - 3, count))
    assert_clean(tmp_path, settings(), 600)


def test_a_live_view_follows_through_the_folders(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, settings()) as store:
        store.put(Message("orders", BODY))
        with flightlog.open_read_only(tmp_path, settings()) as view:
            store.put_many([Message("orders", BODY)] * 300)
            view.refresh()
            assert sum(1 for _ in view.read("orders")) == 301
    assert_clean(tmp_path, settings(), 301)
