"""Power cuts in stores with queue extensions, light queues and a log in several folders."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.store.format.java_hash import java_hash
from flightlog.testing import kill
from flightlog.testing.power_disk import PowerDisk
from flightlog.tests.support import inside

NEVER_MS = 3_600_000
SETTINGS = StoreSettings(
    segment_size=4096,
    queue_file_entries=10,
    index_slots=5,
    index_entries=20,
    flush_interval_ms=NEVER_MS,
    queue_flush_interval_ms=NEVER_MS,
    index_flush_interval_ms=NEVER_MS,
    queue_extension=True,
    queue_extension_file_size=200,
    multi_dispatch=True,
    commit_log_folders=("log-a", "log-b"),
)
LIGHT = "%LMQ%l"


@pytest.fixture
def disk(tmp_path: Path) -> PowerDisk:
    return PowerDisk(tmp_path / "store")


def message(number: int) -> Message:
    properties = {"INNER_MULTI_DISPATCH": LIGHT} if number % 3 == 0 else {}
    body = b"%d " % number + bytes(number * 37 % 400)
    return Message("t", body, tags=f"tag{number % 2}", queue_id=0, properties=properties)


def check(store: Store, put: list[bytes], durable: int) -> list[bytes]:
    """What is there is the beginning of what was put, in every queue; returns it."""
    found = [m.body for m in store.read("t", 0)]
    assert found == put[: len(found)] and len(found) >= durable
    assert [m.body for m in store.read("t", 0, tags="tag1")] == [body for body in found if int(body.split()[0]) % 2]
    assert [m.body for m in store.read(LIGHT)] == [body for body in found if int(body.split()[0]) % 3 == 0]
    queue = inside.queue_table(store).get(("t", 0))
    if queue is not None:  # not one unit of its extension is missing
        codes = queue.resolved(queue.units(0, queue.end))["tags_code"]
        assert codes.tolist() == [java_hash(f"tag{int(body.split()[0]) % 2}") for body in found]
    report = store.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_lives_that_end_in_power_cuts(seed: int, disk: PowerDisk) -> None:
    dice = random.Random(seed)
    put: list[bytes] = []
    durable = number = 0
    is_synced = False
    for _ in range(5):
        store = flightlog.open(disk.root, SETTINGS, disk=disk)
        if is_synced:  # nothing is lost, so nothing is looked for
            assert store.recovery_report.records_scanned == 0, store.recovery_report.reason
        put = check(store, put, durable)
        for _ in range(dice.randrange(1, 6)):
            some = [message(number + i) for i in range(dice.randrange(1, 12))]
            number += len(some)
            store.put_many(some)
            put += [m.body for m in some]
            is_synced = False
            match dice.randrange(4):
                case 0:
                    store.flush()
                    durable = len(put)
                case 1:
                    inside.maintenance(store).flush_queues()
                    durable, is_synced = len(put), True
                case 2:
                    assert sum(1 for _ in store.read("t", 0)) == len(put)
        kill(store)
        if dice.randrange(3):
            disk.cut(dice, chance=dice.choice((0.0, 0.5, 1.0)))
        else:  # the process alone is gone; what it wrote is in the page cache
            disk.kill()
            durable = len(put)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        check(store, put, durable)
    with flightlog.open_read_only(disk.root, SETTINGS) as view:
        assert view.verify().is_clean


def test_units_of_a_deleted_topic_are_none_of_a_later_one(disk: PowerDisk) -> None:
    """They come back with a cut, and lie where a dead writer had put those of the new topic: the next writer rests on
    these without having made them, and must sync their names."""

    store = flightlog.open(disk.root, SETTINGS, disk=disk)
    store.put(Message("t", b"deleted", tags="A"))
    inside.maintenance(store).flush_queues()
    store.delete_topic("t")
    store.put(Message("t", b"there", tags="B"))
    assert [m.body for m in store.read("t", tags="B")] == [b"there"]  # dispatched
    kill(store)
    disk.kill()
    kill(flightlog.open(disk.root, SETTINGS, disk=disk))
    disk.cut(random.Random(1), chance=0)
    with flightlog.open(disk.root, SETTINGS, disk=disk) as store:
        assert [m.body for m in store.read("t", tags="B")] == [b"there"]
    with flightlog.open_read_only(disk.root, SETTINGS) as view:
        report = view.verify()
        assert report.is_clean, "\n".join(map(str, report.findings))
