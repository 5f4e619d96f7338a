"""Cutting a log into ranges for tasks, at places where a record surely starts (`Cutter`), without what the query surely
does not want, by the seals of segments.

The end is that of the read-only view, so beside a live writer no task sees an incomplete record.

Store times are not in order in every log: the clock of a RocketMQ broker can be set back. So the times of first and
last records prove nothing, and only a seal with the least and the greatest time of each block can leave out blocks.
Segments without a seal are read, and records are filtered before columns are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...engine.open.tail_scan import Damage
from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import QueueUnit, search_offset
from ...store import native
from ...store.errors import FileGoneError
from ...store.format.frame import FRAME_DTYPE
from ...store.format.light_queues import is_light
from ...store.format.record import FIXED_V1_V4_SIZE
from ...store.scan.scan import SegmentScan
from ...store.seal.seal import BLOCK_SIZE, Seal, read_seal
from ...store.segments.segment import Segment
from ...store.state.deleted_topics import DeletedTopics
from ..options.bounds import NO_BOUNDS, Bounds
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation

QUEUES = 4
"""How many of the longest queues are searched for cuts: more than one, as a topic may be in a part of the log only."""
WALK_PIECE_SIZE = 256 << 10
"""A walk mostly begins shortly before the position that it looks for, and ends there."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, stop) of one segment, as positions in its file. Pickled."""

    location: StoreLocation
    segment_path: str
    base: int
    """Physical offset of the segment's first byte."""
    segment_size: int
    start: int
    stop: int
    is_cut: bool
    """Whether `stop` is a record's start inside the segment: then records fill the range to its last byte."""

    deleted: DeletedTopics | None = None
    """Topics whose records are not shown; None: all are."""
    lost: str = ""
    """What was found instead of records, if there is nothing to read."""
    from_entries: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Bytes to read."""
        return 0 if self.lost else self.stop - self.start


def task_size(total: int, options: ReadOptions) -> int:
    """How many bytes one task reads of `total` bytes of the log."""
    return max(min(options.split_bytes, -(-total // options.min_partitions)), 1)


def plan_log(
    view: ReadOnlyStore,
    location: StoreLocation,
    split_bytes: int,
    span: tuple[int, int] | None = None,
    bounds: Bounds = NO_BOUNDS,
) -> list[LogRange]:
    """The log in ranges of about `split_bytes`, in order: all of it, or `span`, physical offsets [start, stop) at the
    start or the end of records. Leaves out ranges that are surely outside of `bounds`; includes lost places.

    Reads no segment that is not longer than `split_bytes`. Of a longer one it reads a record at each cut, and walks
    from the last known record if neither a seal nor a queue has one near the cut.

    Raises DiskError where a read fails.
    """
    reader, cutter, ranges = view.log_reader, Cutter(view), list[LogRange]()
    for segment, start, stop in reader.segments_between(*span or (view.min_physical_offset, view.end_physical_offset)):
        try:
            deleted = view.deleted_topics if segment.base + start < view.deleted_topics.highest else None
            parts = _stretches(view, segment, start, stop, bounds)
            cuts = [pairwise(cutter.cuts(segment, first, last, split_bytes)) for first, last in parts]
        except FileNotFoundError as e:
            raise gone(segment.path) from e
        for first, last in chain.from_iterable(cuts):
            if not bounds.physical_offsets.meets(segment.base + first, segment.base + last):
                continue
            ranges.append(
                LogRange(
                    *(location, str(segment.path), segment.base, segment.size, first, last),
                    is_cut=last != stop,
                    deleted=deleted,
                )
            )
    lost = (place for place in view.lost_places() if span is None or span[0] <= place.physical_offset < span[1])
    return sorted([*ranges, *lost_ranges(view, location, lost)], key=lambda piece: piece.base + piece.start)


def _stretches(
    view: ReadOnlyStore, segment: Segment, start: int, stop: int, bounds: Bounds
) -> Iterator[tuple[int, int]]:
    """The parts of positions [start, stop) of a segment whose records can be within the bounds. They begin at records,
    and end at records or at `stop`.

    Raises FileNotFoundError and DiskError.
    """
    places = bounds.physical_offsets
    if bounds.is_nothing or not places.meets(segment.base + start, segment.base + stop):
        return
    is_inside = segment.base + start in places and segment.base + stop - 1 in places
    if is_inside and not bounds.says_topics and bounds.store_times_ms.is_everything:
        yield start, stop
        return
    seal = _sound_seal(view, segment)
    if seal is None:
        yield start, stop
    elif not bounds.says_topics or any(map(bounds.takes_topic, seal.topics)):
        yield from _blocks(seal, start, stop, bounds)


def _sound_seal(view: ReadOnlyStore, segment: Segment) -> Seal | None:
    """The seal of a segment, if it is surely not stale. RocketMQ ignores seals: after a broker has written, they count
    only when flightlog has opened the store again and dropped the seals of rewritten segments."""
    seal = read_seal(view.log_reader.disk, view.path, segment) if view.shutdown_state.is_ours else None
    return seal if seal is not None and seal.boundaries and seal.boundaries[0] == 0 else None


def _blocks(seal: Seal, start: int, stop: int, bounds: Bounds) -> Iterator[tuple[int, int]]:
    """The wanted blocks of a seal, adjacent ones joined."""
    ends = [*seal.boundaries[1:], seal.segment_size]
    begun: int | None = None
    for i, (first, last) in enumerate(zip(seal.boundaries, ends, strict=True)):
        first, last = max(first, start), min(last, stop)
        if first >= last:
            continue
        is_wanted = bounds.physical_offsets.meets(seal.base + first, seal.base + last)
        if is_wanted and seal.store_times_ms:
            least, greatest = seal.store_times_ms[i]
            is_wanted = bounds.store_times_ms.meets(least, greatest + 1)
        if is_wanted:
            begun = first if begun is None else begun
        elif begun is not None:
            yield begun, first
            begun = None
    if begun is not None:
        yield begun, stop


def lost_ranges(view: ReadOnlyStore, location: StoreLocation, places: Iterable[Damage]) -> Iterator[LogRange]:
    """Lost places as ranges, for tasks to report."""
    size = view.log_reader.segment_size
    for place in places:
        start = place.physical_offset % size if size else 0
        path, base = str(place.path), place.physical_offset - start
        yield LogRange(location, path, base, size, start, max(size, start), is_cut=False, lost=place.found)


def gone(path: Path) -> FileGoneError:
    """The error for a segment that was removed since the query began."""
    return FileGoneError(
        f"{path}: gone since the query began; expected a segment. Either retention removed it, and the query can be "
        "run again, or this machine does not see the folder that the driver sees"
    )


def packed(ranges: Sequence[LogRange], split_bytes: int, min_partitions: int = 1) -> Iterator[tuple[LogRange, ...]]:
    """The ranges of each task: adjacent ranges are packed up to `split_bytes`, but into at least `min_partitions` tasks
    if there are as many ranges."""
    to_spare, size = len(ranges) - min_partitions, 0
    pack: list[LogRange] = []
    for piece in ranges:
        if pack and (size + piece.size > split_bytes or to_spare <= 0):
            yield tuple(pack)
            pack, size = [], 0
        to_spare -= bool(pack)
        pack.append(piece)
        size += piece.size
    if pack:
        yield tuple(pack)


class Cutter:
    """Finds positions where a segment of one view's log can be cut: records that start near wanted positions. Asked in
    ascending order.

    It takes them, in this order, from the boundaries in the segment's seal, from consume queue entries, and from a
    walk. Ranges below a mebibyte are cut by a walk alone: the others know records about that far apart. Searching for
    bytes that look like a record would be wrong, as a body may hold such bytes. Every place is checked by reading its
    record: seals and queues may be older than a log whose end RocketMQ has rewritten.

    Of a remote store no segment is read here, and no queue searched: without a seal that is surely its own, a segment
    stays in one range. (A writer with sealed segments drops stale seals when it opens a store; others do not.)
    """

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
        """The entry of each queue that was found last. The next one is behind it."""

    def cuts(self, segment: Segment, start: int, stop: int, split_bytes: int) -> list[int]:
        """Positions in a segment where ranges of [start, stop) begin and end, of about `split_bytes` each. Raises
        FileNotFoundError, and DiskError where a read fails."""
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
        """The first boundary at or behind each wanted position, if there is one before `stop`; None without a seal."""
        seal = read_seal(self._reader.disk, self._reader.folder.parent, segment)
        if seal is None:
            return None
        boundaries = np.array(seal.boundaries, np.int64)
        boundaries = boundaries[(boundaries > start) & (boundaries < min(stop, seal.records_end))]
        found = np.searchsorted(boundaries, wanted)
        places: list[int] = boundaries[found[found < len(boundaries)]].tolist()
        return places

    def _listed(self, segment: Segment, start: int, stop: int, wanted: Sequence[int]) -> list[int]:
        """A record that a queue lists shortly behind each wanted position, else the first that a walk finds."""
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
        """The first record at or behind each wanted position. The walk ends at damage: the rest stays in one range,
        whose task handles the damage."""
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
