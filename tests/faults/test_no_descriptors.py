"""A process that has no descriptor left, at every place where a file is opened: a named error, no poison, nothing
lost, and the store goes on by itself once there are descriptors."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, StoreSettings
from flightlog.store.errors import DiskError, TooManyFilesError
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.faults.conftest import AssertClean

NEVER_MS = 3_600_000
QUEUES = 70
"""More than are synced one by one."""


def settings(mode: FlushMode) -> StoreSettings:
    return StoreSettings(
        segment_size=8192,
        queue_file_entries=10,
        index_slots=10,
        index_entries=20,
        flush_mode=mode,
        flush_interval_ms=NEVER_MS,
        queue_flush_interval_ms=NEVER_MS,
        index_flush_interval_ms=NEVER_MS,
        max_auto_queue_count=128,
    )


def refused(do: Callable[[], object]) -> bool:
    """Whether it failed, for want of a descriptor and nothing else."""
    try:
        do()
    except TooManyFilesError as e:
        assert "Too many open files" in str(e) and "ulimit -n" in str(e)
        return True
    return False


def bodies(store: flightlog.Store) -> dict[int, list[bytes]]:
    return {queue_id: [message.body for message in store.read("t", queue_id)] for queue_id in (0, 1)}


@pytest.mark.ci
@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("operation", ["open", "create"])
def test_no_descriptor_for_any_one_file(
    operation: str, mode: FlushMode, tmp_path: Path, new_disk: Callable[[], FaultyDisk], assert_clean: AssertClean
) -> None:
    """The third round of a life, with one open that fails: its first one, its second, and so on to the last."""
    number, hit = 0, True
    while hit:
        path, disk = tmp_path / str(number), new_disk()
        with flightlog.open(path, settings(mode), disk=disk) as store:
            known: dict[int, list[bytes]] = {0: [], 1: []}
            for i in range(24):
                if i == 16:
                    fault = disk.fail(operation, "", errno.EMFILE, skip=number, times=1)
                message = Message("t", b"%d" % i + bytes(700), queue_id=i % 2, keys=f"k{i}")
                if not refused(lambda message=message: store.put(message)):  # type: ignore[misc]
                    known[i % 2].append(message.body)
                for work in (
                    inside.maintenance(store).dispatch,
                    inside.maintenance(store).flush_queues,
                    inside.maintenance(store).flush_index,
                ):
                    refused(work)
                assert inside.log(store).poison is None
            disk.heal()
            assert bodies(store) == known
            store.put(Message("t", b"last"))
            known[0].append(b"last")
            assert bodies(store) == known
            for i in range(24):
                assert len(store.query("t", f"k{i}").messages) <= 1
        assert bodies_at(path) == known
        assert assert_clean(path).records == sum(map(len, known.values()))
        hit = fault.hits > 0
        number += 1
    assert number > 2


def bodies_at(path: Path) -> dict[int, list[bytes]]:
    with flightlog.open_read_only(path) as view:
        return {queue_id: [message.body for message in view.read("t", queue_id)] for queue_id in (0, 1)}


@pytest.mark.parametrize("mode", FlushMode)
def test_messages_wait_in_the_log_for_descriptors(
    mode: FlushMode, tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean
) -> None:
    """Puts are refused while queues cannot be written, as on a full disk, and are taken again by themselves."""
    path = tmp_path / "store"
    with flightlog.open(path, settings(mode), disk=disk) as store:
        store.put(Message("t", b"before"))
        assert bodies(store)[0] == [b"before"]
        inside.queue_table(store).files.forget_all()
        disk.fail("open", "consumequeue/", errno.EMFILE)
        disk.fail("create", "consumequeue/", errno.ENFILE)
        store.put(Message("t", b"waits"))
        with pytest.raises(TooManyFilesError):
            inside.maintenance(store).dispatch()
        with pytest.raises(TooManyFilesError):
            store.put(Message("t", b"refused"))
        with pytest.raises(DiskError):
            list(store.read("t"))
        disk.heal()
        store.put(Message("t", b"after"))
        assert bodies(store)[0] == [b"before", b"waits", b"after"]
    assert assert_clean(path).records == 3


def test_queue_files_that_had_no_descriptor_are_synced_by_the_next_round(tmp_path: Path, disk: FaultyDisk) -> None:
    with flightlog.open(tmp_path / "store", settings(FlushMode.ASYNC), disk=disk) as store:
        store.put(Message("t", b"x"))
        inside.maintenance(store).dispatch()
        inside.queue_table(store).files.forget_all()
        disk.fail("open", "consumequeue/", errno.EMFILE)
        with pytest.raises(TooManyFilesError):
            inside.maintenance(store).flush_queues()
        disk.heal()
        synced = disk.count("sync", "consumequeue/")
        inside.maintenance(store).flush_queues()
        assert disk.count("sync", "consumequeue/") == synced + 1


def test_many_queues_synced_at_once_or_poisoned(tmp_path: Path, disk: FaultyDisk, assert_clean: AssertClean) -> None:
    """A failed sync of the file system is a failed sync: nothing that it should have written is called durable."""
    path = tmp_path / "store"
    store = flightlog.open(path, settings(FlushMode.ASYNC), disk=disk)
    store.put_many([Message("t", b"x", queue_id=queue_id) for queue_id in range(QUEUES)])
    disk.fail("sync_all", "", errno.EIO)
    disk.fail("sync", "consumequeue/", errno.EIO)  # where the file system would not tell
    with pytest.raises(DiskError, match="the sync failed"):
        inside.maintenance(store).flush_queues()
    inside.maintenance(store).poison(InterruptedError("as the flush service does"))
    store.close()
    disk.heal()
    with flightlog.open(path, disk=disk) as store:
        assert store.recovery_report.records_scanned == QUEUES
        assert len(store.queues()) == QUEUES
    assert assert_clean(path).records == QUEUES
