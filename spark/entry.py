"""Entry points of the data source: what Spark calls, and which errors it prints.

Spark prints the whole traceback of an error, chain included, with the message as its last line. Our errors explain
themselves, so an entry point removes our frames and the cause; both are logged at DEBUG.

Spark closes the socket of a worker in two cases that are not errors:

- `show()`, `take()` and `limit()` end a task as soon as they have their rows, while its worker still sends.
- A worker that was idle for a minute is ended. It takes the closed socket for an error and tries to report it.

In both the worker fails to flush, prints the traceback of a BrokenPipeError and ends; Spark starts another one when it
needs it. `quieten_closed_sockets` leaves out this traceback alone, and only in a process of Spark's daemon. An error
while reading or planning reaches Spark before the socket is closed.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..store.errors import FlightlogError

log = logging.getLogger("flightlog.spark")

DAEMON = "pyspark.daemon"

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
    """A generator function that Spark calls."""

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


class _Traceback:
    """Replaces the module `traceback` within Spark's daemon."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *arguments: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc(*arguments, **options)


def quieten_closed_sockets() -> None:
    """Print no traceback when Spark closes the socket of this process, if it is one of Spark's workers. Calling it
    again changes nothing."""
    daemon: Any = sys.modules.get("__main__")
    spec = getattr(daemon, "__spec__", None)
    if spec is not None and spec.name == DAEMON and getattr(daemon, "traceback", None) is traceback:
        daemon.traceback = _Traceback()
