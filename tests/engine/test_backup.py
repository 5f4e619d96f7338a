"""Backups: what was durable when they began is in them, a later one writes what changed, none opens half-done."""

from __future__ import annotations

import errno
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.disk.disk import RealDisk, RealFile
from flightlog.store.disk.lock import StoreLock
from flightlog.store.errors import (
    DiskFullError,
    InvalidArgumentError,
    StoreChangingError,
    StoreLockedError,
    StoreNotFoundError,
    StrayFileError,
    UsageError,
)
from flightlog.testing import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean

MIB = 1 << 20
SETTINGS = StoreSettings.small(segment_size=MIB)
OPENING = """
import os, signal, sys
import flightlog
from flightlog.store.disk.disk import RealDisk

class Killing(RealDisk):
    def open(self, path, *, writable=False, create=False):
        if create and path.match("commitlog/" + sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().open(path, writable=writable, create=create)

flightlog.backup(sys.argv[1], sys.argv[2], disk=Killing())
"""
WRITER = """
import sys
import flightlog

path, count = sys.argv[1], int(sys.argv[2])
settings = flightlog.StoreSettings.small(segment_size=8 << 20, flush_mode=flightlog.FlushMode.SYNC)
with flightlog.open(path, settings) as store:
    for first in range(0, count, 50):
        messages = [
            flightlog.Message(f"t{n % 7}", b"%08d" % n + bytes(900), keys=f"k{n}", queue_id=n % 3)
            for n in range(first, first + 50)
        ]
        store.put_many(messages)
        print(first + 50, flush=True)
    sys.stdin.read()
"""
"""Puts as fast as it can, says what is durable, and waits."""


class OpenedDisk(RealDisk):
    """Notes which files are opened, and calls `hook` before each."""

    def __init__(self, hook: Callable[[Path], None] = lambda _: None) -> None:
        self.opened: list[Path] = []
        self._hook = hook

    def open(self, path: Path, *, writable: bool = False, create: bool = False) -> RealFile:
        self._hook(path)
        self.opened.append(path)
        return super().open(path, writable=writable, create=create)


def fill(path: Path, first: int, count: int, size: int = 10_000) -> None:
    with flightlog.open(path, SETTINGS) as store:
        for number in range(first, first + count):
            body = b"%08d" % number + number.to_bytes(2, "big") * (size // 2)
            store.put(Message("orders", body, keys=f"k{number}", queue_id=number % 2))


def numbers(path: Path) -> list[int]:
    with flightlog.open_read_only(path) as view:
        return sorted(int(message.body[:8]) for key in view.queues() for message in view.read(*key))


def restored(backup: Path) -> Path:
    """As `cp -a` makes it."""
    path = backup.with_name("restored")
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(backup, path)
    return path


def test_a_backup_of_one_more_segment_copies_one_segment(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 500)
    first = flightlog.backup(path, out)
    assert first.path == out and first.segment_count == 5 and first.copied_size > 5_000_000
    assert flightlog.backup(path, out).copied_size < 1000, "nothing has changed but the note of the backup"
    fill(path, 500, 100)
    disk = OpenedDisk()
    second = flightlog.backup(path, out, disk=disk)
    assert second.segment_count == 2, "the rest of the last segment, and the new one"
    assert second.copied_size < 1.2 * MIB
    opened = {file.name for file in disk.opened if file.parent == path / "commitlog"}
    assert opened == {"00000000000004194304", "00000000000005242880"}, "the others are not even read"
    assert numbers(restored(out)) == list(range(600))
    assert_clean(restored(out))
    for source in sorted(path.rglob("*")):
        if source.is_file() and source.name != "lock":
            assert (out / source.relative_to(path)).read_bytes() == source.read_bytes(), source


@pytest.mark.ci
def test_a_backup_beside_a_writer_has_what_was_durable_when_it_began(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out, count = tmp_path / "store", tmp_path / "out", 20_000
    command = [sys.executable, "-P", "-c", WRITER, str(path), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None

        def durable() -> Iterator[int]:
            assert writer.stdout is not None
            yield from map(int, writer.stdout)

        counts = durable()
        for at_least in (50, 7_000, 14_000, count):
            known = next(number for number in counts if number >= at_least)
            flightlog.backup(path, out)
            copy = restored(out)
            assert_clean(copy)
            found = numbers(copy)
            assert found == list(range(len(found))) and len(found) >= known
            with flightlog.open(copy) as store:
                for number in (0, known // 2, known - 1):
                    assert len(store.query(f"t{number % 7}", f"k{number}").messages) == 1
                store.put(Message("t0", b"%08d" % len(found)))
            assert_clean(copy)
        writer.stdin.close()
    flightlog.backup(path, out)
    assert numbers(restored(out)) == list(range(count))
    assert_clean(restored(out))


def test_after_a_kill_the_next_backup_completes_it(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 500)
    command = [sys.executable, "-P", "-c", OPENING, str(path), str(out), "00000000000003145728"]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    with pytest.raises(StrayFileError, match="copy-is-incomplete"):
        flightlog.open(out)
    result = flightlog.backup(path, out)
    assert result.segment_count == 2, "three are there already"
    assert numbers(restored(out)) == list(range(500))
    assert_clean(restored(out))


@pytest.mark.parametrize("copy", [flightlog.backup, flightlog.copy_store])
def test_the_keys_of_a_server_stay_where_they_are(
    copy: Callable[[Path, Path], object], tmp_path: Path, assert_clean: AssertClean
) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 10)
    (path / "flightlog" / "tls").mkdir()
    (path / "flightlog" / "tls" / "ca-key.pem").write_bytes(b"secret")
    copy(path, out)
    assert not [found for found in out.rglob("*") if found.is_file() and b"secret" in found.read_bytes()]
    assert_clean(out)


def test_a_full_disk_leaves_a_backup_to_go_on_with(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 300)
    disk = FaultyDisk()
    disk.fail("write", "out/commitlog/00000000000002097152", errno.ENOSPC)
    with pytest.raises(DiskFullError):
        flightlog.backup(path, out, disk=disk)
    flightlog.backup(path, out)
    assert numbers(out) == list(range(300))
    assert_clean(out)


def test_what_retention_removes_meanwhile_makes_it_begin_again(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 500)
    with flightlog.open(path, SETTINGS) as store:

        def clean(opened: Path) -> None:
            if opened == path / "commitlog" / "00000000000002097152":
                store.clean_up(0)

        flightlog.backup(path, out, disk=OpenedDisk(clean))
    left = numbers(path)
    assert left[0] > 300 and numbers(out) == left
    assert len(list((out / "commitlog").iterdir())) == len(list((path / "commitlog").iterdir()))
    assert_clean(out)


def test_a_store_that_never_rests_is_told(tmp_path: Path) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    fill(path, 0, 10)

    def reopen(opened: Path) -> None:
        if opened.parent == path / "commitlog":
            flightlog.open(path, SETTINGS).close()

    with pytest.raises(StoreChangingError, match="attempts to copy"):
        flightlog.backup(path, out, disk=OpenedDisk(reopen))
    flightlog.backup(path, out)
    assert numbers(out) == list(range(10))


def test_groups_delays_and_topics_come_along(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    with flightlog.open(path, SETTINGS) as store:
        store.create_topic("orders", queue_count=3)
        store.put_many([Message("orders", b"%08d" % number) for number in range(20)])
        store.commit_offset("billing", "orders", 0, 7)
        store.put(Message("orders", b"00000099", delay_level=1))
        flightlog.backup(path, out)
    copy = restored(out)
    with flightlog.open(copy, StoreSettings(deliver_delayed=False)) as store:
        assert store.group_offsets("billing", "orders") == {0: 7}
        topic = store.topic("orders")
        assert topic is not None and topic.queue_count == 3
        assert [message.body for message in store.read("SCHEDULE_TOPIC_XXXX", 0)] == [b"00000099"]
    assert_clean(copy)


@pytest.mark.parametrize("name", ["v1-clean", "abort", "abort-torn", "batch-bcq", "delay-tx", "rollover"])
def test_stores_of_rocketmq(golden_copy: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    """At rest, and with a lock that a broker holds: then the log ends with the last record of a queue."""
    path = golden_copy(name) / "store"

    def bodies(where: Path) -> list[tuple[object, ...]]:
        with flightlog.open_read_only(where) as view:
            return [(*key, m.queue_offset, m.body) for key in sorted(view.queues()) for m in view.read(*key)]

    flightlog.copy_store(path, tmp_path / "copy")
    assert bodies(tmp_path / "copy") == bodies(path)
    lock = StoreLock.acquire(path)
    try:
        flightlog.backup(path, tmp_path / "out")
        shown = bodies(path)
    finally:
        lock.release()
    assert bodies(tmp_path / "out") == shown


def test_folders_of_the_log_become_one(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    settings = StoreSettings.small(commit_log_folders=("log-a", str(tmp_path / "log-b")), segment_size=MIB)
    with flightlog.open(path, settings) as store:
        store.put_many([Message("orders", b"%08d" % number + bytes(100_000)) for number in range(40)])
        flightlog.copy_store(path, out, settings)
    assert len(list((out / "commitlog").iterdir())) >= 4 and not (out / "log-a").exists()
    assert numbers(out) == list(range(40))
    assert_clean(out)


def test_refusals(tmp_path: Path) -> None:
    path, out = tmp_path / "store", tmp_path / "out"
    with pytest.raises(StoreNotFoundError):
        flightlog.backup(path, out)
    fill(path, 0, 3)
    for inside in (path, path / "backup", tmp_path):
        with pytest.raises(InvalidArgumentError, match="apart from"):
            flightlog.backup(path, inside)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="holds a backup"):
        flightlog.backup(path, other)
    flightlog.backup(path, out)
    with pytest.raises(InvalidArgumentError, match="empty or not there"):
        flightlog.copy_store(path, out)
    lock = StoreLock.acquire(out)
    with pytest.raises(StoreLockedError):
        flightlog.backup(path, out)
    lock.release()
    fill(tmp_path / "second", 0, 3)
    with pytest.raises(UsageError, match="has a backup of"):
        flightlog.backup(tmp_path / "second", out)
    fill(out, 3, 1)
    with pytest.raises(UsageError, match="opened for writing after its last backup"):
        flightlog.backup(path, out)
    assert numbers(out) == [0, 1, 2, 3]
