"""Streams that begin in one moment: what Spark leaves unlocked between them.

All streams of a Python source share one map of environment variables, a `java.util.HashMap`, into which each writes
some of its own as it begins. Where two add them at once, the map may count more entries than it has; from then on that
JVM can read no task of the source (`java.io.OptionalDataException`). Entries that are there already are only replaced,
which does no harm: so they are there before the first stream begins. Seen in Spark 4.0 to 4.3.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLACED_BY_STREAMS = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",  # not by 4.0, which does not read it either
}
"""What Spark sets for whatever Python it starts, streams or not, whatever was there before."""

log = logging.getLogger("flightlog.spark")


def let_streams_begin_at_once(spark: SparkSession) -> None:
    """Streams of our source may begin in one moment in this session from now on."""
    from py4j.protocol import Py4JError

    try:
        sources = spark._jsparkSession.sessionState().dataSourceManager()
        environment = sources.lookupDataSource("flightlog").dataSourceCls().envVars()
        for name, value in REPLACED_BY_STREAMS.items():
            environment.putIfAbsent(name, value)
    except Py4JError as error:  # none of these names is Spark's public API
        log.warning("begin streams one after another: this Spark hides what they share", extra={"found": str(error)})
