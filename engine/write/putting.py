"""The put path: check messages, append them, and wait for the sync (or leave it to a later one).

An ordinary put takes the fast path of the log, which is one call (store/native/fast_path_protocol.py). All others take
the slow path: every check, then the append under the append lock. Whatever disables the fast path for all puts (a full
disk, a stalled dispatch, a pre-put hook) is one of the log's conditions, so the fast path needs no check of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...schedule.delivered import DueMessage
from ...schedule.parking import park, wanted_level
from ...store.arguments import check_callable
from ...store.disk.clock import Clock
from ...store.errors import (
    DiskError,
    DiskFullError,
    InvalidMessageError,
    StorePoisonedError,
    SyncFailedError,
    UsageError,
    WrongTypeError,
)
from ...store.format import property_names as props
from ...store.format.batch_record import envelope
from ...store.format.record import PreparedRecord, prepare
from ...store.log.atomic_append import AtomicRange, Commit
from ...store.log.column_records import ColumnRecords, result_of, result_of_puts
from ...store.log.commit_log import Appended, CommitLog
from ...store.message import Message
from ...store.message_check import check_body, check_message, checked_messages
from ...store.native.fast_path_protocol import FastPathProtocol
from ...store.results import AppendResult, PutResult, PutStatus
from ...store.settings import FlushMode, StoreSettings
from ..columns.column_input import all_rows
from ..delay.delay_service import DelayService
from ..dispatch.dispatcher import Dispatcher
from ..services.flush_service import FlushService
from ..services.store_maintenance import StoreMaintenance
from ..topics.topics import TopicTable
from .append_atomically import TopicColumns, records_of
from .pending_puts import PendingPuts

BATCH_SIZE = 256 << 10
"""Bytes of records that `put_many` appends each time it takes the append lock."""

COLUMNS_BATCH_SIZE = 1 << 20
"""The same for `append_columns`, which takes a fraction of the time for each byte."""

SLOW_PATH_COUNT = 32
"""Messages of a `put_many` that take the slow path where the fast path is at a limit, such as the end of a segment.
Then the fast path is tried again."""

TIMED_EVERY = 16
"""One put in so many is timed, on the slow path and on the fast path."""


PrePutHook = Callable[[Message], Message]
"""Called with every message before it is appended; returns the message to append in its place, or the same message. A
hook that a caller passes to `open` replaces DelayHook: a put with a delay then raises InvalidMessageError."""


class DelayHook:
    """The default pre-put hook: parks delayed messages and returns all others unchanged. The fast path takes no delayed
    message, so it needs no hook.

        a delay level     parked by schedule/parking.py
        a timer           parked by `park_timer`

    A parked message goes to another topic; its own topic and queue are in the properties REAL_TOPIC and REAL_QID.
    `Putter` makes sure that this topic and queue exist before it appends.
    """

    def __init__(self, settings: StoreSettings, park_timer: PrePutHook) -> None:
        self._levels: Final = DelayLevelTable.parse(settings.delay_levels)
        self._park_timer: Final = park_timer

    def __call__(self, message: Message) -> Message:
        if message.delay_level == 0 and not message.properties:
            return message
        parked = park(message, self._levels)
        if parked is message and any(name in (message.properties or {}) for name in props.TIMER_PROPERTIES):
            parked = self._park_timer(message)
        return parked


def _check_replaced(replaced: Message) -> None:
    """Check what a caller's hook returned. Raises WrongTypeError unless it is a Message, and InvalidMessageError if it
    asks for a delay: only DelayHook parks messages, so it would be delivered at once."""
    if not isinstance(replaced, Message):
        raise WrongTypeError("what pre_put_hook returned", replaced, "the flightlog.Message to append")
    timers = [name for name in props.TIMER_PROPERTIES if name in (replaced.properties or {})]
    level = 0 if replaced.topic == SCHEDULE_TOPIC else wanted_level(replaced)  # a hook may have parked it itself
    if level or timers:
        asks = f"delay_level={level}" if level else timers[0]
        raise InvalidMessageError(
            f"a message to topic {replaced.topic!r} asks for a delay ({asks}): expected none in a store opened with a "
            "pre_put_hook, which takes the place of what parks delayed messages"
        )


class Putter:
    """The puts of one open store. MessageStore's methods of the same names call these; `put` is documented there."""

    def __init__(
        self,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        settings: StoreSettings,
        clock: Clock,
        pre_put_hook: PrePutHook,
        service: FlushService,
        maintenance: StoreMaintenance,
        topics: TopicTable,
        delay_service: DelayService,
    ) -> None:
        self._log, self._dispatcher, self._settings = commit_log, dispatcher, settings
        self._pre_put_hook, self._service, self._topics = pre_put_hook, service, topics
        self._delay_service = delay_service
        self._parks = isinstance(pre_put_hook, DelayHook)
        """Whether a replaced message is a parked one. What a caller's hook returns is an ordinary message."""
        self._retention = maintenance.retention
        self._fast_path = commit_log.fast_path
        topics.open_fast_path(commit_log.fast_path)
        if not self._parks:
            check_callable("pre_put_hook", pre_put_hook, "a function that takes a message and returns one")
            commit_log.conditions.pre_put_hook = pre_put_hook
        self._is_sync = settings.flush_mode is FlushMode.SYNC
        self._is_strict = settings.rocketmq_strict
        self._sync_timeout_s = settings.sync_flush_timeout_ms / 1000
        self._put_ms = commit_log.put_ms
        self._puts = 0
        """Calls of `put`, approximately: two threads may be counted as one."""
        self.pending = PendingPuts(commit_log, clock, self._sync_timeout_s, maintenance.poison)
        """The futures of `put_async`."""

    @property
    def put_fast_path(self) -> FastPathProtocol[Message, PutResult] | None:
        """The fast path, if a put may return from it; None under sync flush, where every put waits for a sync."""
        return None if self._is_sync else self._fast_path

    @property
    def ordinary_append(self) -> Callable[..., PutResult | None]:
        """The same for the fields of a message, see FastPathProtocol.append."""
        return _nothing_is_ordinary if self._is_sync else self._fast_path.append

    def put(self, message: Message) -> PutResult:
        """Append one message. Under async flush this is the slow path: the caller has tried the fast path."""
        if self._is_sync and (ordinary := self._fast_path.put(message)) is not None:
            return self._flushed(ordinary)
        self._puts += 1
        if self._puts % TIMED_EVERY:
            return self._put(message)
        began_s = time.perf_counter()
        result = self._put(message)
        self._put_ms.note((time.perf_counter() - began_s) * 1000)
        return result

    def _put(self, message: Message) -> PutResult:
        result, waits = self._append_one(message)
        return self._flushed(result) if waits else result

    def _flushed(self, result: PutResult) -> PutResult:
        """The result once it is durable, or with FLUSH_DISK_TIMEOUT."""
        if self._log.flush(self._sync_timeout_s, result.physical_offset + result.size):
            return result
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)

    def put_async(self, message: Message) -> Future[PutResult]:
        """Append one message, and return a future that is completed when the message is durable.

        Errors before the append are raised by this call, as by `put`. Under async flush, and for a message with
        `wait_store_ok=False`, the future is already done. Under sync flush a thread of the store completes it: with
        PUT_OK once the message is durable and can be read; with FLUSH_DISK_TIMEOUT after `sync_flush_timeout_ms`, even
        while a sync hangs; with StorePoisonedError, whose cause is the failure, if a sync has failed: the message was
        not acknowledged. One sync serves all puts that wait, also those of `put`. The number of futures that wait at a
        time is not bounded.

        A future cannot be cancelled: its message is in the log. Callbacks run one at a time, in the thread that
        completes futures. They may use the store, and close it, but while one blocks, later futures are not completed:
        a callback must not wait for another future of the store. `close` completes every future before it returns. In a
        child made by fork, futures of the parent are never completed.
        """
        if self._is_sync:
            self.pending.start()  # before the append: a message whose future nothing completes must not be stored
        result, waits = self._fast_path.put(message), self._is_sync
        if result is None:
            result, waits = self._append_one(message)
        if waits:
            return self.pending.add(result)
        future: Future[PutResult] = Future()
        future.set_result(result)
        return future

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages in order. Under sync flush one sync covers all of them; there is none if no message waits for
        it.

        All messages are checked before the first one is appended. After a DiskFullError, the messages before it are
        stored: the error's `results` are their results. Otherwise as `put`.
        """
        offered = checked_messages(messages)
        results: list[PutResult] = []
        waits = self._is_sync
        while (done := len(results)) < len(offered):
            some = self._fast_path.put_many(offered, done)
            if some is None:  # not all are ordinary
                waits = self._append_many(offered, results)
            elif some:
                results += some
            else:  # at a limit of the fast path, such as the end of a segment
                self._append_many(offered[done : done + SLOW_PATH_COUNT], results)
        if waits:
            self._await_sync(results)
        return results

    def _append_many(self, messages: Sequence[Message], results: list[PutResult]) -> bool:
        """The slow path: check all messages, then append all, and add their results. Returns whether one of them waits
        for a sync."""
        try:
            self._check_room()
        except DiskFullError as e:  # there was room for what took the fast path before
            if self._is_sync:
                self._await_sync(results)
            e.results = results
            raise
        records: list[PreparedRecord] = []
        waits = False
        for place, message in enumerate(messages):
            check_message(message, f"messages[{place}]")
        for message in messages:
            record, record_waits = self._prepare(message)
            records.append(record)
            waits = waits or (self._is_sync and record_waits)
        before = len(results)
        try:
            self._append_all(records, results)
        except DiskFullError as e:
            if waits:
                self._await_sync(results)
            e.results = results
            raise
        finally:
            self._wake(waits)
            self._delay_service.parked(results[before:])
        for topic, topic_raw in {record.topic: record.topic_raw for record in records}.items():
            self._topics.register_topic(topic, topic_raw)
        return waits

    def put_batch(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages as one inner batch: a single record, so all are stored or none is. All go to one queue
        of a topic with batch queues: a new topic, or one created with the attribute `queue.type` = `BatchCQ`. Such a
        topic accepts only batches. Readers get the messages one by one.

        The keys and uniq keys of all messages are stored as properties of the batch, and must together fit into 32,767
        bytes; the batch must fit into `max_message_size`. Transactional, delayed and compressed messages cannot be in a
        batch. Each result has the queue offset of its message, and the physical offset, size and message id of the
        record. Otherwise as `put`.
        """
        given = checked_messages(messages)
        made, count = envelope(given)
        if self._is_strict:
            for message in given:
                check_body(message)
        result, waits = self._append_one(made, count)
        if waits:
            result = self._flushed(result)
        return [result._replace(queue_offset=result.queue_offset + place) for place in range(count)]

    def deliver(self, deliveries: Sequence[DueMessage]) -> int:
        """Append parked messages to their own topics; the pre-put hook is not called again. Returns how many, from the
        first on, are stored; under sync flush they are durable, without a timeout. Raises if the first one failed."""
        self._check_room()
        records: list[PreparedRecord] = []
        for message, hosts in deliveries:
            try:
                record = prepare(message, self._settings, self._log.segment_size, hosts=hosts)
                record.queue_id = self._topics.queue_for_delivery(record.topic, record.queue_id)
            except InvalidMessageError:
                if not records:
                    raise
                break
            records.append(record)
        results: list[PutResult] = []
        try:
            self._append_all(records, results)
        except DiskError as e:  # what was appended before must be counted, or it would be delivered twice
            if not results or isinstance(e, (SyncFailedError, StorePoisonedError)):
                raise
        finally:
            self._wake(waits=True)
        if self._is_sync:
            self._log.flush(None, results[-1].physical_offset + results[-1].size)
        return len(results)

    def check_admitted(self, message: Message, forms: Iterable[Message]) -> None:
        """Raise what `put` would raise before it appends this message, which names its queue, or would if the message
        had one of these `forms`. A topic that is not there is made as by `put`."""
        if not self._parks:
            raise UsageError("a transaction: expected a store without pre_put_hook, which would not see its records")
        for form in (message, *forms):
            prepare(form, self._settings, self._log.segment_size)
        if self._is_strict:
            check_body(message)
        self._topics.queue_for(message.topic, message.queue_id, is_internal=False)

    def put_internal(
        self, message: Message, hosts: tuple[bytes, bytes] | None = None, *, waits: bool = False
    ) -> PutResult:
        """Append one message past the pre-put hook, as a broker does for itself: also to RocketMQ's own topics, and
        whatever the permissions of its topic. `hosts`: sender and store host of its record; None: as by `put`.
        `waits`: the caller calls `flushed` next. Raises as `put`."""
        self._check_room()
        record = prepare(message, self._settings, self._log.segment_size, hosts=hosts)
        record.queue_id = self._topics.queue_for_delivery(record.topic, record.queue_id)
        results: list[PutResult] = []
        try:
            self._append((record,), results)
        finally:
            self._wake(waits)
        return results[0]

    def park_many(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages of the store's own that ask for a timer each; RocketMQ's own topics are allowed. As
        `put_many`, but past the pre-put hook, and the wheel takes them later, many at once (`Timers.parked_soon`)."""
        self._check_room()
        self._delay_service.start()
        records: list[PreparedRecord] = []
        for message in messages:
            parked = self._delay_service.timers.admission(message)
            record = prepare(parked, self._settings, self._log.segment_size)
            record.queue_id = self._topics.queue_for_delivery(record.topic, record.queue_id)
            records.append(record)
        results: list[PutResult] = []
        try:
            self._append_all(records, results)
        finally:
            self._wake(self._is_sync)
            self._delay_service.timers.parked_soon(results)
        if self._is_sync:
            self._await_sync(results)
        return results

    def flushed(self, result: PutResult) -> PutResult:
        """The result once the message is durable, or marked as not known to be; at once under async flush."""
        return self._flushed(result) if self._is_sync else result

    def _check_room(self) -> None:
        """Raise DiskFullError if the disk was full at the last check and still is."""
        if self._dispatcher.is_stalled:
            self._dispatcher.catch_up()
        if self._retention.is_disk_full:
            self._retention.refuse_puts()

    def append_columns(self, topic: str, columns: Any) -> AppendResult:
        """Append the rows of an Arrow record batch or table, or of a mapping of names to numpy arrays or sequences: the
        same as `put_many` of these messages, without creating a `Message` for each row. Returns their places as arrays.

        The columns have the names of `read_batch` or of a Message's fields; case does not matter:

            value, body                       the bodies: bytes; numpy S, V or rows of uint8; Arrow binary or string
            tags, uniqKey                     texts; empty or missing: none
            keys                              one text a row, or a list of them
            properties                        a mapping a row (Arrow: a map), or one column for each property (a mapping
                                              of columns; a struct)
            partition, queue_id               whole numbers; missing: round robin over the topic's queues; no column: 0
            bornTimestamp, born_timestamp_ms  ms, or times; missing: the store time
            flag                              whole numbers

        A single number or text applies to every row. All rows are checked before the first one is appended; the error
        names a row at fault. About 1 MiB of rows at a time get the same store time. If any row has a property
        that changes what a put does (WAIT, delays, light queues), all rows are put as messages.

        After a DiskFullError, the rows before it are stored: the error's `appended` has their places. Otherwise as
        `put_many`: under sync flush, one sync covers all rows.
        """
        self._check_room()
        parts = all_rows(topic, columns, self._settings, self._log.segment_size)
        is_uncommon = not self._parks or self._settings.append_crc_property
        if is_uncommon or any(rows.uncommon for rows in parts):
            return self._append_as_messages(topic, [message for rows in parts for message in rows.messages()])
        for rows in parts:
            rows.choose_queues(
                partial(self._topics.queue_for, topic, is_internal=False), partial(self._topics.next_queues, topic)
            )
        records = [rows.records() for rows in parts]
        try:
            for part in records:
                while part.done < len(part):
                    self._log.append_columns(part, COLUMNS_BATCH_SIZE)
        except DiskFullError as e:
            e.appended = self._await_rows(topic, records)
            raise
        finally:
            self._wake(self._is_sync)
        return self._await_rows(topic, records)

    def append_atomically(self, parts: Iterable[TopicColumns], before_commit: Commit) -> AtomicRange:
        """Atomic append across topics: all rows become visible together, or none do, even after a crash. They are
        durable on return, in every flush mode. Other puts wait meanwhile.

        Each part is read after the previous one was written, so `parts` may be a generator of more rows than fit into
        memory. Rows are checked as by `append_columns`; a row with a property that changes what a put does (delays,
        light queues) is refused. `before_commit` is called when all rows are written and none is visible yet. Neither
        `parts` nor `before_commit` may put to this store: that put would wait for the append, and the append for it.

        After any error, also one raised by `parts` or `before_commit`, close the store: if any row was written, puts
        raise StorePoisonedError. The next open removes the rows, unless the error came after the commit point; then it
        keeps all of them. To find out which, compare the record at the `start` that `before_commit` received with its
        `first_record`. The same holds after a kill or a power cut.
        """
        if isinstance(parts, (TopicColumns, str, bytes)) or not isinstance(parts, Iterable):
            raise WrongTypeError("parts", parts, "an iterable of flightlog.TopicColumns")
        check_callable("before_commit", before_commit, "a function that takes what was appended")
        settings = self._settings
        if not self._parks or settings.append_crc_property:
            raise UsageError(
                "append_atomically: expected a store without pre_put_hook and append_crc_property, which change each "
                "record. Use append_columns, which appends the rows of one call after the other"
            )
        self._check_room()
        with self._topics.lock:  # before the append lock: the lock order of topic deletion
            appended = self._log.append_atomically(
                records_of(parts, self._topics, settings, self._log.segment_size), before_commit
            )
        self._log.flush()
        self._service.wake()
        return appended

    def _append_as_messages(self, topic: str, messages: Sequence[Message]) -> AppendResult:
        try:
            return result_of_puts(topic, self.put_many(messages))
        except DiskFullError as e:
            e.appended = result_of_puts(topic, e.results)
            raise

    def _await_rows(self, topic: str, records: Sequence[ColumnRecords]) -> AppendResult:
        """Where the rows are; under sync flush after they are durable, or with FLUSH_DISK_TIMEOUT."""
        result = result_of(records, topic, PutStatus.PUT_OK)
        if self._is_sync and len(result):
            end = int(result.physical_offsets[-1] + result.sizes[-1])
            if not self._log.flush(self._sync_timeout_s, end):
                return replace(result, status=PutStatus.FLUSH_DISK_TIMEOUT)
        return result

    def _append_one(self, message: Message, inner_count: int = 0) -> tuple[PutResult, bool]:
        """Append a message, or an inner batch of `inner_count` messages. Returns its result, and whether the put must
        wait for a sync."""
        if not inner_count:
            check_message(message)
        self._check_room()
        record, record_waits = self._prepare(message, inner_count)
        waits = self._is_sync and record_waits
        appended: list[Appended] = []
        try:
            self._log.append((record,), appended)
        finally:
            self._wake(waits)
        self._topics.register_topic(record.topic, record.topic_raw)
        result = _put_result(record, appended[0])
        self._delay_service.parked((result,))
        return result, waits

    def _prepare(self, message: Message, inner_count: int = 0) -> tuple[PreparedRecord, bool]:
        """The record of the message that the pre-put hook returns, and whether the put must wait for a sync."""
        replaced = self._pre_put_hook(message)
        if not self._parks:
            _check_replaced(replaced)
        record = prepare(replaced, self._settings, self._log.segment_size, inner_count=inner_count)
        if self._is_strict:
            check_body(message if self._parks else replaced)
        # Last, so that a message refused for another reason creates no topic.
        is_internal = replaced is not message
        if is_internal and self._parks:
            queue_id = self._topics.queue_for(message.topic, message.queue_id, is_internal=False)
            if message.queue_id is None:
                replaced = self._pre_put_hook(replace(message, queue_id=queue_id))
                record = prepare(replaced, self._settings, self._log.segment_size)
            self._delay_service.start()  # before the append: no message may be parked without a thread that delivers it
        else:
            record.queue_id = self._topics.queue_for(
                record.topic, replaced.queue_id, is_internal=is_internal, is_batch=inner_count > 0
            )
        return record, replaced.waits_for_sync

    def _append_all(self, records: Sequence[PreparedRecord], results: list[PutResult]) -> None:
        """Append any number, in batches: other puts come in between. As `_append`."""
        for batch in _batches(records):
            self._append(batch, results)

    def _append(self, records: Sequence[PreparedRecord], results: list[PutResult]) -> None:
        """Append one batch. Adds the results of the appended records to `results`, also if the append raises."""
        appended: list[Appended] = []
        try:
            self._log.append(records, appended)
        finally:
            results += [_put_result(record, where) for record, where in zip(records, appended, strict=False)]

    def _wake(self, waits: bool) -> None:
        """Wake the flush service after an append: to dispatch, and to sync unless a put waits for a sync itself."""
        if self._is_sync and not waits:
            self._service.sync_soon()
        else:
            self._service.wake()

    def _await_sync(self, results: list[PutResult]) -> None:
        """Return once all are durable, or change their status to FLUSH_DISK_TIMEOUT."""
        if results:
            last = results[-1]
            if not self._log.flush(self._sync_timeout_s, last.physical_offset + last.size):
                results[:] = [result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT) for result in results]


def _nothing_is_ordinary(*_: object) -> None:
    """Takes no message: under sync flush every put waits for a sync, so each goes to `put`."""


def _put_result(record: PreparedRecord, where: Appended) -> PutResult:
    queue_offset, physical_offset, store_timestamp_ms, size = where
    return PutResult(
        PutStatus.PUT_OK,
        record.topic,
        record.queue_id,
        queue_offset,
        physical_offset,
        size,
        store_timestamp_ms,
        record.store_host,
    )


def _batches(records: Sequence[PreparedRecord]) -> Iterator[list[PreparedRecord]]:
    """Split records into runs of about BATCH_SIZE bytes."""
    batch: list[PreparedRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size
        if size >= BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
