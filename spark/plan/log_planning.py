"""Cutting a log into ranges for tasks, at places where a record surely starts (split_points.py), without what the
query surely does not want, as far as seals tell.

The upper end is the read-only view's, so beside a live writer no task sees a record that is not complete.

Store times are not in order in every log: the clock of a RocketMQ broker can be set back. So the times of first and
last records prove nothing, and only a seal that holds the least and the greatest time of each of its blocks leaves out
any. Segments without a seal are read, their records looked at before any column is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import ClassVar

from ...engine.open.tail_scan import Damage
from ...engine.read_only import ReadOnlyStore, open_read_only
from ...store.disk.disk import Disk
from ...store.errors import FileGoneError
from ...store.seal.seal import Seal, read_seal
from ...store.segments.segment import Segment
from ...store.state.deleted_topics import DeletedTopics
from ..options.bounds import NO_BOUNDS, Bounds
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation
from .split_points import Cutter


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes [start, stop) of one segment, as positions in its file; all that a task needs to know."""

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
    """Whose records are not to be shown; None where all are."""
    lost: str = ""
    """What was found in place of it, where there is nothing to read."""
    from_entries: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Bytes to read."""
        return 0 if self.lost else self.stop - self.start


def task_size(total: int, options: ReadOptions) -> int:
    """How many bytes of so much log one task reads."""
    return max(min(options.split_bytes, -(-total // options.min_partitions)), 1)


def plan(path: Path, split_bytes: int, disk: Disk | None = None) -> list[tuple[LogRange, ...]]:
    """The ranges of each task over the whole of one local store. Raises as `plan_log`, and StoreNotFoundError."""
    with open_read_only(path, disk=disk) as view:
        return list(packed(plan_log(view, StoreLocation.local(path), split_bytes), split_bytes))


def plan_log(
    view: ReadOnlyStore,
    location: StoreLocation,
    split_bytes: int,
    span: tuple[int, int] | None = None,
    bounds: Bounds = NO_BOUNDS,
) -> list[LogRange]:
    """The log in ranges of about `split_bytes`, in its order: all of it, or physical [start, stop), which must be the
    start or the end of records; without what surely lies outside of `bounds`. Places that are lost are among them.

    Reads no segment that is not longer than `split_bytes`; of others a record at each cut, and where neither a seal nor
    a queue knows one there, from the last that is known, in pieces.

    Raises DiskError where the disk does not give what was asked for.
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
    """The parts of positions [start, stop) of a segment whose records can lie within the bounds. They begin where
    records begin, and end there or at `stop`.

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
    """The seal of a segment, where it surely says what is there. RocketMQ knows nothing of seals: what it
    left is not known until a flightlog opens the store again and drops the seals of segments that were rewritten."""
    seal = read_seal(view.log_reader.disk, view.path, segment) if view.shutdown_state.is_ours else None
    return seal if seal is not None and seal.boundaries and seal.boundaries[0] == 0 else None


def _blocks(seal: Seal, start: int, stop: int, bounds: Bounds) -> Iterator[tuple[int, int]]:
    """Neighbouring blocks together."""
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
    """Lost places as ranges, for tasks to tell."""
    size = view.log_reader.segment_size
    for place in places:
        start = place.physical_offset % size if size else 0
        path, base = str(place.path), place.physical_offset - start
        yield LogRange(location, path, base, size, start, max(size, start), is_cut=False, lost=place.found)


def gone(path: Path) -> FileGoneError:
    """What to raise for a segment that was there a moment ago."""
    return FileGoneError(
        f"{path}: gone since the query began; expected a segment. Either retention removed it, and the query can be "
        "run again, or this machine does not see the folder that the driver sees"
    )


def packed(ranges: Sequence[LogRange], split_bytes: int, min_partitions: int = 1) -> Iterator[tuple[LogRange, ...]]:
    """The ranges of each task: neighbours together as long as they stay within `split_bytes`, and as there are more
    than `min_partitions`."""
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
