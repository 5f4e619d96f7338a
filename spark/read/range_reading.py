"""What a task reads: its ranges, of either kind, as RecordBatches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ...store.errors import FileGoneError
from ..options.bounds import Bounds
from ..options.options import ReadOptions
from ..plan.entries_alone import EntryRangeReader
from ..plan.planning import LogRange
from ..plan.queue_planning import QueueRange
from .queue_reading import QueueRangeReader
from .reading import RangeReader

log = logging.getLogger("flightlog.spark")


def read_ranges(
    ranges: Sequence[LogRange | QueueRange], schema: Any, options: ReadOptions, bounds: Bounds
) -> Iterator[Any]:
    """The messages of these ranges that lie within the bounds, in columns of this Arrow schema: those of the log range
    by range, those of queues of one store all together, in the order of the log.

    Raises CorruptRecordError and CorruptQueueError at the first damage if that is to fail the query; FileGoneError for
    a file that was removed since the query began, unless `failOnDataLoss=false`; DiskError.
    """
    fails = options.selection.fail_on_data_loss
    how: dict[str, Any] = {
        "include_internal": options.include_internal,
        "on_corrupt": options.on_corrupt,
        "decompress": options.decompress,
        "bounds": bounds,
    }
    of_queues = [each for each in ranges if isinstance(each, QueueRange)]
    by_entries = [each for each in of_queues if each.from_entries]
    if by_entries:
        yield from EntryRangeReader(schema, fail_on_data_loss=fails).read(by_entries)
    by_records = [each for each in of_queues if not each.from_entries]
    yield from QueueRangeReader(schema, fail_on_data_loss=fails, **how).read(by_records)
    reader = RangeReader(schema, **how)
    for piece in (each for each in ranges if isinstance(each, LogRange)):
        try:
            yield from reader.read(piece)
        except FileGoneError as e:
            if fails or not piece.location.disk().exists(piece.location.path):
                raise
            log.warning("failOnDataLoss=false: the query goes on without %s", e, extra={"path": piece.segment_path})
