"""Retention beside RocketMQ's own cleaners: equal stores, equal ages of files, equal disks; then the same segments,
queue files and index files remain, and the same bounds and messages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import flightlog
from flightlog import GetStatus, Store, StoreSettings
from flightlog.tests.interop.harness import Geometry, OpenResult, RocketMq
from flightlog.tests.support import inside, mounts

pytestmark = [pytest.mark.ci, pytest.mark.xdist_group("interop-retention")]

SIZES: Geometry = {"segment_size": 64 << 10, "queue_entries": 20, "index_slots": 50, "index_entries": 200}
SEGMENTS = 14
OLD, YOUNG = 100, 1
"""Hours since a segment was written to; retention is 72."""


@pytest.fixture(scope="module")
def written(rocketmq: RocketMq, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 14 segments that RocketMQ wrote: two topics that go on, one that ended with the first segment."""
    path = tmp_path_factory.mktemp("retention") / "store"
    rocketmq.write_store(path, seed=3, count=40, topics=("ended",), queues=2, body_min=100, body_max=300, **SIZES)
    lasting = ("a", "b")
    rocketmq.write_store(
        path, seed=4, count=545, first=1000, topics=lasting, queues=3, body_min=100, body_max=2800, **SIZES
    )
    found = len(list((path / "commitlog").iterdir()))
    assert found == SEGMENTS, "choose another count"
    return path


def configured(**config: str) -> Geometry:
    return {**SIZES, "config": config}


def files(path: Path) -> set[str]:
    """What must be equal; RocketMQ makes files of its own in other places."""
    folders = ("commitlog", "consumequeue", "index")
    return {str(f.relative_to(path)) for name in folders for f in (path / name).rglob("*") if f.is_file()}


def set_ages(path: Path, ages: list[int]) -> None:
    for segment, hours in zip(sorted((path / "commitlog").iterdir()), ages, strict=True):
        os.utime(segment, (time.time() - hours * 3600,) * 2)


def assert_equal(store: Store, theirs: OpenResult, path: Path, their_path: Path) -> None:
    assert files(path) == files(their_path)
    assert store.queues() == theirs.bounds
    messages = [message for key in store.queues() for message in store.read(*key)]
    ours = {(m.topic, m.queue_id, m.queue_offset): m.physical_offset for m in messages}
    lines = theirs.messages
    assert ours == {(line["cqTopic"], line["cqQueueId"], line["cqOffset"]): line["cqPos"] for line in lines}
    for key, (first, _) in theirs.bounds.items():
        if first:
            result = store.get(*key, 0)
            assert (result.status, result.next_queue_offset) == (GetStatus.OFFSET_TOO_SMALL, first)
    assert inside.log(store).reader.min_offset == theirs.summary["minPhyOffset"] > 0
    assert store.verify().is_clean


@pytest.mark.parametrize(
    ("ages", "rounds", "left"),
    [
        ([OLD] * 4 + [YOUNG] + [OLD] * 9, 2, 10),  # nothing behind a young one
        ([OLD] * 14, 2, 1),  # ten files a round, never the last one
    ],
    ids=["a young one", "all old"],
)
def test_by_age(
    ages: list[int],
    rounds: int,
    left: int,
    rocketmq: RocketMq,
    written: Path,
    copy_store: Callable[[Path, Path], Path],
    tmp_path: Path,
) -> None:
    theirs, ours = (copy_store(written, tmp_path / name) for name in ("theirs", "ours"))
    for path in (theirs, ours):
        set_ages(path, ages)
    opened = rocketmq.open_store(theirs, clean_ups=rounds, **configured(fileReservedTime="72"))
    with flightlog.open(ours, StoreSettings(retention_hours=72, clean_forcibly=False)) as store:
        for _ in range(rounds):
            store.clean_up()
        assert_equal(store, opened, ours, theirs)
        bounds = store.queues()
    assert len(list((ours / "commitlog").iterdir())) == left
    gone = files(written) - files(ours)
    assert {name.split("/")[0] for name in gone} == {"commitlog", "consumequeue", "index"}
    # And the one reads what the other has left.
    if left > 1:
        assert rocketmq.open_store(ours, **SIZES).bounds == bounds
    with flightlog.open_read_only(theirs) as view:
        assert view.queues() == bounds and view.verify().is_clean


@pytest.fixture
def disk_of(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`disk_of(name)` is the mount of a file system of its own."""
    mounts.needs_root()
    with ExitStack() as stack:

        def mount(name: str) -> Path:
            (tmp_path / name).mkdir()
            disk = mounts.Ext4(tmp_path / name, 12 << 20)
            disk.make()
            place: Path = stack.enter_context(disk)
            return place

        yield mount


def test_by_disk_ratio(
    rocketmq: RocketMq, written: Path, copy_store: Callable[[Path, Path], Path], disk_of: Callable[[str], Path]
) -> None:
    """Nothing is old, and the disk is nine tenths full: the oldest segments go by force."""
    theirs, ours = (copy_store(written, disk_of(name) / "store") for name in ("theirs", "ours"))
    for path in (theirs, ours):
        set_ages(path, [YOUNG] * SEGMENTS)
        figures = os.statvfs(path)
        entire = figures.f_blocks - figures.f_bfree + figures.f_bavail
        wanted = (entire * 88 // 100 - (figures.f_blocks - figures.f_bfree)) * figures.f_frsize
        (path.parent / "ballast").write_bytes(bytes(wanted))
    config = configured(fileReservedTime="72", cleanFileForciblyEnable="true")
    opened = rocketmq.open_store(theirs, clean_ups=1, **config)
    with flightlog.open(ours, StoreSettings(retention_hours=72, allocate_step_size=4096)) as store:
        report = store.clean_up()
        assert report.used_ratio is not None and 85 < report.used_ratio <= 90 and len(report.segments) == 10
        assert_equal(store, opened, ours, theirs)
