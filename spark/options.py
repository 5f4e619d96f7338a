"""What `.option(name, value)` may say to the source.

    path, paths      the folders that hold the stores' commitlog/; what load() is given (path_options.py)
    columns          the columns to read, with commas between; all by default, and every one costs time. `store` is
                     one of them by default where path can name several stores
    includeInternal  true: prepared and rollback records and RocketMQ's internal topics too
    onCorrupt        fail (default): a damaged record fails the query; skip: it is left out, counted and logged
    splitBytes       about how many bytes of the log one task reads; 256 MiB by default

Names are taken in any case, as everywhere in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..store.errors import InvalidSettingsError
from .columns import find_column
from .locations import StoreLocation
from .path_options import PATH_NAMES, SQL_WAY, may_name_several, parse_stores

OnCorrupt = Literal["fail", "skip", "rows"]

DEFAULT_SPLIT_BYTES = 256 << 20  # smaller tasks cost more than they spread, larger ones leave cores idle
MIN_SPLIT_BYTES = 4096

NAMES = (*PATH_NAMES, "columns", "includeInternal", "onCorrupt", "splitBytes")
TABLE_NAMES = frozenset({"owner", "provider"})
"""What Spark adds to the options in a CREATE TABLE."""


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
    on_corrupt: OnCorrupt = "fail"
    split_bytes: int = DEFAULT_SPLIT_BYTES


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Check the options as Spark hands them over. Raises InvalidSettingsError with what was expected."""
    given = {name.lower(): value for name, value in options.items()}
    if given.keys() >= TABLE_NAMES:
        raise InvalidSettingsError(
            f"CREATE TABLE: Spark forgets such a table's path when a Python source is read; expected {SQL_WAY}"
        )
    unknown = sorted(given.keys() - {name.lower() for name in NAMES})
    if unknown:
        raise InvalidSettingsError(f"option {unknown[0]!r}: unknown; expected one of {', '.join(NAMES)}")
    return ReadOptions(
        stores=parse_stores(given),
        shows_store=may_name_several(given),
        columns=_columns(given["columns"]) if "columns" in given else (),
        include_internal=_include_internal(given.get("includeinternal", "false")),
        on_corrupt=_on_corrupt(given.get("oncorrupt", "fail")),
        split_bytes=_split_bytes(given["splitbytes"]) if "splitbytes" in given else DEFAULT_SPLIT_BYTES,
    )


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(find_column(name.strip(), ()).name for name in text.split(","))
    if len(set(names)) != len(names):
        raise InvalidSettingsError(f"columns={text!r}: a column is named twice")
    return names


def _include_internal(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidSettingsError(f"includeInternal={text!r}: expected true or false")
    return text.lower() == "true"


def _on_corrupt(text: str) -> OnCorrupt:
    match text.lower():
        case "fail":
            return "fail"
        case "skip":
            return "skip"
    raise InvalidSettingsError(f"onCorrupt={text!r}: expected fail or skip")


def _split_bytes(text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits) < MIN_SPLIT_BYTES:
        raise InvalidSettingsError(f"splitBytes={text!r}: expected a whole number of bytes, {MIN_SPLIT_BYTES} or more")
    return int(digits)
