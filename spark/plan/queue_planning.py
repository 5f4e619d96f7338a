"""Cutting queues into ranges for tasks: a query of some topics reads the queues of these topics only.

All queues are cut at the same physical offsets, so a task reads one stretch of the log, however many queues have
messages there; queue_reading.py merges them.

A task reads the entries of its ranges from the queues' files. Entries that are in no file (the end of a queue that lags
behind the log, and those of inner batches, which a view keeps in memory) are part of the range.

Entries alone: a million messages are 20 MB of entries, however large their bodies are. If a query needs only what
entries contain (engine/columns/entry_columns.py), and damage fails the query, records are not read, and damaged records
are not noticed, as a damaged body is not noticed by a query that does not read it. This is not done if damage is
skipped or shown: every body then decides which rows there are. Nor in queues whose entries are not one message each
with its own place: light queues and those of inner batches.

Some lost places of the log have no queue entries: a view takes entries from the queues' files up to the offset from
which it scans the log. Entries of a segment that is missing behind that offset were dropped, or never written: filler
or the queue's end is in their place. And queues begin where the log begins, behind a first segment of the wrong length.
The messages there are unknown, so each queue whose range covers such a place may lack some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...engine.columns.entry_columns import ENTRY_COLUMNS
from ...engine.open.tail_scan import Damage
from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.memory_queue import MemoryQueue
from ...index.queue.queue_layout import QueueLayout
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER, Queue
from ...index.queue.queue_unit import UNIT_DTYPE, UNIT_SIZE, valid_mask
from ...store.format.light_queues import is_light
from ...store.queue_offsets import QueueKey
from ...store.settings import MAX_RECORD_SIZE
from ..options.bounds import REPLACEMENT
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation
from ..schema import STORE
from .log_planning import LogRange, lost_ranges
from .selection import QueueSpans, index_at

SAMPLES, SAMPLE_ENTRIES = 16, 64
"""Places of a queue, and entries at each, that estimate the size of its records."""
COLUMNS_OF_ENTRIES = ENTRY_COLUMNS | {STORE.name}
ENTRIES_SHARE = 16
"""A task reads so many times fewer bytes of entries than of the log: at 256 MiB, some 840,000 messages."""
MARKS_A_TASK = 16
"""Sampled entries that place the cuts: more make the tasks more equal."""


class SegmentFiles(NamedTuple):
    """The folders of the log's segments."""

    folders: tuple[str, ...]
    segment_size: int


@dataclass(frozen=True, slots=True)
class CarriedUnits:
    """Entries that are in no file, in the format of the file."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class CarriedBatches:
    """Entries of a batch queue that overlap the range."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The messages of one queue with queue offsets in [start, stop). Pickled."""

    location: StoreLocation
    topic: str
    queue_id: int
    start: int
    stop: int
    log: SegmentFiles
    entries: QueueLayout | CarriedUnits | CarriedBatches
    size: int
    """About how many bytes are read: those of the records, or of the entries alone."""
    from_entries: bool = False
    """Whether the entries alone are read (queue_entries.py)."""

    @property
    def queue_folder(self) -> Path:
        """The folder of this queue, for reports of damage."""
        return Path(self.location.path, CONSUME_QUEUE_FOLDER, self.topic, str(self.queue_id))


def entries_suffice(options: ReadOptions) -> bool:
    """Whether a query of chosen queues can do without their records. `options` name the columns."""
    reads_records = options.on_corrupt != "fail" or options.decompress or not options.bounds.says_only_places
    return not reads_records and bool(options.columns) and COLUMNS_OF_ENTRIES.issuperset(options.columns)


def plan_chosen(
    view: ReadOnlyStore,
    location: StoreLocation,
    spans: QueueSpans,
    options: ReadOptions,
    split_bytes: int,
    min_partitions: int,
) -> list[tuple[QueueRange, ...]]:
    """As `plan_queues`, with entries alone where these are enough."""
    alone = {key for key in spans if _stands_for_itself(view, key)} if entries_suffice(options) else set()
    by_entries = {key: span for key, span in spans.items() if key in alone}
    by_records = {key: span for key, span in spans.items() if key not in alone}
    return [
        *plan_queues(view, location, by_records, split_bytes, min_partitions),
        *plan_queues(
            *(view, location, by_entries, max(options.split_bytes // ENTRIES_SHARE, 1), min_partitions),
            from_entries=True,
        ),
    ]


def _stands_for_itself(view: ReadOnlyStore, key: QueueKey) -> bool:
    """Whether each entry of a queue is one message, whose topic, queue id and offset are the queue's."""
    topic, _ = key
    return not (is_light(topic) or REPLACEMENT in topic or isinstance(view.queue_table.get(key), BatchQueue))


def plan_queues(
    view: ReadOnlyStore,
    location: StoreLocation,
    spans: QueueSpans,
    split_bytes: int,
    min_partitions: int = 1,
    *,
    from_entries: bool = False,
) -> list[tuple[QueueRange, ...]]:
    """The ranges of each task, in the order of the log: about `split_bytes` of records a task, or of entries where
    these alone are to be read, and `min_partitions` tasks at least if there are as many messages. Reads a few entries
    of each queue, and no record."""
    folders = tuple(dict.fromkeys(str(segment.path.parent) for segment in view.segments))
    log = SegmentFiles(folders, view.log_reader.segment_size)
    found = {key: queue for key in spans if (queue := view.queue_table.get(key)) is not None}
    sizes = {
        key: UNIT_SIZE * (spans[key][1] - spans[key][0]) if from_entries else about_size(queue, *spans[key])
        for key, queue in found.items()
    }
    cuts = _cuts([(found[key], *spans[key], sizes[key]) for key in found], split_bytes, min_partitions)
    at = {key: spans[key][0] for key in found}
    tasks = []
    for cut in [*cuts, None]:
        ranges: list[QueueRange] = []
        for key, queue in found.items():
            start, stop = at[key], spans[key][1]
            at[key] = stop if cut is None else index_at(queue, cut, start, stop)
            for first, last, entries in _parts(queue, start, at[key]):
                size = sizes[key] * (last - first) // (spans[key][1] - spans[key][0])
                ranges.append(QueueRange(location, *key, first, last, log, entries, size, from_entries))
        if ranges:
            tasks.append(tuple(ranges))
    return tasks


def _parts(
    queue: Queue, start: int, stop: int
) -> Iterator[tuple[int, int, QueueLayout | CarriedUnits | CarriedBatches]]:
    """[start, stop) in parts, each with the source of its entries."""
    if start >= stop:
        return
    if isinstance(queue, BatchQueue):
        chosen = _batches(queue, start, stop)
        if len(chosen):
            yield start, stop, CarriedBatches(chosen.tobytes())
        return
    assert isinstance(queue, MemoryQueue)
    split = min(max(queue.split, start), stop)
    if start < split:
        yield start, split, queue.layout
    if split < stop:
        yield split, stop, CarriedUnits(queue.units(split, stop - split).tobytes())


def _batches(queue: BatchQueue, start: int, stop: int) -> NDArray[np.void]:
    """The entries of batches with messages in [start, stop)."""
    batches = queue.batches
    bases = batches["base"].astype(np.int64)
    first = int(np.searchsorted(bases + batches["count"], start, side="right"))
    return batches[first : int(np.searchsorted(bases, stop))]


def _cuts(spans: list[tuple[Queue, int, int, int]], split_bytes: int, min_partitions: int) -> list[int]:
    """Physical offsets at which tasks end, ascending, from a sample of entries: each stands for some bytes of records.
    `spans` are queues, each with its first and last offset and the size of its records."""
    total, messages = sum(size for *_, size in spans), sum(stop - start for _, start, stop, _ in spans)
    tasks = max(-(-total // split_bytes), min_partitions)
    if tasks <= 1:
        return []
    samples: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    weights: list[NDArray[np.float64]] = [np.empty(0)]
    for queue, start, stop, size in spans:
        # By bytes; and by messages, in case a few of them have most of the bytes.
        by_bytes = MARKS_A_TASK * tasks * size // max(total, 1)
        by_messages = MARKS_A_TASK * min_partitions * (stop - start) // max(messages, 1)
        count = min(by_bytes + by_messages + 1, stop - start)
        indexes = [start + (2 * i + 1) * (stop - start) // (2 * count) for i in range(count)]
        units = np.concatenate([queue.units(index, 1) for index in indexes] or [np.empty(0, UNIT_DTYPE)])
        samples.append(units["physical_offset"][valid_mask(units)].astype(np.int64))
        weights.append(np.full(len(samples[-1]), size / max(count, 1)))
    places, sizes = np.concatenate(samples), np.concatenate(weights)
    if not len(places):
        return []
    order = np.argsort(places, kind="stable")
    places, sizes = places[order], sizes[order]
    before = np.cumsum(sizes) - sizes
    cuts = np.unique(places[np.searchsorted(before, before[-1] * np.arange(1, tasks) / tasks)])
    places = np.unique(places)
    if len(cuts) + 1 < min(min_partitions, len(places)):  # a few records are larger than a task's share
        cuts = places[np.arange(1, min_partitions) * len(places) // min_partitions]
    found: list[int] = np.unique(cuts[cuts > places[0]]).tolist()
    return found


def about_size(queue: Queue, start: int, stop: int) -> int:
    """Bytes of the records of [start, stop), from a sample of the entries where there are many."""
    if isinstance(queue, BatchQueue):
        return int(_batches(queue, start, stop)["size"].astype(np.int64).sum())
    count = stop - start
    if count <= SAMPLES * SAMPLE_ENTRIES:
        units = queue.units(start, count)
    else:
        places = [start + i * (count - SAMPLE_ENTRIES) // (SAMPLES - 1) for i in range(SAMPLES)]
        units = np.concatenate([queue.units(place, SAMPLE_ENTRIES) for place in places])
    sizes = np.where(valid_mask(units), np.minimum(units["size"], MAX_RECORD_SIZE), 0).astype(np.int64)
    return int(sizes.sum()) * count // max(len(units), 1)


def lost_to_queues(view: ReadOnlyStore, location: StoreLocation, spans: QueueSpans) -> list[LogRange]:
    """The lost places that may have held messages of these spans, and that reading the spans does not find."""
    places = [place for place in view.lost_places() if _is_forgotten(view, place) and _reach_over(view, spans, place)]
    return list(lost_ranges(view, location, places))


def _is_forgotten(view: ReadOnlyStore, place: Damage) -> bool:
    return not view.min_physical_offset <= place.physical_offset < view.report.scanned_from


def _reach_over(view: ReadOnlyStore, spans: QueueSpans, place: Damage) -> bool:
    """Whether one of the spans covers the place, or ends at it where the queue was cut. Not if a queue still has
    entries of the place: reading these reports it."""
    held, is_reached = view.queues(), False
    for key, (start, stop) in spans.items():
        first, end = held.get(key, (0, 0))
        queue = view.queue_table.get(key)
        at = start if queue is None else index_at(queue, place.physical_offset, start, stop)
        if queue is not None and at < stop and place.resumes_at is not None:
            there = queue.units(at, 1)
            if len(there) and place.physical_offset <= int(there["physical_offset"][0]) < place.resumes_at:
                return False
        is_reached |= (at > start or start <= first) and (at < stop or stop >= end)
    return is_reached
