"""From messages to put results: check, append, and wait for the sync or leave it to others.

An ordinary put takes the fast path of the log, in one call (store/native/fast_path_protocol.py); the rest takes the
slow path: every check, then the append under its lock. What keeps all puts off the fast path is among the log's
conditions, so an ordinary put asks for nothing that the slow path asks for first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ...schedule.delay_level_table import DelayLevelTable
from ...schedule.delivered import DueMessage
from ...schedule.parking import park
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
from ...store.message_check import check_message, checked_messages
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
"""How many bytes of records a put of many appends under one hold of the append lock."""

COLUMNS_BATCH_SIZE = 1 << 20
"""The same for columns, whose bytes take a fraction of the time."""

SLOW_PATH_COUNT = 32
"""How many messages of a put of many take the slow path where the fast path has come to its limit: a few, and it goes
on."""

TIMED_EVERY = 16
"""One put in so many is timed, here and in the fast path."""


PrePutHook = Callable[[Message], Message]
"""Called with every message before it is appended; returns the message to append in its place: itself where nothing is
to be done about it. One that a caller hands to `open` takes the place of DelayHook: a put with a delay raises
InvalidMessageError then."""


class DelayHook:
    """What an open store does unless it is told otherwise: messages for later are parked, all others pass as they are.
    Only what the fast path leaves to the slow path can be for later.

        a delay level     schedule/parking.py parks it
        a timer           `park_timer` does

    Both make it a message of another topic, with its own topic and queue in the properties REAL_TOPIC and REAL_QID;
    `Putter` sees to it that these two are there before it appends.
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
    """What a caller's hook returned. Raises WrongTypeError for what is no Message, InvalidMessageError for a delay,
    which only DelayHook could park: the message would be delivered at once."""
    if not isinstance(replaced, Message):
        raise WrongTypeError("what pre_put_hook returned", replaced, "the flightlog.Message to append")
    timers = [name for name in props.TIMER_PROPERTIES if name in (replaced.properties or {})]
    if replaced.delay_level or timers:
        asks = f"delay_level={replaced.delay_level}" if replaced.delay_level else timers[0]
        raise InvalidMessageError(
            f"a message to topic {replaced.topic!r} asks for a delay ({asks}): expected none in a store opened with a "
            "pre_put_hook, which takes the place of what parks delayed messages"
        )


class Putter:
    """The puts of one open store. MessageStore's calls of the same names lead here; what `put` promises stands in the
    kernel, which has it."""

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
        """Whether what the hook replaces waits for its delivery; else it is as good as any other message."""
        self._retention = maintenance.retention
        self._fast_path = commit_log.fast_path
        topics.open_fast_path(commit_log.fast_path)
        if not self._parks:
            check_callable("pre_put_hook", pre_put_hook, "a function that takes a message and returns one")
            commit_log.conditions.pre_put_hook = pre_put_hook
        self._is_sync = settings.flush_mode is FlushMode.SYNC
        self._sync_timeout_s = settings.sync_flush_timeout_ms / 1000
        self._put_ms = commit_log.put_ms
        self._puts = 0
        """Calls of `put`, about: two threads may count as one."""
        self.pending = PendingPuts(commit_log, clock, self._sync_timeout_s, maintenance.poison)
        """The futures of `put_async`."""

    @property
    def put_fast_path(self) -> FastPathProtocol[Message, PutResult] | None:
        """What puts a message without further ado; None where every put has to wait."""
        return None if self._is_sync else self._fast_path

    @property
    def ordinary_append(self) -> Callable[..., PutResult | None]:
        """The same for the parts of a message, see FastPathProtocol.append."""
        return _nothing_is_ordinary if self._is_sync else self._fast_path.append

    def put(self, message: Message) -> PutResult:
        """The slow path under async flush, where the caller has tried the fast path."""
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
        """The result once it is durable, or marked as not known to be."""
        if self._log.flush(self._sync_timeout_s, result.physical_offset + result.size):
            return result
        return result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT)

    def put_async(self, message: Message) -> Future[PutResult]:
        """Append one message in this call, and leave the waiting to the future that it returns.

        Errors before the append are raised here, the same as by `put`. Under async flush, and for a message that does
        not wait (`wait_store_ok=False`), the future is done when it is returned. Under sync flush it is completed by a
        thread of the store: with PUT_OK once the message is durable and can be read; with FLUSH_DISK_TIMEOUT once
        `sync_flush_timeout_ms` have passed, even while a sync hangs; with a StorePoisonedError, whose cause is the
        failure, if syncs have failed: the message was not acknowledged. One sync serves all that wait, here and in
        `put`. Nothing bounds how many futures wait at a time.

        A future cannot be cancelled: its message is in the log. Callbacks run in the thread that completes futures, one
        after the other: they may use the store, and close it, but what they wait for holds up the futures behind, so
        none may wait for another future of the store. `close` completes every future before it returns. In a child made
        by fork the futures of the parent are never completed.
        """
        if self._is_sync:
            self.pending.start()  # before the append: what cannot be completed must not be stored
        result, waits = self._fast_path.put(message), self._is_sync
        if result is None:
            result, waits = self._append_one(message)
        if waits:
            return self.pending.add(result)
        future: Future[PutResult] = Future()
        future.set_result(result)
        return future

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages in order, with one sync for all of them under sync flush, unless none of them waits for it.

        All are checked before the first one is appended. A DiskFullError in the middle leaves the ones before it
        stored: their results are its `results`. Otherwise as `put`.
        """
        offered = checked_messages(messages)
        results: list[PutResult] = []
        waits = self._is_sync
        while (done := len(results)) < len(offered):
            some = self._fast_path.put_many(offered, done)
            if some is None:  # not all of them are ordinary
                waits = self._append_many(offered, results)
            elif some:
                results += some
            else:  # at a limit, which the slow path moves with a few of them
                self._append_many(offered[done : done + SLOW_PATH_COUNT], results)
        if waits:
            self._await_sync(results)
        return results

    def _append_many(self, messages: Sequence[Message], results: list[PutResult]) -> bool:
        """The slow path: check all, then append all, and add their results; returns whether one of them waits for a
        sync."""
        self._check_room()
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
            for batch in _batches(records):
                self._append(batch, results)
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
        """Append messages as one inner batch: one record, which is there whole or not at all. All go to one queue of a
        topic whose queues hold batches: one that is new, or was made with the attribute `queue.type` = `BatchCQ`; such
        a topic takes nothing else. Readers get the messages one by one.

        Their keys and uniq keys together are properties of the batch, and so must fit into 32,767 bytes; the batch must
        fit into `max_message_size`. Messages of transactions, delayed and compressed ones cannot be in a batch.
        The results have the messages' queue offsets, and the record's physical offset, size and message id. Otherwise
        as `put`.
        """
        made, count = envelope(messages)
        result, waits = self._append_one(made, count)
        if waits:
            result = self._flushed(result)
        return [result._replace(queue_offset=result.queue_offset + place) for place in range(count)]

    def deliver(self, deliveries: Sequence[DueMessage]) -> int:
        """Put messages that have waited, past the seam that parked them. Returns how many of them, from the first on,
        are stored, and durable under sync flush however long that takes; raises if not even the first is."""
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
            for batch in _batches(records):
                self._append(batch, results)
        except DiskError as e:  # what was appended before it failed must not be delivered again
            if not results or isinstance(e, (SyncFailedError, StorePoisonedError)):
                raise
        finally:
            self._wake(waits=True)
        if self._is_sync:
            self._log.flush(None, results[-1].physical_offset + results[-1].size)
        return len(results)

    def _check_room(self) -> None:
        """Raise DiskFullError while the disk has no room, as it was last seen and still is."""
        if self._dispatcher.is_stalled:
            self._dispatcher.catch_up()
        if self._retention.is_disk_full:
            self._retention.refuse_puts()

    def append_columns(self, topic: str, columns: Any) -> AppendResult:
        """Append the rows of an Arrow record batch or table, or of a mapping of names to numpy arrays and sequences, as
        `put_many` would append their messages, without an object for each; returns where they went, as arrays.

        The columns, by the names of `read_batch` or of a Message, in any case of letters:

            value, body                       the bodies: bytes; numpy S, V or rows of uint8; Arrow binary or string
            tags, uniqKey                     texts; empty or missing: none
            keys                              one text a row, or a list of them
            properties                        a mapping a row (Arrow: a map), or a column each (a mapping; a struct)
            partition, queue_id               whole numbers; missing: the topic's queues take turns; no column: 0
            bornTimestamp, born_timestamp_ms  ms, or times; missing: the store time
            flag                              whole numbers

        A single number or text stands for a column full of it. All rows are checked before the first one is appended,
        and the error names the first row at fault. Rows of one hold of the log (about 1 MiB) get one store time. If a
        property has a meaning to a put (WAIT, delays, light queues), all rows are put as messages.

        A DiskFullError in the middle leaves the rows before it stored: its `appended` says which. Otherwise as
        `put_many`: one sync for all of them under sync flush.
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
        """Append the rows of all parts, of any number of topics and of any size: all of them are in the store when this
        returns, durable in every flush mode, or none is. Readers see them all at once. Other puts wait meanwhile.

        A part is taken when those before it are written, so `parts` may be a generator of more than memory holds; rows
        are checked as by `append_columns`, those with properties that have a meaning to a put (delays, light queues)
        are refused. `before_commit` is called when all rows are written and none can be seen yet.
        Neither may put to this store: they would wait for themselves.

        Whatever is raised, also by `parts` and by `before_commit`: close the store then, for puts raise
        StorePoisonedError if any row was written. The next open removes what was written, or finds all of it where the
        error came behind the commit point: where the record at the `start` that `before_commit` was told is the
        `first_record`. A kill or a power cut in the middle is no different.
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
        with self._topics.lock:  # before the lock of the log, as the deletion of a topic takes them
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
        """What was appended, once it is as durable as a put's."""
        result = result_of(records, topic, PutStatus.PUT_OK)
        if self._is_sync and len(result):
            end = int(result.physical_offsets[-1] + result.sizes[-1])
            if not self._log.flush(self._sync_timeout_s, end):
                return replace(result, status=PutStatus.FLUSH_DISK_TIMEOUT)
        return result

    def _append_one(self, message: Message, inner_count: int = 0) -> tuple[PutResult, bool]:
        """Append it, an inner batch where there is a count; returns where it went, and whether it is to wait for a
        sync."""
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
        """The record of a message, or of what the pre-put hook makes of it, and whether that waits for a sync."""
        replaced = self._pre_put_hook(message)
        if not self._parks:
            _check_replaced(replaced)
        record = prepare(replaced, self._settings, self._log.segment_size, inner_count=inner_count)
        # Last: a message that is refused for another reason makes no topic.
        is_internal = replaced is not message
        if is_internal and self._parks:
            queue_id = self._topics.queue_for(message.topic, message.queue_id, is_internal=False)
            if message.queue_id is None:
                replaced = self._pre_put_hook(replace(message, queue_id=queue_id))
                record = prepare(replaced, self._settings, self._log.segment_size)
            self._delay_service.start()  # before the append: a message that no thread would deliver must not be parked
        else:
            record.queue_id = self._topics.queue_for(
                record.topic, replaced.queue_id, is_internal=is_internal, is_batch=inner_count > 0
            )
        return record, replaced.waits_for_sync

    def _append(self, records: Sequence[PreparedRecord], results: list[PutResult]) -> None:
        """Append one batch and add what was appended to `results`, also if the append raises."""
        appended: list[Appended] = []
        try:
            self._log.append(records, appended)
        finally:
            results += [_put_result(record, where) for record, where in zip(records, appended, strict=False)]

    def _wake(self, waits: bool) -> None:
        """Something was appended: dispatch it, and sync it if no put waits for that."""
        if self._is_sync and not waits:
            self._service.sync_soon()
        else:
            self._service.wake()

    def _await_sync(self, results: list[PutResult]) -> None:
        """Return once all of them are durable, or mark them as not known to be."""
        if results:
            last = results[-1]
            if not self._log.flush(self._sync_timeout_s, last.physical_offset + last.size):
                results[:] = [result._replace(status=PutStatus.FLUSH_DISK_TIMEOUT) for result in results]


def _nothing_is_ordinary(*_: object) -> None:
    """Under sync flush every put has a sync to wait for."""


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


def _batches(records: list[PreparedRecord]) -> Iterator[list[PreparedRecord]]:
    """Consecutive records of about BATCH_SIZE bytes together."""
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
