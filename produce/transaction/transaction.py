"""A transaction as its sender holds it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from ...store.errors import FlightlogError, UsageError
from ...store.message_queue import MessageQueue
from ...store.results import PutResult
from .open_transactions import OpenTransaction
from .resolution import TransactionResolution
from .transactions import Transactions

T = TypeVar("T")


class Transaction:
    """A message that nobody sees until it is committed. Made by `Producer.transaction`, for one thread at a time.

    As a context manager it is committed at the end of the block, unless the block said otherwise; an exception rolls it
    back. Only what is no `Exception` (KeyboardInterrupt, SystemExit) leaves it as by `unknown()`: it may have come
    after the application's own commit.

    Without a block, call `commit`, `rollback` or `unknown`. A transaction that nothing refers to any more, and one that
    is open when its store is closed or its process dies, is left to the TransactionChecker of its producer group.
    """

    def __init__(
        self, transactions: Transactions, opened: OpenTransaction, transaction_id: str, queue: MessageQueue
    ) -> None:
        self._transactions, self._opened = transactions, opened
        self.transaction_id = transaction_id
        """The message's uniq key."""
        self.half = opened.result
        """Where the half message was put, and whether it is known to be durable."""
        self.queue = queue
        """For which queue the message is, and of which store."""
        self.resolution: TransactionResolution | None = None
        """How it ended; None while it is open."""
        self.committed: PutResult | None = None
        """Where the message was put by `commit`."""

    @property
    def half_physical_offset(self) -> int:
        """Where the half message is now: a check may have put it back at the end of its topic."""
        return self._opened.physical_offset

    def commit(self) -> PutResult:
        """Have consumers see the message. Durable when this returns as after `Store.put`: under sync flush, unless the
        message does not wait. Calling it twice answers the same.

        An InvalidMessageError or a DiskFullError has stored nothing: the transaction is still open, and this can be
        tried again. After any other error the message may become visible, and a checker finds out. Raises UsageError
        after `rollback` and `unknown`, StoreClosedError, and what a put raises.
        """
        if self.resolution is TransactionResolution.COMMIT and self.committed is not None:
            return self.committed
        self.committed = self._end(TransactionResolution.COMMIT, self._transactions.commit)
        return self.committed

    def rollback(self) -> None:
        """The message is never seen. Durable when this returns, as after `commit`: no checker is asked any more.
        Calling it twice is fine.

        After a DiskError the message stays unseen, and a checker may be asked once more. Raises UsageError after
        `commit` and `unknown`, StoreClosedError.
        """
        if self.resolution is not TransactionResolution.ROLLBACK:
            self._end(TransactionResolution.ROLLBACK, self._transactions.roll_back)

    def unknown(self) -> None:
        """Leave it to the TransactionChecker of the producer group. Raises UsageError after `commit` and `rollback`,
        StoreClosedError."""
        if self.resolution is not TransactionResolution.UNKNOWN:
            self._end(TransactionResolution.UNKNOWN, self._transactions.leave)

    def _end(self, resolution: TransactionResolution, end: Callable[[OpenTransaction], T]) -> T:
        if self.resolution is not None:
            raise UsageError(
                f"the transaction {self.transaction_id} ended with {self.resolution.name}: expected one that is open"
            )
        try:
            return end(self._opened)
        finally:
            if self._opened.is_over:
                self.resolution = resolution

    def __repr__(self) -> str:
        state = "open" if self.resolution is None else self.resolution.name
        return f"<Transaction {self.transaction_id}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.resolution is not None:
            return
        if error is None:
            self.commit()
            return
        try:
            if isinstance(error, Exception):
                self.rollback()
            else:
                self.unknown()
        except FlightlogError as e:
            error.add_note(f"The transaction {self.transaction_id} was left to its TransactionChecker: {e}")
