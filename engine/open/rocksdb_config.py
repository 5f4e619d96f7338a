"""Recognising what a broker keeps in RocksDB in place of `config/*.json`: flightlog reads and writes the JSON alone.

    config/topics/  config/subscriptionGroups/  config/consumerOffsets/     with storeType=defaultRocksDB
    config/rdb/                                                             with configManagerVersion=v2

As the config managers of rocketmq-broker 5.3.3 name them. Topics that flightlog makes and offsets that it commits would
not be known to such a broker, nor its own to flightlog.
"""

from __future__ import annotations

from pathlib import Path

from ...index.queue.rocksdb_queues import has_rocksdb_files
from ...store.disk.config_file import CONFIG_FOLDER
from ...store.disk.disk import Disk

FOLDERS = ("topics", "subscriptionGroups", "consumerOffsets", "rdb")


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
