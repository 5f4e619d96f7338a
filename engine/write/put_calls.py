"""What can be put into a store that is open for writing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ...schedule.timer_request import cancellation, check_not_seconds, slot_time_ms
from ...store import native
from ...store.arguments import check_callable, check_queue, check_text, check_topic, check_whole
from ...store.disk.clock import Clock
from ...store.errors import WrongTypeError
from ...store.log.atomic_append import AtomicRange, Commit
from ...store.log.commit_log import CommitLog
from ...store.message import Message
from ...store.results import AppendResult, PutResult
from .append_atomically import TopicColumns
from .putting import Putter
from .queue_handle import QueueHandle


class PutCalls(native.OrdinaryPut, ABC):
    """The part of a MessageStore that takes messages. What a put promises stands at `put`, which the kernel has."""

    _log: CommitLog
    _putter: Putter
    _clock: Clock

    if TYPE_CHECKING:  # the kernel has it, and knows the types of neither

        def put(self, message: Message) -> PutResult: ...

    @abstractmethod
    def _check_usable(self) -> None: ...

    def _put_slow(self, message: Message) -> PutResult:
        self._check_usable()
        return self._putter.put(message)

    def cancel_timer(self, topic: str, uniq_key: str, deliver_at_ms: int) -> PutResult:
        """Have a timer not be delivered: the one of this topic and uniq key, which was put with this very time. It is
        appended as a put is, and durable as one. Cancelling it twice is fine.

        Raises TimerTooLateError if the time has come; UnknownTimerError if no such timer was put, or if it is due at
        another time, which the error says (a store without a key index cannot tell, and appends the cancellation, which
        does nothing then); InvalidArgumentError, and as `put` and `query`.
        """
        self._check_usable()
        check_topic(topic)
        check_text("uniq_key", uniq_key, "the uniq key that the timer was put with, as text")
        deliver_at_ms = check_whole("deliver_at_ms", deliver_at_ms)
        check_not_seconds(topic, "deliver_at_ms", deliver_at_ms, self._clock.now_ms())
        if deliver_at_ms > self._clock.now_ms():
            self._check_timer(topic, uniq_key, slot_time_ms(deliver_at_ms))
        return self.put(cancellation(topic, uniq_key, deliver_at_ms))

    @abstractmethod
    def _check_timer(self, topic: str, uniq_key: str, slot_ms: int) -> None:
        """Raises UnknownTimerError unless a timer of this topic and uniq key stands in this second of the wheel."""

    def queue(self, topic: str, queue_id: int = 0) -> QueueHandle:
        """One queue, to append to in the tightest loop: `append` puts as `put` does, without a Message to be made.

        Nothing is stored by this; topic and queue are made by the first append, as by a put. Raises
        InvalidMessageError, StoreClosedError, ForkedStoreError.
        """
        self._check_usable()
        queue_id = check_queue(topic, queue_id)
        return QueueHandle(topic, queue_id, self._putter.ordinary_append, self.put)

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
        self._check_usable()
        return self._putter.put_async(message)

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages in order, with one sync for all of them under sync flush, unless none of them waits for it.

        All are checked before the first one is appended. A DiskFullError in the middle leaves the ones before it
        stored: their results are its `results`. Otherwise as `put`.
        """
        self._check_usable()
        return self._putter.put_many(messages)

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
        self._check_usable()
        return self._putter.append_columns(topic, columns)

    def append_atomically(
        self, parts: Iterable[TopicColumns], before_commit: Commit = lambda appended: None
    ) -> AtomicRange:
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
        self._check_usable()
        if isinstance(parts, (TopicColumns, str, bytes)) or not isinstance(parts, Iterable):
            raise WrongTypeError("parts", parts, "an iterable of flightlog.TopicColumns")
        check_callable("before_commit", before_commit, "a function that takes what was appended")
        return self._putter.append_atomically(parts, before_commit)

    def put_batch(self, messages: Iterable[Message]) -> list[PutResult]:
        """Append messages as one inner batch: one record, which is there whole or not at all. All go to one queue of a
        topic whose queues hold batches: one that is new, or was made with the attribute `queue.type` = `BatchCQ`; such
        a topic takes nothing else. Readers get the messages one by one.

        Their keys and uniq keys together are properties of the batch, and so must fit into 32,767 bytes; the batch must
        fit into `max_message_size`. Messages of transactions, delayed and compressed ones cannot be in a batch.
        The results have the messages' queue offsets, and the record's physical offset, size and message id. Otherwise
        as `put`.
        """
        self._check_usable()
        return self._putter.put_batch(messages)

    def flush(self) -> None:
        """Return once everything put so far is on the disk, however long that takes: under sync flush also what did not
        wait for its sync, or waited too long.

        Raises SyncFailedError, StorePoisonedError, StoreClosedError, ForkedStoreError.
        """
        self._check_usable()
        self._log.flush()
