"""Views beside a writer of another program that removes what is old, or what it does not need, in the middle of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import GetStatus, StoreSettings
from flightlog.engine.dispatch.dispatching import forget_beyond
from flightlog.index.dispatch.dispatch_rules import DispatchCount
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.errors import SegmentGoneError

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

WRITER = """
import sys
import flightlog

settings = flightlog.StoreSettings(
    segment_size=8192, queue_file_entries=10, index_slots=20, index_entries=20, flush_interval_ms=1
)
with flightlog.open(sys.argv[1], settings) as store:
    for number in range(int(sys.argv[2])):
        store.put(flightlog.Message("t", b"%06d" % number + bytes(300), queue_id=number % 2, keys=f"k-{number}"))
        if number % 40 == 39:
            store.clean_up(0)
    print("done", flush=True)
    sys.stdin.read()
"""
"""Puts, cleans up as it goes, and waits."""


@pytest.mark.ci
def test_a_view_beside_a_writer_of_another_process_that_cleans_up(
    tmp_path: Path, scale: Scale, assert_clean: AssertClean
) -> None:
    """Whatever goes in the middle of whatever it does: it sees one stretch of what was put, and no error."""
    path, count = tmp_path / "store", scale.pick(ci=600, full=20_000)
    flightlog.open(path, StoreSettings(segment_size=8192, queue_file_entries=10)).close()
    command = [sys.executable, "-P", "-c", WRITER, str(path), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        ended = threading.Event()

        def listen() -> None:
            assert writer.stdout is not None and writer.stdout.readline() == "done\n"
            ended.set()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            looks, is_last = 0, False
            view = flightlog.open_read_only(path)
            while not is_last and writer.poll() is None:
                is_last = ended.is_set()
                if looks % 5:
                    view.refresh()
                else:
                    view.close()
                    view = flightlog.open_read_only(path)
                look_at(view, is_last)
                looks += 1
            assert is_last and view.verify().is_clean and view.queues()["t", 1][1] == count // 2
            view.close()
        finally:
            writer.stdin.close()
            writer.wait(60)
            listener.join(60)
    assert writer.returncode == 0
    print(f"{looks} looks")
    assert_clean(path)


def look_at(view: flightlog.ReadOnlyStore, is_last: bool) -> None:
    for queue_id in (0, 1):
        found = numbers(list(view.read("t", queue_id)))
        missing = set(range(found[0], found[-1], 2)) - set(found) if found else set()
        assert found == sorted(found)
        assert found or not is_last
        for number in found[:1] + found[-1:]:
            with suppress(SegmentGoneError):  # says so, and what to do
                messages = view.query("t", f"k-{number}").messages
                assert numbers(messages) in ([], [number]), "the first may have gone meanwhile"
        assert view.offset_at("t", queue_id, 0) <= view.queues().get(("t", queue_id), (0, 0))[1]
        first = view.queues().get(("t", queue_id), (0, 0))[0]
        if first:
            assert view.get("t", queue_id, first - 1).status is GetStatus.OFFSET_TOO_SMALL
        if missing:  # what went while it was read
            with flightlog.open_read_only(view.path) as now:
                assert 2 * now.queues()["t", queue_id][0] + queue_id > max(missing)


STEP_BY_STEP = """
import sys
import flightlog

settings = flightlog.StoreSettings(segment_size=8192, queue_file_entries=10, index_slots=20, index_entries=20)
with flightlog.open(sys.argv[1], settings) as store:
    for word in sys.stdin:
        if word == "put\\n":
            store.put_many(flightlog.Message("t", b"x" * 700) for _ in range(50))
            store.put_batch([flightlog.Message("batches", b"x" * 700)] * 3)
            store.put(flightlog.Message("quiet", b"x" * 700))
        elif word == "put t\\n":
            store.put_many(flightlog.Message("t", b"x" * 700) for _ in range(50))
        elif word == "flush\\n":
            store.flush()
            store.queues()
        else:
            store.flush()
            store.queues()
            store.clean_up(0)
        print("did it", flush=True)
"""


@contextmanager
def told_step_by_step(path: Path) -> Iterator[Callable[..., None]]:
    """A writer in a process of its own; `have("put", "clean")` returns when it has done so."""
    command = [sys.executable, "-P", "-c", STEP_BY_STEP, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:

        def have(*orders: str) -> None:
            assert writer.stdin is not None and writer.stdout is not None
            for order in orders:
                writer.stdin.write(f"{order}\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == "did it\n"

        yield have


def test_a_refresh_that_finds_new_messages_and_old_ones_gone_moves_both_ends_of_its_queues(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with told_step_by_step(path) as have:
        have("put")
        with flightlog.open_read_only(path) as view:
            assert view.queues() == {("t", 0): (0, 50), ("batches", 0): (0, 3), ("quiet", 0): (0, 1)}
            have("clean", "put")
            view.refresh()
            with flightlog.open_read_only(path) as another:
                assert view.queues() == another.queues() and another.queues()["t", 0][0] > 0
            assert view.get("t", 0, 0).status is GetStatus.OFFSET_TOO_SMALL
            have("put", "clean", "put")
            view.refresh()
            with flightlog.open_read_only(path) as another:
                assert view.queues() == another.queues() and another.queues()["batches", 0][0] > 0
            assert view.get("batches", 0, 0).status is GetStatus.OFFSET_TOO_SMALL
            assert view.verify().is_clean


def test_queues_whose_newest_messages_went_unseen_begin_with_the_next_ones(tmp_path: Path) -> None:
    """A refresh finds old segments gone, and nothing new yet in a quiet queue; the one behind it finds its next message
    behind a gap, and no other segment gone."""
    path = tmp_path / "store"
    with told_step_by_step(path) as have:
        have("put")
        with flightlog.open_read_only(path) as view:
            have("put", "put t", "clean", "clean")
            view.refresh()
            have("put")
            view.refresh()
            with flightlog.open_read_only(path) as another:
                assert view.queues() == another.queues()
                assert view.queues()["batches", 0] == (6, 9) and view.queues()["quiet", 0] == (2, 3)
            for topic, queue_offset in (("batches", 5), ("quiet", 1)):
                assert view.get(topic, 0, queue_offset).status is GetStatus.OFFSET_TOO_SMALL
            assert view.verify().is_clean


class ComingBetween(RealDisk):
    """Has something happen before the first look into a queue file."""

    def __init__(self, part: str, happens: Callable[[], None]) -> None:
        self._part, self._happens = part, happens
        self.happened = 0

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        if self._part in str(path) and not self.happened:
            self.happened = 1
            self._happens()
        return super().open(path, writable=writable, create=create)


def test_a_queue_ends_no_earlier_when_a_file_of_it_goes_between_its_listing_and_the_look_into_it(
    tmp_path: Path,
) -> None:
    """Retention removes segments first and then queue files; a quiet queue has no later message that tells its end."""
    path = tmp_path / "store"
    first_file = path / "consumequeue" / "quiet" / "0" / f"{0:020d}"
    with told_step_by_step(path) as have:
        have(*["put"] * 12, "put t", "flush")
        there = first_file.read_bytes()
        while first_file.exists() or len(list((path / "commitlog").iterdir())) > 1:
            have("clean")
        first_file.write_bytes(there)  # as before the last step of it
        disk = ComingBetween("/quiet/", first_file.unlink)
        with flightlog.open_read_only(path, disk=disk) as view:
            assert disk.happened and view.queues()["quiet", 0] == (12, 12)
            assert view.verify().is_clean


@pytest.mark.parametrize("thorough", [False, True])
def test_a_queue_whose_listed_files_have_all_gone_is_listed_anew(thorough: bool, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings(segment_size=8192, queue_file_entries=10)) as store:
        store.put_many(flightlog.Message("quiet", b"x") for _ in range(25))
    folder = tmp_path / "consumequeue" / "quiet" / "0"

    def go_on() -> None:
        old = sorted(folder.iterdir())
        shutil.copy(old[-1], folder / f"{600:020d}")
        for file in old:
            file.unlink()

    disk = ComingBetween("/quiet/", go_on)
    table = QueueTable(disk, tmp_path, 10, in_memory=True)
    table.load(thorough=thorough)
    assert disk.happened
    assert [(queue.min_index, queue.end) for queue in table.values()] == [(30, 35)]


def test_entries_before_what_is_scanned_stay_when_the_last_file_of_their_queue_goes(tmp_path: Path) -> None:
    """Another process has put more into a further file, and retention came past this one."""
    with flightlog.open(tmp_path, StoreSettings(segment_size=8192, queue_file_entries=10)) as store:
        store.put_many(flightlog.Message("quiet", b"x") for _ in range(25))
    table = QueueTable(RealDisk(), tmp_path, 10, in_memory=True)
    table.load(thorough=True)
    [queue] = table.values()
    queue.seen_last = None  # as after a look that did not come by the last entry
    max((tmp_path / "consumequeue" / "quiet" / "0").iterdir()).unlink()
    forget_beyond(table, 8192, DispatchCount())
    assert queue.end == 25


def test_an_end_that_is_searched_for_lies_behind_the_files_that_go_meanwhile(tmp_path: Path) -> None:
    """A writer that is ahead of what a view may see has more in the queue, and has removed what was before."""
    with flightlog.open(tmp_path, StoreSettings(segment_size=8192, queue_file_entries=10)) as store:
        results = store.put_many(flightlog.Message("quiet", b"x") for _ in range(25))
    table = QueueTable(RealDisk(), tmp_path, 10, in_memory=True)
    table.load(thorough=True)
    for file in sorted((tmp_path / "consumequeue" / "quiet" / "0").iterdir())[:2]:
        file.unlink()
    forget_beyond(table, results[22].physical_offset, DispatchCount())
    assert [(queue.min_index, queue.end) for queue in table.values()] == [(20, 22)]


def numbers(messages: list[Any]) -> list[int]:
    return [int(message.body[:6]) for message in messages]


def test_a_view_looks_again_when_a_prepared_segment_goes_in_the_middle_of_a_look(
    golden_copy: Callable[[str], Path],
) -> None:
    """RocketMQ removes the empty segments that it has made ahead when it closes or recovers."""
    root = golden_copy("abort") / "store"
    with flightlog.open_read_only(root) as view:
        expected = {key: list(view.read(*key)) for key in view.queues()}
    gone: list[Path] = []

    class RemovingDisk(RealDisk):
        def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
            if path.parent.name == "commitlog" and not gone:
                gone.append(max(path.parent.iterdir()))
                gone[0].unlink()
            return super().open(path, writable=writable, create=create)

    with flightlog.open_read_only(root, disk=RemovingDisk()) as view:
        assert {key: list(view.read(*key)) for key in view.queues()} == expected
        assert view.segments[-1].base < int(gone[0].name)
