"""What a thread of the store has ready before appends come to it: blocks, pages, and the next segment."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings
from flightlog.engine.services.prepare_service import UNDISPATCHED_SIZE
from flightlog.store import native
from flightlog.store.errors import DiskFullError, StorePoisonedError, SyncFailedError
from flightlog.store.log.preparation import LEAST_SEGMENT_SIZE
from flightlog.store.segments.segment import FOLIO_SIZE
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, preparing, process

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

MIB = 1 << 20
SEGMENT_SIZE = 8 * MIB
BODY = bytes(64 << 10)
PER_SEGMENT = SEGMENT_SIZE // (len(BODY) + 200)
NEVER_MS = 3_600_000
WaitUntil = Callable[[Callable[[], object]], None]
Inline = Callable[[Store], None]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def wait_until() -> WaitUntil:
    return process.wait_until


@pytest.fixture
def inline() -> Inline:
    return preparing.prepare_inline


def settings(**changes: Any) -> StoreSettings:
    usual: dict[str, Any] = {
        "segment_size": SEGMENT_SIZE,
        "queue_file_entries": 1000,
        "flush_interval_ms": NEVER_MS,
        "allocate_step_size": FOLIO_SIZE,
    }
    return StoreSettings(**(usual | changes))


def put(store: Store, count: int) -> None:
    for _ in range(count):
        store.put(Message("t", BODY))


def put_until(store: Store, physical_offset: int) -> None:
    while inside.log(store).end < physical_offset:
        put(store, 1)


def blocks(path: Path) -> int:
    return os.stat(path).st_blocks * 512


@pytest.mark.parametrize("mode", FlushMode)
def test_the_next_segment_is_ready_before_the_roll_and_nobody_sees_it(
    mode: FlushMode, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    folder = tmp_path / "commitlog"
    with flightlog.open(tmp_path, settings(flush_mode=mode), disk=disk) as store:
        for number in range(3):
            put_until(store, number * SEGMENT_SIZE + SEGMENT_SIZE * 5 // 8)
            wait_until(lambda: inside.prepared_segment(store) is not None)
            prepared = inside.prepared_segment(store)
            assert prepared is not None and prepared.base == (number + 1) * SEGMENT_SIZE
            assert len(os.listdir(folder)) == number + 1, "it has a name before the roll"
            with flightlog.open_read_only(tmp_path) as view:
                assert len(view.segments) == number + 1 and view.verify().is_clean
            assert prepared.allocated >= FOLIO_SIZE and prepared.populated > 0
            put_until(store, prepared.base + 1)
            assert inside.active_segment(store) is prepared
            assert os.stat(prepared.path).st_ino == os.fstat(prepared.write_file.descriptor).st_ino  # type: ignore[attr-defined]
            assert blocks(prepared.path) >= FOLIO_SIZE
        assert disk.count("link", "commitlog/") == disk.count("create", "commitlog/") == 4
        store.flush()
        put_until(store, 3 * SEGMENT_SIZE + SEGMENT_SIZE * 5 // 8)
        wait_until(lambda: inside.prepared_segment(store) is not None)
    assert len(os.listdir(folder)) == 4, "a close left the one that nobody had taken"
    assert assert_clean(tmp_path).segments == 4
    with flightlog.open(tmp_path, settings()) as store:
        put(store, PER_SEGMENT)
    assert_clean(tmp_path)


def test_who_asks_is_told_once_what_is_due_is_prepared(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, settings()) as store:
        assert inside.prepare_service(store).settled(process.LIMIT_S), "there is nothing to prepare yet"
        for _ in range(3):
            put(store, 10)
            assert inside.prepare_service(store).settled(process.LIMIT_S)
            assert inside.active_segment(store).populated > inside.log(store).end
    assert_clean(tmp_path)


def test_a_roll_into_a_prepared_segment_waits_for_no_sync(
    tmp_path: Path, disk: FaultyDisk, inline: Inline, assert_clean: AssertClean
) -> None:
    """Its name is durable with the first sync of what is in it, or before the next one."""
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        inline(store)
        put(store, PER_SEGMENT * 3 // 4)
        syncs, folders = disk.count("sync", "commitlog/"), disk.count("sync_folder", "commitlog")
        put(store, PER_SEGMENT // 2)
        assert len(inside.log(store).reader.segments) == 2
        assert (disk.count("sync", "commitlog/"), disk.count("sync_folder", "commitlog")) == (syncs, folders)
        store.flush()
        assert disk.count("sync_folder", "commitlog") == folders + 1
        store.flush()
        put(store, PER_SEGMENT)  # over another end, and nobody flushes
        folders = disk.count("sync_folder", "commitlog")
        put(store, PER_SEGMENT)
        assert disk.count("sync_folder", "commitlog") == folders + 1
    assert_clean(tmp_path)


def test_blocks_and_pages_are_there_before_the_appends(
    tmp_path: Path, inline: Inline, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings(segment_size=64 * MIB, prepare_ahead_size=MIB)) as store:
        inline(store)
        put(store, 1)
        segment = inside.active_segment(store)
        for _ in range(200):
            put(store, 1)
            end = inside.log(store).end
            assert segment.allocated >= min(end + FOLIO_SIZE // 2, segment.size)
            assert end <= segment.populated <= end + MIB + mmap.PAGESIZE + len(BODY)
            assert segment.fast_path_limit <= segment.allocated <= blocks(segment.path)
    assert_clean(tmp_path)


@pytest.mark.parametrize("changes", [{"prepare_ahead_size": 0}, {"segment_size": LEAST_SEGMENT_SIZE - 4096}])
def test_nothing_is_prepared_unless_it_is_worth_it(
    changes: dict[str, int], tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    before = process.threads()
    with flightlog.open(tmp_path, settings(**changes), disk=disk) as store:
        assert [t.name for t in process.threads() - before] == ["flightlog-flush"]
        put(store, 2 * PER_SEGMENT)
        assert inside.prepared_segment(store) is None and inside.active_segment(store).populated == 0
        assert disk.count("create", "commitlog/") == len(os.listdir(tmp_path / "commitlog"))
    assert_clean(tmp_path)


def test_an_idle_store_prepares_nothing(tmp_path: Path, wait_until: WaitUntil, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, settings()) as store:
        rounds = []
        real = inside.log(store).prepare

        def prepare() -> bool:
            rounds.append(inside.log(store).end)
            return real()

        inside.log(store).prepare = prepare  # type: ignore[method-assign]
        put(store, 1)
        wait_until(lambda: rounds)
        assert inside.prepare_service(store).settled(process.LIMIT_S)
        count = len(rounds)
        for _ in range(100):
            store.put(Message("t", b"small"))
        process.wait_until_still(lambda: len(rounds))
        assert len(rounds) == count, "appends that have all they need wake it"
        put(store, 20)
        wait_until(lambda: len(rounds) > count)
    assert_clean(tmp_path)


@pytest.mark.parametrize(
    ("operation", "error"),
    [(name, errno.EIO) for name in ("create", "resize", "sync", "allocate", "link")]
    + [("create", errno.EMFILE), ("resize", errno.ENOSPC), ("allocate", errno.ENOSPC)],
)
def test_what_cannot_be_prepared_is_made_by_the_append(
    operation: str, error: int, tmp_path: Path, disk: FaultyDisk, inline: Inline, assert_clean: AssertClean
) -> None:
    """One failure of each kind, where the next segment is prepared: nobody hears of it, and no put is refused."""
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        inline(store)
        put(store, PER_SEGMENT // 3)
        fault = disk.fail(operation, f"commitlog/{SEGMENT_SIZE:020d}", error, times=1)
        put(store, PER_SEGMENT)
        store.flush()
        assert fault.hits == 1 and inside.log(store).poison is None
        assert sorted(os.listdir(tmp_path / "commitlog")) == ["0" * 20, f"{SEGMENT_SIZE:020d}"]
    assert assert_clean(tmp_path).records == PER_SEGMENT // 3 + PER_SEGMENT


def test_an_append_without_room_meets_its_own_error(
    tmp_path: Path, disk: FaultyDisk, inline: Inline, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        inline(store)
        put(store, 1)
        disk.fail("allocate", "commitlog/", errno.ENOSPC)
        room = inside.active_segment(store).allocated - inside.log(store).end
        with pytest.raises(DiskFullError):
            put(store, PER_SEGMENT)
        assert inside.log(store).end > inside.active_segment(store).allocated - 2 * len(BODY), (
            "refused while there were blocks"
        )
        assert room > 0 and inside.log(store).poison is None
        disk.heal()
        put(store, PER_SEGMENT)
    assert_clean(tmp_path)


def test_preparing_leaves_room_for_queue_entries(
    tmp_path: Path, disk: FaultyDisk, inline: Inline, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an append does: blocks are taken only where that leaves enough of the disk."""
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        inline(store)
        put(store, 1)
        segment = inside.active_segment(store)
        allocated = segment.allocated
        monkeypatch.setattr(disk, "free_size", lambda path: FOLIO_SIZE + MIB)
        count = disk.count("allocate", "commitlog/")
        put(store, (allocated - inside.log(store).end) // (len(BODY) + 200) - 1)
        assert segment.allocated == allocated and disk.count("allocate", "commitlog/") == count
        monkeypatch.undo()
        put(store, 10)
        assert segment.allocated > allocated
    assert_clean(tmp_path)


def test_a_failed_sync_of_a_name_poisons(
    tmp_path: Path, disk: FaultyDisk, inline: Inline, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, settings(), disk=disk) as store:
        inline(store)
        put(store, PER_SEGMENT * 3 // 4)
        store.flush()
        put(store, PER_SEGMENT // 2)
        disk.fail("sync_folder", "commitlog", errno.EIO, times=1)
        with pytest.raises(SyncFailedError):
            store.flush()
        with pytest.raises(StorePoisonedError):
            put(store, 1)
    with flightlog.open(tmp_path, settings()) as store:
        put(store, 1)
    assert_clean(tmp_path)


def are_large_pieces_expected(path: Path) -> bool:
    """Whether the mapping that appends store into is not advised random (VmFlags `rr`)."""
    found, is_ours, inode = [], False, str(path.stat().st_ino)  # Linux shows no name that was given later
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            is_ours = line.split()[4] == inode and "rw-s" in line
        elif is_ours and line.startswith("VmFlags:"):
            found.append("rr" not in line.split())
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("mode", FlushMode)
def test_pages_come_in_large_pieces_while_the_log_grows_fast_and_a_timer_syncs_it(
    mode: FlushMode, tmp_path: Path, inline: Inline, assert_clean: AssertClean, clock: ManualClock
) -> None:
    """Under sync flush they never do: a sync of one record could write a mebibyte."""
    large = settings(flush_mode=mode, segment_size=64 * MIB)
    with flightlog.open(tmp_path, large, clock=clock) as store:
        inline(store)
        put(store, 1)
        path = inside.active_segment(store).path
        assert not are_large_pieces_expected(path)
        for _ in range(60):
            clock.at_ms += 1
            put(store, 5)
        assert are_large_pieces_expected(path) == (mode is FlushMode.ASYNC)
        for _ in range(60):
            clock.at_ms += 1000
            put(store, 5)
        assert not are_large_pieces_expected(path)
    assert_clean(tmp_path)


def test_much_that_waits_for_dispatch_is_dispatched_before_its_time(
    tmp_path: Path, assert_clean: AssertClean, wait_until: WaitUntil
) -> None:
    with flightlog.open(tmp_path, settings(segment_size=64 * MIB)) as store:
        put(store, PER_SEGMENT // 2)
        assert inside.log(store).dispatched == 0
        put_until(store, 2 * UNDISPATCHED_SIZE)

        def is_dispatched_while_appends_go_on() -> bool:  # time alone does not wake the thread
            put(store, 1)
            return inside.log(store).dispatched > 0

        wait_until(is_dispatched_while_appends_go_on)
    assert_clean(tmp_path)


def test_a_sync_by_the_timer_lets_go_of_the_pages_that_it_writes(
    tmp_path: Path, inline: Inline, assert_clean: AssertClean, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last one, which appends go on with; fewer than a mebibyte are not worth it."""
    released: list[tuple[int, int]] = []

    def note(mapping: mmap.mmap, position: int, size: int) -> bool:
        released.append((position, size))
        return release_pages(mapping, position, size)

    release_pages = native.release_pages
    with flightlog.open(tmp_path, settings(segment_size=16 * MIB)) as store:
        monkeypatch.setattr(native, "release_pages", note)
        put(store, 1)
        store.flush()
        assert released == []
        first = inside.log(store).flushed
        put_until(store, 3 * MIB)
        store.flush()
        start, stop = (position // mmap.PAGESIZE * mmap.PAGESIZE for position in (first, inside.log(store).end))
        assert released == [(start, stop - start)]
        put(store, 1)
        put_until(store, 17 * MIB)
        store.flush()
        assert [position for position, _ in released[1:]] == [stop, 0], "the rest of this segment and the next one"
    assert_clean(tmp_path)
