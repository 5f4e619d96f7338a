"""A stream over everything in a store: its position is one physical offset."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...engine.read_only import ReadOnlyStore
from ...store.errors import InvalidSettingsError
from ...store.format.frame import Rows
from ...store.format.record import INT64_MAX
from ...store.segments.segment import Segment
from ..options.data_loss import Losses
from ..options.read_options import ReadOptions, Times
from ..options.stores import StoreLocation
from ..plan.log_planning import LogRange, packed, plan_log, task_size
from .stream_offsets import LogPlace, Place


@dataclass(frozen=True, slots=True)
class LogStream:
    """What a stream over everything asks of one store. QueueStream has the same methods. No view is kept between two
    calls."""

    options: ReadOptions
    place_type: ClassVar[type[Place]] = LogPlace

    def begin(self, view: ReadOnlyStore, losses: Losses) -> LogPlace:
        """Where a new stream begins, by its options."""
        starting = self.options.starting
        if starting == "earliest":
            return self.earliest(view)
        if not isinstance(starting, Times):
            return self.latest(view)
        found = first_at(view, starting.for_all_ms)
        if found == view.end_physical_offset and self.options.unmatched == "error":
            raise InvalidSettingsError(
                f"{starting.option}: {view.path}: no message is stored at or after that time; expected an earlier "
                "time, or startingOffsetsByTimestampStrategy=latest, which begins behind the last one"
            )
        return LogPlace(found)

    def earliest(self, view: ReadOnlyStore) -> LogPlace:
        """Before everything that the store holds."""
        return LogPlace(view.min_physical_offset)

    def latest(self, view: ReadOnlyStore) -> LogPlace:
        """Behind everything that is visible."""
        return LogPlace(view.end_physical_offset)

    def is_ahead(self, view: ReadOnlyStore, place: LogPlace) -> bool:
        """Whether the place is behind what the view shows."""
        return place.physical_offset > view.end_physical_offset

    def kept(self, view: ReadOnlyStore, place: LogPlace, losses: Losses) -> LogPlace:
        """The place, moved on past what retention has removed."""
        begin = view.min_physical_offset
        if place.physical_offset >= begin:
            return place
        losses.add(f"{view.path}: physical offsets {place.physical_offset} to {begin}")
        return LogPlace(begin)

    def log_end(self, place: LogPlace) -> int:
        """The physical offset that the log of a store must reach to hold the place."""
        return place.physical_offset

    def ahead_text(self, view: ReadOnlyStore, place: LogPlace) -> str:
        """The words of an error for a place that is ahead."""
        return f"physical offset {place.physical_offset}, and the log ends at {view.end_physical_offset}"

    def backlog(self, place: LogPlace, last: LogPlace) -> int:
        """How much there is to read between two places: bytes of the log, or messages of queues."""
        return max(last.physical_offset - place.physical_offset, 0)

    def advance(self, view: ReadOnlyStore, place: LogPlace, last: LogPlace, limit: int | None) -> LogPlace:
        """The end of the next batch: `last`, or about `limit` messages on; `place` itself where nothing is new.

        Raises FileNotFoundError where a segment is gone.
        """
        start, stop = place.physical_offset, last.physical_offset
        if start >= stop:
            return place
        return LogPlace(stop if limit is None else behind_records(view, start, stop, limit))

    def plan(
        self, view: ReadOnlyStore, location: StoreLocation, start: LogPlace, stop: LogPlace
    ) -> list[tuple[LogRange, ...]]:
        """The ranges of each task of a batch. Raises FileNotFoundError as `advance`."""
        span = start.physical_offset, stop.physical_offset
        size = task_size(span[1] - span[0], self.options)
        return list(packed(plan_log(view, location, size, span), size, self.options.min_partitions))


def behind_records(view: ReadOnlyStore, start: int, stop: int, count: int) -> int:
    """The physical offset behind the first `count` records of [start, stop); `stop` if there are no more.

    Damage is not counted: tasks handle it. Raises FileNotFoundError where a segment is gone.
    """
    for span in view.log_reader.segments_between(start, stop):
        for rows in _rows(view, *span):
            if len(rows) >= count:
                return int(rows["physical_offset"][count - 1] + rows["size"][count - 1])
            count -= len(rows)
    return stop


def _rows(view: ReadOnlyStore, segment: Segment, first: int, last: int) -> Iterator[Rows]:
    """The records of a part of a segment, piece by piece, past damage."""
    return (rows for scan in view.log_reader.scans_past_damage(segment, first, last) for _, rows in scan)


def first_at(view: ReadOnlyStore, time_ms: int) -> int:
    """The physical offset of the first record with a store time of `time_ms` or later, for a log in order of store
    times; the log's end if there is none. Walks one segment, and reads the beginning of others."""
    spans = list(view.log_reader.segments_between(view.min_physical_offset, view.end_physical_offset))
    later = bisect.bisect_left(spans, time_ms, key=lambda span: _first_time_ms(view, *span))
    for span in spans[max(later - 1, 0) :]:
        for rows in _rows(view, *span):
            found = np.flatnonzero(rows["store_timestamp_ms"] >= time_ms)
            if len(found):
                return int(rows["physical_offset"][found[0]])
    return view.end_physical_offset


def _first_time_ms(view: ReadOnlyStore, segment: Segment, first: int, last: int) -> int:
    rows = next(_rows(view, segment, first, last), None)
    return INT64_MAX if rows is None else int(rows["store_timestamp_ms"][0])


def is_whole(view: ReadOnlyStore, start: int, stop: int) -> bool:
    """Whether intact records fill the log from `start` to exactly `stop`, visible or not."""
    reader, position = view.log_reader, start
    for segment, first, last in reader.segments_between(start, stop):
        if segment.base + first != position:
            return False
        scan = reader.scan(segment, first, last, check_crc=True, mapped=False)
        if not all(rows["crc_ok"].all() for _, rows in scan):
            return False
        if scan.position != last and not (last == segment.size and scan.is_whole):
            return False
        position = segment.base + last
    return position == stop
