"""The Spark session of `flightlog bench scan`."""

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

# Parquet's writer and reader need more than the default gigabyte for large rows.
CONF = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "4g"}


@contextmanager
def measured_session(master: str) -> Iterator[SparkSession]:
    """A session that ends with the block. Ctrl-C keeps its previous handler."""
    at_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with ProgressBar("starting Spark"):
            spark = session("flightlog bench scan", master=master, conf=CONF)
        if signal.getsignal(signal.SIGINT) is not at_interrupt:
            signal.signal(signal.SIGINT, at_interrupt)  # Spark's own handler interrupts calls to Java, and fails
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
    """End all child processes: an interrupted call leaves the connection to Java unusable, and Java may be writing."""
    for process in list(below(os.getpid())):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    for child in children(os.getpid()):
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
