"""The transactions that are open in this process, and how each of them ends.

Invariants:
- A commit record is in the log before the op message of its half message, so a crash never leaves the op message alone.
- A transaction ends once: what interrupts a commit leaves it to the checks, which find the commit record if there is
  one.
- A transaction that is open here has no other place than its last one in the half topic: only a check moves it, and
  knows here that it is open.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from weakref import WeakValueDictionary

from ...engine.message_store import MessageStore
from ...store.errors import DiskFullError, InvalidMessageError, StoreClosedError, UsageError
from ...store.message import Message
from ...store.results import PutResult
from ...store.settings import FlushMode
from ...store.stored_message import StoredMessage
from .half_message import check_transactional, committed, half_of, put_back, with_room
from .op_batch import OpBatch

NOT_STORED = (DiskFullError, InvalidMessageError, StoreClosedError)
"""After these the store has nothing of a commit, and it can be tried again."""


class OpenTransaction:
    """A half message without an answer, as long as somebody holds this."""

    def __init__(self, half: Message, result: PutResult) -> None:
        self.half, self.result = half, result
        self.queue_offset, self.physical_offset = result.queue_offset, result.physical_offset
        """Where the half message is now. Changed under the lock of OpenTransactions."""
        self.is_over = False


class OpenTransactions:
    """The open transactions of one store. Thread-safe. It does not hold the store's handle."""

    def __init__(self, store: MessageStore) -> None:
        self._settings, self._clock = store.settings, store.clock
        self._check_admitted, self._flushed = store.putter.check_admitted, store.putter.flushed
        self._is_sync, self._pending = store.settings.flush_mode is FlushMode.SYNC, store.putter.pending
        self.put_internal = store.putter.put_internal
        self.lock = threading.Lock()
        """Held while a transaction begins, ends or moves; appends are made under it, waits for a sync are not."""
        self._open: WeakValueDictionary[int, OpenTransaction] = WeakValueDictionary()
        """Queue offset in the half topic -> the transaction there."""
        self.ops = OpBatch(self.put_internal, store.clock)
        self._ended: set[int] | None = None
        """Queue offsets of the half messages that ended since the round of checks began; None while there is none."""

    # -- the life of a transaction

    def begin(
        self, message: Message, producer_group: str, transaction_id: str, wait_s: float | None = None
    ) -> OpenTransaction:
        """Put the half message; durable under sync flush as after a put. Raises TimeoutError if its sync takes longer
        than `wait_s`; then it is rolled back."""
        check_transactional(message, self._settings)
        if message.born_timestamp_ms is None:
            message = replace(message, born_timestamp_ms=self._clock.now_ms())
        half = half_of(message, producer_group, transaction_id)
        roomy = with_room(half)
        self._check_admitted(committed(roomy, 0), (roomy,))
        waits = message.waits_for_sync
        ends_wait = self._is_sync and waits and wait_s is not None
        if ends_wait:
            self._pending.start()  # before the append
        with self.lock:
            result = self.put_internal(half, waits=waits)
            found = OpenTransaction(half, result)
            self._open[result.queue_offset] = found
        if ends_wait:
            try:
                found.result = self._pending.add(result).result(wait_s)
            except TimeoutError:
                with self.lock:
                    self._close(found)
                    self.note_end(found.queue_offset)
                raise
        elif waits:
            found.result = self._flushed(result)
        return found

    def commit(self, transaction: OpenTransaction) -> PutResult:
        """Put the message; durable under sync flush as after a put."""
        waits = transaction.half.waits_for_sync
        with self.lock:
            self._close(transaction)
            try:
                result = self.put_internal(committed(transaction.half, transaction.physical_offset), waits=waits)
            except NOT_STORED:
                transaction.is_over = False
                self._open[transaction.queue_offset] = transaction
                raise
            self.note_end(transaction.queue_offset)
        return self._flushed(result) if waits else result

    def roll_back(self, transaction: OpenTransaction) -> None:
        """Write that it is over; durable under sync flush as after a put. It is over in any case."""
        waits = transaction.half.waits_for_sync
        with self.lock:
            self._close(transaction)
            self.note_end(transaction.queue_offset)
            result = self.ops.write()
        if waits and result is not None:
            self._flushed(result)

    def leave(self, transaction: OpenTransaction) -> None:
        """Let the checks ask about it."""
        with self.lock:
            self._close(transaction)

    def _close(self, transaction: OpenTransaction) -> None:
        if transaction.is_over:
            raise UsageError("the transaction is over: expected one that is open")
        transaction.is_over = True
        self._open.pop(transaction.queue_offset, None)

    def note_end(self, half_queue_offset: int) -> None:
        """The half message there is over with: the next op message says so. The caller holds the lock."""
        self.ops.add(half_queue_offset)
        if self._ended is not None:
            self._ended.add(half_queue_offset)

    # -- what a round of checks asks

    def begin_round(self) -> None:
        """Write what has ended so far: what ends from here on, `is_ended` knows until `end_round`."""
        with self.lock:
            self._ended = set()
            self.ops.write()

    def end_round(self) -> None:
        with self.lock:
            self._ended = None

    def is_ended(self, half_queue_offset: int) -> bool:
        """Whether the half message there ended during this round. The caller holds the lock."""
        return self._ended is not None and half_queue_offset in self._ended

    def at(self, half_queue_offset: int) -> OpenTransaction | None:
        """The transaction that is open there. The caller holds the lock."""
        return self._open.get(half_queue_offset)

    def move(self, transaction: OpenTransaction, half: StoredMessage) -> None:
        """Put the half message back at the end of its queue. The caller holds the lock."""
        message, hosts = put_back(half)
        result = self.put_internal(message, hosts)
        del self._open[transaction.queue_offset]
        transaction.queue_offset, transaction.physical_offset = result.queue_offset, result.physical_offset
        self._open[result.queue_offset] = transaction
