"""From pages of entries to pages of messages, for iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ...index.filter.wanted import MessageFilter
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import QueueUnit
from ...store.errors import CorruptQueueError, CorruptRecordError
from ...store.log.log_reader import LogReader
from ...store.stored_message import StoredMessage
from .entries import Fetcher, LastBatch, QueueEntries, ReadAhead, message_of


class EntryMessages:
    """Reads the messages of entries of one topic, in order: many at once, or alone where one is unusual."""

    def __init__(
        self,
        reader: LogReader,
        topic: str,
        queues: Iterable[Queue],
        wanted: MessageFilter | None,
        *,
        was_deleted: Callable[[str], bool],
        skip: Callable[[int], None] | None,
    ) -> None:
        """`wanted` has ruled entries out before. `skip` is called with 1 for a damaged message; None: raise."""
        self._reader, self._topic, self._wanted = reader, topic, wanted
        self._was_deleted, self._skip = was_deleted, skip
        self._fetcher, self._last, self._ahead = Fetcher(reader, topic, queues), LastBatch(), ReadAhead(reader)
        self.is_over = False
        """The topic was deleted: no message of it can be read any more."""

    def pages(
        self, entries: QueueEntries, check: Callable[[], None], *, reads_ahead: bool
    ) -> Iterator[list[StoredMessage]]:
        """The messages of these entries that match. `check` is called before each page is read, and may raise."""
        units, queue_offsets, _ = entries
        at = 0
        while at < len(units):
            check()
            found = self._fetcher.some(entries, at)
            if found and reads_ahead:
                self._ahead.look(units[at : at + len(found)])
            at += len(found) or 1
            if not found:
                key, queue_offset = (self._topic, entries.queue_id(at - 1)), int(queue_offsets[at - 1])
                try:
                    one = message_of(self._reader, key, queue_offset, QueueUnit(*units[at - 1].item()), self._last)
                except (CorruptRecordError, CorruptQueueError):
                    if self._was_deleted(self._topic):
                        self.is_over = True  # perhaps it was created again: these are entries of the new one, or none
                        return
                    if self._skip is None:
                        raise
                    self._skip(1)
                    continue
                found = [] if one is None else [one]
            yield found if self._wanted is None else [each for each in found if self._wanted.matches(each)]
