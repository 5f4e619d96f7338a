"""Real small file systems, mounted from a file: one that runs full for good, one that cannot be written, one not
allowed.

Everything runs in a forked child: a store into a hole of a full disk would be a SIGBUS, which must not take pytest
along.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.store.errors import DiskError, DiskFullError
from flightlog.tests.support import mounts

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import Acknowledged, AssertClean, InChild

NOBODY = 65534
Mounted = Callable[..., AbstractContextManager[Path]]


def take_all_room(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for piece_size in (1 << 20, 1024):
            with suppress(OSError):
                while True:
                    file.write(bytes(piece_size))


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    """`mounted(size, options)` is an ext4 file system of this test, the same one every time."""
    mounts.needs_root()

    def mount(size: int, options: str = "") -> AbstractContextManager[Path]:
        disk = mounts.Ext4(tmp_path, size, options)
        if not disk.is_made:
            disk.make()
        return disk

    return mount


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("body_size", [700, 5000])
def test_a_file_system_that_runs_full(
    body_size: int,
    mode: FlushMode,
    mounted: Mounted,
    acknowledged: Acknowledged,
    assert_clean: AssertClean,
    in_child: InChild,
) -> None:
    settings = StoreSettings(
        segment_size=256 << 10,
        queue_file_entries=2000,
        index_slots=1000,
        index_entries=4000,
        allocate_step_size=128 << 10,
        flush_mode=mode,
        flush_interval_ms=2,
        queue_flush_interval_ms=4,
        sync_flush_timeout_ms=240_000,
    )

    def put_until_refused(store: flightlog.Store) -> DiskFullError:
        for i in range(1_000_000):
            batch = [acknowledged.message(f"topic-{i % 7}", body_size, i % 4) for _ in range(20)]
            try:
                acknowledged.put(store, *batch)
            except DiskFullError as e:
                acknowledged.note(list(e.results), tuple(batch))
                return e
        raise AssertionError("the disk never ran full")

    def fill_and_free(place: Path) -> None:
        path, ballast = place / "store", place / "ballast"
        with flightlog.open(path, settings) as store:
            for round_number in range(3):
                before = [acknowledged.message(f"topic-{i}", body_size, j) for i in range(7) for j in range(4)]
                acknowledged.put(store, *before)
                acknowledged.check(store)
                # Another program takes every block: puts go on in what the log has already.
                take_all_room(ballast)
                assert "free space" in str(put_until_refused(store))
                for key in store.queues():
                    assert list(store.read(*key))
                ballast.unlink()
                acknowledged.put(store, acknowledged.message())
                acknowledged.check(store)
                # The log itself takes what there is, and leaves room for its queues.
                assert "kept for queue entries" in str(put_until_refused(store))
                acknowledged.check(store)
                (place / f"old-{round_number}").unlink()
                acknowledged.put(store, acknowledged.message())
                acknowledged.check(store)
            print(f"{mode.name}, {body_size} B: {len(acknowledged.bodies)} messages")
        with flightlog.open(path) as store:
            acknowledged.put(store, acknowledged.message())
            there = acknowledged.check(store)
        assert assert_clean(path).records == there == len(acknowledged.bodies)

    with mounted(10 << 20) as place:
        for number in range(3):
            (place / f"old-{number}").write_bytes(bytes(1 << 20))
        in_child(lambda: fill_and_free(place))


@pytest.mark.ci
def test_a_killed_writer_on_a_full_file_system(
    mounted: Mounted, acknowledged: Acknowledged, assert_clean: AssertClean, in_child: InChild
) -> None:
    """Opening it for writing says that there is no room; reading works; with room it recovers, and nothing is lost."""
    settings = StoreSettings(segment_size=256 << 10, queue_file_entries=1000, flush_interval_ms=60_000)

    def write_and_die(place: Path) -> None:
        store = flightlog.open(place / "store", settings)
        for i in range(300):
            acknowledged.put(store, acknowledged.message(queue_id=i % 3))
        os._exit(0)  # nothing is dispatched yet

    def recover(place: Path) -> None:
        for i in range(300):
            acknowledged.bodies["orders", i % 3, i // 3] = acknowledged.message().body
        ballast = place / "ballast"
        take_all_room(ballast)
        for _ in range(2):
            with pytest.raises(DiskFullError, match="No space left.*free space"):
                flightlog.open(place / "store")
            with flightlog.open_read_only(place / "store") as view:
                assert acknowledged.check(view) == 300
        ballast.unlink()
        with flightlog.open(place / "store") as store:
            acknowledged.put(store, acknowledged.message())
            assert acknowledged.check(store) == 301
        assert assert_clean(place / "store").records == 301

    with mounted(6 << 20) as place:
        in_child(lambda: write_and_die(place))
        in_child(lambda: recover(place))


@pytest.mark.ci
def test_a_read_only_mount(mounted: Mounted, acknowledged: Acknowledged, assert_clean: AssertClean) -> None:
    with mounted(6 << 20) as place, flightlog.open(place / "store", StoreSettings.small()) as store:
        acknowledged.put(store, acknowledged.message(), acknowledged.message())
    with mounted(6 << 20, ",ro") as place:
        with flightlog.open_read_only(place / "store") as view:
            assert acknowledged.check(view) == 2
        assert assert_clean(place / "store").records == 2
        for path in (place / "store", place / "new"):
            with pytest.raises(DiskError, match=r"Read-only file system\. Look after the disk and the permissions"):
                flightlog.open(path)
        assert not (place / "new").exists()


@pytest.mark.usefixtures("mounted")  # root alone may become somebody else
def test_folders_without_permission(acknowledged: Acknowledged, assert_clean: AssertClean, in_child: InChild) -> None:
    """As another user: what may be read is read, what may not says so by name and path."""
    with flightlog_folder() as folder:
        with flightlog.open(folder / "store", StoreSettings.small()) as store:
            acknowledged.put(store, acknowledged.message())

        def as_nobody() -> None:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
            with flightlog.open_read_only(folder / "store") as view:
                assert acknowledged.check(view) == 1
            for path in (folder / "store", folder / "new"):
                with pytest.raises(DiskError, match=rf"{path}.*Permission denied\. Look after the disk"):
                    flightlog.open(path)
            for name in ("", "commitlog", "flightlog"):
                os.seteuid(0)
                os.chmod(folder / "store" / name, 0o700)
                os.seteuid(NOBODY)
                with pytest.raises(DiskError, match=rf"{folder / 'store'}.*Permission denied"):
                    flightlog.open(folder / "store")
                with pytest.raises(DiskError, match=rf"{folder / 'store'}.*Permission denied"):
                    flightlog.open_read_only(folder / "store")
                os.seteuid(0)
                os.chmod(folder / "store" / name, 0o755)
                os.seteuid(NOBODY)

        in_child(as_nobody)
        with flightlog.open(folder / "store") as store:
            acknowledged.put(store, acknowledged.message())
        assert assert_clean(folder / "store").records == 2


@contextmanager
def flightlog_folder() -> Iterator[Path]:
    """A folder that every user may enter: pytest's own may be its owner's alone."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="flightlog-") as name:
        os.chmod(name, 0o755)
        yield Path(name)
