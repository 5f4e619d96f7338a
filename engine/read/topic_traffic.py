"""How large the records of a topic are, and when they came: from queue entries, and the store times of a few records.

The log itself is not read: the hours of a queue are found by binary search, as its store times grow with its offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import valid_mask
from ...store.arguments import check_flag, check_time_ms, check_topic, check_type
from ...store.errors import CorruptRecordError
from ...store.log.log_reader import LogReader
from ..read_only import ReadOnlyStore
from .selection import Selection

HOUR_MS: Final = 3_600_000
PAGE_ENTRIES: Final = 1 << 16
"""Queue entries that are read at once."""


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """Records by their size: those of more than `above` and at most `up_to` bytes."""

    above: int
    up_to: int
    records: int


@dataclass(frozen=True, slots=True)
class HourTraffic:
    """What was stored within an hour."""

    begin_ms: int
    """When it begins, in ms since 1970; a whole hour in UTC."""
    messages: int
    size: int
    """Bytes of their records."""


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """The sizes of a topic's records, and its messages by the hour in which they were stored."""

    topic: str
    messages: int
    records: int
    """As many as messages, but where one is an inner batch of many."""
    size: int
    """Bytes of all records. A record has some 100 bytes beside body, topic and properties."""
    min_size: int
    median_size: int
    p99_size: int
    """99 % of the records are not larger."""
    max_size: int
    sizes: tuple[SizeBucket, ...]
    """By powers of two, in order; empty ones between others are there."""
    hours: tuple[HourTraffic, ...]
    """Those with messages, in order."""


def topic_traffic(
    view: ReadOnlyStore,
    *,
    topics: tuple[str, ...] = (),
    begin_ms: int | datetime | None = None,
    end_ms: int | datetime | None = None,
    include_system: bool = False,
) -> dict[str, TopicTraffic]:
    """The traffic of these topics, or of all but RocketMQ's own, by name; of messages that were stored at `begin_ms` or
    later and before `end_ms` (ms since 1970, or datetimes with a time zone). Topics without such messages are left out.

    Reads the queue entries of these messages, 20 bytes each, and of the log no more than a few records an hour and
    queue. Damaged entries do not count; a damaged record counts as stored when the next intact one of its queue was.
    Raises WrongTypeError, InvalidArgumentError, StoreClosedError, DiskError; with times also CorruptQueueError.
    """
    check_type("view", view, ReadOnlyStore, "a read-only view of a store")
    check_type("topics", topics, tuple, "a tuple of names of topics")
    for topic in topics:
        check_topic(topic)
    begin_ms = None if begin_ms is None else check_time_ms("begin_ms", begin_ms)
    end_ms = None if end_ms is None else check_time_ms("end_ms", end_ms)
    check_flag("include_system", include_system)
    selection = Selection(topics=topics, begin_ms=begin_ms, end_ms=end_ms, include_system=include_system)
    found: dict[str, _Counts] = {}
    for key, (first, end) in sorted(selection.bounds(view).items()):
        queue = view.queue_table.get(key)
        if queue is not None:
            found.setdefault(key[0], _Counts()).add(view.log_reader, queue, first, end)
    return {topic: counts.result(topic) for topic, counts in found.items() if counts.messages}


class _Counts:
    """Counts of one topic."""

    def __init__(self) -> None:
        self.messages = 0
        self._sizes: Counter[int] = Counter()
        self._hours: dict[int, tuple[int, int]] = {}
        """Begin of the hour -> messages, and bytes of their records."""

    def add(self, reader: LogReader, queue: Queue, first: int, end: int) -> None:
        """Count the messages [first, end) of a queue."""
        for begin_ms, start, stop in _hours(reader, queue, first, end):
            messages = size = 0
            for count, sizes in _pages(queue, start, stop):
                messages, size = messages + count, size + int(sizes.sum())
                values, counts = np.unique(sizes, return_counts=True)
                self._sizes.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            before = self._hours.get(begin_ms, (0, 0))
            self._hours[begin_ms] = before[0] + messages, before[1] + size
            self.messages += messages

    def result(self, topic: str) -> TopicTraffic:
        sizes = np.array(sorted(self._sizes), np.int64)
        counts = np.array([self._sizes[size] for size in sizes.tolist()], np.int64)
        ends = np.cumsum(counts)
        records = int(ends[-1])
        median, p99 = (int(sizes[np.searchsorted(ends, share * records)]) for share in (0.5, 0.99))
        return TopicTraffic(
            topic,
            self.messages,
            records,
            int((sizes * counts).sum()),
            int(sizes[0]),
            median,
            p99,
            int(sizes[-1]),
            tuple(_buckets(self._sizes)),
            tuple(HourTraffic(begin_ms, *self._hours[begin_ms]) for begin_ms in sorted(self._hours)),
        )


def _buckets(sizes: Counter[int]) -> Iterator[SizeBucket]:
    powers: Counter[int] = Counter()
    for size, count in sizes.items():
        powers[(size - 1).bit_length()] += count
    for power in range(min(powers), max(powers) + 1):
        yield SizeBucket(1 << power - 1 if power else 0, 1 << power, powers[power])


def _pages(queue: Queue, index: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Messages [index, stop): how many there are, and the sizes of their records. The messages of an inner batch have
    one."""
    last = -1
    while index < stop:
        units = queue.units(index, min(PAGE_ENTRIES, stop - index))
        if not len(units):
            index = queue.next_file_index(index)  # a file that is not there counts for nothing
            continue
        index += len(units)
        units = units[valid_mask(units)]
        places = units["physical_offset"].astype(np.int64)
        is_new = np.diff(places, prepend=last) != 0
        last = int(places[-1]) if len(places) else last
        yield len(units), units["size"][is_new].astype(np.int64)


def _hours(reader: LogReader, queue: Queue, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(begin of the hour, first queue offset, one past the last) of each hour with messages."""
    while first < end:
        found = _readable(reader, queue, first, end)
        if found is None:
            return
        begin_ms = found[1] // HOUR_MS * HOUR_MS
        low, high = found[0] + 1, end
        while low < high:
            middle = (low + high) // 2
            found = _readable(reader, queue, middle, high)
            if found is not None and found[1] < begin_ms + HOUR_MS:
                low = found[0] + 1
            else:
                high = middle
        yield begin_ms, first, low
        first = low


def _readable(reader: LogReader, queue: Queue, index: int, stop: int) -> tuple[int, int] | None:
    """The first message of [index, stop) whose store time can be read, and that time."""
    count = 1
    while index < stop:
        units = queue.units(index, min(count, stop - index))
        if not len(units):
            index = queue.next_file_index(index)
            continue
        for place in np.flatnonzero(valid_mask(units)).tolist():
            try:
                return index + place, reader.store_timestamp_ms_at(*units[place].item()[:2])
            except CorruptRecordError:
                continue
        index += len(units)
        count = PAGE_ENTRIES
    return None
