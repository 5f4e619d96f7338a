"""Whether the records that are about to be read lie far apart, and telling the kernel so.

A page fault brings in up to many MiB around a record. Where nobody wants what is between the records, that is most of
what a reader of a small topic would read from the disk: 7 to 76 times the pages that hold its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...store.queue_offsets import QueueKey
from ..read_only import ReadOnlyStore

SPARSE: Final = 4
"""Records are sparse if they are less than one part in so many of what they lie in."""
SAMPLE_ENTRIES: Final = 512
"""Entries that are sampled from each queue, to estimate the sizes of the others."""


def expect_sparse_reads(view: ReadOnlyStore, bounds: Mapping[QueueKey, tuple[int, int]]) -> None:
    """Have the kernel read nothing ahead for this view, whoever reads, if the records of these ranges of queues are
    sparse. Raises DiskError, SegmentGoneError."""
    size, begin, end = 0.0, view.end_physical_offset, view.min_physical_offset
    for key, (first, stop) in bounds.items():
        queue = view.queue_table.get(key)
        if queue is None:
            continue
        units, last = queue.units(first, min(SAMPLE_ENTRIES, stop - first)), queue.units(stop - 1, 1)
        if not len(units) or not len(last):
            return  # a queue with a missing file
        size += float(units["size"].mean()) * (stop - first)
        begin, end = min(begin, int(units["physical_offset"][0])), max(end, int(last["physical_offset"][0]))
    if size * SPARSE < end - begin:
        for segment in view.segments:
            if segment.end > begin and segment.base <= end:
                segment.expect_scattered_reads(True)
