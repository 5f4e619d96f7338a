"""Reading a store: the part that a store open for writing and a read-only view share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ...index.filter.wanted import Wanted
from ...index.queue.queue_table import Queue, QueueTable
from ...store.arguments import (
    INT64_MAX,
    ON_CORRUPT,
    check_choice,
    check_flag,
    check_queue,
    check_text,
    check_time_ms,
    check_topic,
    check_type,
    check_whole,
)
from ...store.errors import (
    ConfigFileError,
    DiskError,
    QueueNotFoundError,
    TopicNotFoundError,
    UsageError,
    WrongTypeError,
)
from ...store.format.light_queues import is_light
from ...store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ...store.get_result import GetResult, GetStatus
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ...store.topic import Topic, is_system_topic
from .dispatched import Dispatched
from .finding import Boundary, Finder
from .get_limits import DEFAULT_MAX_COUNT, GetLimits
from .key_query import PARKING_TOPICS, KeyQuery, QueryResult, has_uniq_key, was_put_to
from .reading import BATCH_LIMITS, OnCorrupt, QueueReader, queue_bounds

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_BATCH_COUNT = 65_536
DEFAULT_BATCH_SIZE = 64 << 20
"""Bytes of records."""
GROUP_TOPIC_PREFIXES = (RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX)
"""Topics of a group: made when its first message fails, so that they are often not there."""
MAX_TOLD_MISSING = 1000

log = logging.getLogger("flightlog.store")


class Reader:
    """Reads one log, its queues and its keys. Thread-safe. It checks arguments. The store, whose methods of
    the same names call these, checks whether it is still open."""

    def __init__(
        self,
        path: Path,
        log_reader: LogReader,
        table: QueueTable,
        limits: GetLimits,
        *,
        readable_end: Callable[[], int],
        dispatched_end: Callable[[], int] | None = None,
        keys: KeyQuery | None,
        topics: Callable[[], dict[str, Topic]],
        was_deleted: Callable[[str], bool] = lambda topic: False,
        catch_up: Callable[[], None] | None = None,
        catch_up_keys: Callable[[], None] | None = None,
        unindexed: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        """`readable_end` returns the physical offset up to which the log may be read now, `dispatched_end` the one
        below which every record is in its queue (None: the same). `keys` is None if the settings turn the key index
        off. `was_deleted` returns whether another process has deleted a topic since the table was read.

        For a log that grows: `catch_up` is called before each read, `catch_up_keys` before each query by key, and
        raises what keeps keys out of the index; `unindexed` returns the physical range that the index lacks.
        """
        self._path, self._table, self._keys, self._topics = path, table, keys, topics
        self._log_reader, self._readable_end = log_reader, readable_end
        dispatched_to = self._dispatched_end = dispatched_end or readable_end
        self._catch_up, self._catch_up_keys, self._unindexed = catch_up, catch_up_keys, unindexed
        self.queue_reader = QueueReader(log_reader, table, limits, readable_end, was_deleted)
        self.dispatched = Dispatched(self.queue_reader, table, lambda: readable_end() - dispatched_to())
        self._finder = Finder(log_reader, table, readable_end, was_deleted)
        self._told_missing: set[str] = set()
        """Topics that were read and do not exist, of which a warning was logged."""

    def release(self) -> None:
        """Close the files and release what iterators hold: the store was closed."""
        self.queue_reader.release()
        if self._keys is not None:
            self._keys.release()

    def replaces(self, before: Reader) -> None:
        """Take over from `before`, which read the same store in an earlier state."""
        self.queue_reader.replaces(before.queue_reader)
        self._told_missing = before._told_missing

    def _make_ready(self) -> None:
        if self._catch_up is not None:
            self._catch_up()

    # -- topics

    def topics(self, *, include_system: bool = False) -> dict[str, Topic]:
        """The topics by name, sorted: those of `config/topics.json` and those that have queues; RocketMQ's system
        topics on request. A read-only view reads the file again. Raises ConfigFileError."""
        check_flag("include_system", include_system)
        found = self._topics()
        return {name: found[name] for name in sorted(found) if include_system or not found[name].is_system}

    def topic(self, name: str) -> Topic | None:
        """One topic, or None. Raises ConfigFileError."""
        check_text("name", name, "the name of a topic as text", may_be_empty=True)
        return self._topics().get(name)

    # -- one queue

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: Wanted = None,
        max_size: int | None = None,
    ) -> GetResult:
        """Messages of a queue from `queue_offset` on, with RocketMQ's status and the offset to continue from.

        Returns at most `max_count` messages and `max_size` bytes of records (None: 128 MiB; below 100 counts as 100),
        but always one message, however large. The settings `get_*` limit an answer further, and it ends at the end of a
        queue file. `tags` such as "A || B" skips messages with another tag ("*" or None: no filter). In
        `SCHEDULE_TOPIC_XXXX`, whose entries hold times, tags match nothing here, as in RocketMQ; `read` finds them.
        `filter`, in place of tags, skips messages that a SQL92 filter (`flightlog.sql`) does not match.

        Raises CorruptRecordError or CorruptQueueError if the message at `queue_offset` is damaged (a later damaged
        message ends the answer before it), UsageError for a `max_count` below 1 and for `tags` without a tag.
        """
        if self._catch_up is not None:
            self._catch_up()
        if queue_offset.__class__ is not int or max_count.__class__ is not int or max_count < 1:
            queue_offset = check_whole("queue_offset", queue_offset, ~INT64_MAX)
            max_count = check_whole("max_count", max_count, 1)
        try:
            found = self.queue_reader.get(topic, queue_id, queue_offset, max_count, tags=tags, max_size=max_size)
        except TypeError:
            _check_get(topic, queue_id, max_size)
            raise
        if found.status is not GetStatus.FOUND:  # what was found was asked for rightly
            _check_get(topic, queue_id, max_size)
        return found

    def read(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        tags: Wanted = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
        check: Callable[[], None],
    ) -> Iterator[StoredMessage]:
        """Iterate over a queue from `queue_offset` (None: the first message) to its end at the time when the iterator
        gets there; in a read-only view, to the end as of its last refresh. `tags` and `filter` as in `get`.
        `decompress` returns compressed bodies decompressed, see `StoredMessage.decompressed`. A topic that does not
        exist has no messages; the first read of it logs a warning. With `must_exist` it raises TopicNotFoundError, and
        QueueNotFoundError for a queue that its topic does not have.

        Raises CorruptRecordError or CorruptQueueError at a damaged message, CorruptBodyError at one that cannot be
        decompressed; `on_corrupt="skip"` skips it and counts it in `corrupt_skipped`. Raises StoreClosedError if the
        store is closed meanwhile.
        """
        self._make_ready()
        queue_id = check_queue(topic, queue_id)
        if queue_offset is not None:
            queue_offset = check_whole("queue_offset", queue_offset)
        check_flag("decompress", decompress)
        check_choice("on_corrupt", on_corrupt, ON_CORRUPT)
        check_flag("must_exist", must_exist)
        if must_exist or not self.queue_reader.has_queue(topic, queue_id):
            self._tell_missing(topic, queue_id, must_exist)
        return self.queue_reader.read(
            *(topic, queue_id, queue_offset, tags, on_corrupt, check, self._catch_up),
            decompress=decompress,
        )

    def read_all(
        self,
        topic: str,
        physical_offset: int | None,
        begin_ms: int | datetime | None,
        tags: Wanted,
        decompress: bool,
        on_corrupt: OnCorrupt,
        must_exist: bool,
        check: Callable[[], None],
    ) -> Iterator[StoredMessage]:
        """Iterate over all queues of a topic as one stream, in the order of the log: in the order in which the messages
        were stored, whatever queue they are in. It is as fast as reading one queue.

        Begins at the first message stored at or behind `physical_offset` (None: the first message) and not before
        `begin_ms`, a store time in ms or a datetime with a time zone. To continue later, pass the last message's
        `physical_offset + 1`. Messages of an inner batch share one physical offset, so that skips the rest of a batch.
        It ends, and the other arguments and errors are, as in `read`. With `must_exist` it raises TopicNotFoundError.

        Store times never decrease in the order of the log that flightlog wrote. In the log of a RocketMQ broker they
        decrease where the broker's clock was set back. Behind a damaged queue entry that is skipped, messages of its
        queue may come late.
        """
        self._make_ready()
        check_topic(topic)
        if physical_offset is not None:
            physical_offset = check_whole("physical_offset", physical_offset)
        begin_ms = None if begin_ms is None else check_time_ms("begin_ms", begin_ms)
        check_flag("decompress", decompress)
        check_choice("on_corrupt", on_corrupt, ON_CORRUPT)
        check_flag("must_exist", must_exist)
        if must_exist or not any(name == topic for (name, _), _ in self._table.items()):
            self._tell_missing(topic, 0, must_exist)

        def first_offset(queue_id: int, queue: Queue) -> int:
            first = 0 if physical_offset is None else queue.first_at_or_after(physical_offset)
            if begin_ms is None:
                return first
            return max(first, self._finder.offset_at(topic, queue_id, begin_ms, "lower"))

        return self.queue_reader.read_all(
            *(topic, first_offset, self._dispatched_end, tags, on_corrupt, check, self._catch_up),
            decompress=decompress,
        )

    def _tell_missing(self, topic: str, queue_id: int, must_exist: bool) -> None:
        """Raise if a topic or queue must exist and does not; otherwise log a warning once for each missing topic."""
        is_optional = is_light(topic) or is_system_topic(topic) or topic.startswith(GROUP_TOPIC_PREFIXES)
        if must_exist:
            if self.queue_reader.has_queue(topic, queue_id):
                return
            found = self.topic(topic)
            if found is None:
                raise TopicNotFoundError(self._path, topic, "make it with create_topic, or read without must_exist")
            if queue_id >= found.queue_count:
                raise QueueNotFoundError(
                    f"{self._path}: the topic {topic!r} has queues 0 to {found.queue_count - 1}, and none with id "
                    f"{queue_id}; read one of those, or read without must_exist"
                )
        elif not is_optional and topic not in self._told_missing and len(self._told_missing) < MAX_TOLD_MISSING:
            try:
                is_missing = self.topic(topic) is None
            except (ConfigFileError, DiskError):  # the queue is known to be empty: a warning was all that was at stake
                return
            if is_missing:
                self._told_missing.add(topic)
                extra = {"path": str(self._path), "topic": topic}
                log.warning("%s: there is no topic %r: a read of it has no messages", self._path, topic, extra=extra)

    def read_batch(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        max_count: int = DEFAULT_BATCH_COUNT,
        max_size: int = DEFAULT_BATCH_SIZE,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
    ) -> pa.RecordBatch:
        """The messages that `read` returns from `queue_offset` (None: the first) on, as one Arrow record batch: at most
        `max_count` messages and `max_size` bytes of records, but always one message, however large, unless the queue
        has ended.

        `columns` names columns of the Spark data source, case-insensitive; None: all of them. The offset to continue
        from is in the metadata: `int(batch.schema.metadata[b"nextQueueOffset"])`. A batch without rows is the end of
        the queue. The batch is a copy: it stays valid after the store is closed.

        Raises as `read`, but a damaged message after the first ends the batch before it. Raises MissingExtraError
        without pyarrow (the extra `arrow`), UsageError for limits below 1 or above 2**31 - 1 and 1 GiB,
        InvalidSettingsError for an unknown column.
        """
        self._make_ready()
        queue_id = check_queue(topic, queue_id)
        if queue_offset is not None:
            queue_offset = check_whole("queue_offset", queue_offset)
        max_count, max_size = (
            check_whole(name, value, 1, highest)
            for name, value, highest in zip(("max_count", "max_size"), (max_count, max_size), BATCH_LIMITS, strict=True)
        )
        _check_columns(columns)
        check_choice("on_corrupt", on_corrupt, ON_CORRUPT)
        return self.queue_reader.read_batch((topic, queue_id), queue_offset, (max_count, max_size), columns, on_corrupt)

    def body_view(self, message: StoredMessage) -> memoryview:
        """A read-only view of the body of a message of this store, in the log, as stored and not copied: for large
        bodies that you pass on unchanged. Everything else that a store returns, `message.body` included, is a copy.

        Until it is released (`with store.body_view(message) as body`, or when nothing refers to it) the view keeps its
        segment mapped: the bytes stay readable although retention removes the segment or the store is closed, but the
        disk space of a removed file is freed only then. If another program truncates the file meanwhile, or a sector of
        it cannot be read, reading the view ends the process.

        Raises CorruptRecordError if the message is no longer there, or is damaged; UsageError for a message in an inner
        batch, whose body may be compressed.
        """
        check_type("message", message, StoredMessage, "a StoredMessage, as this store gives them")
        return self.queue_reader.body_view(message)

    @property
    def corrupt_skipped(self) -> int:
        """Messages that `on_corrupt="skip"` has skipped so far."""
        return self.queue_reader.corrupt_skipped + (self._keys.corrupt_skipped if self._keys is not None else 0)

    def queues(self) -> dict[QueueKey, tuple[int, int]]:
        """(topic, queue id) -> (offset of the first message, offset one past the last)."""
        self._make_ready()
        return {key: queue_bounds(queue) for key, queue in self._table.items()}

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The offset of the first message of a queue, and the offset one past its last; (0, 0) without a queue."""
        self._make_ready()
        queue_id = check_queue(topic, queue_id)
        return queue_bounds(self._table.get((topic, queue_id)))

    def end_offsets(self, queues: Iterable[QueueKey]) -> list[int]:
        """The offset one past the last message of each of these queues, given as (topic, queue id); 0 without a queue.
        It costs a fraction of a `queue_bounds` for each, and looks at the log once."""
        self._make_ready()
        found = (self._table.get(key) for key in queues)
        return [0 if queue is None else queue.end for queue in found]

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int | datetime, boundary: Boundary = "lower") -> int:
        """The queue offset for a store time in ms, or a datetime with a time zone. The result is always between the
        first message of the queue and its end.

        "lower": the first message stored at or after that time, else the end. "upper": the last message stored at or
        before it, else the first message. 0 if the queue does not exist. A damaged record has no store time: "lower" is
        the first of those directly before the wanted message, so that a read from there meets them.

        Raises CorruptQueueError where a file of the queue is missing, UsageError for another boundary.
        """
        self._make_ready()
        queue_id = check_queue(topic, queue_id)
        timestamp_ms = check_time_ms("timestamp_ms", timestamp_ms)
        check_choice("boundary", boundary, get_args(Boundary))
        return self._finder.offset_at(topic, queue_id, timestamp_ms, boundary)

    def estimate_count(self, topic: str, queue_id: int, start: int, stop: int, *, tags: str | None = None) -> int:
        """Estimate how many messages with queue offsets in [start, stop) match, by the tag hashes in the queue.

        Without `tags`: stop - start, whatever the queue holds. With tags the range is clamped to the queue. The
        estimate reads 20,000 entries, or those up to the 5,001st match, and extrapolates. In `SCHEDULE_TOPIC_XXXX`, and
        where a unit of a queue extension is lost, there are no hashes, so it reads records. Raises UsageError as `get`,
        and in these cases the errors of `read`.
        """
        self._make_ready()
        queue_id = check_queue(topic, queue_id)
        start, stop = (check_whole(name, value, ~INT64_MAX) for name, value in (("start", start), ("stop", stop)))
        return self._finder.estimate_count(topic, queue_id, start, stop, tags)

    # -- one message

    def message_at(self, physical_offset: int, batch_index: int | None = None) -> StoredMessage | None:
        """The message whose record starts at this physical offset, or None. For an inner batch: its message number
        `batch_index`, or with None the record itself, with the batch in its body.

        Finds any message, also one without a queue entry, such as a prepared one. Raises CorruptRecordError if a record
        starts there and is damaged, or if damage makes it impossible to know.
        """
        self._make_ready()
        physical_offset = check_whole("physical_offset", physical_offset, ~INT64_MAX)
        if batch_index is not None:
            batch_index = check_whole("batch_index", batch_index, ~INT64_MAX)
        return self._finder.message_at(physical_offset, batch_index)

    def message_by_id(self, message_id: str) -> StoredMessage | None:
        """The message with this offset message id (32 or 56 hexadecimal digits, in either case), or None.

        Raises UsageError for an invalid id, CorruptRecordError as `message_at`.
        """
        self._make_ready()
        check_text("message_id", message_id, "32 or 56 hexadecimal digits")
        return self._finder.message_by_id(message_id)

    # -- by key

    def query(
        self,
        topic: str,
        key: str,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime | None = None,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        on_corrupt: OnCorrupt = "raise",
    ) -> QueryResult:
        """The newest `max_count` messages of a topic that have `key` among their keys or as their uniq key, and a store
        time in [begin_ms, end_ms] (None: no upper limit), newest first; and whether there are more.

        Each message is checked against its record, so another key with the same hash is no match. Prepared messages are
        found, too. Raises CorruptRecordError if the index points at a damaged record (`on_corrupt="skip"` counts it),
        DiskFullError while a full disk keeps keys out of the index, UsageError without a key index.
        """
        queries = self._key_query()
        _check_key(topic, "key", key)
        begin_ms = check_time_ms("begin_ms", begin_ms)
        end_ms = None if end_ms is None else check_time_ms("end_ms", end_ms)
        max_count = check_whole("max_count", max_count, 1)
        check_choice("on_corrupt", on_corrupt, ON_CORRUPT)
        return queries.query(topic, key, begin_ms, end_ms, max_count, on_corrupt, self._readable_end())

    def message_by_uniq_key(self, topic: str, uniq_key: str) -> StoredMessage | None:
        """The newest message of a topic with this uniq key, or None. Raises as `query`."""
        queries = self._key_query()
        _check_key(topic, "uniq_key", uniq_key)
        return queries.by_uniq_key(topic, uniq_key, self._readable_end())

    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool:
        """Whether the log holds a message with this uniq key: for a sender whose put timed out, or that crashed.

        Also finds a message that waits for its delivery time and, under sync flush, one that is not durable and cannot
        be read yet. Without a topic it searches every topic that has a queue, which takes longer the more there are.
        Raises as `query`.
        """
        check_text("uniq_key", uniq_key)
        if topic is not None:
            check_topic(topic)
        keys = self._key_query()
        unindexed_from = 0 if self._unindexed is None else self._unindexed()[0]  # before the readable end is looked at
        end = self._readable_end()
        topics = (topic, *PARKING_TOPICS) if topic is not None else sorted(self._table.topics())
        found = (keys.by_uniq_key(name, uniq_key, end) for name in topics)
        if any(message is not None and was_put_to(message, topic) for message in found):
            return True
        if self._unindexed is None:
            return False
        return has_uniq_key(self._log_reader, unindexed_from, self._unindexed()[1], topic, uniq_key)

    def has_key_index(self) -> bool:
        return self._keys is not None

    def _key_query(self) -> KeyQuery:
        if self._keys is None:
            raise UsageError("this store was opened without a key index: open it with key_index=True, or read-only")
        if self._catch_up_keys is not None:
            self._catch_up_keys()
        return self._keys


def _check_get(topic: object, queue_id: Any, max_size: Any) -> None:
    """Check the arguments of a get that failed or found nothing; a get that finds something need not."""
    check_queue(topic, queue_id)
    if max_size is not None:
        check_whole("max_size", max_size, ~INT64_MAX)


def _check_key(topic: object, name: str, key: object) -> None:
    check_topic(topic)
    check_text(name, key)


def _check_columns(columns: object) -> None:
    """The names of columns, or None."""
    if columns is not None and (
        isinstance(columns, str)
        or not isinstance(columns, Sequence)
        or not all(isinstance(name, str) for name in columns)
    ):
        raise WrongTypeError("columns", columns, "names of columns, as in ['offset', 'value'], or None for all")
