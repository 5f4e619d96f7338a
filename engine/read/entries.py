"""From a queue's entries to their messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...index.filter.tag_filter import TagFilter
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER, Queue
from ...index.queue.queue_unit import QueueUnit, Units, valid_mask
from ...store.errors import CorruptBodyError, CorruptQueueError, CorruptRecordError
from ...store.format.inner_batch import inner_count, unwrapped
from ...store.format.sys_flag import INNER_BATCH
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ..dispatch.dispatching import is_entry_of


def entries(
    queue: Queue, index: int, stop: int, page: int, wanted: TagFilter | None
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


def may_match_mask(queue: Queue, units: Units, wanted: TagFilter | None) -> NDArray[np.bool_]:
    """Which entries to look up in the log, including those that point at no record: that is damage, and the
    tags of their messages are unknown."""
    if wanted is None:
        return np.ones(len(units), np.bool_)
    mask: NDArray[np.bool_] = wanted.may_match(queue.resolved(units)) | ~valid_mask(units)
    return mask


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
