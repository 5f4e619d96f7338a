"""Known wounds of RocketMQ that flightlog does not have: state files, mappings, file times, and two processes at once.

Each test tells what goes wrong in Apache RocketMQ 5.3.3 (or in the version that it names), and fails if the same goes
wrong here.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.store.errors import StoreClosedError
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.openings import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean, InChild

    Leave = Callable[[Store], None]

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=8192,
    queue_file_entries=10,
    index_slots=5,
    index_entries=50,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)


def bodies(store: Store | flightlog.ReadOnlyStore, topic: str = "t") -> list[bytes]:
    return [message.body for message in store.read(topic)]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_no_state_file_rewritten_in_place_and_torn(chance: float, tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ 5 writes `topics.json` over its old content, without a sync, and its `.bak` just before in the same way:
    a power cut leaves a part of the one in the other, and both may be damaged. It then starts without its topics.

    Here the power fails at each operation of a change: the file, or `.bak` where there is no file yet, is the old one
    or the new one, never a mixture, and what was returned before is in it."""
    finished = False
    for operations in itertools.count():
        disk: PowerDisk = PowerDisk(tmp_path / f"store-{operations}")
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        for number in range(20):
            store.create_topic(f"topic-{number:03d}", queue_count=3)
        disk.die_after = operations
        try:
            store.update_topic("topic-007", queue_count=1000)
            finished = True
        except Died:
            pass
        disk.kill()
        kill(store)
        disk.cut(random.Random(operations), chance=chance)
        both = [path for name in ("topics.json", "topics.json.bak") if (path := disk.root / "config" / name).exists()]
        table, *_ = [json.loads(path.read_bytes())["topicConfigTable"] for path in both]
        assert sorted(table) == [f"topic-{number:03d}" for number in range(20)]
        counts = [topic["readQueueNums"] for name, topic in table.items() if name != "topic-007"]
        assert counts == [3] * 19 and table["topic-007"]["readQueueNums"] in ((1000,) if finished else (3, 1000))
        with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
            assert len(store.topics()) == 20
        assert_clean(disk.root)
        if finished:
            break
    assert operations > 4


def test_no_unmapping_while_somebody_holds_the_bytes(tmp_path: Path, in_child: InChild) -> None:
    """RocketMQ unmaps a file two minutes after it was to go, whoever still reads or writes it: the JVM dies of SIGSEGV.

    Here segments go with their readers at work, the store is closed, everything is collected, and whoever holds bytes,
    from a read or from a mapping, still has them."""

    def hold_on() -> None:
        store = flightlog.open(tmp_path, SETTINGS)
        put = [b"%03d" % number + bytes(700) for number in range(60)]
        store.put_many([Message("t", body) for body in put])
        store.flush()
        inside.maintenance(store).flush_index()
        inside.maintenance(store).flush_queues()
        view = flightlog.open_read_only(tmp_path)
        reading = view.read("t")
        first = next(reading)
        segment = view.segments[0]
        piece, rows = next(iter(view.log_reader.scan(segment, 0, segment.size, check_crc=False)))
        held = memoryview(piece)
        digest = hashlib.sha256(held).digest()
        body_at = int(rows["body_position"][0])
        appended = inside.active_segment(store).append_mapping()
        view.close()
        report = store.clean_up(0)
        assert len(report.segments) > 3 and not segment.path.exists()
        store.close()
        del view, reading, store, segment
        gc.collect()
        assert first.body == put[0]
        assert bytes(held[body_at : body_at + 703]) == put[0]
        assert hashlib.sha256(held).digest() == digest
        assert len(appended[:]) == 8192

    in_child(hold_on)


def test_no_unmapping_under_a_reader_that_goes_on(tmp_path: Path, in_child: InChild, assert_clean: AssertClean) -> None:
    """The same with threads that ask for single messages, which holds nothing up: the segments go under them, and at
    last the store is closed. Each gets whole messages, or none, or an error by name."""

    def read_on() -> None:
        store = flightlog.open(tmp_path, SETTINGS)
        places: list[tuple[int, int]] = []
        failures: list[BaseException] = []
        started, closes = threading.Barrier(4), threading.Event()

        def read() -> None:
            try:
                started.wait()
                for turn in itertools.count():
                    queue_offset, place = places[turn * 7 % len(places)]
                    for found in (store.message_at(place), *store.get("t", 0, queue_offset).messages):
                        assert found is None or found.body == found.body[:3] * 200
            except StoreClosedError as e:
                if not closes.is_set():
                    failures.append(e)
            except BaseException as e:
                failures.append(e)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for number in range(300):
            result = store.put(Message("t", b"%03d" % number * 200))
            places.append((result.queue_offset, result.physical_offset))
            if not number:
                for reader in readers:
                    reader.start()
                started.wait()
            if number % 30 == 29:
                store.flush()
                inside.maintenance(store).flush_queues()
                inside.maintenance(store).flush_index()
                store.clean_up(0)
        assert store.queues()["t", 0][0] > 200, "hardly anything was removed"
        closes.set()
        store.close()
        for reader in readers:
            reader.join()
        assert not failures, failures

    in_child(read_on)
    assert_clean(tmp_path)


def test_no_time_search_by_file_times(tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ up to 5.1.0 chooses the queue file by when it was last changed: after a copy, a restore or a touch it
    answers with offsets that are files away.

    Here the times in the records decide: whatever the files' times are, the answers are the same."""
    clock: HeldClock = HeldClock()
    start_ms = clock.at_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        for number in range(50):
            clock.at_ms = start_ms + 1000 * number
            store.put(Message("t", b"%d" % number))
    asked = [start_ms + late_ms for late_ms in range(-1000, 52_000, 500)]
    expected = [min(max(-(-(at - start_ms) // 1000), 0), 50) for at in asked]
    files = [path for path in tmp_path.rglob("0*") if path.is_file()]
    assert len(files) >= 6
    for now_s in (lambda i: 0, lambda i: 1 << 32, lambda i: start_ms // 1000 - i, lambda i: start_ms // 1000 + 60 * i):
        for number, path in enumerate(sorted(files)):
            os.utime(path, (now_s(number), now_s(number)))
        with flightlog.open_read_only(tmp_path) as view:
            assert [view.offset_at("t", 0, at) for at in asked] == expected
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert [store.offset_at("t", 0, at) for at in asked] == expected
    assert_clean(tmp_path)


OPEN = """
import sys, flightlog
try:
    flightlog.open(sys.argv[1]).close()
except flightlog.store.errors.StoreLockedError:
    print("locked")
else:
    print("opened")
"""


def test_no_two_processes_that_recover_one_store(
    disk: FaultyDisk, tmp_path: Path, leave_as_killed: Leave, assert_clean: AssertClean
) -> None:
    """RocketMQ takes its lock after it has recovered: a second process that is started by mistake first truncates,
    deletes index files and segments that the first has prepared, and only then finds that it may not.

    Here the lock comes before the first look: beside a recovery that is under way, and beside a store that is open,
    the second process has changed nothing when it is refused."""
    path = tmp_path / "store"
    store = flightlog.open(path, SETTINGS)
    store.put_many([Message("t", b"%d" % i + bytes(300), keys=f"k{i}") for i in range(60)])
    assert len(bodies(store)) == 60
    leave_as_killed(store)
    held = disk.hold("sync", "commitlog/", times=1)
    opened: list[Store] = []
    opener = threading.Thread(target=lambda: opened.append(flightlog.open(path, SETTINGS, disk=disk)))
    opener.start()
    try:
        assert disk.held.acquire(timeout=240)  # in the middle of its recovery
        before = contents(path)
        assert open_elsewhere(path) == "locked"
        assert contents(path) == before
    finally:
        disk.release()
        opener.join()
    assert held.hits == 1
    (reopened,) = opened
    reopened.put(Message("t", b"60"))
    before = contents(path)
    assert open_elsewhere(path) == "locked"
    assert contents(path) == before
    reopened.close()
    assert open_elsewhere(path) == "opened"
    with flightlog.open_read_only(path) as view:
        assert len(bodies(view)) == 61
    assert_clean(path)


def open_elsewhere(path: Path) -> str:
    command = [sys.executable, "-P", "-c", OPEN, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file but the lock, which nobody may open: its time of change and content."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file() and path.name != "lock"
    }
