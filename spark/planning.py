"""Cutting a log into ranges for tasks, at places where a record surely starts.

Such places are the start of a segment, the boundaries that its seal lists, and what a walk from the segment's start
comes by. Looking for something that resembles a record would not do: a body may hold bytes that do.

The upper end is the read-only view's, so beside a live writer no task sees a record that is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.read_only import ReadOnlyStore, open_read_only
from ..store import native
from ..store.deleted_topics import DeletedTopics
from ..store.disk import Disk
from ..store.errors import FileGoneError, StoreNotFoundError
from ..store.frame import FRAME_DTYPE
from ..store.log_files import COMMIT_LOG_FOLDER
from ..store.log_reader import LogReader
from ..store.record import FIXED_V1_V4_SIZE
from ..store.seal import BLOCK_SIZE, read_seal
from ..store.segment import Segment
from .bounds import NO_BOUNDS, Bounds
from .locations import StoreLocation
from .log_pruning import stretches

LEAST_SIZE = FIXED_V1_V4_SIZE


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

    @property
    def size(self) -> int:
        """Bytes to read."""
        return 0 if self.lost else self.stop - self.start


def require_store(location: StoreLocation) -> None:
    """Raises StoreNotFoundError where no store can be: early, when the DataFrame is made and not when it is used."""
    disk = location.disk()
    if not disk.exists(location.path / COMMIT_LOG_FOLDER):
        found = f"no {COMMIT_LOG_FOLDER}/ in it" if disk.exists(location.path) else "no such folder"
        raise StoreNotFoundError(
            f"{location.uri}: {found}; expected the folder of a store, the one that holds {COMMIT_LOG_FOLDER}/"
        )


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

    Reads no segment that is not longer than `split_bytes` and none whose seal serves; others up to their last cut, in
    pieces. Of a remote store no segment is read: without a seal that is sure to be its own it stays in one range.
    Raises DiskError where the disk does not give what was asked for.
    """
    reader, ranges = view.log_reader, list[LogRange]()
    for segment, start, stop in reader.segments_between(*span or (view.min_physical_offset, view.end_physical_offset)):
        try:
            deleted = view.deleted_topics if segment.base + start < view.deleted_topics.highest else None
            is_ours = view.evidence.is_ours
            parts = stretches(view, segment, start, stop, bounds)
            cuts = [pairwise(_cuts(reader, segment, first, last, split_bytes, is_ours)) for first, last in parts]
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
    return sorted([*ranges, *_lost(view, location, span)], key=lambda piece: piece.base + piece.start)


def _lost(view: ReadOnlyStore, location: StoreLocation, span: tuple[int, int] | None) -> Iterator[LogRange]:
    size = view.log_reader.segment_size
    for place in view.lost_places():
        if span is not None and not span[0] <= place.physical_offset < span[1]:
            continue
        start = place.physical_offset % size if size else 0
        path, base = str(place.path), place.physical_offset - start
        yield LogRange(location, path, base, size, start, max(size, start), is_cut=False, lost=place.found)


def gone(path: Path) -> FileGoneError:
    """What to raise for a segment that was there a moment ago."""
    return FileGoneError(
        f"{path}: gone since the query began; expected a segment. Either retention removed it, and the query can be "
        "run again, or this machine does not see the folder that the driver sees"
    )


def _cuts(
    reader: LogReader, segment: Segment, start: int, stop: int, split_bytes: int, are_seals_ours: bool
) -> list[int]:
    """Where ranges of [start, stop) begin and end. Whoever has sealed segments drops stale seals when it opens a store;
    another writer does not."""
    count = -(-(stop - start) // split_bytes)
    wanted = [start + (stop - start) * i // count for i in range(1, count)]
    is_remote = not reader.disk.maps_files
    if not wanted or (is_remote and not are_seals_ours):
        return [start, stop]
    places = _places_in_seal(reader, segment, start, stop, wanted)
    if places is None or not (is_remote or all(_is_record(segment, place) for place in places)):
        places = [] if is_remote else _walk_to(reader, segment, start, stop, wanted)
    return [start, *sorted(set(places)), stop]


def _places_in_seal(
    reader: LogReader, segment: Segment, start: int, stop: int, wanted: Sequence[int]
) -> list[int] | None:
    """The first record that starts at or behind each wanted position, as far as a seal knows one before `stop`; None
    where none serves."""
    seal = read_seal(reader.disk, reader.folder.parent, segment)
    if seal is not None and wanted[0] - start >= BLOCK_SIZE:
        boundaries = np.array(seal.boundaries, np.int64)
        boundaries = boundaries[(boundaries > start) & (boundaries < min(stop, seal.records_end))]
        found = np.searchsorted(boundaries, wanted)
        places: list[int] = boundaries[found[found < len(boundaries)]].tolist()
        return places
    return None


def _is_record(segment: Segment, position: int) -> bool:
    """Whether a record starts here: a seal may be older than its segment, whose end RocketMQ can have written anew."""
    row: Any = np.empty(1, FRAME_DTYPE)
    size = int.from_bytes(segment.read(position, 4), "big", signed=True)
    if not LEAST_SIZE <= size <= segment.size - position:
        return False
    return bool(native.walk(segment.read(position, size), 0, size, segment.base + position, False, row)[0])


def _walk_to(reader: LogReader, segment: Segment, start: int, stop: int, wanted: Sequence[int]) -> list[int]:
    """As `_places_in_seal`, by a walk. It ends at damage: the rest then stays in one range; its task deals with it."""
    places: list[int] = []
    for _, rows in reader.scan(segment, start, stop, check_crc=False, mapped=False):
        positions = rows["physical_offset"] - segment.base
        while len(places) < len(wanted) and positions[-1] >= wanted[len(places)]:
            places.append(int(positions[np.searchsorted(positions, wanted[len(places)])]))
        if len(places) == len(wanted):
            break
    return places


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
