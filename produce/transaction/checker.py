"""Who answers for the half messages that were left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, runtime_checkable

from ...engine.message_store import MessageStore
from ...store.arguments import check_callable, check_text
from ...store.errors import WrongTypeError
from ...store.stored_message import StoredMessage
from .resolution import TransactionResolution
from .transactions import Transactions


@runtime_checkable
class HasMessageStore(Protocol):
    """A store with its consumer groups: `flightlog.Store` is one."""

    message_store: MessageStore


def transactions_of(store: object) -> Transactions:
    """Those of a store that is open for writing. Raises WrongTypeError, StoreClosedError, ForkedStoreError."""
    found = store.message_store if isinstance(store, HasMessageStore) else store
    if not isinstance(found, MessageStore):
        raise WrongTypeError("store", store, "a store that is open for writing, as flightlog.open gives")
    return Transactions.of(found)


class TransactionChecker:
    """Answers for the transactions of a producer group that were left without an end: by a process that died, by
    `Transaction.unknown`, by a RocketMQ broker that had the store before.

    `check` gets the message, with the topic and queue that it is for, and returns a TransactionResolution: COMMIT if
    the application's own work was committed, ROLLBACK if it was not and never will be, else UNKNOWN. It is called by a
    thread of the store, for one message at a time, and may use the store. A check that raises counts as UNKNOWN.

    Every `transaction_check_interval_ms` (30 s) the store looks at the half messages that are older than
    `transaction_timeout_ms` (6 s), or than their property CHECK_IMMUNITY_TIME_IN_SECONDS; what is answered with UNKNOWN
    `transaction_check_max_count` times (15) goes to the topic TRANS_CHECK_MAX_TIME_TOPIC and stays invisible.
    Transactions that are still open in this process are not asked about.

    Raises InconsistentGroupError if the store has a checker of this group, InvalidArgumentError, StoreClosedError,
    ForkedStoreError, ThreadStartError. A context manager; the store's close ends it, too.
    """

    def __init__(
        self, store: object, producer_group: str, check: Callable[[StoredMessage], TransactionResolution]
    ) -> None:
        check_text("producer_group", producer_group, "the name of a producer group as text")
        check_callable("check", check, "a function that takes a message and returns a TransactionResolution")
        self._transactions, self.producer_group = transactions_of(store), producer_group
        self._transactions.add_check(producer_group, check)
        self._is_closed = False

    def check_now(self) -> None:
        """Look at the half messages now, in this thread, instead of at the end of the interval: those of all producer
        groups with a checker on this store. Returns once all answers are stored, durable with the next sync.

        Raises UsageError inside of a check, DiskError, StoreClosedError, ForkedStoreError.
        """
        self._transactions.check_now()

    def close(self) -> None:
        """Ask this one no more. Calling it twice is fine. A check that is running goes on to its end."""
        if not self._is_closed:
            self._is_closed = True
            self._transactions.remove_check(self.producer_group)

    def __repr__(self) -> str:
        return f"<TransactionChecker of {self.producer_group!r}{', closed' if self._is_closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
