"""What happens to a log, told step by step: each goes well with a store that keeps its promises.

Used by tests/crash/test_mutants.py, which tells them to stores that do not. `new()` gives a stage with an empty disk.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flightlog
from flightlog import FlushMode
from flightlog.store.errors import CorruptLogError, DiskFullError, StorePoisonedError, SyncFailedError
from flightlog.store.segments.segment import segment_name
from flightlog.tests.support import inside
from flightlog.tests.support.stage import Stage

if TYPE_CHECKING:
    NewStage = Callable[[], Stage]

SYNC, ASYNC = FlushMode.SYNC, FlushMode.ASYNC
LATER_S = 240
"""How long anybody waits for another thread at most."""


def acknowledged_puts(new: NewStage) -> None:
    """One by one and many at once, over the ends of segments: then the power is cut."""
    stage = new()
    store = stage.open()
    for _ in range(30):
        stage.put(store, 700)
    stage.put(store, 700, count=60)
    stage.die(store)
    stage.cut()
    stage.end()


def a_put_that_dies_anywhere(new: NewStage) -> None:
    """By a power cut; the progress page had just been written back."""
    for operations in itertools.count():
        stage = new()
        store = stage.open()
        stage.put(store, 9000)
        has_died = stage.dies(operations, lambda: stage.put(store, 9000))
        stage.write_back(stage.progress_page)
        stage.cut()
        stage.end()
        if not has_died:
            assert operations > 3
            return


def a_writer_after_one_that_died_anywhere(new: NewStage) -> None:
    """Died, in the middle of a roll; the power is cut only later."""
    for operations in itertools.count():
        stage = new()
        store = stage.open()
        stage.put(store, 9000)
        has_died = stage.dies(operations, lambda: stage.put(store, 9000))
        store = stage.open()
        stage.put(store, 9000)
        stage.die(store)
        stage.cut()
        stage.end()
        if not has_died:
            assert operations > 3
            return


def a_close_that_dies_anywhere(new: NewStage) -> None:
    """By a power cut."""
    for operations in itertools.count():
        stage = new()
        store = stage.open(ASYNC)
        stage.put(store, 3000)
        stage.flush(store)
        stage.put(store, 3000, count=4)
        has_died = stage.dies(operations, store.close)
        stage.cut()
        stage.end()
        if not has_died:
            assert operations > 10
            return


def a_torn_tail(new: NewStage) -> None:
    """A record lost a sector, the two behind it did not. They are cut and kept; and what is put in the place of the
    first leaves the others where they would begin again."""
    stage = new()
    store = stage.open(ASYNC)
    stage.put(store, 1500)
    stage.flush(store)
    torn, *later = [stage.put(store, 1500)[0] for _ in range(3)]
    raw = stage.segment().read_bytes()
    stage.die(store)
    stage.disk.lose(stage.segment(), torn.physical_offset + 600, torn.physical_offset + 601)
    stage.cut(keeps_all=True)
    store = stage.open(ASYNC)
    stage.settle(store)
    _check_kept(stage, [raw[put.physical_offset :][: put.size] for put in later])
    stage.put(store, 1500)
    stage.flush(store)
    stage.die(store)
    stage.cut(keeps_all=True)
    stage.end()


def a_torn_tail_of_a_store_just_opened(new: NewStage) -> None:
    """For the first time, or again. The kernel had written the log back, and nothing else: whose log it is, the
    progress page and `abort` alone tell."""
    for is_new in (True, False):
        stage = new()
        if not is_new:
            stage.open().close()
        store = stage.open(ASYNC)
        torn = stage.put(store, 1500)[0]
        stage.put(store, 1500, count=2)
        stage.die(store)
        stage.disk.lose(stage.segment(), torn.physical_offset + 600, torn.physical_offset + 601)
        stage.write_back(stage.segment())
        stage.cut()
        stage.end()


def segments_that_reach_the_disk_out_of_order(new: NewStage) -> None:
    """The kernel has written back the last but one of those that nobody has synced."""
    stage = new()
    store = stage.open(ASYNC, segment_size=4096)
    stage.put(store, 1500)
    stage.flush(store)
    stage.put(store, 1500, count=9)
    stage.die(store)
    stage.write_back(stage.segment(12288))
    stage.cut()
    stage.end(segment_size=4096)


def puts_into_prepared_segments(new: NewStage) -> None:
    """The power is cut: after a flush, or when the kernel had written back one segment more, or one folder of two."""
    for written_back, folders in ((None, ()), (12288, ()), (0, ("commitlog-a", "commitlog-b"))):
        stage = new()
        how: dict[str, Any] = {"segment_size": 4096, "prepare_ahead_size": 1024, "commit_log_folders": folders}
        store = stage.open(ASYNC, **how)
        stage.put(store, 700, count=6)
        stage.flush(store)
        if written_back is not None:
            stage.put(store, 700, count=16)
        stage.die(store)
        if written_back:
            stage.write_back(stage.segment(written_back))
        for folder in folders[:1]:
            stage.disk.sync_folder(stage.root / folder)
        stage.cut()
        stage.end(**how)


def a_recovery_that_dies_anywhere(new: NewStage) -> None:
    """While it cuts a torn tail of four segments, by another power cut."""
    for operations in itertools.count():
        stage = new()
        store = stage.open(ASYNC, segment_size=4096)
        stage.put(store, 1500)
        stage.flush(store)
        torn, *later = [stage.put(store, 1500)[0] for _ in range(9)]
        log = b"".join(path.read_bytes() for path in sorted((stage.root / "commitlog").iterdir()))
        stage.die(store)
        stage.disk.lose(stage.segment(), torn.physical_offset + 600, torn.physical_offset + 601)
        stage.cut(keeps_all=True)
        has_died = stage.dies(operations, lambda: stage.open(ASYNC, segment_size=4096))
        stage.cut()
        stage.open(ASYNC, segment_size=4096).close()
        _check_kept(stage, [log[put.physical_offset :][: put.size] for put in later])
        stage.end(segment_size=4096)
        if not has_died:
            assert operations > 10
            return


def a_recovery_of_two_log_folders_that_dies_anywhere(new: NewStage) -> None:
    """In them segments lie by turns. The file system had committed the names of one of them, and not of the other."""
    folders = ("commitlog-a", "commitlog-b")
    how: dict[str, Any] = {"segment_size": 4096, "commit_log_folders": folders}
    for turn in itertools.count():
        operations, committed = divmod(turn, 2)
        stage = new()
        store = stage.open(ASYNC, **how)
        stage.put(store, 3000, count=4)
        stage.die(store)
        stage.disk.lose(stage.root / folders[0] / segment_name(0), 600, 601)
        stage.cut(keeps_all=True)
        has_died = stage.dies(operations, lambda stage=stage: stage.open(ASYNC, **how))  # type: ignore[misc]
        stage.disk.sync_folder(stage.root / folders[committed])
        stage.cut()
        stage.end(**how)
        if not has_died and committed:
            assert operations > 8
            return


def _check_kept(stage: Stage, records: list[bytes]) -> None:
    kept = b"".join(path.read_bytes() for path in sorted((stage.root / "flightlog").glob("cut-*")))
    there = sum(record in kept for record in records)
    stage.promise(there == len(records), f"{there} of {len(records)} records that were cut are kept in cut-*")


def a_sync_that_fails_once(new: NewStage) -> None:
    """As Linux lets it fail: the pages count as clean afterwards, and every later sync goes well."""
    stage = new()
    store = stage.open()
    stage.put(store)
    failed = False

    def fail_once(operation: str, path: Path) -> None:
        nonlocal failed
        if operation == "sync" and path == stage.segment():
            stage.disk.fails_syncs_of, failed = "" if failed else "commitlog", True

    stage.disk.on = fail_once
    for size in (9000, 100):
        with suppress(SyncFailedError, StorePoisonedError):
            stage.put(store, size)
    stage.die(store)
    stage.cut()
    stage.end()


def a_failed_sync_a_restart_and_a_cut(new: NewStage) -> None:
    """What the restart found in the page cache alone is not on the disk, whatever a sync says."""
    stage = new()
    store = stage.open(ASYNC)
    stage.put(store)
    stage.flush(store)
    stage.put(store, 9000)
    stage.disk.fails_syncs_of = "commitlog"
    with suppress(SyncFailedError):
        store.flush()
    stage.disk.be_well()
    stage.die(store)
    store = stage.open()
    stage.put(store)
    stage.die(store)
    stage.cut()
    stage.end()


def a_killed_writer_and_a_cut(new: NewStage) -> None:
    """What the next writer has shown to its readers was in the page cache alone."""
    stage = new()
    store = stage.open(ASYNC)
    results = stage.put(store, 3000, count=8)
    stage.die(store)
    store = stage.open(ASYNC)
    bodies = stage.bodies(store)
    assert len(bodies) == len(results)
    stage.die(store)
    stage.cut()
    store = stage.open()
    stage.promise(stage.bodies(store) == bodies, "messages that were read after a recovery are lost")
    store.close()
    stage.end()


def a_flipped_bit(new: NewStage) -> None:
    """In what was durable. Whoever puts it right again finds everything as it was."""
    stage = new()
    store = stage.open()
    for _ in range(5):
        flipped = stage.put(store, 700)[0].physical_offset + 300
    stage.put(store, 700, count=3)
    stage.die(store)

    def flip() -> None:
        with stage.segment().open("r+b") as file:
            file.seek(flipped)
            byte = file.read(1)[0]
            file.seek(flipped)
            file.write(bytes([byte ^ 1]))

    flip()
    with suppress(CorruptLogError):
        stage.die(stage.open())
    flip()
    stage.end()


def readers_beside_a_put(new: NewStage) -> None:
    """They come when the bytes of a record are not there yet, and when they are not durable yet."""
    for mode in FlushMode:
        stage = new()
        store = stage.open(mode)
        looks: set[str] = set()

        def look(operation: str, path: Path, stage: Stage = stage, store: flightlog.Store = store) -> None:
            is_new = operation == "map" and path.parent.name == "commitlog"
            if is_new or (operation == "sync" and path == stage.segment() and inside.log(store).end):
                looks.add(operation)
                known = {body for _, body in stage.must.values()} | stage.unsynced_bodies
                with flightlog.open_read_only(stage.root) as view:
                    stage.promise(stage.bodies(view) <= known, "a view has read what is not durable")
                stage.promise(stage.bodies(store) <= known, "a reader has read what is not durable")

        stage.disk.on = look
        for _ in range(4):
            stage.put(store, 7000)
            stage.check_readable(store)
        assert looks == ({"map", "sync"} if mode is SYNC else {"map"})
        stage.disk.be_well()
        store.close()
        stage.end()


def a_put_during_a_sync(new: NewStage) -> None:
    """It is in the page cache alone when the sync has ended. The next flush has to sync it."""
    stage = new()
    store = stage.open(ASYNC)
    stage.put(store)

    def put_once(operation: str, path: Path) -> None:
        if operation == "synced" and path == stage.segment():
            stage.disk.be_well()
            stage.put(store)

    stage.disk.on = put_once
    stage.flush(store)
    stage.flush(store)
    stage.die(store)
    stage.cut()
    stage.end()


def a_put_that_waits_for_anothers_sync(new: NewStage) -> None:
    """Which fails."""
    stage = new()
    store = stage.open()
    stage.put(store)
    is_under_way, may_fail = threading.Event(), threading.Event()

    def hold(operation: str, path: Path) -> None:
        if operation == "sync" and path == stage.segment():
            is_under_way.set()
            assert may_fail.wait(LATER_S)
            stage.disk.fails_syncs_of = "commitlog"

    def put() -> None:
        with suppress(SyncFailedError, StorePoisonedError):
            stage.put(store, 5000)

    stage.disk.on = hold
    leader, follower = (threading.Thread(target=put, daemon=True) for _ in range(2))
    leader.start()
    assert is_under_way.wait(LATER_S)
    follower.start()
    while follower.is_alive() and not inside.group_commit(store).waiting:
        follower.join(0.001)
    may_fail.set()
    for thread in (leader, follower):
        thread.join(LATER_S)
        assert not thread.is_alive()
    stage.die(store)
    stage.cut()
    stage.end()


def a_disk_without_room(new: NewStage) -> None:
    """Nothing may be stored into blocks that there are none of: that would be a SIGBUS."""
    stage = new()
    store = stage.open()

    def refuse(operation: str, path: Path) -> None:
        if operation == "allocate" and path.parent.name == "commitlog":
            raise DiskFullError(path, 0, "No space left on device")

    for _ in range(2):
        stage.put(store, 14000)
        stage.disk.on = refuse
        for _ in range(3):
            try:
                stage.put(store, 3000)
            except DiskFullError:
                continue
            stage.promise(False, "a put went into blocks that were never allocated")
        stage.disk.be_well()
        stage.put(store, 3000)
    stage.die(store)
    stage.cut()
    stage.end()
