"""From the entries of a queue to their messages, one at a time (`message_of`) or many (`Fetcher`).

Nearly every message is read by the Fetcher: the kernel takes the entries in one call, up to the first that is unusual
in any way. That one is read alone by `message_of`, whose result or error counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...index.filter.wanted import MessageFilter
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER, Queue
from ...index.queue.queue_unit import QueueUnit, Units, valid_mask
from ...store.errors import CorruptBodyError, CorruptQueueError, CorruptRecordError
from ...store.format.inner_batch import inner_count, unwrapped
from ...store.format.light_queues import is_light
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ..dispatch.dispatching import is_entry_of


def entries(
    queue: Queue, index: int, stop: int, page: int, wanted: MessageFilter | None
) -> Iterator[tuple[int, QueueUnit, bool]]:
    """(index, entry, whether it may match) in [index, stop), up to a missing file; read `page` entries at a time."""
    while index < stop:
        units = queue.units(index, min(page, stop - index))
        if not len(units):
            return
        mask: Iterable[bool] = repeat(True) if wanted is None else may_match_mask(queue, units, wanted).tolist()
        for unit, may_match in zip(units.tolist(), mask, strict=False):
            yield index, QueueUnit(*unit), may_match
            index += 1


def may_match_mask(queue: Queue, units: Units, wanted: MessageFilter | None) -> NDArray[np.bool_]:
    """Which entries to look up in the log, including those that point at no record: that is damage, and the
    tags of their messages are unknown."""
    if wanted is None:
        return np.ones(len(units), np.bool_)
    mask: NDArray[np.bool_] = wanted.may_match(queue.resolved(units)) | ~valid_mask(units)
    return mask


class QueueEntries(NamedTuple):
    """Entries of queues of one topic."""

    units: Units
    queue_offsets: NDArray[np.int64]
    queue_ids: int | NDArray[np.int32]
    """A column, or the id of the one queue of all."""

    def queue_id(self, i: int) -> int:
        return self.queue_ids if isinstance(self.queue_ids, int) else int(self.queue_ids[i])


class LastBatch:
    """The inner batch that was read last: its messages come one after another, and it is to be unwrapped once, also if
    it cannot be."""

    def __init__(self) -> None:
        self.physical_offset = -1
        self.problem: CorruptRecordError | None = None
        self.base = 0
        self.messages: list[StoredMessage] = []

    def get(self, unit: QueueUnit, queue_offset: int) -> StoredMessage | None:
        """Raises CorruptRecordError where it could not be unwrapped."""
        if self.problem is not None and unit.physical_offset == self.physical_offset:
            raise self.problem
        place = queue_offset - self.base
        is_here = unit.physical_offset == self.physical_offset and 0 <= place < len(self.messages)
        return self.messages[place] if is_here else None


def message_of(
    reader: LogReader, key: QueueKey, queue_offset: int, unit: QueueUnit, last: LastBatch | None = None
) -> StoredMessage | None:
    """The message of one entry; None if the log has let it go since the queue was looked at.

    Raises CorruptRecordError or CorruptQueueError unless entry and record agree on what it is.
    """
    known = last.get(unit, queue_offset) if last is not None else None
    if known is not None:
        return known
    if unit.physical_offset < reader.min_offset:
        return None
    if not unit.is_valid:
        raise CorruptQueueError(
            queue_path(reader, key), queue_offset, f"an entry without a record {tuple(unit)}", "a message's entry"
        )
    try:
        message = reader.message(unit.physical_offset, unit.size)
    except CorruptRecordError:
        if reader.was_released(unit.physical_offset):
            return None
        raise
    if not is_entry_of(message, key, queue_offset):
        raise CorruptQueueError(
            queue_path(reader, key),
            queue_offset,
            f"the record of topic {message.topic} queue {message.queue_id} offset {message.queue_offset}",
            f"topic {key[0]} queue {key[1]} offset {queue_offset}",
        )
    if message.sys_flag & INNER_BATCH and message.topic == key[0]:
        return _message_in_batch(reader, message, queue_offset, last or LastBatch())
    return message


def _message_in_batch(reader: LogReader, record: StoredMessage, queue_offset: int, last: LastBatch) -> StoredMessage:
    last.physical_offset, last.base, last.messages, last.problem = record.physical_offset, record.queue_offset, [], None
    try:
        messages = last.messages = messages_of(reader, record)
    except CorruptRecordError as e:
        last.problem = e
        raise
    place = queue_offset - record.queue_offset
    if place >= len(messages):
        raise CorruptRecordError(
            reader.folder,
            record.physical_offset,
            f"an inner batch of {len(messages)} messages",
            f"one of {inner_count(record.properties)}",
        )
    return messages[place]


def messages_of(reader: LogReader, record: StoredMessage) -> list[StoredMessage]:
    """The messages of a record: itself, or those of the inner batch that it is. Raises CorruptRecordError."""
    try:
        return unwrapped(record)
    except CorruptBodyError as e:
        raise CorruptRecordError(reader.folder, record.physical_offset, str(e), "an inner batch") from e


def queue_path(reader: LogReader, key: QueueKey) -> Path:
    """The folder of a queue."""
    return reader.folder.parent / CONSUME_QUEUE_FOLDER / key[0] / str(key[1])


def missing_file(reader: LogReader, key: QueueKey, queue_offset: int, end: int) -> CorruptQueueError:
    """The file of this entry is not there though the queue goes on to `end`."""
    return CorruptQueueError(queue_path(reader, key), queue_offset, "no queue file", f"entries up to {end}")


FETCH_COUNT: Final = 512
FETCH_SIZE: Final = 1 << 20
"""Entries, and bytes of records, that are fetched at once at most: bounds the memory, and what is done in vain."""


READ_AHEAD_SIZE: Final = 8 << 20
"""Bytes of the log that are fetched from the disk ahead of an iterator."""
SPARSE: Final = 4
"""Where a queue's records are less than one part in so many of what lies between them, most of what is read ahead would
be other queues'."""


class ReadAhead:
    """Has the log fetched from the disk ahead of one who reads a queue through: a reader waits for the memory then."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._ahead_to = 0
        """Physical offset up to which the log is being fetched."""
        self._look_at = 0
        """Physical offset from which on to look again."""

    def look(self, units: Units) -> None:
        """These entries are read now, those behind them next."""
        stop = int(units["physical_offset"][-1]) + int(units["size"][-1])
        if stop <= self._look_at <= stop + READ_AHEAD_SIZE:
            return
        # Seldom: numpy releases the GIL over this many entries, and a reader among many waits long for it.
        self._look_at = stop + READ_AHEAD_SIZE // 2
        first, size = int(units["physical_offset"][0]), int(units["size"].astype(np.int64).sum())
        if 0 <= first < stop < first + SPARSE * size:
            start = max(stop, min(self._ahead_to, stop + READ_AHEAD_SIZE))
            self._ahead_to = stop + READ_AHEAD_SIZE
            self._reader.will_read(start, self._ahead_to)


class Fetcher:
    """Reads messages of queues of one topic, in order."""

    def __init__(self, reader: LogReader, topic: str, queues: Iterable[Queue]) -> None:
        self._reader = reader
        self._topic_raw = topic.encode("utf-8", "surrogatepass")
        # Their entries stand for parts of a record, and for records of other queues.
        self._is_odd = is_light(topic) or any(isinstance(queue, BatchQueue) for queue in queues)
        self._ahead = FETCH_COUNT

    def some(self, entries: QueueEntries, at: int, limit: int = FETCH_COUNT) -> list[StoredMessage]:
        """The messages of the entries from number `at` on, `limit` at most; empty if that one must be read alone."""
        if self._is_odd:
            return []
        stop = at + min(self._ahead, limit)
        units, queue_offsets, ids = entries
        found = self._reader.messages(
            *(units[at:stop].tobytes(), queue_offsets[at:stop], ids if isinstance(ids, int) else ids[at:stop]),
            *(self._topic_raw, FETCH_SIZE),
        )
        # Where one is odd, the next ones may be: none is to be looked at many times.
        self._ahead = min(4 * self._ahead, FETCH_COUNT) if found else 1
        return found
