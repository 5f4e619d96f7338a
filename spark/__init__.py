"""Stores as Spark DataFrames: `spark.read.format("flightlog").load(path)`.

Importing this room imports neither pyspark nor pyarrow; `session()` and `DefaultSource` do when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .session import session

if TYPE_CHECKING:
    from .source import DefaultSource

__all__ = ["DefaultSource", "session"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from .source import DefaultSource

        return DefaultSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
