"""Where a segment can be cut: places at which a record surely starts, near those that are wished for.

They are known, in this order, from the boundaries that its seal lists, from consume queues' entries, and from a walk;
ranges below a mebibyte are cut by a walk alone, as the others know places about that far from one another.
Looking for something that resembles a record would not do: a body may hold bytes that do. A record is read at each
place before it is believed: seals and queues may be older than a log whose end RocketMQ has written anew.

Of a remote store no segment is read here, and no queue searched: without a seal that is sure to be its own, a segment
stays in one range. (Whoever has sealed segments drops stale seals when it opens a store; another writer does not.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import QueueUnit, search_offset
from ...store import native
from ...store.format.frame import FRAME_DTYPE
from ...store.format.light_queues import is_light
from ...store.format.record import FIXED_V1_V4_SIZE
from ...store.scan.scan import SegmentScan
from ...store.seal.seal import BLOCK_SIZE, read_seal
from ...store.segments.segment import Segment

QUEUES = 4
"""The longest queues, which are asked: more than one, as a topic may be in a part of the log alone."""
WALK_PIECE_SIZE = 256 << 10
"""A walk mostly begins just before the place that it looks for, and ends there."""


class Cutter:
    """Finds cuts of one view's log, asked in ascending order."""

    def __init__(self, view: ReadOnlyStore) -> None:
        self._reader, self._are_seals_ours = view.log_reader, view.shutdown_state.is_ours
        self._is_remote = not view.log_reader.disk.maps_files
        queues = [
            (queue_id, queue)
            for (topic, queue_id), queue in view.queue_table.items()
            if not is_light(topic) and not isinstance(queue, BatchQueue)
        ]
        queues.sort(key=lambda listed: listed[1].min_index - listed[1].end)
        self._queues = queues[:QUEUES]
        self._seen = [queue.min_index for _, queue in self._queues]
        """The entry of each that was found last: what is asked next lies behind it."""

    def cuts(self, segment: Segment, start: int, stop: int, split_bytes: int) -> list[int]:
        """Positions in a segment where ranges of [start, stop) begin and end, of about `split_bytes` each. Raises
        FileNotFoundError, and DiskError where the disk does not give what was asked for."""
        count = -(-(stop - start) // split_bytes)
        wanted = [start + (stop - start) * i // count for i in range(1, count)]
        if not wanted or (self._is_remote and not self._are_seals_ours):
            return [start, stop]
        is_fine = wanted[0] - start < BLOCK_SIZE
        places = None if is_fine else self._sealed(segment, start, stop, wanted)
        if places is None or not (self._is_remote or all(_has_record(segment, place) for place in places)):
            find = self._walk_to if is_fine else self._listed
            places = [] if self._is_remote else find(segment, start, stop, wanted)
        return [start, *sorted(set(places)), stop]

    def _sealed(self, segment: Segment, start: int, stop: int, wanted: Sequence[int]) -> list[int] | None:
        """The first boundary at or behind each wanted position, as far as there is one before `stop`; None without a
        seal that serves."""
        seal = read_seal(self._reader.disk, self._reader.folder.parent, segment)
        if seal is None:
            return None
        boundaries = np.array(seal.boundaries, np.int64)
        boundaries = boundaries[(boundaries > start) & (boundaries < min(stop, seal.records_end))]
        found = np.searchsorted(boundaries, wanted)
        places: list[int] = boundaries[found[found < len(boundaries)]].tolist()
        return places

    def _listed(self, segment: Segment, start: int, stop: int, wanted: Sequence[int]) -> list[int]:
        """A listed record soon behind each wanted position; where none is, the first that a walk comes by."""
        places: list[int] = []
        known, reach = start, (wanted[0] - start) // 8
        for position in wanted:
            if known >= position:
                continue
            before, behind = self._entries_around(segment, position, min(position + reach, stop))
            if behind is None:
                found = self._walk_to(segment, max(known, before), stop, [position])
                if not found:
                    break
                behind = found[0]
            known = behind
            places.append(known)
        return places

    def _entries_around(self, segment: Segment, position: int, stop: int) -> tuple[int, int | None]:
        """The last listed record before a position, 0 for none, and one at or behind it before `stop`."""
        before = 0
        for number, (queue_id, queue) in enumerate(self._queues):
            index = search_offset(queue.units, segment.base + position, self._seen[number], queue.end)
            self._seen[number] = index
            behind = _place(segment, queue_id, queue, index, stop)
            if behind is not None:
                return before, behind
            if index > queue.min_index:
                before = max(before, _place(segment, queue_id, queue, index - 1, position) or 0)
        return before, None

    def _walk_to(self, segment: Segment, start: int, stop: int, wanted: Sequence[int]) -> list[int]:
        """The first record at or behind each wanted position, as far as a walk comes: it ends at damage, and the rest
        stays in one range, whose task deals with it."""
        places: list[int] = []
        scan = SegmentScan(
            *(segment.read, segment.base, segment.size, start, stop), check_crc=False, piece_size=WALK_PIECE_SIZE
        )
        for _, rows in scan:
            positions = rows["physical_offset"] - segment.base
            while len(places) < len(wanted) and positions[-1] >= wanted[len(places)]:
                places.append(int(positions[np.searchsorted(positions, wanted[len(places)])]))
            if len(places) == len(wanted):
                break
        return places


def _place(segment: Segment, queue_id: int, queue: Queue, index: int, stop: int) -> int | None:
    """Where in the segment, before `stop`, the record of an entry starts."""
    units = queue.units(index, 1)
    unit = QueueUnit(*units[0].item()) if index < queue.end and len(units) else None
    if unit is None or not unit.is_valid or not segment.base <= unit.physical_offset < segment.base + stop:
        return None
    position = unit.physical_offset - segment.base
    return position if _has_record(segment, position, (unit.size, queue_id, index)) else None


def _has_record(segment: Segment, position: int, listed: tuple[int, int, int] | None = None) -> bool:
    """Whether a record starts here; of this size, queue id and queue offset, if it is a listed one."""
    size = listed[0] if listed else int.from_bytes(segment.read(position, 4), "big", signed=True)
    if not FIXED_V1_V4_SIZE <= size <= segment.size - position:
        return False
    row: Any = np.empty(1, FRAME_DTYPE)
    if not native.walk(segment.read(position, size), 0, size, segment.base + position, False, row)[0]:
        return False
    return listed is None or (int(row["size"][0]), int(row["queue_id"][0]), int(row["queue_offset"][0])) == listed
