"""Known wounds of RocketMQ that flightlog does not have: queues and key index files after a kill, a cut, or an exit
that was clean.

Each test tells what goes wrong in Apache RocketMQ 5.3.3 (or in the version that it names), and fails if the same goes
wrong here.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, ReadOnlyStore, Store, StoreSettings
from flightlog.index.key.index_file import key_hash
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.openings import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

    Leave = Callable[[Store], None]

NEVER_MS = 3_600_000
UNIT = struct.Struct(">qiq")
FILE_ENTRIES = 10
COUNT = 25
SETTINGS = StoreSettings(
    segment_size=8192,
    queue_file_entries=FILE_ENTRIES,
    index_slots=5,
    index_entries=21,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)
BEGUN = pytest.mark.parametrize("state", ["closed", "killed"])


@pytest.fixture
def make(tmp_path: Path, leave_as_killed: Leave) -> Callable[[str], Path]:
    """`make("killed")`: a queue of three files, the last of them half full, with a key for each message."""

    def made(state: str) -> Path:
        store = flightlog.open(tmp_path / "store", SETTINGS)
        store.put_many([Message("t", b"%d" % i, keys=f"k{i}") for i in range(COUNT)])
        assert len(bodies(store)) == COUNT
        inside.maintenance(store).flush_queues()
        if state == "closed":
            store.close()
        else:
            leave_as_killed(store)
        return tmp_path / "store"

    return made


def queue_files(root: Path, topic: str = "t") -> list[Path]:
    return sorted((root / "consumequeue" / topic / "0").iterdir())


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def bodies(store: Store | ReadOnlyStore, topic: str = "t") -> list[bytes]:
    return [message.body for message in store.read(topic)]


def check(root: Path, assert_clean: AssertClean, expected: list[bytes]) -> None:
    """A view and a writer list exactly these messages, and the queue goes on behind them, twice."""
    with flightlog.open_read_only(root) as view:
        assert bodies(view) == expected
    for more in (b"one more", b"and another"):
        with flightlog.open(root, SETTINGS) as store:
            assert bodies(store) == expected
            assert store.put(Message("t", more)).queue_offset == len(expected)
            expected = [*expected, more]
            assert bodies(store) == expected
        assert_clean(root)


ALL = [b"%d" % i for i in range(COUNT)]


@BEGUN
@pytest.mark.parametrize("which", ["the next", "the last", "every one"])
def test_no_empty_queue_file_that_stops_the_start(
    which: str, state: str, make: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    """A process that dies between making a queue file and giving it its length leaves an empty one. RocketMQ's load
    rule wants the configured length of every file: 4.9 does not start over it, and 5.x forgives the last one alone.

    Here an empty file is a file without entries, and what it lacks is written again."""
    root = make(state)
    if which == "the next":
        (root / "consumequeue" / "t" / "0" / f"{3 * FILE_ENTRIES * UNIT.size:020d}").write_bytes(b"")
    for path in queue_files(root)[-1:] if which == "the last" else queue_files(root) if which == "every one" else []:
        path.write_bytes(b"")
    check(root, assert_clean, ALL)


def test_no_queue_entries_past_the_logs_end_after_a_clean_exit(
    make: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    """RocketMQ cuts its log in memory, and the queues by what it remembers of them: entries of what was cut stay in the
    files, come back at the next start, and point past the log's end, or into records of other topics that were written
    there since: phantom messages, out of a store that was closed cleanly.

    Here an entry counts if its record says the same; others are gone from the disk, too."""
    root = make("closed")
    for_good = queue_files(root)[-1].read_bytes()
    for entry in ((1 << 20, 100, 0), (4096, 100, 7), (0, 95, 0)):
        with open(queue_files(root)[-1], "r+b") as file:
            file.seek(COUNT % FILE_ENTRIES * UNIT.size)
            file.write(UNIT.pack(*entry) * 3)
        with flightlog.open_read_only(root) as view:
            assert bodies(view) == ALL
        with flightlog.open(root, SETTINGS) as store:
            assert bodies(store) == ALL
        assert queue_files(root)[-1].read_bytes() == for_good
    check(root, assert_clean, ALL)


@BEGUN
@pytest.mark.parametrize("zeroed", ["the last", "every one", "one more"])
def test_no_phantom_entry_0_in_a_zeroed_queue_file(
    zeroed: str, state: str, make: Callable[[str], Path], assert_clean: AssertClean
) -> None:
    """RocketMQ's `truncateDirtyLogicFiles` takes the first 20 bytes of the last queue file for an entry without asking
    whether they are one: a file of zeros, as a power cut leaves it, adds a message of size 0 to the queue, and every
    later one gets an offset that is one too high.

    Here zeros are no entry, in whichever file, and queue offsets are those of the records."""
    root = make(state)
    size = FILE_ENTRIES * UNIT.size
    if zeroed == "one more":
        (root / "consumequeue" / "t" / "0" / f"{3 * size:020d}").write_bytes(bytes(size))
    for path in queue_files(root)[-1:] if zeroed == "the last" else queue_files(root) if zeroed == "every one" else []:
        path.write_bytes(bytes(size))
    check(root, assert_clean, ALL)


def find(store: Store | ReadOnlyStore, key: str, topic: str = "t") -> list[bytes]:
    return [message.body for message in store.query(topic, key).messages]


def test_no_index_file_lost_on_a_kill(tmp_path: Path, assert_clean: AssertClean) -> None:
    """After an unclean exit RocketMQ deletes every index file that its checkpoint does not cover: always the newest,
    for that word moves only when a file is full. It puts the keys of the last minutes again; those of older messages
    in that file are never found any more.

    Here a kill and a power cut leave every key, and what was synced of the file is not put again."""
    for loses_power in (False, True):
        disk: PowerDisk = PowerDisk(tmp_path / f"store-{loses_power}")
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        store.put_many([Message("t", b"%d" % i, keys=f"k{i}") for i in range(COUNT)])
        inside.maintenance(store).catch_up()
        inside.maintenance(store).flush_index()
        inside.maintenance(store).flush_queues()
        store.put_many([Message("t", b"%d" % i, keys=f"k{i}") for i in range(COUNT, COUNT + 5)])
        store.flush()
        newest = index_files(disk.root)[-1]
        kill(store)
        if loses_power:
            disk.cut(random.Random(1), chance=0)
        with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
            assert newest in index_files(disk.root)
            assert store.recovery_report.keys_put == 5
            assert [find(store, f"k{i}") for i in range(COUNT + 5)] == [[b"%d" % i] for i in range(COUNT + 5)]
        assert assert_clean(disk.root).index_entries == COUNT + 5


@pytest.mark.parametrize("entries", [2, 3])
@pytest.mark.parametrize("damage", ["none", "full", "beyond", "far future", "empty"])
def test_no_endless_creation_of_index_files(
    damage: str, entries: int, tmp_path: Path, leave_as_killed: Leave, assert_clean: AssertClean
) -> None:
    """RocketMQ puts a key until it is put, and makes a new file whenever it could not be: with files that hold one key
    or none, with a newest file whose header is out of range, or whose name a clock from the future gave it, it makes
    files without end, or a file at each start.

    Here there are as many files as the keys fill, whatever the newest one looks like, and however often the store is
    killed and opened again, within one millisecond if it must be."""
    settings = StoreSettings(segment_size=8192, queue_file_entries=10, index_slots=3, index_entries=entries)
    clock: HeldClock = HeldClock()
    keys = 5
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        store.put(Message("t", b"many", keys=[f"k{i}" for i in range(keys)]))
    newest = index_files(tmp_path)[-1]
    raw = newest.read_bytes()
    if damage in ("full", "beyond"):
        count = entries if damage == "full" else 1 << 30
        newest.write_bytes(raw[:36] + struct.pack(">i", count) + raw[40:])
    elif damage == "far future":
        newest.rename(newest.with_name("99981231235959999"))
    elif damage == "empty":
        newest.write_bytes(b"")
    for life in range(4):
        store = flightlog.open(tmp_path, settings, clock=clock)
        assert [find(store, f"k{i}") for i in range(keys)] == [[b"many"]] * keys
        store.put(Message("t", b"%d" % life, keys=f"life-{life}"))
        assert find(store, f"life-{life}") == [b"%d" % life]
        inside.maintenance(store).flush_index()
        leave_as_killed(store)
        assert len(index_files(tmp_path)) == -(-(keys + life + 1) // (entries - 1))
    flightlog.open(tmp_path, settings, clock=clock).close()
    assert assert_clean(tmp_path).index_entries == keys + 4


def test_no_wrong_message_by_a_key_of_the_same_hash(tmp_path: Path, assert_clean: AssertClean) -> None:
    """An index file keeps 31 bits of a hash of topic and key, and RocketMQ answers with whatever has them: `Aa` and
    `BB` are one key to it, a whole topic may be another's, and an entry may point at a record without any key.

    Here every answer is checked against its record, and the wrong ones do not use up the number that was asked for."""
    pairs = [("t", "Aa"), ("t", "BB"), ("t#A", "a"), ("t", "A#a"), ("t", "C#BB"), ("t", "C#Aa")]
    assert key_hash("t", "Aa") == key_hash("t", "BB") and key_hash("t#A", "a") == key_hash("t", "A#a")
    with flightlog.open(tmp_path, replace(SETTINGS, rocketmq_strict=False)) as store:
        for number in range(3):
            store.put_many([Message(topic, f"{topic} {key} {number}".encode(), keys=key) for topic, key in pairs])
        store.put_many([Message("t", b"later", keys="BB")] * 20)
        for topic, key in pairs:
            later = [b"later"] * 20 if (topic, key) == ("t", "BB") else []
            expected = [f"{topic} {key} {number}".encode() for number in (2, 1, 0)]
            assert find(store, key, topic) == [*later, *expected]
        assert [m.body for m in store.query("t", "Aa", max_count=2).messages] == [b"t Aa 2", b"t Aa 1"]
        assert find(store, "Aa", "u") == find(store, "AaBB") == []
        assert store.message_by_uniq_key("t", "BB") is None
    with flightlog.open_read_only(tmp_path) as view:
        assert find(view, "Aa") == [b"t Aa 2", b"t Aa 1", b"t Aa 0"]
    assert_clean(tmp_path)
