"""A disk that goes away and comes back while the machine stays on: the progress page is older than the log.

The boot is the same one then, and the page cache is not. Only a live writer's page counts; store/disk/lock.py says how
readers find out.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.engine import read_only
from flightlog.engine.open.shutdown_state import LastWriter
from flightlog.engine.open.tail_scan import LOST_SECTOR
from flightlog.store.disk import lock
from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.lock import StoreLock, is_held, is_served
from flightlog.store.errors import CorruptLogError, DiskError
from flightlog.store.state.progress import FLUSHED, progress_path, read_progress
from flightlog.tests.support import cut_fate, inside, mounts, planning
from flightlog.tools.inspecting import inspect

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

COUNT = 100
SETTINGS = StoreSettings(
    flush_mode=FlushMode.SYNC, segment_size=1 << 20, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000
)
"""The service never comes round: the page on the disk is the one of the opening."""
WRITER = """
import os, sys
import flightlog
from flightlog import FlushMode, Message, StoreSettings
settings = StoreSettings(
    flush_mode=FlushMode.SYNC, segment_size=1 << 20, flush_interval_ms=3_600_000, sync_flush_timeout_ms=240_000
)
store = flightlog.open(sys.argv[1], settings)
for i in range(100):
    assert store.put(Message("t", b"%d" % i, queue_id=0, keys="k")).status.name == "PUT_OK"
print("put", flush=True)
sys.stdin.readline()
os._exit(1)
"""

ASK = """
import sys
from pathlib import Path
from flightlog.store.disk.lock import is_served
from flightlog.tests.support import inside
assert is_served(Path(sys.argv[1]))
"""


def bodies(store: flightlog.ReadOnlyStore | flightlog.Store) -> list[int]:
    return [int(message.body) for message in store.read("t", 0)]


def planned_end(path: Path) -> int:
    return max(part.base + part.stop for parts in planning.plan(path, 1 << 20) for part in parts)


def finds_everything(path: Path, assert_clean: AssertClean) -> None:
    """Views, verify, `info`, Spark's planner, and recovery agree on all messages."""
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == list(range(COUNT))
        assert len(view.query("t", "k", max_count=2 * COUNT).messages) == COUNT
        end = view.end_physical_offset
        report = view.verify()
        assert report.is_clean and report.records == COUNT and report.lag
        view.refresh()
        assert bodies(view) == list(range(COUNT))
    assert planned_end(path) == end
    found = inspect(path)
    assert found.messages == COUNT and not found.is_held
    with flightlog.open(path, SETTINGS) as store:
        assert bodies(store) == list(range(COUNT))
    assert_clean(path)


@pytest.fixture
def lost(tmp_path: Path, kernel: str) -> Path:
    """A store as the disk has it when it comes back: the log, and the small files of the opening."""
    path = tmp_path / "store"
    store = flightlog.open(path, SETTINGS)
    page = progress_path(path).read_bytes()
    for i in range(COUNT):
        store.put(Message("t", b"%d" % i, queue_id=0, keys="k"))
    abort = (path / "abort").read_bytes()
    inside.maintenance(store).poison(InterruptedError("the disk is gone"))
    store.close()
    progress_path(path).write_bytes(page)
    for folder in ("consumequeue", "index"):
        for file in [each for each in (path / folder).rglob("*") if each.is_file()]:
            file.unlink()
    assert (path / "abort").read_bytes() == abort
    progress = read_progress(RealDisk(), path)
    assert progress is not None and progress.is_of_this_boot and progress.flushed == 0
    return path


def test_a_stale_page_of_this_boot_bounds_nobody(lost: Path, assert_clean: AssertClean) -> None:
    finds_everything(lost, assert_clean)


def test_an_ext4_that_was_shut_down_and_mounted_again(tmp_path: Path, assert_clean: AssertClean) -> None:
    mounts.needs_root()
    disk = mounts.Ext4(tmp_path, 64 << 20)
    disk.make()
    with disk as place:
        command = [sys.executable, "-P", "-c", WRITER, str(place / "store")]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None and writer.stdout.readline() == "put\n"
        mounted = os.open(place, os.O_RDONLY)
        cut_fate.cut_power(mounted)
        os.close(mounted)
        writer.communicate("\n")
    with disk as place:
        progress = read_progress(RealDisk(), place / "store")
        assert progress is not None and progress.is_of_this_boot and progress.flushed == 0
        finds_everything(place / "store", assert_clean)


def lose_a_sector(path: Path, number: int) -> int:
    """Zero a sector of the properties of one record; returns the record's physical offset."""
    with flightlog.open_read_only(path) as view:
        message = list(view.read("t", 0))[number]
        [segment] = view.segments
    start = message.physical_offset
    raw = segment.path.read_bytes()
    at = raw.index(b"long\x01", start) + 5
    at += -at % 512
    assert raw[at : at + 512] == b"v" * 512
    with segment.path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(512))
    return start


@pytest.fixture
def with_long_properties(tmp_path: Path, kernel: str) -> Path:
    path = tmp_path / "store"
    store = flightlog.open(path, SETTINGS)
    page = progress_path(path).read_bytes()
    for i in range(10):
        store.put(Message("t", b"%d" % i, queue_id=0, properties={"long": "v" * 2000}))
    inside.maintenance(store).poison(InterruptedError("the disk is gone"))
    store.close()
    progress_path(path).write_bytes(page)
    return path


def test_a_property_that_lost_a_sector_above_the_durable_mark_is_cut(
    with_long_properties: Path, assert_clean: AssertClean
) -> None:
    path = with_long_properties
    start = lose_a_sector(path, 9)
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == list(range(9)) and view.end_physical_offset == start
        assert any(LOST_SECTOR in line for line in view.report.damage)
        assert any(LOST_SECTOR in finding.meaning for finding in view.verify().findings)
    assert planned_end(path) == start
    assert inspect(path).messages == 9
    with flightlog.open(path, SETTINGS) as store:
        assert bodies(store) == list(range(9)) and store.recovery_report.cut
    assert_clean(path)


def test_a_property_that_lost_a_sector_below_the_durable_mark_is_damage(with_long_properties: Path) -> None:
    path = with_long_properties
    start = lose_a_sector(path, 4)
    with flightlog.open_read_only(path) as view:
        end = view.end_physical_offset
    with progress_path(path).open("r+b") as page:
        page.seek(FLUSHED * 8)
        page.write((1 << 19).to_bytes(8, "little"))
    with flightlog.open_read_only(path) as view:
        assert view.end_physical_offset > end, "what lies behind is read"
        assert [(found.physical_offset, found.found) for found in view.lost_places()][-1][0] == view.end_physical_offset
        assert [finding.offset for finding in view.verify().findings if LOST_SECTOR in finding.meaning] == [start]
    with pytest.raises(CorruptLogError, match=LOST_SECTOR):
        flightlog.open(path, SETTINGS)


def test_the_first_of_several_problems_ends_the_log(with_long_properties: Path, assert_clean: AssertClean) -> None:
    """A lost sector between two bodies that are wrong: the log ends before the first of them."""
    path = with_long_properties
    with flightlog.open_read_only(path) as view:
        places = [message.physical_offset for message in view.read("t", 0)]
        [segment] = view.segments
    lose_a_sector(path, 8)
    with segment.path.open("r+b") as file:
        for number in (7, 9):
            file.seek(places[number] + 88)  # behind the size of the body
            assert file.read(1) == b"%d" % number
            file.seek(-1, os.SEEK_CUR)
            file.write(b"x")
    with flightlog.open_read_only(path) as view:
        assert bodies(view) == list(range(7)) and view.end_physical_offset == places[7]
    with flightlog.open(path, SETTINGS) as store:
        assert bodies(store) == list(range(7)) and store.recovery_report.end == places[7]
    assert_clean(path)


def test_a_view_of_a_dead_writer_is_looked_at_once(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes: a refresh walks nothing again."""
    with flightlog.open_read_only(lost) as view:
        monkeypatch.setattr(read_only, "recover_queues", None)
        view.refresh()
        assert bodies(view) == list(range(COUNT))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A writer in a process of its own, that has put all messages and waits."""
    path = tmp_path / "live"
    writer = subprocess.Popen(
        [sys.executable, "-P", "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline() == "put\n"
    yield writer, path
    writer.kill()
    writer.communicate()


def test_another_process_is_seen_as_long_as_it_lives(live: tuple[subprocess.Popen[str], Path]) -> None:
    writer, path = live
    assert is_held(path) and is_served(path)
    with flightlog.open_read_only(path) as view:
        assert view.shutdown_state.is_served and bodies(view) == list(range(COUNT))
        # The page is stale from here on, as if the disk had gone and come back under the writer that dies with it.
        with progress_path(path).open("r+b") as page:
            page.seek(FLUSHED * 8 - 8)
            page.write(bytes(16))
        with flightlog.open_read_only(path) as bounded:
            assert bounded.shutdown_state.is_served and bounded.end_physical_offset == 0
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert not is_held(path) and not is_served(path)
        assert bodies(view) == list(range(COUNT)), "read after its writer died between the look and the read"
        view.refresh()
        assert bodies(view) == list(range(COUNT)) and not view.shutdown_state.is_served


def test_a_writer_that_recovers_does_not_lend_its_life_to_the_page_of_before(lost: Path) -> None:
    holder = StoreLock.acquire(lost)
    assert is_held(lost) and not is_served(lost)
    with flightlog.open_read_only(lost) as view:
        assert bodies(view) == list(range(COUNT))
        holder.serve()
        assert is_served(lost) and inside.shutdown_state(view).is_stale(RealDisk()), (
            "a writer has come: the look does not count"
        )
    holder.release()
    assert not is_held(lost) and not is_served(lost)


def test_the_writer_of_this_process_is_known_without_opening_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with flightlog.open(tmp_path / "s", SETTINGS) as store:
        store.put(Message("t", b"0", queue_id=0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", None)
            assert is_held(store.path) and is_served(store.path)
        with flightlog.open_read_only(store.path) as view:
            assert view.shutdown_state.is_served and view.shutdown_state.last_writer is LastWriter.FLIGHTLOG_KILLED
        child = os.fork()
        if child == 0:
            os._exit(0 if is_held(store.path) and is_served(store.path) else 1)
        assert os.waitpid(child, 0)[1] == 0, "a forked child sees its parent's lock"
        command = [sys.executable, "-P", "-c", ASK, str(store.path)]
        assert subprocess.run(command).returncode == 0, "asking has dropped the lock"


def test_nobody_takes_the_lock_while_a_reader_asks(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's close would drop a lock that another thread of the process had taken since."""
    real, opening, held = fcntl.fcntl, lock._opening, list[bool]()

    def watched(*arguments: Any) -> Any:
        held.append(opening.locked())
        return real(*arguments)

    monkeypatch.setattr(fcntl, "fcntl", watched)
    assert not is_held(lost) and held == [True] and not opening.locked()


def test_a_lock_that_cannot_be_asked_is_an_error_and_no_guess(lost: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Path, *arguments: int) -> int:
        if Path(path).name == lock.LOCK_FILE:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DiskError, match="lock: asking whether a writer holds it: Permission denied"):
        flightlog.open_read_only(lost)
