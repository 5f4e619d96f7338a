"""Opening stores that flightlog closed, and stores whose writer was killed: nothing is lost, and what was done is
said."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.store.disk.disk import MappedPart, RealDisk
from flightlog.store.state.checkpoint import Checkpoint, read_checkpoint
from flightlog.store.state.progress import read_progress
from flightlog.testing.faulty_disk import FaultyDisk, FaultyFile
from flightlog.tests.support import inside
from flightlog.tests.support.synced_disk import SyncedDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, Numbered

SEGMENT_SIZE = 4096

Copy = Callable[[Path, Path], Path]


@pytest.mark.usefixtures("kernel")
def test_a_clean_store_is_not_scanned(closed: Path, numbered: Numbered) -> None:
    with flightlog.open(closed, numbered.settings) as store:
        report = store.recovery_report
        assert report.last_writer is LastWriter.FLIGHTLOG_CLOSED
        assert report.scanned_from == report.end > 40 * SEGMENT_SIZE // 10
        assert (report.records_scanned, report.entries_dispatched, report.damage, report.cut) == (0, 0, [], [])
        assert "closed cleanly" in report.reason and "scanned 0 bytes" in report.log_lines()[0]
    numbered.check_goes_on(closed, 200)


def test_the_checkpoint_is_there_from_the_first_second_on_and_an_opening_keeps_it(tmp_path: Path) -> None:
    settings = StoreSettings.small(flush_interval_ms=3_600_000, queue_flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, settings) as store:
        assert read_checkpoint(RealDisk(), tmp_path) == Checkpoint()
        store.put(Message("t", b"x"))
    closed = read_checkpoint(RealDisk(), tmp_path)
    assert closed is not None and closed.physic_timestamp_ms > 0
    with flightlog.open(tmp_path, settings):
        assert read_checkpoint(RealDisk(), tmp_path) == closed


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rebooted", [False, True])
def test_a_killed_writer_loses_nothing(killed: Path, rebooted: bool, numbered: Numbered) -> None:
    if rebooted:
        numbered.reboot(killed)
    with flightlog.open_read_only(killed) as view:
        assert numbered.read(view) == numbered.listed(200)
    progress = read_progress(RealDisk(), killed)
    assert progress is not None
    assert 0 < progress.queues_flushed < progress.flushed < progress.dispatched < progress.appended
    with flightlog.open(killed, numbered.settings) as store:
        report = store.recovery_report
        assert report.last_writer is LastWriter.FLIGHTLOG_KILLED
        assert (report.scanned_from, report.end) == (progress.queues_flushed, progress.appended)
        assert (report.records_scanned, report.damage, report.cut) == (150, [], [])
        assert 0 < report.entries_dispatched <= 50
    numbered.check_goes_on(killed, 200)


@pytest.mark.parametrize("flush_mode", list(FlushMode))
@pytest.mark.parametrize("count", [0, 1, 2, 30, 31, 500])
def test_killed_at_any_moment(
    count: int, flush_mode: FlushMode, tmp_path: Path, copy_as_killed: Copy, numbered: Numbered
) -> None:
    settings = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10, flush_mode=flush_mode)
    with flightlog.open(tmp_path / "live", settings) as store:
        for message in numbered.messages(0, count):
            store.put(message)
        copy = copy_as_killed(tmp_path / "live", tmp_path / "copy")
    numbered.check_goes_on(copy, count)


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize(
    "loss",
    [
        *("consumequeue", "consumequeue/t1", "consumequeue/t1/0", "consumequeue/t1/1/00000000000000000000"),
        *("consumequeue/t1/1/00000000000000000200", "flightlog", "flightlog/progress", "checkpoint", "lock", "abort"),
    ],
)
def test_everything_derived_may_be_missing(
    loss: str, state: str, request: pytest.FixtureRequest, numbered: Numbered
) -> None:
    root: Path = request.getfixturevalue(state)
    path = root / loss
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    else:
        assert (loss, state) == ("abort", "closed")
    with flightlog.open_read_only(root) as view:
        assert numbered.read(view) == numbered.listed(200)
    numbered.check_goes_on(root, 200)


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("checkpoint", b""), ("checkpoint", bytes(4096)), ("checkpoint", bytes(100)), ("checkpoint", b"\xff" * 4096)),
        *(("flightlog/progress", b""), ("flightlog/progress", bytes(4096)), ("flightlog/progress", b"\xa5" * 4096)),
        *(("flightlog/progress", b"FLTLOG01" + b"\x11" * 4088), ("flightlog/progress", b"FLTLOG01")),
        *(("abort", b""), ("abort", b"4711"), ("abort", b"\xff" * 1000)),
    ],
)
def test_small_files_may_hold_nonsense(
    name: str, content: bytes, state: str, request: pytest.FixtureRequest, numbered: Numbered
) -> None:
    root: Path = request.getfixturevalue(state)
    (root / name).write_bytes(content)
    with flightlog.open_read_only(root) as view:
        assert numbered.read(view) == numbered.listed(200)
    numbered.check_goes_on(root, 200)


def queue_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize(
    "nonsense",
    [
        b"\0",
        b"\xff",
        b"\x01",
        b"random 1",
        b"random 2",
        b"random 3",
        bytes.fromhex("8000000000000000 00000064 0000000000000000"),
    ],
)
def test_queues_may_hold_nonsense(
    nonsense: bytes, state: str, request: pytest.FixtureRequest, numbered: Numbered
) -> None:
    """The last file of every queue: what a lost power leaves of files that were never synced."""
    root: Path = request.getfixturevalue(state)
    chance = random.Random(nonsense)
    for folder in sorted({path.parent for path in queue_files(root)}):
        last = max(folder.iterdir())
        last.write_bytes(chance.randbytes(200) if nonsense.startswith(b"random") else (nonsense * 200)[:200])
    with flightlog.open_read_only(root) as view:
        assert numbered.read(view) == numbered.listed(200)
    numbered.check_goes_on(root, 200)


@pytest.mark.parametrize("hole", [*range(4), slice(0, 2), slice(1, 3)])
def test_queues_may_have_holes(hole: int | slice, killed: Path, numbered: Numbered) -> None:
    """Holes in the last three files of every queue; the entries behind them are sound."""
    numbered.reboot(killed)
    for folder in sorted({path.parent for path in queue_files(killed)}):
        for path in sorted(folder.iterdir())[-3:]:
            entries = [path.read_bytes()[at : at + 20] for at in range(0, 200, 20)]
            holes = range(10)[hole] if isinstance(hole, slice) else [hole]
            path.write_bytes(b"".join(bytes(20) if n in holes else entry for n, entry in enumerate(entries)))
    with flightlog.open_read_only(killed) as view:
        assert numbered.read(view) == numbered.listed(200)
    numbered.check_goes_on(killed, 200)


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_a_queue_of_another_queue(state: str, request: pytest.FixtureRequest, numbered: Numbered) -> None:
    """Entries that point at sound records, which are not theirs."""
    root: Path = request.getfixturevalue(state)
    shutil.rmtree(root / "consumequeue" / "t0" / "0")
    shutil.copytree(root / "consumequeue" / "t1" / "1", root / "consumequeue" / "t0" / "0")
    with flightlog.open_read_only(root) as view:
        assert numbered.read(view) == numbered.listed(200)
    with flightlog.open(root, numbered.settings) as store:
        assert "points at" in store.recovery_report.reason
    numbered.check_goes_on(root, 200)


@pytest.mark.parametrize("state", ["closed", "killed"])
def test_entries_of_messages_that_are_not_there(state: str, request: pytest.FixtureRequest, numbered: Numbered) -> None:
    root: Path = request.getfixturevalue(state)
    (path,) = [path for path in queue_files(root) if path.parent == root / "consumequeue" / "t2" / "1"][-1:]
    raw = path.read_bytes()
    end = len(raw.rstrip(b"\0")) // 20 * 20 + 20
    phantom = (1 << 40).to_bytes(8, "big") + raw[8:20]
    path.write_bytes((raw[:end] + phantom + phantom).ljust(200, b"\0")[:200])
    with flightlog.open_read_only(root) as view:
        assert numbered.read(view) == numbered.listed(200)
    numbered.check_goes_on(root, 200)


class HookedDisk(SyncedDisk):
    """Calls `hook` once, in the middle of a segment's sync."""

    hook: Callable[[], None] | None = None

    def synced(self, path: Path, part: MappedPart | None) -> None:
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()


def test_the_page_never_promises_queues_beyond_the_durable_log(
    tmp_path: Path, numbered: Numbered, assert_clean: AssertClean
) -> None:
    """A reader that dispatches what a sync under way does not cover: were that promised, a recovery after a lost power
    would begin behind the end of the log."""
    disk = HookedDisk()
    with flightlog.open(tmp_path, numbered.settings, disk=disk) as store:
        store.put_many(numbered.messages(0, 10))

        def put_and_read() -> None:
            store.put_many(numbered.messages(10, 20))
            assert len(store.queues()) == 6

        def put_and_read_in_the_next_one_too() -> None:
            store.put_many(numbered.messages(20, 21))
            disk.hook = put_and_read

        for hook in (put_and_read, put_and_read_in_the_next_one_too):
            disk.hook = hook
            store.put_many(numbered.messages(20, 21))
            inside.maintenance(store).flush_queues()
            assert disk.hook is None, "it came in between"
            progress = read_progress(RealDisk(), tmp_path)
            assert progress is not None
            assert progress.queues_flushed <= progress.flushed
    assert_clean(tmp_path)


def test_the_disk_takes_the_log_while_queues_are_brought_up(killed: Path, assert_clean: AssertClean) -> None:
    """What may be in the page cache alone is written once more before the first queue entry, synced after the last."""
    done: list[tuple[str, str]] = []
    opened: list[Path] = []

    class Watching(FaultyDisk):
        def meet(self, operation: str, path: Path) -> None:
            super().meet(operation, path)
            done.append((operation, str(path.relative_to(killed)).partition(os.sep)[0]))

        def open(self, path: Path, *, writable: bool = False, create: bool = False) -> FaultyFile:
            if writable and path.parent.name == "commitlog" and ("write", "consumequeue") not in done:
                opened.append(path)
            return super().open(path, writable=writable, create=create)

    with flightlog.open(killed, disk=Watching()) as store:
        assert store.recovery_report.entries_dispatched
        abort = done.index(("write", "abort"))
        log, queues = ("write", "commitlog"), ("write", "consumequeue")
        assert done.index(log) < done.index(queues) < done[:abort].index(("sync", "commitlog"))
        assert log not in done[done.index(queues) : abort]
    assert opened and len(opened) == len(set(opened))
    assert_clean(killed)
