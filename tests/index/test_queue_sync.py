"""What of the queues is to be synced, and how: file by file, or all of them at once."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from flightlog.index.queue.queue_sync import MANY_FILES, Unsynced
from flightlog.index.queue.queue_table import QueueTable
from flightlog.index.queue.queue_unit import UNIT_DTYPE
from flightlog.store.errors import DiskError, SyncFailedError, TooManyFilesError
from flightlog.testing.faulty_disk import FaultyDisk


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def table_of(disk: FaultyDisk, root: Path, queues: int) -> QueueTable:
    """One entry in each of so many queues."""
    table = QueueTable(disk, root, 10, in_memory=False)
    for queue_id in range(queues):
        table.get_or_create(("t", queue_id)).put(0, np.array([(queue_id * 100, 100, 0)], UNIT_DTYPE))
    return table


def test_few_files_are_synced_one_by_one(disk: FaultyDisk, tmp_path: Path) -> None:
    table = table_of(disk, tmp_path, MANY_FILES - 1)
    assert disk.count("sync_folder") == 0, "a queue that is made waits for no disk"
    unsynced = table.unsynced.take()
    table.sync(unsynced)
    assert (disk.count("sync_all"), disk.count("sync")) == (0, MANY_FILES - 1)
    topic = tmp_path / "consumequeue" / "t"
    for folder in (topic / "0", topic, topic.parent, tmp_path):
        assert folder in unsynced.folders and disk.counts["sync_folder", str(folder)] == 1
    table.get_or_create(("t", 3)).put(1, np.array([(5000, 100, 0)], UNIT_DTYPE))
    again = table.unsynced.take()
    assert again == Unsynced({topic / "3" / f"{0:020d}"}), "no folder has changed"
    table.close()


def test_many_files_are_synced_at_once(disk: FaultyDisk, tmp_path: Path) -> None:
    table = table_of(disk, tmp_path, MANY_FILES)
    disk.open_file_system = lambda path: None  # type: ignore[method-assign]
    one_by_one = table_of(disk, tmp_path / "other", MANY_FILES)
    one_by_one.sync(one_by_one.unsynced.take())
    assert (disk.count("sync_all"), disk.count("sync", "other")) == (0, MANY_FILES)
    if table._file_system is not None:  # else this one does not tell of failures
        table.sync(table.unsynced.take())
        assert disk.count("sync_all") == 1 and disk.count("sync", str(tmp_path / "consumequeue")) == 0
        table.close()


@pytest.mark.parametrize("queues", [1, MANY_FILES])
def test_a_sync_that_fails(queues: int, disk: FaultyDisk, tmp_path: Path) -> None:
    table = table_of(disk, tmp_path, queues)
    disk.fail("sync", "", errno.EIO)
    disk.fail("sync_all", "", errno.EIO)
    with pytest.raises(SyncFailedError, match="Input/output error"):
        table.sync(table.unsynced.take())


@pytest.mark.parametrize("queues", [1, MANY_FILES])
def test_a_file_that_is_gone(queues: int, disk: FaultyDisk, tmp_path: Path) -> None:
    """Syncing the others would call it durable."""
    table = table_of(disk, tmp_path, queues)
    (tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}").unlink()
    with pytest.raises(DiskError, match="is gone although its store is open"):
        table.sync(table.unsynced.take())


def test_what_had_no_descriptor_is_still_to_be_synced(disk: FaultyDisk, tmp_path: Path) -> None:
    table = table_of(disk, tmp_path, 3)
    unsynced = table.unsynced.take()
    disk.fail("open", "", errno.EMFILE)
    with pytest.raises(TooManyFilesError, match="Too many open files.*Nothing is lost.*ulimit -n"):
        table.sync(unsynced)
    table.unsynced.take_back(unsynced)
    disk.heal()
    assert table.unsynced.take() == unsynced
    table.sync(unsynced)
    assert disk.count("sync") == 3
