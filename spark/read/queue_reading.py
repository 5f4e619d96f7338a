"""Reading queues in a task: entries, then the records that they point to, and nothing else of the log.

The ranges of a task are read together, in the order of the log: one read covers adjacent records of all queues, also
across a gap that is cheaper to read than another read would be. A record that differs from its entry is damage, like a
body that differs from its CRC.

A task holds a page of entries and the bytes of one batch (4 MiB, or one larger record), and what it decompresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...engine.columns.gathering import gather
from ...engine.read.batch_reading import DamageError
from ...store import native
from ...store.disk.disk import Disk
from ...store.errors import CorruptQueueError, CorruptRecordError
from ...store.format.frame import FRAME_DTYPE, Rows, WalkEnd
from ...store.format.inner_batch import inner_count
from ...store.format.light_queues import is_light, light_places
from ...store.format.properties import decode_properties
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import WALK_END_TEXT
from ...store.scan.scan import PIECE_SIZE
from ..options.read_options import ReadOptions
from ..plan.queue_planning import CarriedBatches, QueueRange, SegmentFiles
from ..remote.remote_disk import read_places
from .batches import BatchMaker, only
from .queue_entries import Entries, EntryReader, Integers, SegmentOpening

GAP_SIZE = 4096
"""Largest gap between two records that is read along with them, in bytes."""
REMOTE_GAP_SIZE = 64 << 10
"""The same for a remote store, where a request takes as long as so many bytes."""
ROWS_A_BATCH = 32768


class _Stretches(NamedTuple):
    """Stretches of the log that are read with one call, as columns, and the entries of each."""

    starts: Integers
    """Physical offsets."""
    sizes: Integers
    firsts: Integers
    """Numbers of its entries, [first, stop)."""
    stops: Integers

    def part(self, chosen: slice) -> _Stretches:
        return _Stretches(*(column[chosen] for column in self))


class QueueRangeReader:
    """Reads ranges of queues of one store."""

    def __init__(self, schema: Any, options: ReadOptions, disk: Disk | None = None) -> None:
        """As `BatchMaker`; `disk` is used in place of the locations' own."""
        self._maker, self._options, self._given_disk = BatchMaker(schema, options), options, disk
        self._damages: list[DamageError] = []
        """Found, and not reported yet."""

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[Any]:
        """The messages of these ranges as RecordBatches of the schema, in the order of the log.

        Raises CorruptRecordError and CorruptQueueError at the first damage if that is to fail the query, DiskError
        if files are gone or unreadable.
        """
        if not ranges:
            return
        self._ranges, location = ranges, ranges[0].location
        self._disk, self._maker.store = self._given_disk or location.disk(), location.name
        gap_size = GAP_SIZE if self._disk.maps_files else REMOTE_GAP_SIZE
        self._topics = pa.array([each.topic.encode("utf-8", "surrogatepass") for each in ranges], pa.binary())
        self._queue_ids = np.array([each.queue_id for each in ranges], np.int64)
        self._of_batches = np.array([isinstance(each.entries, CarriedBatches) for each in ranges])
        self._segments = SegmentOpening(self._disk, ranges[0], self._meet, self._options)
        try:
            tags = self._options.bounds.tags
            for entries in EntryReader(self._disk, ranges, self._meet, self._segments.meet_loss, tags):
                for stretches in _batched(_stretches(entries, ranges[0].log, gap_size), ranges[0].log):
                    yield from self._batches(entries, stretches)
                yield from self._report_damages()
            yield from self._report_damages()
            self._maker.corruption.log_skipped(location.path, f"{len(ranges)} ranges of queues")
        finally:
            self._segments.close()

    # -- from entries to records

    def _batches(self, entries: Entries, stretches: _Stretches) -> Iterator[Any]:
        """The messages in these stretches of one segment."""
        first = int(stretches.firsts[0])
        some = entries.part(slice(first, int(stretches.stops[-1])))
        base = int(stretches.starts[0]) // self._ranges[0].log.segment_size * self._ranges[0].log.segment_size
        file = self._segments.open(base)
        if file is None:
            return
        places = list(zip((stretches.starts - base).tolist(), stretches.sizes.tolist(), strict=True))
        pieces = read_places(file, places)
        if sum(map(len, pieces)) < sum(size for _, size in places):  # a file that was cut short
            pieces = [piece.ljust(size, b"\0") for piece, (_, size) in zip(pieces, places, strict=True)]
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        rows, good = self._walked(file.path, piece, some, stretches)
        good &= self._are_listed(piece, rows, some, good)
        yield from self._report_damages()
        yield from self._handed_over(file.path, piece, only(rows, good), some.owners[good])

    def _walked(self, path: Path, piece: bytes, some: Entries, stretches: _Stretches) -> tuple[Rows, NDArray[np.bool_]]:
        """A row for each entry, from the concatenated stretches; and which of the rows are valid."""
        rows: Rows = np.empty(len(some.owners), FRAME_DTYPE)
        good = np.ones(len(rows), np.bool_)
        # Physical offset minus position in the piece.
        bases = stretches.starts - (np.cumsum(stretches.sizes) - stretches.sizes)
        bases = np.repeat(bases, stretches.stops - stretches.firsts)
        check_crc = self._maker.checks_bodies
        positions = some.physical_offsets - bases
        at, ahead = 0, len(rows)
        while at < len(rows):
            few = slice(at, at + ahead)
            count, end = native.walk_places(piece, positions[few], some.sizes[few], bases[few], check_crc, rows[few])
            at, ahead = at + count, 4 * ahead
            if end != WalkEnd.END:
                found, expected = WALK_END_TEXT[WalkEnd(end)], f"a record of {some.sizes[at]} bytes"
                self._damages.append(CorruptRecordError(path, int(some.physical_offsets[at]), found, expected))
                good[at] = False
                at, ahead = at + 1, 16  # the next ones may be damaged, too: few at a time
        return rows, good

    def _are_listed(self, piece: bytes, rows: Rows, some: Entries, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each record is the one that its entry lists."""
        same: NDArray[np.bool_] = good & (rows["queue_id"] == self._queue_ids[some.owners])
        same &= rows["queue_offset"] == some.queue_offsets
        if same.any():
            found = rows[same]
            topics = gather(piece, found["topic_position"], found["topic_size"])
            same[same] = pc.equal(topics, self._topics.take(some.owners[same])).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(good & ~same).tolist():
            listed, row, queue_offset = self._ranges[some.owners[at]], rows[at], int(some.queue_offsets[at])
            topic, queue_id = _text(piece, row, "topic").decode("utf-8", "replace"), int(row["queue_id"])
            properties_raw = _text(piece, row, "properties")
            if _is_listed_otherwise(topic, row, properties_raw, listed, queue_offset):
                same[at] = True
                continue
            there = f"the record of topic {topic} queue {queue_id} offset {row['queue_offset']}"
            expected = f"topic {listed.topic} queue {listed.queue_id} offset {queue_offset}"
            self._damages.append(CorruptQueueError(listed.queue_folder, queue_offset, there, expected))
        return same

    def _handed_over(self, path: Path, piece: bytes, rows: Rows, owners: NDArray[np.int64]) -> Iterator[Any]:
        if not self._of_batches.any():
            yield from self._maker.batches(path, piece, rows)
            return
        of_batches = self._of_batches[owners]
        yield from self._maker.batches(path, piece, rows[~of_batches])
        for number in np.unique(owners[of_batches]).tolist():
            span = self._ranges[number].start, self._ranges[number].stop
            yield from self._maker.batches(path, piece, rows[owners == number], span=span)

    def _report_damages(self) -> Iterator[Any]:
        damages, self._damages = self._damages.copy(), []
        for damage in damages:
            yield from self._maker.damaged(damage)

    def _meet(self, damage: DamageError) -> None:
        self._damages.append(damage)  # a new list each time they are reported


def _stretches(entries: Entries, log: SegmentFiles, gap_size: int) -> _Stretches:
    """The stretches that hold the entries' records: each in one segment, of 4 MiB or one record that is larger."""
    starts = entries.physical_offsets
    ends = starts + entries.sizes
    gaps = starts[1:] - ends[:-1]
    breaks = (gaps < 0) | (gaps > gap_size) | (starts[1:] // log.segment_size != starts[:-1] // log.segment_size)
    firsts = np.flatnonzero(np.concatenate(([len(starts) > 0], breaks)))
    stops = np.append(firsts[1:], len(starts))[: len(firsts)]
    large = np.flatnonzero(ends[stops - 1] - starts[firsts] > PIECE_SIZE)
    if len(large):
        more: list[int] = []
        for first, stop in zip(firsts[large].tolist(), stops[large].tolist(), strict=True):
            while first < stop:
                more.append(first)
                fit = int(np.searchsorted(ends[first:stop], starts[first] + PIECE_SIZE, side="right"))
                first += max(fit, 1)
        firsts = np.union1d(firsts, np.array(more, np.int64))
        stops = np.append(firsts[1:], len(starts))
    return _Stretches(starts[firsts], ends[stops - 1] - starts[firsts], firsts, stops)


def _batched(stretches: _Stretches, log: SegmentFiles) -> Iterator[_Stretches]:
    """Those that make a batch together: of one segment, and 4 MiB in all or one stretch."""
    ends, segments = np.cumsum(stretches.sizes), stretches.starts // log.segment_size
    at = 0
    while at < len(ends):
        fit = int(np.searchsorted(ends, ends[at] - stretches.sizes[at] + PIECE_SIZE, side="right"))
        few = int(np.searchsorted(stretches.stops, stretches.firsts[at] + ROWS_A_BATCH, side="right"))
        stop = max(min(fit, few), at + 1)
        elsewhere = np.flatnonzero(segments[at:stop] != segments[at])
        stop = at + int(elsewhere[0]) if len(elsewhere) else stop
        yield stretches.part(slice(at, stop))
        at = stop


def _text(piece: bytes, row: Any, field: str) -> bytes:
    start = int(row[f"{field}_position"])
    return piece[start : start + int(row[f"{field}_size"])]


def _is_listed_otherwise(topic: str, row: Any, properties_raw: bytes, listed: QueueRange, queue_offset: int) -> bool:
    """Whether a queue lists a record whose topic bytes, queue id or offset differ from the entry's: a light queue, a
    topic that is not UTF-8, or an inner batch in a queue of single messages."""
    key, own = (listed.topic, listed.queue_id), (topic, int(row["queue_id"]))
    if is_light(listed.topic):
        return (key, queue_offset) in light_places(topic, properties_raw)
    behind = queue_offset - int(row["queue_offset"])
    is_batch = int(row["sys_flag"]) & INNER_BATCH
    return own == key and (
        behind == 0 or (is_batch != 0 and 0 < behind < inner_count(decode_properties(properties_raw)))
    )
