"""Keeps Spark's worker daemon quiet about a query that needs no more rows.

`show()`, `take()` and `limit()` end a task as soon as they have their rows: Spark closes the socket of its worker
while it still sends. The worker then fails to flush what is left, prints the traceback of a BrokenPipeError and ends;
the query is fine, and Spark starts another worker. Only this traceback is left out, and only in a process of Spark's
daemon: an error while reading reaches Spark before the socket is closed.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any

DAEMON = "pyspark.daemon"


class _Traceback:
    """In place of the module `traceback` within Spark's daemon."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *arguments: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc(*arguments, **options)


def expect_early_end() -> None:
    """Leave such a traceback out, if this process is one of Spark's workers. Call it before reading."""
    daemon: Any = sys.modules.get("__main__")
    spec = getattr(daemon, "__spec__", None)
    if spec is not None and spec.name == DAEMON and getattr(daemon, "traceback", None) is traceback:
        daemon.traceback = _Traceback()
