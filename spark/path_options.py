"""Which stores a read is of: the options `path` and `paths`, as `load` hands them over.

load("/data/store")                     one
load(["/data/a", "/data/b"])            several; Spark hands them over as `paths`, a JSON array
load("/data/broker-*")                  every folder that the pattern matches and that holds a store
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..store.errors import InvalidSettingsError, StoreNotFoundError
from ..store.log_files import COMMIT_LOG_FOLDER
from .locations import StoreLocation
from .store_patterns import LocalFolders, is_pattern, matching_stores

PATH_NAMES = ("path", "paths")
SQL_WAY = "CREATE TABLE name USING flightlog OPTIONS (path '/folder/of/the/store')"
"""Without columns: Spark asks the source for them, and at no other time hands a table's options over."""

URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def parse_stores(given: Mapping[str, str]) -> tuple[StoreLocation, ...]:
    """The stores that these options name, each once: in the order given, those of a pattern by their names.

    `given` has the options' names in lower case. Raises InvalidSettingsError, and StoreNotFoundError for a pattern
    that matches none.
    """
    paths: dict[Path, None] = {}  # in order
    for text in _texts(given):
        found = matching_stores(_local_path(text), LocalFolders())
        if not found:
            raise StoreNotFoundError(
                f"{text}: matches no store; expected a pattern of folders that hold {COMMIT_LOG_FOLDER}/"
            )
        paths.update(dict.fromkeys(found))
    return tuple(StoreLocation(name, path, str(path)) for name, path in zip(_names([*paths]), paths, strict=True))


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


def _local_path(text: str) -> Path:
    if not text:
        raise InvalidSettingsError(
            f'no path: expected spark.read.format("flightlog").load("/folder/of/the/store"), or in SQL {SQL_WAY}, '
            "or CREATE TEMPORARY VIEW; without a list of columns, and for reading alone"
        )
    if not URI.match(text):
        return Path(os.path.abspath(text))
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidSettingsError(f"path {text!r}: expected a local or mounted folder, as a plain path or file:/...")
    return Path(os.path.abspath(unquote(parts.path)))


def _names(paths: Sequence[Path]) -> list[str]:
    """As many last components of each path as tell the stores apart: `broker-a`, or `east/broker` and `west/broker`."""
    for count in range(1, max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-count:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
