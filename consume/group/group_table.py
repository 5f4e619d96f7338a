"""The settings of a store's consumer groups: `config/subscriptionGroup.json`, in RocketMQ's shape.

    {"dataVersion": {…}, "forbiddenTable": {}, "subscriptionGroupTable": {"billing": {"consumeEnable": true, …}}}

Invariants:
- Looking up a group reads one dict, without a lock; changes hold the lock, and replace that dict last.
- What `update` and `remove` did is durable when they return. The file is first made by `update`.
- Groups and fields that were not changed are written as they were read.

RocketMQ: `SubscriptionGroupManager`, which also adds a group to the file when it first pulls; we do not.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...store.arguments import check_flag, check_group, check_type, check_whole
from ...store.disk.clock import Clock
from ...store.disk.config_file import CONFIG_FOLDER, Config, ConfigFile, next_data_version
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError
from ...store.format.record import INT32_MAX
from .group_settings import GroupSettings, changed_entry, new_entry, settings_from_json
from .retry_policy import CustomizedRetryPolicy, ExponentialRetryPolicy, RetryPolicy

GROUPS_FILE = "subscriptionGroup.json"


class GroupTable:
    """The group settings of one store that is open for writing. Thread-safe."""

    def __init__(self, disk: Disk, root: Path, clock: Clock) -> None:
        self._file = ConfigFile(disk, root / CONFIG_FOLDER / GROUPS_FILE)
        self._clock = clock
        self._lock = threading.Lock()
        self._document: Config = {}
        self._settings: dict[str, GroupSettings] = {}

    def load(self) -> None:
        """Read the file. Raises DiskError, and ConfigFileError for a file that cannot be read, nor its `.bak`."""
        document = self._file.read() or {}
        table = _table_of(document, self._file.path)
        self._settings = {name: settings_from_json(name, entry, self._file.path) for name, entry in table.items()}
        self._document = document

    def settings(self, group: str) -> GroupSettings:
        """The settings of a group: RocketMQ's defaults for one that is not in the file."""
        return self._settings.get(group) or GroupSettings(group)

    def names(self) -> list[str]:
        """The groups in the file, also those that a broker put there for itself."""
        return sorted(self._settings)

    def update(
        self,
        group: str | int,
        *,
        is_enabled: bool | None = None,
        is_broadcast_enabled: bool | None = None,
        is_ordered: bool | None = None,
        retry_queue_count: int | None = None,
        retry_max_times: int | None = None,
        retry_policy: RetryPolicy | None = None,
        consume_timeout_minutes: int | None = None,
    ) -> GroupSettings:
        """Change the settings of a consumer group that are given, and leave the rest as it is. Returns all of them.

        They are in `config/subscriptionGroup.json`, where RocketMQ's broker keeps them; a group that has none there
        gets RocketMQ's defaults for what is not given. See GroupSettings for what each means. Running members follow
        from their next message on. Durable when this returns.

        Raises InvalidArgumentError, InvalidGroupError for a new group whose name RocketMQ's clients refuse, and
        DiskError (nothing was changed).
        """
        group = check_group(group)
        changes: dict[str, Any] = {}
        for name, value in (
            ("is_enabled", is_enabled),
            ("is_broadcast_enabled", is_broadcast_enabled),
            ("is_ordered", is_ordered),
        ):
            if value is not None:
                check_flag(name, value)
                changes[name] = value
        for name, number, low in (
            ("retry_queue_count", retry_queue_count, 1),
            ("retry_max_times", retry_max_times, 0),
            ("consume_timeout_minutes", consume_timeout_minutes, 1),
        ):
            if number is not None:
                changes[name] = check_whole(name, number, low, INT32_MAX)
        if retry_policy is not None:
            kinds = (CustomizedRetryPolicy, ExponentialRetryPolicy)
            check_type("retry_policy", retry_policy, kinds, "CustomizedRetryPolicy or ExponentialRetryPolicy, or None")
            changes["retry_policy"] = retry_policy
        with self._lock:
            table = _table_of(self._document, self._file.path)
            entry = changed_entry(table.get(group) or new_entry(group), changes)
            settings = settings_from_json(group, entry, self._file.path)
            self._write({"subscriptionGroupTable": {**table, group: entry}})
            self._settings = {**self._settings, group: settings}
            return settings

    def remove(self, group: str) -> None:
        """Take a group out of the file, with what is forbidden to it. Raises DiskError (nothing was changed)."""
        with self._lock:
            if group not in self._settings:
                return
            changes = {}
            for key in ("subscriptionGroupTable", "forbiddenTable"):
                table = self._document.get(key)
                if isinstance(table, dict):
                    changes[key] = {name: entry for name, entry in table.items() if name != group}
            self._write(changes)
            self._settings = {name: settings for name, settings in self._settings.items() if name != group}

    def _write(self, changes: Mapping[str, Any]) -> None:
        version = next_data_version(self._document, self._clock.now_ms())
        document = {"forbiddenTable": {}, **self._document, "dataVersion": version, **changes}
        self._file.write(document)
        self._document = document


def _table_of(document: Config, path: Path) -> dict[str, Any]:
    table = document.get("subscriptionGroupTable", {})
    if not isinstance(table, dict):
        raise ConfigFileError(path, f"a subscriptionGroupTable that is a {type(table).__name__}", "an object")
    return table
