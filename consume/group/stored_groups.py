"""The groups of a store as its files tell of them: for readers, which have no members."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...engine.topics.offset_table import read_offsets
from ...store.disk.clock import SystemClock
from ...store.disk.disk import Disk
from ...store.queue_offsets import QueueKey
from .group_state import GroupState, is_system_group, lag_of
from .group_table import GroupTable


def stored_groups(
    disk: Disk, root: Path, bounds: Mapping[QueueKey, tuple[int, int]], *, include_system: bool = False
) -> dict[str, GroupState]:
    """As `Store.groups`; `bounds` are those of the store's queues. Raises ConfigFileError, DiskError."""
    table = GroupTable(disk, root, SystemClock())
    table.load()
    offsets = read_offsets(disk, root)
    return {
        name: GroupState(
            name,
            topics=tuple(sorted(offsets.get(name, {}))),
            members=(),
            lag=sum(lag_of(offsets.get(name, {}), bounds).values()),
            is_ordered=table.settings(name).is_ordered,
            is_broadcasting=False,
            settings=table.settings(name),
        )
        for name in sorted(offsets.keys() | set(table.names()))
        if include_system or not is_system_group(name)
    }
