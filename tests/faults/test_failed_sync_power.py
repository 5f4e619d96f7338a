"""A sync that fails, a restart, and then a power cut.

After a failed sync Linux takes the pages for clean: they are read as they were written, the next sync of the file
succeeds without writing them, and a power cut takes them. What a restart finds above the durable mark is therefore
written again before the store rests on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.store.errors import SyncFailedError
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=8192,
    queue_file_entries=10,
    index_slots=5,
    index_entries=50,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
    max_auto_queue_count=128,
)
LATER_QUEUE = 1


@pytest.fixture
def disk(tmp_path: Path) -> PowerDisk:
    return PowerDisk(tmp_path / "store")


def bodies(store: Store, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in store.read("t", queue_id)]


def fail(store: Store, disk: PowerDisk, part: str, round_: Callable[[], None]) -> None:
    """Let a flush round fail, and the store end as one that was killed."""
    disk.fails_syncs_of = part
    with pytest.raises(SyncFailedError):
        round_()
    kill(store)
    disk.fails_syncs_of = ""


@pytest.mark.parametrize("count", [1, 25])
def test_queue_entries_are_written_again(count: int, disk: PowerDisk, assert_clean: AssertClean) -> None:
    """The sum of the queues' ends must not betray it: another queue is longer by as much than the page says."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([Message("t", b"0"), Message("t", b"0", queue_id=LATER_QUEUE)])
    inside.maintenance(store).flush_queues()
    store.put_many([Message("t", b"1")] * count)
    assert len(bodies(store)) == 1 + count
    fail(store, disk, "consumequeue", inside.maintenance(store).flush_queues)

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([Message("t", b"1", queue_id=LATER_QUEUE)] * count)
    store.flush()
    assert len(bodies(store, LATER_QUEUE)) == 1 + count
    for path in sorted((disk.root / "consumequeue" / "t" / str(LATER_QUEUE)).iterdir()):
        disk.write_back(random.Random(1), whole=path)
    kill(store)
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == bodies(store, LATER_QUEUE)[: 1 + count] == [b"0"] + [b"1"] * count
    assert_clean(disk.root)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("count", [1, 60])
def test_records_are_written_again(count: int, times: int, disk: PowerDisk, assert_clean: AssertClean) -> None:
    """Else there is a hole below the durable mark, and the store does not open."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    put = [b"first"]
    store.put(Message("t", put[0]))
    store.flush()
    for number in range(times):
        lost = [b"%d %d " % (number, i) + bytes(400) for i in range(count)]
        store.put_many([Message("t", body) for body in lost])
        put += lost
        fail(store, disk, "commitlog", store.flush)
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        assert bodies(store) == put
    store.put(Message("t", b"last"))
    store.flush()
    kill(store)
    disk.cut(random.Random(count), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert bodies(store) == [*put, b"last"]
    assert_clean(disk.root)


@pytest.mark.parametrize("rounds", range(1, 4))
def test_keys_are_put_again(rounds: int, disk: PowerDisk, assert_clean: AssertClean) -> None:
    def keys(start: int) -> list[Message]:
        return [Message("t", b"x", keys=f"k{start + i}") for i in range(12)]

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many(keys(0))
    inside.maintenance(store).catch_up()
    inside.maintenance(store).flush_index()
    for number in range(rounds):
        store.put_many(keys(100 * (number + 1)))
        inside.maintenance(store).catch_up()
        fail(store, disk, "/index/", inside.maintenance(store).flush_index)
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
    kill(store)
    disk.cut(random.Random(rounds), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        for number in range(rounds + 1):
            for i in range(12):
                assert len(store.query("t", f"k{100 * number + i}").messages) == 1
    assert_clean(disk.root)


@pytest.mark.parametrize("queues", [3, 70])
def test_queues_synced_together_are_there_after_a_cut(queues: int, disk: PowerDisk, assert_clean: AssertClean) -> None:
    """Files and every folder that is new: one by one, or from 64 on all at once."""
    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put_many([Message(f"t{i % 7}", b"%d" % i, queue_id=i) for i in range(queues)])
    inside.maintenance(store).flush_queues()
    kill(store)
    disk.cut(random.Random(queues), chance=0)
    assert len(list((disk.root / "consumequeue").glob("*/*/*"))) == queues
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert store.recovery_report.records_scanned == 0
        assert sum(end for _, end in store.queues().values()) == queues
    assert_clean(disk.root)
