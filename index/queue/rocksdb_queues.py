"""Recognising consume queues that RocketMQ keeps in RocksDB (`storeType=defaultRocksDB`): flightlog does not read them.

    consumequeue/CURRENT  MANIFEST-000005  000010.sst  000004.log  ...      in place of consumequeue/TOPIC/QUEUE_ID/

As `RocksDBConsumeQueueStore` of rocketmq-store 5.3.3 writes them. The commit log is the same as of any other store.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...store.disk.disk import Disk

ROCKSDB_FILE = re.compile(r"CURRENT|MANIFEST-[0-9]+|[0-9]+\.sst")


def has_rocksdb_files(disk: Disk, folder: Path) -> bool:
    """Whether files of RocksDB are in this folder."""
    entries = disk.list(folder)
    return any(not entry.is_folder and ROCKSDB_FILE.fullmatch(entry.name) for entry in entries)
