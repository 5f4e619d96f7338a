"""Ranges of the log for the tests of reading them."""

from __future__ import annotations

from pathlib import Path

import flightlog
from flightlog.spark.options.stores import StoreLocation
from flightlog.spark.plan.log_planning import LogRange, packed, plan_log
from flightlog.store.disk.disk import Disk


def plan(path: Path, split_bytes: int, disk: Disk | None = None) -> list[tuple[LogRange, ...]]:
    """The ranges of each task over the whole log of one local store."""
    with flightlog.open_read_only(path, disk=disk) as view:
        return list(packed(plan_log(view, StoreLocation.local(path), split_bytes), split_bytes))
