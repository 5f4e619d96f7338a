"""Installed as the top-level module `pyspark_flightlog`: Spark looks for that prefix, and format("flightlog") works."""

from flightlog.spark.source import DefaultSource

__all__ = ["DefaultSource"]
