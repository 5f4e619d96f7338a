"""Known wounds of RocketMQ that flightlog does not have: what recovery finds, what it cuts, and what it keeps.

Each test tells what goes wrong in Apache RocketMQ 5.3.3, and fails if the same goes wrong here.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, ReadOnlyStore, Store, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import CorruptLogError, CorruptRecordError
from flightlog.store.state.checkpoint import Checkpoint, write_checkpoint
from flightlog.store.state.progress import FLIGHTLOG_FOLDER
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.openings import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

    Leave = Callable[[Store], None]

NEVER_MS = 3_600_000
SEGMENT_SIZE = 8192
SECTOR_SIZE = 512
UNIT_SIZE = 20
BUSY, QUIET = 0, 1
SETTINGS = StoreSettings(
    segment_size=SEGMENT_SIZE,
    queue_file_entries=1000,
    index_slots=5,
    index_entries=500,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


def bodies(store: Store | ReadOnlyStore, queue_id: int = BUSY) -> list[bytes]:
    return [message.body for message in store.read("t", queue_id)]


def put_with_a_quiet_queue(store: Store, clock: HeldClock) -> None:
    """The last record of the first segment is the last one of the quiet queue; two more segments follow."""
    store.put_many([Message("t", b"first", queue_id=BUSY), Message("t", b"first", queue_id=QUIET)])
    inside.maintenance(store).flush_queues()
    number, quiet = 0, Message("t", b"quiet".ljust(600, b"."), queue_id=QUIET)
    while inside.log(store).end < 2 * SEGMENT_SIZE + SEGMENT_SIZE // 2:
        clock.at_ms += 1000
        store.put(Message("t", b"%d " % number + bytes(600), queue_id=BUSY))
        number += 1
        if SEGMENT_SIZE - 1700 < inside.log(store).end < SEGMENT_SIZE - 900:
            last = store.put(quiet)
            assert last.physical_offset < SEGMENT_SIZE < last.physical_offset + last.size + 800
    store.flush()
    assert {key: end for key, (_, end) in store.queues().items()} == {("t", BUSY): number + 1, ("t", QUIET): 2}


def test_no_recovery_that_begins_behind_what_the_queues_lack(
    clock: HeldClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """RocketMQ begins an abnormal recovery at the newest segment whose first record is older than the checkpoint. Where
    a queue was behind in the segment before, what it lacks is never dispatched: nothing looks there again.

    Here everything but the one queue's file was written back by the kernel, progress page and checkpoint included; the
    message at the end of the first segment is in its queue again."""
    disk: PowerDisk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, SETTINGS, disk=disk, clock=clock)
    put_with_a_quiet_queue(store, clock)
    for path in sorted(disk.live):
        if f"/t/{QUIET}/" not in str(path):
            disk.write_back(random.Random(1), whole=path)
    count = len(bodies(store))
    kill(store)
    disk.cut(random.Random(1), chance=0)
    with flightlog.open_read_only(disk.root) as view:
        assert len(bodies(view, QUIET)) == 2
    with flightlog.open(disk.root, SETTINGS, disk=disk, clock=clock) as store:
        assert [body[:5] for body in bodies(store, QUIET)] == [b"first", b"quiet"]
        assert len(bodies(store)) == count
    assert_clean(disk.root)


def test_no_trust_in_rocketmqs_checkpoint_after_a_power_cut(
    clock: HeldClock, tmp_path: Path, leave_as_killed: Leave, assert_clean: AssertClean
) -> None:
    """The same in a store that RocketMQ left behind: its checkpoint is of the last second, its queues are of the last
    minute. The scan here begins two minutes before the checkpoint, so that the message is found even where its queue
    has no later record that would show the gap."""
    store = flightlog.open(tmp_path, SETTINGS, clock=clock)
    put_with_a_quiet_queue(store, clock)
    leave_as_killed(store)
    shutil.rmtree(tmp_path / FLIGHTLOG_FOLDER)
    (tmp_path / "abort").write_bytes(b"4711")
    write_checkpoint(RealDisk(), tmp_path, Checkpoint(clock.at_ms, clock.at_ms))
    with open(tmp_path / "consumequeue" / "t" / str(QUIET) / f"{0:020d}", "r+b") as file:
        file.seek(UNIT_SIZE)
        file.write(bytes(UNIT_SIZE))
    with flightlog.open_read_only(tmp_path) as view:
        assert len(bodies(view, QUIET)) == 2
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert store.recovery_report.last_writer.name == "ROCKETMQ_KILLED"
        assert [body[:5] for body in bodies(store, QUIET)] == [b"first", b"quiet"]
    assert_clean(tmp_path)


def lose_sector(disk: PowerDisk, start: int, stop: int) -> None:
    """Write everything back, except for [start, stop) of the first segment."""
    segment = disk.root / "commitlog" / f"{0:020d}"
    for path in sorted(disk.live):
        disk.write_back(random.Random(1), whole=path)
    synced = bytearray(disk.live[segment].synced)
    synced[start:stop] = bytes(stop - start)
    disk.live[segment].synced = bytes(synced)


def test_no_stale_tail_alive_again_after_a_second_crash(tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ's recovery truncates in memory: it moves a position, and what lies behind it stays on the disk. Once a
    new record of the right length has closed the hole, the next recovery walks into the records that were thrown away,
    and shows them again, with their queue entries.

    Here the tail is zeroed and synced before anything is appended."""
    disk: PowerDisk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put(Message("t", b"a".ljust(1000, b".")))
    inside.maintenance(store).flush_queues()
    lost = store.put(Message("t", b"b".ljust(1000, b".")))
    stale = [store.put(Message("t", name.ljust(1000, b"."))) for name in (b"c", b"d")]
    assert len(bodies(store)) == 4
    at = lost.physical_offset + SECTOR_SIZE - lost.physical_offset % SECTOR_SIZE
    lose_sector(disk, at, at + SECTOR_SIZE)
    kill(store)
    disk.cut(random.Random(1), chance=0)

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    assert [body[:1] for body in bodies(store)] == [b"a"]
    kill(store)
    disk.cut(random.Random(2), chance=0)

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    again = store.put(Message("t", b"e".ljust(1000, b".")))
    assert (again.physical_offset, again.size) == (lost.physical_offset, lost.size)
    store.flush()
    kill(store)
    disk.cut(random.Random(3), chance=0)

    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert [body[:1] for body in bodies(store)] == [b"a", b"e"]
        assert all(store.message_at(each.physical_offset) is None for each in stale)
    raw = (disk.root / "commitlog" / f"{0:020d}").read_bytes()
    assert not any(raw[stale[0].physical_offset :])
    kept = (disk.root / FLIGHTLOG_FOLDER / f"cut-{lost.physical_offset:020d}").read_bytes()
    assert b"c....." in kept and b"d....." in kept
    assert_clean(disk.root)


def test_no_torn_properties(tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ's CRC covers the body. A record whose topic or properties lost a sector in a power cut passes its
    recovery, and is given out with a part of its keys, tags and application's properties, or under another topic.

    Here each sector of such a record is lost in turn: the message is never there in part."""
    lost_sectors = 0
    at = 0
    while True:
        disk: PowerDisk = PowerDisk(tmp_path / f"store-{lost_sectors}")
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        store.put(Message("t", b"whole"))
        inside.maintenance(store).flush_queues()
        properties = {f"name-{i}": "v" * 90 for i in range(30)}
        torn = store.put(Message("t", b"torn", tags="tag", keys="key", properties=properties))
        end = torn.physical_offset + torn.size
        at = max(at, torn.physical_offset)
        if at >= end:
            store.close()
            break
        stop = min(at - at % SECTOR_SIZE + SECTOR_SIZE, end)
        lose_sector(disk, at, stop)
        kill(store)
        disk.cut(random.Random(lost_sectors), chance=0)
        with flightlog.open_read_only(disk.root) as view:
            assert bodies(view) == [b"whole"], f"bytes {at} to {stop} were lost"
        with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
            assert bodies(store) == [b"whole"]
            assert store.query("t", "key").messages == []
            store.put(Message("t", b"next"))
            assert bodies(store) == [b"whole", b"next"]
        assert_clean(disk.root)
        at, lost_sectors = stop, lost_sectors + 1
    assert lost_sectors >= 6


COUNT, DAMAGED = 40, 23


@pytest.mark.parametrize("field", ["size", "magic", "crc", "physical offset", "body", "topic size"])
@pytest.mark.parametrize("state", ["closed", "killed"])
def test_no_flipped_byte_that_throws_away_everything_behind_it(
    state: str, field: str, tmp_path: Path, leave_as_killed: Leave, assert_clean: AssertClean
) -> None:
    """RocketMQ's recovery takes the first record that does not check for the end of the log: everything behind it,
    whole segments included, is dropped, and overwritten by the next put.

    Here nothing is dropped. After a clean close only the one message is missing; where recovery meets the damage,
    opening for writing is refused by name, nothing is changed, and reading goes past it."""
    store = flightlog.open(tmp_path, SETTINGS)
    results = []
    for number in range(COUNT):
        results.append(store.put(Message("t", b"%05d" % number + bytes(700))))
        if number == 3:
            inside.maintenance(store).flush_queues()
    store.flush()
    if state == "closed":
        store.close()
    else:
        leave_as_killed(store)
    start = results[DAMAGED].physical_offset
    at = start + {"size": 3, "magic": 5, "crc": 8, "physical offset": 30, "body": 400, "topic size": 88 + 705}[field]
    flip(tmp_path, at)
    files = {path: path.read_bytes() for path in sorted(tmp_path.glob("commitlog/*"))}
    others = [number for number in range(COUNT) if number != DAMAGED]
    with flightlog.open_read_only(tmp_path) as view:
        assert numbers(view) == others
    if state == "killed":
        with pytest.raises(CorruptLogError, match="commitlog") as raised:
            flightlog.open(tmp_path, SETTINGS)
        assert raised.value.physical_offset == start
        assert raised.value.records_behind == COUNT - DAMAGED - 1
    else:
        with flightlog.open(tmp_path, SETTINGS) as store:
            with pytest.raises(CorruptRecordError):
                numbers(store, on_corrupt="raise")
            assert numbers(store) == others
    assert {path: path.read_bytes() for path in files} == files
    flip(tmp_path, at)
    with flightlog.open(tmp_path, SETTINGS) as store:
        assert numbers(store) == list(range(COUNT))
    assert_clean(tmp_path)


def flip(root: Path, physical_offset: int) -> None:
    base = physical_offset - physical_offset % SEGMENT_SIZE
    with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(physical_offset - base)
        (before,) = file.read(1)
        file.seek(physical_offset - base)
        file.write(bytes([before ^ 0x40]))


def numbers(store: Store | ReadOnlyStore, on_corrupt: str = "skip") -> list[int]:
    return [int(message.body[:5]) for message in store.read("t", 0, on_corrupt=on_corrupt)]  # type: ignore[arg-type]
