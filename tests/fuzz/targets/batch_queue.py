"""A batch consume queue: two files with anything in them, read, and then written to."""

from __future__ import annotations

import numpy as np

from flightlog.index.queue.batch_queue import BatchQueue
from flightlog.index.queue.batch_unit import BATCH_UNIT_DTYPE, BATCH_UNIT_SIZE, NOT_COMPACTED
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.store.segments.segment import segment_name
from flightlog.tests.support import limited_disk, scratch

limited = limited_disk

ENTRIES = 5
FILE_SIZE = ENTRIES * BATCH_UNIT_SIZE
MOST_MESSAGES = 1000


def one(data: bytes) -> None:
    parts = scratch.split(data, 2)
    names = [f"b/{segment_name(i * FILE_SIZE)}" for i, part in enumerate(parts) if part]
    root = scratch.fill(dict(zip(names, parts, strict=False)), dict.fromkeys(names, FILE_SIZE))
    disk = limited.LimitedDisk(500, 1 << 20, 1 << 12)
    for in_memory in (True, False):
        queue = BatchQueue(disk, root / "b", ENTRIES, Unsynced(), in_memory=in_memory)
        queue.load()
        _read(queue)
    again = BatchQueue(disk, root / "b", ENTRIES, Unsynced(), in_memory=False)
    base = _write(queue)
    again.load()
    assert again.end == queue.end and again.units(base, 3)["physical_offset"].tolist() == [1 << 62] * 3


def _read(queue: BatchQueue) -> None:
    assert 0 <= queue.min_index <= queue.end
    for start in {queue.min_index, max(queue.end - 5, 0), queue.end, queue.end + 7, 0}:
        units = queue.units(start, MOST_MESSAGES)
        assert len(units) <= max(min(MOST_MESSAGES, queue.end - start), 0)
        real = units[units["size"] != 0]
        assert (real["size"] > 0).all() and (real["physical_offset"] >= 0).all()
        assert queue.next_file_index(start) > start
    for physical_offset in (0, 1000, (1 << 63) - 1):
        assert queue.min_index <= queue.first_at_or_after(physical_offset) <= queue.end


def _write(queue: BatchQueue) -> int:
    queue.truncate(queue.min_index + (queue.end - queue.min_index) // 2)
    if (len(queue.batches) and queue.batches["physical_offset"][-1] >= 1 << 62) or queue.end > 1 << 62:
        queue.truncate(0)
    base = queue.end
    put = queue.put_batches(np.array([(1 << 62, 500, 0, 17, base, 3, NOT_COMPACTED, 0)], BATCH_UNIT_DTYPE))
    assert len(put) == 1 and queue.end == base + 3
    return base


def seeds() -> list[bytes]:
    units = np.zeros(2 * ENTRIES, BATCH_UNIT_DTYPE)
    units["physical_offset"], units["size"] = np.arange(len(units)) * 1000, 900
    units["base"], units["count"], units["compacted_offset"] = np.arange(len(units)) * 3, 3, NOT_COMPACTED
    raw = units.tobytes()
    return [scratch.join(raw[:FILE_SIZE], raw[FILE_SIZE:-100]), scratch.join(raw[: FILE_SIZE // 2], b"")]
