"""The options that bound what is read: `tags` and `pushDownPredicate`.

`tags` is RocketMQ's expression: `a || b` are the messages with the tag a or the tag b, by its text and not only by its
hash; `*` or nothing are all messages.

`pushDownPredicate` has a query's filters leave out what need not be read. It is off unless it is asked for, because of
a fault of Spark, seen on 4.3: what the filters of one query left out stays left out for every other query over the
same `load()`, and in a union or a join of one `load()` both sides get what the filters of the last one let through.
A DataFrame that is loaded with it is for one query with one `where`; load anew for the next.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ...index.filter.tag_filter import tag_filter
from ...store.errors import InvalidSettingsError, UsageError
from .bounds import NO_BOUNDS, Bounds

BOUNDS_NAMES = ("tags", "pushDownPredicate")

PUSHING_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"


def parse_bounds(given: Mapping[str, str]) -> Bounds:
    """What the option `tags` says; names in lower case. Raises InvalidSettingsError."""
    try:
        wanted = tag_filter(given.get("tags"))
    except UsageError as e:
        raise InvalidSettingsError(str(e)) from e
    return NO_BOUNDS if wanted is None else Bounds(tags=wanted.tags)


def parse_pushes(given: Mapping[str, str]) -> bool:
    """Whether filters are to be pushed; names in lower case. Raises InvalidSettingsError."""
    text = given.get("pushdownpredicate", "false")
    if text.lower() not in ("true", "false"):
        raise InvalidSettingsError(f"pushDownPredicate={text!r}: expected true or false")
    return text.lower() == "true"


def filters_are_coming() -> bool:
    """Whether this process is Spark's worker that pushes filters.

    A reader that takes filters is refused by Spark's other worker, the one that plans where
    `spark.sql.python.filterPushdown.enabled` is false, or where a query has no filter.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_MODULE in sys.modules or getattr(main, "name", None) == PUSHING_MODULE
