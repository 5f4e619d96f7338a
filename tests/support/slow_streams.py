"""Queries over streams that Spark gave up before they had begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pyspark.errors.exceptions.captured import StreamingQueryException

from flightlog.tests.support.process import LIMIT_S

TOO_SLOW = "Python worker failed to connect back"
"""Spark gives the Python process of a stream ten seconds to come up, and no setting for it: a machine that does a lot
besides may need longer. A query that failed so has done nothing."""

T = TypeVar("T")


def begun(run: Callable[[], T]) -> T:
    """What `run` returns, which starts a query and waits for it: as often as it takes for the query to come up. So it
    must be such that it can be repeated."""
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            return run()
        except StreamingQueryException as e:
            if TOO_SLOW not in str(e) or time.monotonic() > deadline_s:
                raise
