"""Who else reads a store that nobody holds open for writing: each finds what a view of it finds.

other_readers.agree(view)              # verify, `info`, and Spark's planner and tasks, without a Java
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

import flightlog
from flightlog.spark.options.bounds import is_internal
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.read.reading import RangeReader
from flightlog.store.disk.disk import Disk
from flightlog.tests.support import planning
from flightlog.tools.inspecting import inspect

SPLIT_BYTES = 1 << 20
SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32())])


def agree(view: flightlog.ReadOnlyStore, disk: Disk | None = None) -> None:
    """verify checks the log up to the view's end; `info` ends there, with the same queues; Spark plans up to there, and
    its tasks give as many messages of each queue. `disk`: where the store lies, unless on a real one."""
    first, end = view.min_physical_offset, view.end_physical_offset
    checked = view.verify().bytes_checked
    assert checked == end - first, f"verify checked {checked} bytes of [{first}, {end})"
    info = inspect(view.path, disk=disk)
    assert info.end_physical_offset == end, f"info ends at {info.end_physical_offset}, the view at {end}"
    counted = {(queue.topic, queue.queue_id): (queue.first, queue.end) for queue in info.queues}
    assert counted == view.queues(), f"info has {counted}, the view {view.queues()}"
    assert not info.is_held
    parts = [part for parts in planning.plan(view.path, SPLIT_BYTES, disk) for part in parts]
    planned = max((part.base + part.stop for part in parts if not part.lost), default=end)
    assert planned == end, f"Spark's plan ends at {planned}, the view at {end}"
    reader, rows = RangeReader(SCHEMA, ReadOptions(on_corrupt="skip"), disk), Counter[tuple[str, int]]()
    for part in parts:
        for batch in reader.read(part):
            rows.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    queues = {
        key: end - first
        for key, (first, end) in view.queues().items()
        if end > first and not is_internal(key[0].encode())
    }
    assert rows == queues, f"Spark has {rows}, the view {queues}"
