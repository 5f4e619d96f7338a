"""A copy for a slave: all that a broker reads, holes that stay holes, and nothing written over."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings, handover
from flightlog.store.conf.broker_conf import read_broker_conf
from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.sparse_copy import copy_file
from flightlog.store.errors import (
    DiskFullError,
    InvalidArgumentError,
    StoreLockedError,
    StoreNotFoundError,
    SyncFailedError,
    UsageError,
)
from flightlog.testing import FaultyDisk, kill


def bodies(path: Path) -> list[bytes]:
    with flightlog.open_read_only(path) as view:
        return [message.body for key in sorted(view.queues()) for message in view.read(*key)]


def test_a_copy_has_all_that_a_broker_reads(
    small_store: Path, tmp_path: Path, assert_clean: Callable[[Path], object]
) -> None:
    with flightlog.open(small_store) as store:
        store.commit_offset("billing", "orders", 0, 3)
    made = handover.seed_slave(small_store, tmp_path / "new" / "slave", address="10.0.0.8")
    assert bodies(made.path) == bodies(small_store)
    names = {entry.name for entry in made.path.iterdir()}
    assert {"commitlog", "consumequeue", "index", "config", "checkpoint"} <= names
    assert names.isdisjoint({"lock", "abort", "flightlog"})
    for name in ("consumerOffset.json", "topics.json"):
        assert (made.path / "config" / name).read_bytes() == (small_store / "config" / name).read_bytes()
    assert_clean(made.path)


def test_the_conf_is_a_slaves(small_store: Path, tmp_path: Path) -> None:
    made = handover.seed_slave(
        small_store, tmp_path / "slave", address="10.0.0.8", port=20911, broker_id=2, broker_name="b"
    )
    lines = made.conf.splitlines()
    assert {"brokerId=2", "brokerRole=SLAVE", "slaveReadEnable=true", "brokerName=b", "listenPort=20911"} <= {*lines}
    assert f"storePathRootDir={tmp_path / 'slave'}" in lines
    conf = tmp_path / "slave.conf"
    conf.write_text(made.conf)
    assert read_broker_conf(conf).settings.segment_size == 1 << 20
    assert handover.check(made.path, conf).is_fit


def test_holes_stay_holes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings(segment_size=256 << 20, allocate_step_size=1 << 20)) as store:
        store.put(Message("orders", b"x"))
    made = handover.seed_slave(path, tmp_path / "slave", address="10.0.0.8")
    [segment] = (made.path / "commitlog").iterdir()
    assert segment.stat().st_size == 256 << 20
    assert RealDisk().allocated_size(segment) < 16 << 20
    assert bodies(made.path) == [b"x"]


def test_folders_of_the_log_become_one(tmp_path: Path, assert_clean: Callable[[Path], object]) -> None:
    path = tmp_path / "store"
    settings = StoreSettings.small(commit_log_folders=("log-a", str(tmp_path / "log-b")))
    with flightlog.open(path, settings) as store:
        for number in range(40):
            store.put(Message("orders", bytes([number]) * 100_000))
    made = handover.seed_slave(path, tmp_path / "slave", settings, address="10.0.0.8")
    assert len(list((made.path / "commitlog").iterdir())) >= 4 and not (made.path / "log-a").exists()
    assert f"storePathCommitLog={made.path / 'commitlog'}" in made.conf.splitlines()
    assert sorted(bodies(made.path)) == [bytes([number]) * 100_000 for number in range(40)]
    assert_clean(made.path)


def test_refusals(small_store: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="empty or not there"):
        handover.seed_slave(small_store, small_store, address="10.0.0.8")
    with pytest.raises(StoreNotFoundError):
        handover.seed_slave(tmp_path / "nothing", tmp_path / "slave", address="10.0.0.8")
    with flightlog.open(small_store), pytest.raises(StoreLockedError):
        handover.seed_slave(small_store, tmp_path / "slave", address="10.0.0.8")
    store = flightlog.open(small_store)
    kill(store)
    with pytest.raises(UsageError, match="did not close it"):
        handover.seed_slave(small_store, tmp_path / "slave", address="10.0.0.8")
    assert not (tmp_path / "slave").exists()
    flightlog.open(small_store).close()


@pytest.mark.parametrize(
    ("operation", "error", "raised"), [("write", errno.ENOSPC, DiskFullError), ("sync", errno.EIO, SyncFailedError)]
)
def test_a_disk_that_fails_raises(
    small_store: Path, tmp_path: Path, operation: str, error: int, raised: type[Exception]
) -> None:
    disk = FaultyDisk()
    disk.fail(operation, "slave/commitlog", error)
    with pytest.raises(raised):
        handover.seed_slave(small_store, tmp_path / "slave", address="10.0.0.8", disk=disk)
    flightlog.open(small_store).close()  # the lock is free again


def test_a_file_with_holes_at_both_ends(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(64 << 20)
        file.seek(20 << 20)
        file.write(b"a" * (9 << 20))
        file.seek(40 << 20)
        file.write(b"b")
    copied = copy_file(RealDisk(), source, target)
    assert 9 << 20 <= copied < 12 << 20
    assert target.read_bytes() == source.read_bytes()


def test_messages_of_a_deleted_topic_stay_away_in_the_copy(
    small_store: Path, tmp_path: Path, assert_clean: Callable[[Path], object]
) -> None:
    """Spark and views showed them again beside a slave: its folder did not tell which records are theirs."""
    with flightlog.open(small_store) as store:
        for body in (b"first life", b"second life"):
            store.create_topic("again", 1)
            store.put(Message("again", body))
            if body == b"first life":
                store.delete_topic("again")
    made = handover.seed_slave(small_store, tmp_path / "slave", address="10.0.0.8")
    with flightlog.open_read_only(small_store) as view, flightlog.open_read_only(made.path) as copy:
        assert "again" in view.deleted_topics.marked()
        assert copy.deleted_topics.marked() == view.deleted_topics.marked()
        assert copy.shutdown_state.is_clean and copy.verify().is_clean
    with flightlog.open(made.path) as store:
        assert [message.body for message in store.read("again")] == [b"second life"]
    assert_clean(made.path)
