"""The transactions of one open store: what is open, what checks the rest, and the thread that does it.

The first transaction or checker starts the thread; a store without any has none for it. It writes op messages that have
been gathered for three seconds, and while there is a checker it looks at the half messages that were left, every
`transaction_check_interval_ms`. The store stops it first when it closes; then what was gathered is written.
"""

from __future__ import annotations

import logging
import threading
import weakref

from ...engine.message_store import MessageStore
from ...engine.services.service_thread import ServiceThread
from ...engine.services.wake_up import WakeUp
from ...store.errors import FlightlogError, InconsistentGroupError, StoreClosedError, StorePoisonedError, UsageError
from ...store.message import Message
from ...store.results import PutResult
from ...store.stored_message import StoredMessage
from .check_round import Check, CheckRound
from .open_transactions import OpenTransaction, OpenTransactions
from .resolution import TransactionResolution

log = logging.getLogger("flightlog.produce")

_making = threading.Lock()


class Transactions:
    """Thread-safe. It does not hold the store's handle."""

    def __init__(self, store: MessageStore) -> None:
        self._store = weakref.ref(store)
        self._path, self._clock = store.path, store.clock
        self._interval_s = store.settings.transaction_check_interval_ms / 1000
        self._open = OpenTransactions(store)
        self._checks: dict[str, Check] = {}
        self._checks_due_s: float | None = None
        """When the next round is, on the monotonic clock; None without checkers."""
        self._round_lock = threading.Lock()
        self._in_round: threading.Thread | None = None
        self._warned_groups: set[str] = set()
        """Producer groups without a checker, of which a warning was logged."""
        self._wake_up = WakeUp()
        self.thread = ServiceThread("flightlog-transactions", self._serve, self._wake_up.notify)

    @classmethod
    def of(cls, store: MessageStore) -> Transactions:
        """Those of this store. Raises StoreClosedError, ForkedStoreError."""
        store.check_usable()
        with _making:
            found = next((each for each in store.services if isinstance(each, cls)), None)
            if found is None:
                found = cls(store)
                store.services.insert(0, found)  # it is stopped first: it puts
        return found

    # -- the life of a transaction

    def begin(
        self, message: Message, producer_group: str, transaction_id: str, wait_s: float | None
    ) -> OpenTransaction:
        """See OpenTransactions.begin. Raises ThreadStartError, too."""
        self._usable()
        self.thread.start()  # before the append
        try:
            return self._open.begin(message, producer_group, transaction_id, wait_s)
        except TimeoutError:
            self._wake_up.notify()  # an op message is to be written
            raise

    def commit(self, transaction: OpenTransaction) -> PutResult:
        self._usable()
        result = self._open.commit(transaction)
        self._wake_up.notify()
        return result

    def roll_back(self, transaction: OpenTransaction) -> None:
        self._usable()
        self._open.roll_back(transaction)

    def leave(self, transaction: OpenTransaction) -> None:
        self._usable()
        self._open.leave(transaction)

    # -- checks

    def add_check(self, producer_group: str, check: Check) -> None:
        """Ask this one about the group's half messages from the next round on. Raises InconsistentGroupError if the
        group has one already, ThreadStartError."""
        self._usable()
        self.thread.start()
        with self._open.lock:
            if producer_group in self._checks:
                raise InconsistentGroupError(
                    producer_group, "a TransactionChecker on this store", "one of them a producer group and store"
                )
            self._checks[producer_group] = check
            if self._checks_due_s is None:
                self._checks_due_s = self._clock.monotonic_s() + self._interval_s
        self._wake_up.notify()

    def remove_check(self, producer_group: str) -> None:
        with self._open.lock:
            self._checks.pop(producer_group, None)
            if not self._checks:
                self._checks_due_s = None

    def check_now(self) -> None:
        """One round, by this thread. Raises DiskError, StoreClosedError; UsageError inside of a check."""
        if self._in_round is threading.current_thread():
            raise UsageError("a check of half messages is running: expected no other one inside of it")
        with self._round_lock:
            self._in_round = threading.current_thread()
            try:
                this_round = CheckRound(
                    self._usable(), self._open, dict(self._checks), lambda: self.thread.is_stopping, self._warned_groups
                )
                this_round.run()
            finally:
                self._in_round = None
        self._wake_up.notify()

    def answer(self, half: StoredMessage, resolution: TransactionResolution) -> None:
        """End a half message that a check was asked about and answered with UNKNOWN; not for UNKNOWN. A message that
        was committed already is not committed again. Durable with the next sync.

        Raises InvalidMessageError for a message that cannot be put, DiskError, StoreClosedError.
        """
        with self._round_lock:
            this_round = CheckRound(
                self._usable(), self._open, {}, lambda: self.thread.is_stopping, self._warned_groups
            )
            this_round.answer(half, resolution)
        self._wake_up.notify()

    def run_due(self) -> float | None:
        """Do what is due; how many seconds the thread may sleep at most, None: until it is woken."""
        checks_due_s = self._checks_due_s  # read once: the last checker may leave at any moment
        if checks_due_s is not None and self._clock.monotonic_s() >= checks_due_s:
            self.check_now()
            with self._open.lock:
                if self._checks_due_s is not None:
                    self._checks_due_s = self._clock.monotonic_s() + self._interval_s
        with self._open.lock:
            ops, now_s = self._open.ops, self._clock.monotonic_s()
            if ops.due_s is not None and now_s >= ops.due_s:
                ops.write()
            dues = [due_s - now_s for due_s in (ops.due_s, self._checks_due_s) if due_s is not None]
        return max(min(dues), 0.0) if dues else None

    # -- life

    def stop(self) -> None:
        """Return once nothing is checked any more, and what was gathered is written, if the log still takes it."""
        if self.thread.is_current():  # a check closes the store
            self.thread.request_stop()
        else:
            self.thread.stop()
        try:
            with self._open.lock:
                self._open.ops.write()
        except FlightlogError as e:
            text = "%s: an op message was not written; its transactions are looked at again: %s"
            log.warning(text, self._path, e, extra={"path": str(self._path)})

    def _usable(self) -> MessageStore:
        store = self._store()
        if store is None:
            raise StoreClosedError(f"{self._path}: the store was closed; open it again")
        store.check_usable()
        return store

    def _serve(self) -> None:
        while not self.thread.is_stopping:
            try:
                wait_s = self.run_due()
            except (StorePoisonedError, StoreClosedError) as e:
                log.warning("half messages are checked no more: %s", e, extra={"cause": repr(e)})
                return
            except FlightlogError as e:
                log.error("a check of half messages failed, and is tried again: %s", e, extra={"cause": repr(e)})
                wait_s = self._interval_s
            self._wake_up.wait(wait_s)
