"""Spark as `flightlog bench scan` starts it, and how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ....spark import session
from ...progress_bar import ProgressBar
from ..machine.process_tree import below, children

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Parquet's writer and reader of large rows do not get by with the usual gigabyte.
CONF = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "4g"}


@contextmanager
def measured_session(master: str) -> Iterator[SparkSession]:
    """A session that ends with the block, and within it what Ctrl-C did before."""
    at_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with ProgressBar("starting Spark"):
            spark = session("flightlog bench scan", master=master, conf=CONF)
        if signal.getsignal(signal.SIGINT) is not at_interrupt:
            signal.signal(signal.SIGINT, at_interrupt)  # Spark's own handler talks to Java out of turn, and fails
        try:
            yield spark
        except Exception:
            spark.stop()
            raise
        spark.stop()
    except (KeyboardInterrupt, SystemExit):
        _end_spark()
        raise


def _end_spark() -> None:
    """Who was interrupted while he talked to Java cannot tell it to stop any more, and it may be writing."""
    for process in list(below(os.getpid())):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    for child in children(os.getpid()):
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
