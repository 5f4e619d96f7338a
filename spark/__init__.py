"""Stores as Spark DataFrames: `spark.read.format("flightlog").load(path)`.

Importing this room imports neither pyspark nor pyarrow; `session()` and `DefaultSource` do when they are asked for.

The files of the folder itself are what Spark and users call. Which room inside imports from which, by the life of a
query:

    stream  -> plan, options
    read    -> plan, options, remote
    plan    -> options
    write   -> options
    options -> remote
    remote  -> nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .session import queues, session

if TYPE_CHECKING:
    from .source import DefaultSource

__all__ = ["DefaultSource", "queues", "session"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type checker would take any misspelled name for this one

    def __getattr__(name: str):
        if name == "DefaultSource":
            from .source import DefaultSource

            return DefaultSource
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
