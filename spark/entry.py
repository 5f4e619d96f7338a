"""Entry points of the data source: what Spark calls, and whose errors it prints.

Spark prints the whole traceback of an error, chain included, with the message as its last line. An error of ours
explains itself, so it leaves an entry point without our frames and without what caused it; both are logged at DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from ..store.errors import FlightlogError

log = logging.getLogger("flightlog.spark")

P = ParamSpec("P")
T = TypeVar("T")


def entry(call: Callable[P, T]) -> Callable[P, T]:
    """A function that Spark calls."""

    @wraps(call)
    def entered(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except FlightlogError as e:
            raise _bare(e) from None

    return entered


def iterating_entry(call: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """A function that Spark calls for an iterator, which raises as it is read."""

    @wraps(call)
    def entered(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from call(*args, **kwargs)
        except FlightlogError as e:
            raise _bare(e) from None

    return entered


def _bare(error: FlightlogError) -> FlightlogError:
    log.debug("%s", error, exc_info=True, extra={"cause": repr(error)})
    return error.with_traceback(None)
