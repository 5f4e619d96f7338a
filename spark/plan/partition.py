"""What Spark hands from the driver to a task."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from .planning import LogRange
from .queue_planning import QueueRange


@dataclass
class LogPartition(InputPartition):
    """What one task reads. None of it refers to anything that only the driver has."""

    ranges: tuple[LogRange | QueueRange, ...]
