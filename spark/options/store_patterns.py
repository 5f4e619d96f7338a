"""Patterns that name stores: `/data/broker-*`.

`*`, `?` and `[...]` stand for what they do in a shell, within one component of the path. What is there under exactly
the given name is no pattern.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from ...store.disk.disk_errors import disk_errors
from ...store.segments.log_files import COMMIT_LOG_FOLDER

WILD = re.compile(r"[*?[]")


class Folders(Protocol):
    """Where patterns are looked up."""

    def exists(self, path: Path) -> bool: ...

    def folder_names(self, folder: Path) -> list[str]:
        """The folders in this folder; none where there is no such folder. Raises DiskError."""


class LocalFolders:
    """Of local and mounted file systems. Links are followed: a pattern may lead to a link to a store's folder."""

    def exists(self, path: Path) -> bool:
        with disk_errors(path, "looking for it"):
            return path.exists()

    def folder_names(self, folder: Path) -> list[str]:
        with disk_errors(folder, "listing it"):
            try:
                with os.scandir(folder) as entries:
                    return [entry.name for entry in entries if entry.is_dir()]
            except (FileNotFoundError, NotADirectoryError):
                return []


def is_pattern(path: Path | str) -> bool:
    """Whether this can name several stores."""
    return WILD.search(str(path)) is not None


def matching_stores(root: Path, pattern: Path, folders: Folders) -> list[Path]:
    """The folders with a `commitlog` in them that a pattern matches, which lies below `root`; by name; or just
    `pattern` where it is none. Raises DiskError."""
    parts = pattern.relative_to(root).parts
    if not any(map(is_pattern, parts)) or folders.exists(pattern):
        return [pattern]
    found = [root]
    for part in parts:
        if is_pattern(part):
            found = [folder / name for folder in found for name in _matching(folders.folder_names(folder), part)]
        else:
            found = [folder / part for folder in found]
    return [path for path in found if folders.exists(path / COMMIT_LOG_FOLDER)]


def _matching(names: list[str], part: str) -> list[str]:
    """As in a shell, a leading dot is matched by a dot alone."""
    return sorted(name for name in names if fnmatchcase(name, part) and name.startswith(".") <= part.startswith("."))
