"""A consume queue: three files with anything in them, read, and then written to."""

from __future__ import annotations

import numpy as np

from flightlog.index.queue.consume_queue import ConsumeQueue
from flightlog.index.queue.memory_queue import MemoryQueue
from flightlog.index.queue.queue_unit import UNIT_DTYPE, UNIT_SIZE, QueueUnit, valid_mask
from flightlog.store.errors import SegmentLengthError
from flightlog.store.segments.segment import segment_name
from flightlog.tests.support import limited_disk, scratch

limited = limited_disk

ENTRIES = 8
FILE_SIZE = ENTRIES * UNIT_SIZE
PUT = np.array([(1 << 40, 100, 7), ((1 << 40) + 100, 100, 8)], UNIT_DTYPE)


def one(data: bytes) -> None:
    """The first byte says whether a file keeps the length of its content, is missing, or where the first one begins."""
    how, parts = data[0] if data else 0, scratch.split(data[1:], 3)
    first = (how >> 4) * ENTRIES
    files = {segment_name((first + i * ENTRIES) * UNIT_SIZE): part for i, part in enumerate(parts) if not how >> i & 1}
    root = scratch.fill({f"q/{name}": part for name, part in files.items()}, _lengths(files, how))
    disk = limited.LimitedDisk(3000, 1 << 20, 1 << 20)
    for thorough in (False, True):
        queue = ConsumeQueue(disk, root / "q", ENTRIES)
        try:
            queue.load(thorough=thorough)
        except SegmentLengthError:
            assert how & 8 and any(len(part) not in (0, FILE_SIZE) for part in files.values())
            return
        _read(queue)
        _read_in_memory(queue)
    _write(disk, queue)


def _lengths(files: dict[str, bytes], how: int) -> dict[str, int]:
    return {} if how & 8 else {f"q/{name}": FILE_SIZE for name in files}


def _read(queue: ConsumeQueue) -> None:
    assert 0 <= queue.min_index <= queue.end <= queue.min_index + 3 * ENTRIES + 1 or queue.min_index == queue.end
    units = queue.units(queue.min_index, queue.end - queue.min_index)
    assert len(units) == queue.end - queue.min_index
    if queue.seen_last is not None:
        assert queue.seen_last == (queue.end - 1, queue.units(queue.end - 1, 1).tobytes())
    for physical_offset in (0, 1, 1 << 40, (1 << 63) - 1):
        assert queue.min_index <= queue.first_at_or_after(physical_offset) <= queue.end
    assert queue.filler_count() >= 0
    assert len(queue.units(queue.end + ENTRIES * 3, 5)) == len(queue.units(-1, 1)) == 0


def _read_in_memory(queue: ConsumeQueue) -> None:
    view = MemoryQueue(queue)
    view.set_min_offset(1 << 20)
    assert queue.min_index <= view.min_index <= view.end == queue.end
    view.put(view.end, PUT)
    assert view.units(view.end - 2, 2).tolist() == PUT.tolist()


def _write(disk: limited.LimitedDisk, queue: ConsumeQueue) -> None:
    end = queue.end
    queue.truncate(queue.min_index + (end - queue.min_index) // 2)
    assert not len(queue.units(queue.end, ENTRIES)) or not queue.units(queue.end, ENTRIES).tobytes().strip(b"\0")
    queue.put(queue.end, PUT)
    at = queue.end - len(PUT)
    again = ConsumeQueue(disk, queue.folder, ENTRIES)
    again.load(thorough=True)
    if valid_mask(queue.units(queue.min_index, at - queue.min_index)).all():
        assert again.end == queue.end and again.units(at, 2).tolist() == PUT.tolist()


def seeds() -> list[bytes]:
    units = [QueueUnit(i * 100, 100, i).encode() for i in range(3 * ENTRIES)]
    files = [b"".join(units[i : i + ENTRIES]) for i in range(0, len(units), ENTRIES)]
    filler = QueueUnit(0, 0x7FFFFFFF, 0).encode() * 3
    return [
        bytes([0]) + scratch.join(*files),
        bytes([0]) + scratch.join(files[0], files[1][:100], b""),
        bytes([0x18]) + scratch.join(*files),
        bytes([0x14]) + scratch.join(filler + files[0][60:], files[1][:40], b""),
        bytes([0x22]) + scratch.join(*files),
    ]
