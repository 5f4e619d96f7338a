"""The stores of a read: the options `path` and `paths` as `load` passes them, and the location of each store.

load("/data/store")                     one
load(["/data/a", "/data/b"])            several; Spark passes them as `paths`, a JSON array
load("/data/broker-*")                  every folder that the pattern matches and that holds a store
load("s3://bucket/broker-*")            the same in what no machine mounts (storages.py)

In a pattern `*`, `?` and `[...]` mean what they mean in a shell, within one component of the path. The name of an
existing folder is never a pattern.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from ...engine.read_only import ReadOnlyStore, open_read_only
from ...store.disk.disk import Disk, RealDisk
from ...store.disk.disk_errors import disk_errors
from ...store.errors import InvalidSettingsError, StoreNotFoundError
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders
from ...store.settings import StoreSettings
from ..remote.remote_disk import RemoteDisk
from ..remote.storages import Address, split_address, storage_of
from .store_settings import SETTINGS, settings_of

SQL_WAY = "CREATE TABLE name USING flightlog OPTIONS (path '/folder/of/the/store')"
"""Without columns: then Spark asks the source for them, and only then passes the options of a table."""
WILD = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """One store of a query, as it travels from the driver to tasks. Two of one query differ in `name` and in `uri`."""

    name: str
    """The value of the column `store`."""
    path: Path
    """The store's folder, as a path of `disk()`."""
    uri: str
    """Its name in errors and logs."""
    address: Address | None = None
    """Where it is; None for a local or mounted folder."""
    storage_options: str = field(default="", repr=False)
    """JSON for the library that reads it. It may contain a password, so it is never shown."""
    settings: StoreSettings = SETTINGS
    """What it is opened with."""

    @classmethod
    def local(cls, path: Path) -> StoreLocation:
        """A single store in a local or mounted folder."""
        return cls(path.name, path, str(path))

    def disk(self) -> Disk:
        """The disk that reads this store's files, in the driver and in tasks. Raises as `storage_of`."""
        if self.address is None:
            return RealDisk()
        return RemoteDisk(storage_of(self.address, self.storage_options), self.address.root, self.path)

    def open(self) -> ReadOnlyStore:
        """A read-only view of the store. Raises StoreNotFoundError."""
        return open_read_only(self.path, self.settings, disk=self.disk())

    def require_store(self) -> None:
        """Raises StoreNotFoundError if no store is there: when the DataFrame is created, not when it is used."""
        disk, folders = self.disk(), LogFolders.of(self.path, self.settings)
        if folders.one_exists(disk):
            return
        if self.settings != SETTINGS:
            names = ", ".join(map(str, folders.all))
            raise StoreNotFoundError(f"{self.uri}: no log in {names}; expected what the option settings names")
        found = f"no {COMMIT_LOG_FOLDER}/ in it" if disk.exists(self.path) else "no such folder"
        raise StoreNotFoundError(
            f"{self.uri}: {found}; expected the folder of a store, the one that holds {COMMIT_LOG_FOLDER}/, or the "
            "option settings for a log in other folders"
        )


def parse_stores(given: Mapping[str, str]) -> tuple[tuple[StoreLocation, ...], bool]:
    """The stores that these options name, without duplicates: in the order given, those of a pattern by name. And
    whether the options can name more than one store: then rows have a column `store`.

    `given` has the options' names in lower case. Raises InvalidSettingsError, and StoreNotFoundError for a pattern
    that matches none.
    """
    storage_options = _storage_options(given.get("storageoptions"))
    paths: dict[Path, Address | None] = {}  # in order
    texts = _texts(given)
    for text in texts:
        address, path = _place(text)
        folders: Folders = LocalFolders()
        if address is not None and is_pattern(text):
            folders = RemoteDisk(storage_of(address, storage_options), address.root, None)
        found = matching_stores(Path(address.root if address else path.anchor), path, folders)
        if not found:
            raise StoreNotFoundError(
                f"{text}: matches no store; expected a pattern of folders that hold {COMMIT_LOG_FOLDER}/"
            )
        paths.update(dict.fromkeys(found, address))
    if storage_options and not any(paths.values()):
        raise InvalidSettingsError("storageOptions: expected beside an address such as s3://bucket/folder alone")
    settings = settings_of(given, next(iter(paths)))
    is_several = len(texts) > 1 or any(map(is_pattern, texts))
    _check_settings(given, settings, is_several=is_several, is_remote=any(paths.values()))
    stores = (
        StoreLocation(name, path, _uri(path, address), address, storage_options if address else "", settings)
        for name, (path, address) in zip(_names([*paths]), paths.items(), strict=True)
    )
    return tuple(stores), is_several


def _check_settings(given: Mapping[str, str], settings: StoreSettings, *, is_several: bool, is_remote: bool) -> None:
    if is_remote and "settings" in given:
        raise InvalidSettingsError("settings: expected beside local or mounted stores alone")
    if is_several and (settings.commit_log_folders or settings.commit_log_read_only_folders):
        raise InvalidSettingsError(
            f"settings={given['settings']!r}: it names the folders of one store's log, and several stores are read; "
            "expected one path"
        )


def _texts(given: Mapping[str, str]) -> list[str]:
    if "paths" not in given:
        return [given.get("path", "")]
    try:
        texts = json.loads(given["paths"])
    except json.JSONDecodeError:
        texts = None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidSettingsError(
            f'paths={given["paths"]!r}: expected a JSON array of paths, as ["/data/a", "/data/b"]'
        )
    if "path" in given:
        raise InvalidSettingsError(f"path={given['path']!r} beside paths={given['paths']!r}: expected one of them")
    return texts


def _place(text: str) -> tuple[Address | None, Path]:
    """The path of a store or a pattern, and its address if it is remote."""
    if not text:
        raise InvalidSettingsError(
            f'no path: expected spark.read.format("flightlog").load("/folder/of/the/store"), or in SQL {SQL_WAY}, '
            "or CREATE TEMPORARY VIEW; without a list of columns, and for reading alone. Of a table that saveAsTable "
            "or CREATE TABLE ... AS SELECT made Spark tells no Python source where its rows are: DROP TABLE (the store "
            f"stays), then {SQL_WAY}"
        )
    found = split_address(text)
    if found is None:
        return None, Path(os.path.abspath(text))
    address, path = found
    if address.scheme != "file":
        return address, Path(address.root + path)
    if address.authority not in ("", "localhost"):
        raise InvalidSettingsError(f"path {text!r}: expected a local or mounted folder, as a plain path or file:/...")
    return None, Path(os.path.abspath(unquote(path)))


def _uri(path: Path, address: Address | None) -> str:
    return str(path) if address is None else f"{address.root}/{path.relative_to(address.root).as_posix()}"


def _storage_options(text: str | None) -> str:
    """Checked, and as given."""
    if text is None:
        return ""
    try:
        is_right = isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        is_right = False
    if not is_right:  # without the text: it may hold a password
        raise InvalidSettingsError('storageOptions: expected a JSON object, as {"endpoint_override": "localhost:9000"}')
    return text


def _names(paths: Sequence[Path]) -> list[str]:
    """As many last components of each path as tell the stores apart: `broker-a`, or `east/broker` and `west/broker`."""
    for count in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


class Folders(Protocol):
    """A file system to match patterns in."""

    def exists(self, path: Path) -> bool: ...

    def folder_names(self, folder: Path) -> list[str]:
        """The folders in this folder; none where there is no such folder. Raises DiskError."""


class LocalFolders:
    """Local and mounted file systems. Links are followed: a pattern may match a link to a store."""

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
    """The folders with a `commitlog` that match a pattern below `root`, by name; `pattern` itself if it is not a
    pattern. Raises DiskError."""
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
    """As in a shell, only a dot matches a leading dot."""
    return sorted(name for name in names if fnmatchcase(name, part) and name.startswith(".") <= part.startswith("."))
