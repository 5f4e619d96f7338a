"""Converts the filters that Spark pushes into bounds.

A filter without an exact equivalent bounds nothing: Spark evaluates all filters again.

Filters are pushed only with the option `pushDownPredicate`, because of a bug in Spark, seen on 4.3: the filters of one
query also apply to every other query over the same `load()`, and in a union or a join of one `load()` both sides get
the rows of the last filters. Use a DataFrame with this option for one query with one `where`; load again for the next.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import datasource as spark

from ..options.bounds import NO_BOUNDS, REPLACEMENT, Bounds, Span, Starts
from ..schema import BY_LOWER_NAME

TEXTS = {"store": "stores", "topic": "topics", "tags": "tags", "key": "keys", "uniqKey": "uniq_keys"}
STARTS = {"topic": "topic_starts", "tags": "tag_starts", "uniqKey": "uniq_key_starts"}
NUMBERS = {
    "partition": "queue_ids",
    "offset": "queue_offsets",
    "physicalOffset": "physical_offsets",
    "timestamp": "store_times_ms",
}
"""Columns, and the field of Bounds for each."""

PUSHING_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"
VALUE_SIZE = 60
"""Characters of a filter's value that are shown."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def filters_are_coming() -> bool:
    """Whether this process is Spark's worker that pushes filters.

    A reader that takes filters is refused by Spark's other worker, the one that plans where
    `spark.sql.python.filterPushdown.enabled` is false, or where a query has no filter.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return PUSHING_MODULE in sys.modules or getattr(main, "name", None) == PUSHING_MODULE


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """The bounds of what matches all of these filters, objects of `pyspark.sql.datasource` (4.1 and later)."""
    return reduce(and_, map(_bounds_of, filters), NO_BOUNDS)


def filter_text(pushed: Any) -> str:
    """A filter that bounds something, as Spark shows it: `EqualTo(topic, 'orders')`."""
    return f"{type(pushed).__name__}({'.'.join(pushed.attribute)}, {repr(pushed.value)[:VALUE_SIZE]})"


def _bounds_of(asked: Any) -> Bounds:
    match asked:
        case spark.EqualTo((name,), value) | spark.EqualNullSafe((name,), value):
            return _one_of(name, [value])
        case spark.In((name,), values):
            return _one_of(name, [value for value in values if value is not None])  # null equals nothing
        case spark.GreaterThan((name,), value):
            return _compared(name, value, lambda limits: Span(start=limits.stop))
        case spark.GreaterThanOrEqual((name,), value):
            return _compared(name, value, lambda limits: Span(start=limits.start))
        case spark.LessThan((name,), value):
            return _compared(name, value, lambda limits: Span(stop=limits.start))
        case spark.LessThanOrEqual((name,), value):
            return _compared(name, value, lambda limits: Span(stop=limits.stop))
        case spark.StringStartsWith((name,), value):
            return _beginning(name, value)
    return NO_BOUNDS


def _one_of(name: str, values: Sequence[Any]) -> Bounds:
    column = _column(name)
    if column in TEXTS:
        texts = [_text(column, value) for value in values]
        return NO_BOUNDS if None in texts else _bounds(TEXTS[column], frozenset(texts))
    spans = [span for value in values if (span := _equal_to(column, value)) is not None]
    if column not in NUMBERS or len(spans) < len(values):
        return NO_BOUNDS
    hull = Span(min(span.start for span in spans), max(span.stop for span in spans)) if spans else Span(0, 0)
    return _bounds(NUMBERS[column], hull)


def _compared(name: str, value: Any, span_of: Callable[[Span], Span]) -> Bounds:
    column = _column(name)
    equal = _equal_to(column, value)
    return NO_BOUNDS if equal is None else _bounds(NUMBERS[column], span_of(equal))


def _beginning(name: str, value: Any) -> Bounds:
    column = _column(name)
    text = _text(column, value)
    return NO_BOUNDS if column not in STARTS or not text else _bounds(STARTS[column], Starts(frozenset([text])))


def _column(name: str) -> str:
    """Our name of a column, which a user's schema may have in another case; empty for one that is not ours."""
    column = BY_LOWER_NAME.get(name.lower())
    return column.name if column is not None else ""


def _bounds(field: str, value: Any) -> Bounds:
    return Bounds(**{field: value})


def _text(column: str, value: Any) -> str | None:
    """A literal as text; None if it does not determine the bytes in the log."""
    if column == "key" and isinstance(value, bytes | bytearray):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and REPLACEMENT not in value else None


def _equal_to(column: str, value: Any) -> Span | None:
    """The numbers that equal a literal: one, or an empty span at its place. None for a literal of another type.

    A time in microseconds can be between two store times, which are in ms.
    """
    if column == "timestamp":
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        microseconds = (value - EPOCH) // MICROSECOND
        return Span(-(-microseconds // 1000), microseconds // 1000 + 1)
    if column not in NUMBERS or not isinstance(value, int) or isinstance(value, bool):
        return None
    return Span(value, value + 1)
