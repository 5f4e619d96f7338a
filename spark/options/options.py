"""What `.option(name, value)` may say to the source.

    path, paths      the folders that hold the stores' commitlog/; what load() is given (path_options.py)
    storageOptions   a JSON object for the library that reads a remote store (storages.py)
    columns          the columns to read, with commas between; all by default, and every one costs time. `store` is
                     one of them by default where path can name several stores
    includeInternal  true: prepared and rollback records and RocketMQ's internal topics too
    includeHeaders   true: a column `headers`, the properties as Kafka's source has headers
    decompress       true: bodies as they were before compression; what cannot be decompressed is damage
    onCorrupt        fail (default): a damaged record fails the query; skip: it is left out, counted and logged; rows:
                     it is a row that says so in a column `_corrupt`
    tags, pushDownPredicate
                     what need not be read (bounds_options.py)
    splitBytes       about how many bytes of the log one task reads, of queues in a batch a quarter; 256 MiB by default
    minPartitions    how many tasks there are at least, as far as there are records; 1 by default

    and those of selection_options.py, which choose queues, offsets and times; to a stream those of stream_options.py

Names are taken in any case, as everywhere in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ...engine.columns.schema import COLUMNS, Column
from ...store.errors import InvalidSettingsError
from ..remote.locations import StoreLocation
from .bounds import NO_BOUNDS, Bounds
from .bounds_options import BOUNDS_NAMES, parse_bounds, parse_pushes
from .columns import CORRUPT, HEADERS, STORE, find_column, require_corrupt
from .path_options import PATH_NAMES, may_name_several, parse_stores
from .selection import EVERYTHING, Selection
from .selection_options import SELECTION_NAMES, parse_selection
from .stream_options import PLAIN_STREAM, STREAM_NAMES, StreamOptions, parse_stream_options

OnCorrupt = Literal["fail", "skip", "rows"]

DEFAULT_SPLIT_BYTES = 256 << 20  # smaller tasks cost more than they spread, larger ones leave cores idle
MIN_SPLIT_BYTES = 4096

NAMES = (
    *PATH_NAMES,
    *("columns", "includeInternal", "includeHeaders", "decompress", "onCorrupt", "splitBytes", "minPartitions"),
    *BOUNDS_NAMES,
    *SELECTION_NAMES,
    *STREAM_NAMES,
)
PARTITIONS = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, checked."""

    stores: tuple[StoreLocation, ...]
    """One at least."""
    shows_store: bool = False
    """Whether `store` is one of all columns."""
    columns: tuple[str, ...] = ()
    """Empty: all."""
    include_internal: bool = False
    include_headers: bool = False
    decompress: bool = False
    on_corrupt: OnCorrupt = "fail"
    bounds: Bounds = NO_BOUNDS
    pushes_filters: bool = False
    split_bytes: int = DEFAULT_SPLIT_BYTES
    min_partitions: int = 1
    selection: Selection = EVERYTHING
    stream: StreamOptions = PLAIN_STREAM

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns that these options add."""
        choices = ((HEADERS, self.include_headers), (CORRUPT, self.on_corrupt == "rows"))
        return tuple(column for column, is_added in choices if is_added)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of a query that names none, in order."""
        return (*COLUMNS, *((STORE,) if self.shows_store else ()), *self.added)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options as Spark hands them over. Raises InvalidSettingsError with what was expected."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - {name.lower() for name in NAMES})
    if unknown:
        raise InvalidSettingsError(f"option {unknown[0]!r}: unknown; expected one of {', '.join(NAMES)}")
    selection = parse_selection(given, include_internal=_flag("includeInternal", given))
    parsed = ReadOptions(
        stores=parse_stores(given),
        shows_store=may_name_several(given),
        include_internal=_flag("includeInternal", given),
        include_headers=_flag("includeHeaders", given),
        decompress=_flag("decompress", given),
        on_corrupt=_on_corrupt(given.get("oncorrupt", "fail")),
        bounds=parse_bounds(given) & selection.bounds,
        pushes_filters=parse_pushes(given),
        split_bytes=_split_bytes(given["splitbytes"]) if "splitbytes" in given else DEFAULT_SPLIT_BYTES,
        min_partitions=_min_partitions(given.get("minpartitions", "1")),
        selection=selection,
        stream=parse_stream_options(given),
    )
    if "columns" in given:
        parsed = replace(parsed, columns=_columns(given["columns"], parsed.added))
    return parsed


def _columns(text: str, added: tuple[Column, ...]) -> tuple[str, ...]:
    names = tuple(find_column(name.strip(), added).name for name in text.split(","))
    if len(set(names)) != len(names):
        raise InvalidSettingsError(f"columns={text!r}: a column is named twice")
    require_corrupt(names, added)
    return names


def _flag(name: str, given: Mapping[str, str]) -> bool:
    text = given.get(name.lower(), "false")
    if text.lower() not in ("true", "false"):
        raise InvalidSettingsError(f"{name}={text!r}: expected true or false")
    return text.lower() == "true"


def _on_corrupt(text: str) -> OnCorrupt:
    match text.lower():
        case "fail":
            return "fail"
        case "skip":
            return "skip"
        case "rows":
            return "rows"
    raise InvalidSettingsError(f"onCorrupt={text!r}: expected fail, skip or rows")


def _split_bytes(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits) < MIN_SPLIT_BYTES:
        raise InvalidSettingsError(f"splitBytes={text!r}: expected a whole number of bytes, {MIN_SPLIT_BYTES} or more")
    return int(digits)


def _min_partitions(text: str) -> int:
    digits = text.strip()
    if not PARTITIONS.fullmatch(digits) or int(digits) == 0:
        raise InvalidSettingsError(f"minPartitions={text!r}: expected a number of tasks, 1 or more")
    return int(digits)
