"""A folder to start a slave on: a copy of the store, without what is flightlog's own."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from ..engine.backup.store_copy import StoreCopy
from ..engine.open.shutdown_state import read_shutdown_state
from ..store.arguments import checked_path
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import StoreLock
from ..store.errors import InvalidArgumentError, StoreNotFoundError, UsageError
from ..store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders
from ..store.settings import StoreSettings
from .broker_conf import broker_conf
from .sizes import with_sizes


@dataclass(frozen=True, slots=True)
class SeededSlave:
    """What `seed_slave` made."""

    path: Path
    conf: str
    """The text of the slave's `broker.conf`."""
    copied_size: int
    """Bytes, holes not counted."""


def seed_slave(
    path: str | os.PathLike[str],
    slave: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    address: str,
    port: int | None = None,
    broker_id: int = 1,
    broker_name: str | None = None,
    cluster_name: str = "DefaultCluster",
    name_server: str = "127.0.0.1:9876",
    disk: Disk | None = None,
) -> SeededSlave:
    """Copy the closed store in `path` into the new folder `slave`, from which a RocketMQ slave starts, and give its
    conf. An empty slave of a master without a controller has only what comes behind the master's last segment.

    The slave fetches from its master what the copy lacks. `address` and `port` are the slave's own, the names must be
    the master's. Holes stay holes. The store is locked meanwhile, so that nobody opens it for writing, and is not
    changed. The copy is durable when this returns; after an error what was copied is left: remove the folder.

    Raises UsageError for a store that was not closed cleanly, InvalidArgumentError for a folder with something in it,
    StoreNotFoundError, StoreLockedError, DiskFullError, SyncFailedError, DiskError.
    """
    root, target = checked_path("path", path), checked_path("slave", slave)
    disk = disk or RealDisk()
    folders = LogFolders.of(root, settings or StoreSettings())
    if not folders.one_exists(disk):
        raise StoreNotFoundError(f"{root}: no {COMMIT_LOG_FOLDER}/ in it; expected the folder of a store")
    if disk.list(target):
        raise InvalidArgumentError("slave", slave, "a folder that is empty or not there: nothing is written over")
    lock = StoreLock.acquire(root)
    try:
        if not read_shutdown_state(disk, root, tolerant=True, folders=folders).is_clean:
            raise UsageError(
                f"{root}: its last writer did not close it. Open and close it once, so that it is recovered"
            )
        copy = StoreCopy(disk, root, target, settings or StoreSettings(), for_broker=True)
        copy.run()
        sizes = with_sizes(disk, root, settings or StoreSettings())
    finally:
        lock.release()
    conf = broker_conf(
        target,
        replace(sizes, commit_log_folders=(), commit_log_read_only_folders=()),
        address=address,
        port=port,
        broker_id=broker_id,
        broker_name=broker_name,
        cluster_name=cluster_name,
        name_server=name_server,
    )
    return SeededSlave(target, conf, copy.copied_size)
