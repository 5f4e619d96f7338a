"""Differences in what two stores keep in `config/`: group offsets, groups, delay offsets, and other settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...store.disk.config_file import CONFIG_FOLDER, ConfigFile
from ...store.disk.disk import Disk
from .difference import Difference, DifferenceKind

TOPICS_FILE, OFFSETS_FILE = "topics.json", "consumerOffset.json"
VERSION = "dataVersion"
"""Counts how often a broker wrote the file; two that say the same may differ in it."""
GROUP_SEPARATOR = "@"
Leaves = dict[tuple[str, ...], str]


def state_differences(disk: Disk, a: Path, b: Path) -> Iterator[Difference]:
    """Compare every `config/*.json` but the topics, which a view reads. A file that is missing says nothing. Raises
    ConfigFileError for one that cannot be read, nor its `.bak`, and DiskError."""
    names = {name for root in (a, b) for name in _file_names(disk, root)}
    for name in sorted(names - {TOPICS_FILE}):
        leaves, others = (_leaves(ConfigFile(disk, root / CONFIG_FOLDER / name).read() or {}) for root in (a, b))
        for path in sorted(leaves.keys() | others.keys()):
            values = leaves.get(path), others.get(path)
            if values[0] != values[1]:
                yield _difference(name, path, *values)


def _file_names(disk: Disk, root: Path) -> Iterator[str]:
    for entry in disk.list(root / CONFIG_FOLDER):
        name = entry.name.removesuffix(".bak")
        if name.endswith(".json") and not entry.is_folder:
            yield name


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Leaves:
    """Every value that is no object, by the keys that lead to it."""
    if not isinstance(value, dict):
        return {path: json.dumps(value)}
    return {k: v for key, inner in value.items() if key != VERSION for k, v in _leaves(inner, (*path, key)).items()}


def _difference(name: str, path: tuple[str, ...], a: str | None, b: str | None) -> Difference:
    if name == OFFSETS_FILE and len(path) == 3 and GROUP_SEPARATOR in path[1] and path[2].isdecimal():
        topic, _, group = path[1].partition(GROUP_SEPARATOR)
        return Difference(DifferenceKind.GROUP_OFFSET, group, "offset", a, b, topic, int(path[2]))
    return Difference(DifferenceKind.SETTING, name, ".".join(path), a, b)
