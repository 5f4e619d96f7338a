"""A view that reads a topic while the writer deletes it: the topic ends there, and nothing counts as damage."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.index.queue.queue_unit import Units
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.disk.disk_errors import disk_errors
from flightlog.store.errors import CorruptQueueError
from flightlog.store.segments.segment_pins import SegmentPins
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

SETTINGS = StoreSettings.small(queue_file_entries=10)


def put(store: Store, topic: str, first: int, count: int) -> None:
    store.put_many([Message(topic, b"%d" % number) for number in range(first, first + count)])


def numbers(view: flightlog.ReadOnlyStore, topic: str) -> list[int]:
    return [int(message.body) for message in view.read(topic)]


@pytest.mark.parametrize("made_anew", [0, 5, 35, 2000])
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_what_is_read_ends_where_the_topic_did(
    on_corrupt: str, made_anew: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for topic in ("stays", "goes"):
            put(store, topic, 0, 1000)  # more than an iterator fetches at a time
        store.queues()
        with flightlog.open_read_only(tmp_path) as view:
            begun = view.read("goes")
            found = [next(begun).body for _ in range(3)]
            store.delete_topic("goes")
            put(store, "goes", 5000, made_anew)
            store.queues()
            found += [message.body for message in begun]
            old = [int(body) for body in found if int(body) < 5000]
            assert old == list(range(len(old))) and len(found) <= 1000
            assert set(numbers(view, "goes")) <= set(range(5000, 5000 + made_anew))
            assert numbers(view, "stays") == list(range(1000))
            assert view.corrupt_skipped == 0
            view.refresh()
            assert numbers(view, "goes") == list(range(5000, 5000 + made_anew))
    assert_clean(tmp_path)


class RemovingFile(RealFile):
    """Tells its disk of reads."""

    def __init__(self, disk: RemovingDisk, path: Path) -> None:
        super().__init__(path, os.open(path, os.O_RDONLY), False)
        self._disk = disk

    def read(self, position: int, size: int) -> bytes:
        self._disk.meet()
        return super().read(position, size)


class RemovingDisk(RealDisk):
    """Removes a folder when a file in it is opened or read for the n-th time: a writer that deletes its topic at that
    moment."""

    def __init__(self, folder: Path, nth: int) -> None:
        self._folder, self.left = folder, nth

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if self._folder not in path.parents:
            return super().open(path, writable=writable, create=create)
        self.meet()
        with disk_errors(path, "opening it"):
            return RemovingFile(self, path)

    def meet(self) -> None:
        self.left -= 1
        if self.left == 0:
            shutil.rmtree(self._folder)


@pytest.mark.parametrize("nth", range(1, 10))
def test_a_view_that_is_opened_while_queue_files_of_a_deleted_topic_go(
    nth: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    path, aside = tmp_path / "store", tmp_path / "aside"
    with flightlog.open(path, SETTINGS) as store:
        for topic in ("stays", "goes"):
            put(store, topic, 0, 30)
        store.queues()
        queues = path / "consumequeue" / "goes"
        shutil.copytree(queues, aside)
        store.delete_topic("goes")
        shutil.copytree(aside, queues)  # the deletion is noted, and its queues are yet to go
        disk = RemovingDisk(queues, nth)
        with flightlog.open_read_only(path, disk=disk) as view:
            assert view.queues() == {("stays", 0): (0, 30)}
            assert numbers(view, "stays") == list(range(30))
        assert disk.left <= 0, "it has gone"
    assert_clean(path)


@pytest.mark.parametrize("made_anew", [0, 5, 35])
def test_a_view_asked_for_a_time_or_a_batch_of_a_deleted_topic(
    made_anew: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """Its queue is not there, or ends, or is the new one's: that is no damage."""
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, "goes", 0, 1000)
        put(store, "stays", 0, 10)
        store.queues()
        with flightlog.open_read_only(tmp_path) as view:
            first_ms = next(view.read("goes")).store_timestamp_ms
            store.delete_topic("goes")
            put(store, "goes", 5000, made_anew)
            store.queues()
            for time_ms in (0, first_ms, first_ms + 1_000_000):
                for boundary in ("lower", "upper"):
                    assert 0 <= view.offset_at("goes", 0, time_ms, boundary) <= 1000
            for queue_offset in (None, 0, 3, 500, 999):
                batch = view.read_batch("goes", queue_offset=queue_offset, columns=["value"])
                assert {int(body) for body in batch["value"].to_pylist()} <= set(range(5000, 5000 + made_anew))
                assert int(batch.schema.metadata[b"nextQueueOffset"]) >= (queue_offset or 0)
            assert view.offset_at("stays", 0, 0) == 0 and view.read_batch("stays").num_rows == 10
            view.refresh()
            assert view.read_batch("goes").num_rows == made_anew
            assert view.offset_at("goes", 0, first_ms + 1_000_000_000) == made_anew
    assert_clean(tmp_path)


@pytest.mark.parametrize("asked", ["a time", "a batch"])
def test_a_topic_that_is_deleted_between_two_looks_into_its_queue(
    asked: str, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """In one process."""
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, "goes", 0, 1000)
        store.queues()
        queue, looks = inside.queue_table(store).get(("goes", 0)), 0
        assert queue is not None
        units = queue.units

        def deleting(index: int, count: int) -> Units:
            nonlocal looks
            looks += 1
            if looks == 1 + (asked == "a time"):
                store.delete_topic("goes")
            return units(index, count)

        queue.units = deleting  # type: ignore[method-assign]
        if asked == "a time":
            assert store.offset_at("goes", 0, 1 << 60) == 0
        else:
            assert store.read_batch("goes").num_rows == 0
        assert looks > 0
    assert_clean(tmp_path)


def test_a_refresh_after_a_deletion_holds_no_more_of_the_log_than_the_view(tmp_path: Path) -> None:
    """What is read anew must not outlive its use: retention would wait for it."""
    with flightlog.open(tmp_path, StoreSettings.small(segment_size=8192)) as store:
        put(store, "goes", 0, 1)
        put(store, "stays", 0, 1000)
        with flightlog.open_read_only(tmp_path) as view:
            store.delete_topic("goes")
            view.refresh()
            gc.disable()
            try:
                put(store, "stays", 1000, 10)
                store.delete_topic("stays")
                view.refresh()
                assert len(SegmentPins.of(tmp_path / "commitlog")._offsets) == 1
            finally:
                gc.enable()


def test_queue_files_that_somebody_else_removed_are_damage(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        put(store, "t", 0, 30)
        put(store, "deleted-before", 0, 1)
        store.delete_topic("deleted-before")
    with flightlog.open_read_only(tmp_path) as view:
        shutil.rmtree(tmp_path / "consumequeue" / "t")
        with pytest.raises(CorruptQueueError, match="no queue file"):
            numbers(view, "t")
