"""Rows of columns on failing disks: as durable as puts, and as honest."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, PutStatus, StoreSettings
from flightlog.store.errors import StorePoisonedError, SyncFailedError
from flightlog.testing import kill
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.testing.power_disk import PowerDisk

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

BODIES = [b"%d" % i + bytes(100) for i in range(300)]
SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=60_000,
    sync_flush_timeout_ms=240_000,
)
NEVER_MS = 3_600_000


def test_one_sync_for_all_rows(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path / "store", SYNC, disk=disk) as store:
        store.append_columns("t", {"body": BODIES[:1]})
        before = disk.count("sync", "commitlog/")
        assert store.append_columns("t", {"body": BODIES}).status is PutStatus.PUT_OK
        assert disk.count("sync", "commitlog/") == before + 1
    assert assert_clean(tmp_path / "store").records == len(BODIES) + 1


def test_a_sync_that_fails_is_raised_and_refuses_what_comes(
    tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    store = flightlog.open(tmp_path / "store", SYNC, disk=disk)
    store.append_columns("t", {"body": BODIES[:10]})
    disk.fail("sync", "commitlog/", errno.EIO)
    with pytest.raises(SyncFailedError):
        store.append_columns("t", {"body": BODIES})
    disk.heal()
    with pytest.raises(StorePoisonedError):
        store.append_columns("t", {"body": BODIES})
    assert [message.body for message in store.read("t")] == BODIES[:10], "only what is durable can be read"
    assert store.read_batch("t").num_rows == 10
    store.close()
    with flightlog.open(tmp_path / "store", SYNC) as store:
        found = [message.body for message in store.read("t")]
        assert found == [*BODIES[:10], *BODIES][: len(found)] and len(found) >= 10
    assert_clean(tmp_path / "store")


@pytest.mark.parametrize("seed", range(6))
def test_after_a_power_cut_the_synced_rows_and_a_beginning_of_the_others_are_there(
    seed: int, tmp_path: Path, assert_clean: AssertClean
) -> None:
    power = PowerDisk(tmp_path / "store")
    settings = StoreSettings(
        segment_size=16 << 10, queue_file_entries=50, flush_interval_ms=NEVER_MS, queue_flush_interval_ms=NEVER_MS
    )
    store = flightlog.open(power.root, settings, disk=power)
    store.append_columns("t", {"body": BODIES[:100]})
    store.flush()
    store.append_columns("t", {"body": BODIES[100:]})
    kill(store)
    power.cut(random.Random(seed), chance=0.5)
    with flightlog.open(power.root, settings, disk=power) as store:
        found = [message.body for message in store.read("t")]
        assert found == BODIES[: len(found)] and len(found) >= 100
        assert store.append_columns("t", {"body": [b"next"]}).queue_offsets.tolist() == [len(found)]
    assert_clean(power.root)
