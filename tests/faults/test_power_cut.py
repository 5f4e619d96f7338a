"""Power cuts that once took more than they may: each is the smallest case of what random lives found.

What was synced is there afterwards; of the rest the log keeps its beginning, whole messages alone, and the store opens.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

import flightlog
from flightlog import FlushMode, Message, PutResult, PutStatus, Store, StoreSettings
from flightlog.engine.dispatch.dispatcher import Dispatcher
from flightlog.store.errors import DiskError
from flightlog.store.state.progress import read_progress
from flightlog.testing import kill
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=4096,
    queue_file_entries=10,
    index_slots=5,
    index_entries=20,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)


@pytest.fixture
def disk(tmp_path: Path) -> PowerDisk:
    return PowerDisk(tmp_path / "store")


def bodies(store: Store, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in store.read(topic, queue_id)]


@pytest.mark.parametrize("seed", range(20))
def test_a_new_store_opens_after_its_first_power_cut(seed: int, disk: PowerDisk, assert_clean: AssertClean) -> None:
    """Its progress page must be found again, by name: else its torn tail looks like damage in a log of RocketMQ's."""
    put = [b"%d" % i + bytes(600) for i in range(12)]
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([Message("t", body) for body in put])
    kill(store)
    disk.cut(random.Random(seed), chance=0.5)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        found = bodies(store)
        assert found == put[: len(found)]
    assert_clean(disk.root)


def test_a_message_without_its_properties_is_a_torn_tail(disk: PowerDisk, assert_clean: AssertClean) -> None:
    """No CRC covers them, and what never reached the disk is zero."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put(Message("t", b"synced"))
    store.flush()
    first = store.put(Message("t", b"whole", tags="A"))
    torn = store.put(Message("t", bytes(150), tags="A", keys="k" * 100))
    kill(store)
    boundary = 512
    assert first.physical_offset + first.size < boundary < torn.physical_offset + torn.size
    assert torn.physical_offset + 91 + 1 + 150 < boundary, "the properties begin in the first sector"
    disk.cut(random.Random(1), chance=1)
    with open(disk.root / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(boundary)
        file.write(bytes(4096 - boundary))
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == [b"synced", b"whole"]
        assert store.recovery_report.end == torn.physical_offset
    assert_clean(disk.root)


def test_entries_of_a_killed_writer_are_synced_before_the_store_rests_on_them(
    disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """Recovery finds them as they should be, in the page cache alone."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([Message("t", b"0"), Message("t", b"0", queue_id=1)])
    inside.maintenance(store).flush_queues()
    store.put(Message("t", b"1"))
    assert bodies(store) == [b"0", b"1"]
    kill(store)
    disk.kill()
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put(Message("t", b"1", queue_id=1))
    store.flush()
    assert bodies(store, queue_id=1) == [b"0", b"1"]
    disk.write_back(random.Random(1), whole=disk.root / "consumequeue" / "t" / "1" / f"{0:020d}")
    kill(store)
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == bodies(store, queue_id=1) == [b"0", b"1"]
    assert_clean(disk.root)


@pytest.mark.parametrize("operations", range(8))
def test_a_segment_that_a_dead_writer_had_just_made_is_whole_after_a_cut(
    operations: int, disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """The next writer uses it without having made it: its length must be durable before there is a later one."""
    message = Message("t", bytes(1800))
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([message, message])
    store.flush()
    disk.die_after = operations
    with contextlib.suppress(Died):
        store.put(message)
    kill(store)
    disk.kill()
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    count = len(bodies(store))
    store.put_many([message] * 4)
    kill(store)
    disk.cut(random.Random(operations), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert len(bodies(store)) >= count
    assert_clean(disk.root)


@pytest.mark.parametrize("properties", [{}, {"a": "\0"}, {"a": "x" * 300}])
def test_whole_messages_are_not_taken_for_torn_ones(
    properties: dict[str, str], disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """Wherever in a sector their parts begin and end: all of it had reached the disk, though nobody synced it."""
    put = [bytes(size) for size in range(513)]
    store = flightlog.open(disk.root, replace(SETTINGS, rocketmq_strict=False), disk=disk)
    store.put_many([Message("t", body, properties=properties) for body in put])
    kill(store)
    disk.cut(random.Random(1), chance=1)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == put
        assert not store.recovery_report.cut
    assert_clean(disk.root)


@pytest.mark.parametrize("segments", [0, 1, 3])
def test_empty_segments_at_the_end_are_removed_by_the_next_writer(
    segments: int, disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """Their names reached the disk before their lengths. RocketMQ would not start over more than one of them."""
    put = [b"%d" % i + bytes(3000) for i in range(segments)]
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        store.put_many([Message("t", body) for body in put])
    log_folder = disk.root / "commitlog"
    names = [f"{number * 4096:020d}" for number in range(segments, segments + 4)]
    for name in names:
        disk.open(log_folder / name, writable=True, create=True).close()
    with flightlog.open_read_only(disk.root) as view:
        assert [message.body for message in view.read("t")] == put
        assert (log_folder / names[-1]).exists()
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert sorted(path.name for path in log_folder.iterdir()) == [f"{i * 4096:020d}" for i in range(segments)]
        store.put(Message("t", b"next" + bytes(3000)))
        assert bodies(store) == [*put, b"next" + bytes(3000)]
    assert assert_clean(disk.root).records == segments + 1


@pytest.mark.parametrize("seed", range(5))
def test_entries_that_a_cut_took_of_messages_that_retention_took(
    seed: int, disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """Recovery fills their places up; they lie before the queue's first message, so nobody misses them."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    for number in range(4):
        store.put(Message("t", b"%d" % number))
    inside.maintenance(store).flush_queues()
    store.put_many([Message("t", b"%d" % number + bytes(600)) for number in range(4, 40)])
    store.flush()
    assert len(bodies(store)) == 40
    assert store.clean_up(retention_hours=0).segments
    first, end = store.queues()["t", 0]
    kill(store)
    disk.cut(random.Random(seed), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert 4 < first <= store.queues()["t", 0][0] and store.queues()["t", 0][1] == end == 40
        assert [int(body[:2].strip(b"\0")) for body in bodies(store)] == list(range(first, end))
    assert_clean(disk.root)


@pytest.mark.parametrize("end", ["kill", "cut"])
def test_queues_that_a_put_made_outlive_an_opening_that_dies(
    end: str, disk: PowerDisk, assert_clean: AssertClean
) -> None:
    """Once `abort` names its epoch and the progress page does not yet, the next one takes the last writer for RocketMQ,
    whose topics have as many queues as their file says."""
    is_through = False
    for operations in itertools.count():
        topic = f"t{operations}"
        store = flightlog.open(disk.root, replace(SETTINGS, flush_mode=FlushMode.SYNC, put_adds_queues=True), disk=disk)
        store.create_topic(topic, 1)
        assert store.put(Message(topic, b"acknowledged", queue_id=3)).status is PutStatus.PUT_OK
        kill(store)
        disk.kill()
        disk.die_after = operations
        try:
            store = flightlog.open(disk.root, SETTINGS, disk=disk)
            is_through = True
            kill(store)
        except Died:
            pass
        if end == "kill":
            disk.kill()
        else:
            disk.cut(random.Random(operations), chance=0)
        with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
            found = store.topic(topic)
            assert found is not None and (found.read_queue_count, found.write_queue_count) == (4, 4), operations
            assert bodies(store, topic, 3) == [b"acknowledged"]
        if is_through:
            break
    assert operations > 10
    assert_clean(disk.root)


def test_what_is_cut_is_kept_whenever_the_next_cut_comes(disk: PowerDisk, assert_clean: AssertClean) -> None:
    """The copy of a torn tail is durable before the tail is zeroed, and so is its name: an opening dies at each of its
    operations, and nothing is left but what it has synced."""
    is_through, zeroed = False, 0
    for operations in itertools.count():
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        store.put(Message("t", b"flushed"))
        store.flush()
        torn = store.put(Message("t", b"torn %d" % operations + b"." * 600))
        kill(store)
        path = disk.root / "commitlog" / f"{torn.physical_offset // 4096 * 4096:020d}"
        at = torn.physical_offset % 4096
        with path.open("r+b") as file:
            file.seek(at + 8)
            file.write(b"\xff" * 8)
        disk.cut(random.Random(operations), chance=1)
        tail = path.read_bytes()[at : at + torn.size]
        assert b"torn %d." % operations in tail
        disk.die_after = operations
        try:
            store = flightlog.open(disk.root, SETTINGS, disk=disk)
            is_through = True
            kill(store)
        except Died:
            pass
        disk.cut(random.Random(operations), chance=0)
        kept = [kept.read_bytes() for kept in (disk.root / "flightlog").glob("cut-*")]
        is_in_log = path.exists() and path.read_bytes()[at : at + torn.size] == tail
        assert is_in_log or any(tail.rstrip(b"\0") in content for content in kept), f"lost at operation {operations}"
        zeroed += not is_in_log
        if is_through:
            break
    assert operations > 10 and zeroed > 1
    flightlog.open(disk.root, SETTINGS, disk=disk).close()
    assert_clean(disk.root)


@pytest.mark.parametrize("flushed", ["queues", "keys"])
def test_a_mark_of_queues_or_keys_is_never_ahead_of_the_flushed_log(
    flushed: str, disk: PowerDisk, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """A reader dispatches what was put after the log was synced, before its queue is. A cut takes that record; what
    comes in its place is not passed over when the queues are next brought up to the log."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put(Message("t", b"kept", keys="kept"))
    name = "sync_queues" if flushed == "queues" else "prepare_index_flush"
    real = getattr(Dispatcher, name)
    late: list[PutResult] = []

    def after_a_reader(self: Dispatcher, *arguments: Any) -> Any:
        if not late:
            late.append(store.put(Message("t", b"late", keys="late")))
            assert bodies(store) == [b"kept", b"late"] and store.query("t", "late").messages
        return real(self, *arguments)

    monkeypatch.setattr(Dispatcher, name, after_a_reader)
    if flushed == "queues":
        inside.maintenance(store).flush_queues()
    else:
        inside.maintenance(store).flush_index()
    assert len(late) == 1 and inside.log(store).flushed <= late[0].physical_offset
    progress = read_progress(disk, disk.root)
    assert progress is not None
    assert max(progress.queues_flushed, progress.index_flushed) == progress.flushed == late[0].physical_offset
    kill(store)
    disk.cut(random.Random(0), chance=0)
    for body in (b"other", b"another"):
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        store.put(Message("t", body + bytes(10), keys="new"))
        store.flush()
        kill(store)
        disk.cut(random.Random(0), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == [b"kept", b"other" + bytes(10), b"another" + bytes(10)]
        assert len(store.query("t", "new").messages) == 2 and not store.query("t", "late").messages
    assert_clean(disk.root)


def test_a_topic_that_was_there_stays_over_a_power_cut(disk: PowerDisk, assert_clean: AssertClean) -> None:
    """The file of topics had its new name, and the sync of its folder failed: who opens the store sees the topic."""

    def refuse(path: Path) -> None:
        raise DiskError(f"{path}: sync_folder: Input/output error")

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.create_topic("before", queue_count=1)
    with patch.object(disk, "sync_folder", refuse), pytest.raises(DiskError):
        store.create_topic("made", queue_count=2)
    store.close()
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    there = store.topics()["made"]
    kill(store)
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert store.topics()["made"] == there and there.queue_count == 2
    assert_clean(disk.root)
