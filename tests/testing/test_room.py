"""What `flightlog.testing` promises to users' tests, and that it costs nobody else anything."""

from __future__ import annotations

import errno
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import flightlog
from flightlog import FlushMode, Message, Store, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.testing import FaultyDisk, LogPositions, ManualClock, PowerDisk, kill, log_positions, open_small
from flightlog.testing.power_disk import Died

SYNC = StoreSettings.small(flush_mode=FlushMode.SYNC)
BY_HAND = StoreSettings.small(flush_interval_ms=3_600_000, queue_flush_interval_ms=3_600_000)
"""No flush round comes during the test."""


def put(store: Store, *bodies: bytes) -> None:
    for body in bodies:
        store.put(Message("orders", body))


def bodies(store: Store) -> list[bytes]:
    return [message.body for message in store.read("orders")]


def test_a_killed_store_keeps_what_was_written_and_is_recovered(tmp_path: Path) -> None:
    store = open_small(tmp_path, BY_HAND)
    put(store, b"a", b"b")
    kill(store)
    assert store.is_closed and (tmp_path / "abort").exists()
    with open_small(tmp_path) as again:
        assert again.recovery_report.last_writer.name == "FLIGHTLOG_KILLED"
        assert bodies(again) == [b"a", b"b"]
        assert again.verify().is_clean


def test_a_killed_store_flushes_nothing(tmp_path: Path) -> None:
    store = open_small(tmp_path, BY_HAND)
    put(store, b"a")
    flushed = log_positions(store).flushed
    kill(store)
    assert log_positions(store).flushed == flushed < log_positions(store).appended


def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    disk = PowerDisk(tmp_path)
    store = open_small(tmp_path, BY_HAND, disk=disk)
    put(store, b"durable")
    store.flush()
    put(store, b"lost")
    kill(store)
    disk.cut()
    with open_small(tmp_path, BY_HAND, disk=disk) as again:
        assert bodies(again) == [b"durable"]
        assert again.verify().is_clean


@pytest.mark.parametrize("seed", range(8))
def test_a_power_cut_leaves_every_acknowledged_message(tmp_path: Path, seed: int) -> None:
    disk, dice = PowerDisk(tmp_path), random.Random(seed)
    sent: list[bytes] = []
    for life in range(3):
        store = open_small(tmp_path, SYNC, disk=disk)
        assert bodies(store) == sent
        for number in range(dice.randrange(1, 9)):
            sent.append(f"{life}-{number}".encode())
            put(store, sent[-1])
        kill(store)
        disk.cut(dice)
    with open_small(tmp_path, SYNC, disk=disk) as again:
        assert bodies(again) == sent


def test_what_a_thread_changes_is_whole_when_another_one_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a kill brought the old name of a file back, of which the disk knew nothing."""
    disk, old, new = PowerDisk(tmp_path), tmp_path / "new.tmp", tmp_path / "new"
    disk.open(old, writable=True, create=True).close()

    def die() -> None:
        with pytest.raises(Died):
            disk.open(tmp_path / "other", writable=True, create=True)

    dying, rename = threading.Thread(target=die), RealDisk.rename

    def slow_rename(self: RealDisk, *paths: Path) -> None:
        dying.start()
        dying.join(0.1)
        rename(self, *paths)

    monkeypatch.setattr(RealDisk, "rename", slow_rename)
    disk.die_after = 1
    disk.rename(old, new)
    dying.join()
    disk.kill()
    assert not old.exists() and new.exists()


def test_positions_say_how_far_each_part_is(tmp_path: Path) -> None:
    with open_small(tmp_path, BY_HAND) as store:
        assert log_positions(store) == LogPositions(0, 0, 0, 0)
        put(store, b"a")
        size = log_positions(store).appended
        assert log_positions(store).visible == size > log_positions(store).flushed == 0
        assert bodies(store) == [b"a"]
        assert log_positions(store).dispatched == size
        store.flush()
        assert log_positions(store) == LogPositions(size, size, size, size)


def test_a_held_sync_holds_its_put_and_keeps_it_invisible(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with open_small(tmp_path, SYNC, disk=disk) as store:
        put(store, b"first")  # makes the segment, which is synced, too
        done = threading.Event()

        def put_one() -> None:
            put(store, b"a")
            done.set()

        thread = threading.Thread(target=put_one)
        with disk.held_syncs() as held:
            thread.start()
            assert held.acquire(timeout=240)
            assert not done.is_set() and bodies(store) == [b"first"]
            assert log_positions(store).appended > log_positions(store).visible == log_positions(store).flushed
        thread.join(240)
        assert done.is_set() and bodies(store) == [b"first", b"a"]


def test_a_failed_sync_poisons_and_the_fixture_recovers(
    flightlog_store: Store, flightlog_disk: FaultyDisk, tmp_path: Path
) -> None:
    assert flightlog_store.path == tmp_path / "store"
    put(flightlog_store, b"a")
    flightlog_store.flush()
    flightlog_disk.fail_syncs()
    with pytest.raises((flightlog.SyncFailedError, flightlog.StorePoisonedError)):  # a flush round may be first
        put(flightlog_store, b"not flushed")
        flightlog_store.flush()
    with pytest.raises(flightlog.StorePoisonedError):
        put(flightlog_store, b"b")
    assert bodies(flightlog_store)[:1] == [b"a"]


def test_a_disk_without_room(flightlog_store: Store, flightlog_disk: FaultyDisk) -> None:
    flightlog_disk.fail("allocate", "commitlog/", errno.ENOSPC)
    with pytest.raises(flightlog.DiskFullError):
        for _ in range(100_000):
            put(flightlog_store, bytes(1000))
    flightlog_disk.heal()
    put(flightlog_store, b"room again")
    assert bodies(flightlog_store)[-1] == b"room again"


def test_the_fixture_recovers_a_killed_store(flightlog_store: Store) -> None:
    put(flightlog_store, b"a")
    kill(flightlog_store)


def test_a_delayed_message_comes_when_the_clock_says_so(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_small(tmp_path, clock=clock) as store:
        store.put(Message("orders", b"later", delay_level=3))  # ten seconds
        clock.advance(9_000)
        assert bodies(store) == []
        clock.advance(1_000)
        with store.subscribe("orders", group="g") as messages:
            message = messages.receive(240)
        assert message is not None and message.body == b"later"


def test_the_plugin_fails_a_test_that_leaves_a_damaged_store(tmp_path: Path) -> None:
    test = tmp_path / "test_damaged.py"
    test.write_text("""
def test_one(flightlog_store):
    import flightlog
    for body in (b"first", b"second"):
        flightlog_store.put(flightlog.Message("orders", body))
    flightlog_store.close()
    [segment] = (flightlog_store.path / "commitlog").iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"first", b"FIRST"))
""")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "1 passed, 1 error" in done.stdout, done.stdout


def test_nobody_else_pays_for_it() -> None:
    program = "import sys, flightlog; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout
    assert "flightlog.testing" not in loaded.split()
    program = "import sys, flightlog.testing; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pytest" not in loaded.split()
