"""Recognising what a RocketMQ broker keeps in RocksDB, which flightlog does not read.

    consumequeue/CURRENT  MANIFEST-000005  000010.sst  ...                  in place of consumequeue/TOPIC/QUEUE_ID/,
                                                                            with storeType=defaultRocksDB
    config/topics/  config/subscriptionGroups/  config/consumerOffsets/     in place of config/*.json, with the same
    config/rdb/                                                             the same, with configManagerVersion=v2

As rocketmq-store and rocketmq-broker 5.3.3 write them. The commit log is the same as of any other store. A broker with
such a configuration would not see the topics that flightlog creates and the offsets that it commits, nor the reverse.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..disk.config_file import CONFIG_FOLDER
from ..disk.disk import Disk

ROCKSDB_FILE = re.compile(r"CURRENT|MANIFEST-[0-9]+|[0-9]+\.sst")
FOLDERS = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")


def has_rocksdb_files(disk: Disk, folder: Path) -> bool:
    """Whether files of RocksDB are in this folder."""
    entries = disk.list(folder)
    return any(not entry.is_folder and ROCKSDB_FILE.fullmatch(entry.name) for entry in entries)


def rocksdb_configs(disk: Disk, root: Path) -> list[str]:
    """The folders of the store that hold such a RocksDB, as `config/topics`."""
    names = (f"{CONFIG_FOLDER}/{name}" for name in FOLDERS)
    return [name for name in names if has_rocksdb_files(disk, root / name)]


def rocksdb_config_text(disk: Disk, root: Path) -> str | None:
    """The text that warns about RocksDB configuration; None without any."""
    found = rocksdb_configs(disk, root)
    if not found:
        return None
    return (
        f"{root}: its broker keeps topics, groups or offsets in RocksDB ({', '.join(found)}), which flightlog does not "
        "read: messages are all there, topics are told from topics.json and the queues, and opening for writing is "
        "refused"
    )
