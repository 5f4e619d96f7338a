"""Small state files, `config/NAME.json`: written whole, so that a reader finds the old content or the new one.

    NAME.json.tmp   written and synced first
    NAME.json       takes the name `NAME.json.bak`, if it could be read; then the new file takes its name
    folder          synced: the write is durable when it returns

RocketMQ writes these files with fastjson, which leaves whole numbers that are keys without quotes, as in `{0:12}`, and
overwrites them in place. So a reader takes both kinds of keys, and where the file is missing, empty or damaged it takes
`.bak`, as RocketMQ's `ConfigManager#load` does. Ours quotes every key; RocketMQ's reader takes both as well.
"""

from __future__ import annotations

import json
import logging
import math
import re
from pathlib import Path
from typing import Any

from ..errors import ConfigFileError
from .disk import Disk

log = logging.getLogger("flightlog.store")

CONFIG_FOLDER = "config"

MAX_CONFIG_SIZE = 256 << 20
"""Bytes; some 100 times what 10,000 topics take."""

MAX_DEPTH = 64
"""Objects and arrays in one another; RocketMQ's files have five."""

Config = dict[str, Any]

# A text, or a whole number that stands where a key does. Texts come first, so that nothing inside one is taken for a
# key; no group is ever tried twice (`++`, `*+`), so hostile files cost no more than their length.
TEXT_OR_NUMBER_KEY = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?|(?P<before>[{,]\s*+)(?P<key>-?[0-9]++)(?P<after>\s*+:)', re.DOTALL
)


class ConfigFile:
    """One such file. Used by one thread at a time; readers in other processes need no lock."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk, self.path = disk, path
        self._keeps_backup = False
        """Whether the file is sound: a damaged one must not take the place of a sound `.bak`."""

    def read(self) -> Config | None:
        """What the file says, else `.bak`; None where there is neither. Raises ConfigFileError if a file is there and
        none can be read, and DiskError."""
        self._keeps_backup = False
        problem: ConfigFileError | None = None
        for path in (self.path, self._sibling(".bak")):
            try:
                raw = self._content(path)
                if not raw:
                    continue  # RocketMQ's way to write leaves an empty file when it dies at the wrong moment
                found = self._parse(raw, path)
            except ConfigFileError as e:
                problem = problem or e
                continue
            if problem is not None:
                log.warning("%s; took %s", problem, path.name, extra={"path": str(self.path)})
            self._keeps_backup = path == self.path
            return found
        if problem is not None:
            raise problem
        return None

    def write(self, content: Config) -> None:
        """Replace the content; durable when this returns. If it raises (DiskFullError, SyncFailedError, DiskError) a
        reader finds the old content or the new one."""
        raw = self._dump(content)
        folder, new = self.path.parent, self._sibling(".tmp")
        self._disk.make_folder(folder)
        file = self._disk.open(new, writable=True, create=True)
        try:
            file.resize(0)  # what an interrupted write left there
            file.write(0, raw)
            file.sync()
        finally:
            file.close()
        if self._keeps_backup:
            self._keeps_backup = False
            self._disk.rename(self.path, self._sibling(".bak"))
        self._disk.rename(new, self.path)
        self._keeps_backup = True
        self._disk.sync_folder(folder)

    def _parse(self, raw: bytes, path: Path) -> Config:
        return parse_config(raw, path)

    def _dump(self, content: Config) -> bytes:
        return json.dumps(content, indent="\t", separators=(",", ":"), allow_nan=False).encode()

    def _content(self, path: Path) -> bytes:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return b""
        try:
            size = file.size()
            if size > MAX_CONFIG_SIZE:
                raise _too_large(path)
            return file.read(0, size)
        finally:
            file.close()

    def _sibling(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def parse_config(raw: bytes, path: Path) -> Config:
    """The object that a state file holds, its keys as text. Raises ConfigFileError for anything else: what is no JSON
    in RocketMQ's spelling, keys that come twice, numbers that no JSON can hold, and nesting without end."""
    if len(raw) > MAX_CONFIG_SIZE:
        raise _too_large(path)
    try:
        text = TEXT_OR_NUMBER_KEY.sub(_quoted, raw.decode())
        found = json.loads(
            text, object_pairs_hook=_without_doubles, parse_float=_finite, parse_constant=_refused_constant
        )
    except UnicodeDecodeError as e:
        raise ConfigFileError(path, f"byte {e.start} is not UTF-8", "JSON") from e
    except RecursionError as e:
        raise ConfigFileError(path, "nested too deeply", "JSON as RocketMQ writes it") from e
    except ValueError as e:  # also JSONDecodeError, and whole numbers of more than 4,300 digits
        raise ConfigFileError(path, str(e), "JSON as RocketMQ writes it") from e
    if not isinstance(found, dict):
        raise ConfigFileError(path, f"a {type(found).__name__}", "a JSON object")
    if not _is_shallow(found):
        raise ConfigFileError(path, f"more than {MAX_DEPTH} levels of nesting", "JSON as RocketMQ writes it")
    return found


def next_data_version(document: Config, now_ms: int) -> Config:
    """RocketMQ's `dataVersion` of the content that comes after this one."""
    before = document.get("dataVersion")
    version = {"counter": 0, "stateVersion": 0, **(before if isinstance(before, dict) else {})}
    counter = version["counter"]
    return version | {"counter": counter + 1 if isinstance(counter, int) else 1, "timestamp": now_ms}


def _too_large(path: Path) -> ConfigFileError:
    return ConfigFileError(path, f"more than {MAX_CONFIG_SIZE} bytes", "a state file")


def _is_shallow(found: Config) -> bool:
    """Whether what was read can be written again: that goes down a level a call."""
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return not level


def _quoted(match: re.Match[str]) -> str:
    key = match["key"]
    return match[0] if key is None else f'{match["before"]}"{key}"{match["after"]}'


def _without_doubles(pairs: list[tuple[str, Any]]) -> Config:
    found = dict(pairs)
    if len(found) < len(pairs):
        known: set[str] = set()
        double = next(key for key, _ in pairs if key in known or known.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {double[:100]!r} comes twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _refused_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
