"""Known wounds of RocketMQ that flightlog does not have: what is acknowledged, what is shown, and what the checkpoint
says while nothing is durable yet.

Each test tells what goes wrong in Apache RocketMQ 5.3.3 (or in the version that it names), and fails if the same goes
wrong here.
"""

from __future__ import annotations

import errno
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, Store, StoreSettings
from flightlog.store.disk.disk import RealDisk
from flightlog.store.errors import StorePoisonedError, SyncFailedError
from flightlog.store.state.checkpoint import read_checkpoint
from flightlog.store.state.progress import progress_path, read_progress
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import Died, PowerDisk
from flightlog.tests.support import inside
from flightlog.tests.support.openings import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=4096,
    queue_file_entries=10,
    index_slots=5,
    index_entries=50,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
)
SYNC = StoreSettings.small(
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    sync_flush_timeout_ms=240_000,
)


@pytest.fixture
def held_clock() -> HeldClock:
    return HeldClock()


def bodies(store: Store | flightlog.ReadOnlyStore, topic: str = "t", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in store.read(topic, queue_id)]


def fail_one_sync(disk: PowerDisk, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sync of such a file fails, and all later ones succeed, for nothing: its pages count as clean."""
    meet = disk.meet

    def meet_and_heal() -> None:
        meet()
        if any(inode.lost for inode in disk.live.values()):
            disk.fails_syncs_of = ""

    monkeypatch.setattr(disk, "meet", meet_and_heal)
    disk.fails_syncs_of = part


def test_no_ack_after_a_failed_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    """RocketMQ's GroupCommitService calls `force` up to a thousand times until one succeeds, and answers PUT_OK. On
    Linux the second call succeeds because the kernel has taken the pages for clean, without having written them: the
    power then takes a message that was acknowledged.

    Here the put raises, every later one is refused, and after a power cut everything acknowledged is there."""
    disk: PowerDisk = PowerDisk(tmp_path / "store")
    store = flightlog.open(disk.root, SYNC, disk=disk)
    acknowledged = []
    for number in range(20):
        if number == 5:
            fail_one_sync(disk, "commitlog", monkeypatch)
        try:
            result = store.put(Message("t", b"%d " % number + bytes(500)))
        except (SyncFailedError, StorePoisonedError) as e:
            assert isinstance(e, SyncFailedError) == (number == 5)
        else:
            assert result.status is PutStatus.PUT_OK
            acknowledged.append(b"%d " % number + bytes(500))
    assert len(acknowledged) == 5
    store.close()
    disk.fails_syncs_of = ""
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SYNC, disk=disk) as store:
        assert bodies(store)[:5] == acknowledged and len(bodies(store)) <= 6
    assert_clean(disk.root)


def test_no_second_fsync_after_a_failed_one(disk: FaultyDisk, tmp_path: Path, assert_clean: AssertClean) -> None:
    """The same retry, seen at the disk: after a failed sync of the log there is no other sync of it, whoever asks
    (puts, flushes, waiting futures, the closing), until the store is opened anew."""
    store = flightlog.open(tmp_path / "store", SYNC, disk=disk)
    store.put(Message("t", b"durable"))
    disk.fail("sync", "commitlog/", errno.EIO, times=1)
    with pytest.raises(SyncFailedError):
        store.put(Message("t", b"lost or not"))
    syncs = disk.count("sync", "commitlog/") + disk.count("sync_all")
    for ask in (
        lambda: store.put(Message("t", b"x")),
        lambda: store.put_many([Message("t", b"x")]),
        lambda: store.put_async(Message("t", b"x")).result(),
        store.flush,
        inside.maintenance(store).flush_queues,
    ):
        with pytest.raises(StorePoisonedError):
            ask()
    assert bodies(store) == [b"durable"]
    store.close()
    assert disk.count("sync", "commitlog/") + disk.count("sync_all") == syncs
    with flightlog.open(tmp_path / "store", SYNC, disk=disk) as store:
        assert bodies(store)[0] == b"durable"
        store.put(Message("t", b"after"))
        assert bodies(store)[-1] == b"after"
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("wait_store_ok", [True, False])
def test_no_read_of_unflushed_data_under_sync_flush(
    wait_store_ok: bool, disk: FaultyDisk, tmp_path: Path, assert_clean: AssertClean
) -> None:
    """RocketMQ before 5.3 dispatches records that are not flushed, and later versions still serve them by physical
    offset: a consumer acts upon a message that a power cut then takes, and another one comes at its place.

    Here a record is shown under sync flush once it is durable, whichever way it is asked for and whoever asks."""
    path = tmp_path / "store"
    store = flightlog.open(path, SYNC, disk=disk)
    first = store.put(Message("t", b"durable", keys="k", uniq_key="u1"))
    disk.hold("sync", "commitlog/")
    late = Message("t", b"not yet", keys="k", uniq_key="u2", wait_store_ok=wait_store_ok)
    putter = threading.Thread(target=store.put, args=(late,))
    putter.start()
    try:
        assert disk.held.acquire(timeout=240)  # its sync hangs: the record is appended, and not durable
        place = first.physical_offset + first.size
        assert inside.log(store).end > place
        with flightlog.open_read_only(path) as view:
            for reading in (store, view):
                assert bodies(reading) == [b"durable"]
                assert reading.queues() == {("t", 0): (0, 1)}
                assert [m.body for m in reading.get("t", 0, 0).messages] == [b"durable"]
                assert not reading.get("t", 0, 1).messages
                assert [m.body for m in reading.query("t", "k").messages] == [b"durable"]
                assert reading.message_at(place) is None
                assert reading.message_by_uniq_key("t", "u2") is None
                assert reading.offset_at("t", 0, 1 << 62) == 1
    finally:
        disk.release()
        putter.join()
    store.flush()
    assert bodies(store) == [b"durable", b"not yet"]
    found = store.message_at(place)
    assert found is not None and found.body == b"not yet"
    store.close()
    assert_clean(path)


def entries_on_disk(root: Path, queue_id: int) -> int:
    """How many entries lie in the files of a queue, as they are."""
    raw = b"".join(path.read_bytes() for path in sorted((root / "consumequeue" / "t" / str(queue_id)).glob("0*")))
    return sum(any(raw[at : at + 20]) for at in range(0, len(raw), 20))


def test_no_checkpoint_ahead_of_the_queues(held_clock: HeldClock, tmp_path: Path, assert_clean: AssertClean) -> None:
    """RocketMQ notes the time of every queue entry that it has put into the page cache, and writes that time into the
    checkpoint each second, synced, while the queues themselves are synced each minute. After a power cut recovery
    begins behind what the checkpoint says was dispatched: entries are missing for good.

    Here the power fails at each operation of a flush of the queues, with checkpoint and progress page written back as
    early as can be and nothing else: neither speaks of an entry that is not on the disk, and all messages are there."""
    cuts, died = 0, True
    while died:
        disk: PowerDisk = PowerDisk(tmp_path / f"store-{cuts}")
        died = flush_queues_and_cut(disk, Died, held_clock, cuts)
        with flightlog.open(disk.root, SETTINGS, disk=disk, clock=held_clock) as store:
            assert [len(bodies(store, "t", queue_id)) for queue_id in (0, 1)] == [15, 15]
        assert_clean(disk.root)
        cuts += 1
    assert cuts > 10


def flush_queues_and_cut(disk: PowerDisk, died: type[BaseException], clock: HeldClock, operations: int) -> bool:
    """30 messages, 12 of them in synced queues, the others dispatched; then the power fails after so many operations of
    a flush of the queues, if there are as many, which is returned."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk, clock=clock)
    results = []
    for number in range(30):
        clock.at_ms += 10_000
        results.append(store.put(Message("t", b"%d" % number + bytes(300), queue_id=number % 2)))
        if number == 11:
            inside.maintenance(store).flush_queues()
    store.flush()
    assert store.queues() == {("t", 0): (0, 15), ("t", 1): (0, 15)}
    disk.die_after = operations
    has_died = False
    try:
        inside.maintenance(store).flush_queues()
    except died:
        has_died = True
    disk.kill()
    for early in (disk.root / "checkpoint", progress_path(disk.root)):
        disk.write_back(random.Random(1), whole=early)
    kill(store)
    disk.cut(random.Random(operations), chance=0)
    covered = min(2 * entries_on_disk(disk.root, queue_id) for queue_id in (0, 1))
    checkpoint, progress = read_checkpoint(RealDisk(), disk.root), read_progress(RealDisk(), disk.root)
    assert checkpoint is not None and progress is not None and covered >= 12
    assert checkpoint.logics_timestamp_ms <= results[covered - 1].store_timestamp_ms
    assert progress.queues_flushed <= results[covered - 1].physical_offset + results[covered - 1].size
    return has_died
