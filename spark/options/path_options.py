"""Which stores a read is of: the options `path` and `paths`, as `load` hands them over.

load("/data/store")                     one
load(["/data/a", "/data/b"])            several; Spark hands them over as `paths`, a JSON array
load("/data/broker-*")                  every folder that the pattern matches and that holds a store
load("s3://bucket/broker-*")            the same in what no machine mounts (storages.py)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from ...store.errors import InvalidSettingsError, StoreNotFoundError
from ...store.segments.log_files import COMMIT_LOG_FOLDER
from ..remote.addresses import Address, split_address
from ..remote.locations import StoreLocation
from ..remote.remote_disk import RemoteDisk
from ..remote.storages import storage_of
from .store_patterns import Folders, LocalFolders, is_pattern, matching_stores

PATH_NAMES = ("path", "paths", "storageOptions")
SQL_WAY = "CREATE TABLE name USING flightlog OPTIONS (path '/folder/of/the/store')"
"""Without columns: Spark asks the source for them, and at no other time hands a table's options over."""


def parse_stores(given: Mapping[str, str]) -> tuple[StoreLocation, ...]:
    """The stores that these options name, each once: in the order given, those of a pattern by their names.

    `given` has the options' names in lower case. Raises InvalidSettingsError, and StoreNotFoundError for a pattern
    that matches none.
    """
    storage_options = _storage_options(given.get("storageoptions"))
    paths: dict[Path, Address | None] = {}  # in order
    for text in _texts(given):
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
    return tuple(
        StoreLocation(name, path, _uri(path, address), address, storage_options if address else "")
        for name, (path, address) in zip(_names([*paths]), paths.items(), strict=True)
    )


def may_name_several(given: Mapping[str, str]) -> bool:
    """Whether these options can name more than one store, however many there are today: then rows say which one they
    are from."""
    return len(texts := _texts(given)) > 1 or any(map(is_pattern, texts))


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
    """The path of a store or a pattern, and how to get there if it is not mounted."""
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
