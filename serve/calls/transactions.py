"""Transactions of clients: half messages that wait for an end, and asking the clients that forgot.

A half message is kept as an open transaction until it is as old as its client may be asked about it. Then it is left to
the store's checks, and from then on its end is an answer to a check, whoever sends it: the check reached its producer,
or the producer was late. RocketMQ's proxy keeps the same in memory; after a restart both know what checks name.

A check runs in a thread of the store. It hands the question to the loop and answers UNKNOWN: the end is a call.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ...produce.transaction.checker import TransactionChecker, transactions_of
from ...produce.transaction.resolution import TransactionResolution
from ...produce.transaction.transaction import Transaction
from ...store.errors import FlightlogError
from ...store.format import property_names as props
from ...store.settings import FlushMode
from ...store.stored_message import StoredMessage
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop
from .protocol import definition

log = logging.getLogger("flightlog.serve")

RESOLUTIONS = {
    definition.TransactionResolution.COMMIT: TransactionResolution.COMMIT,
    definition.TransactionResolution.ROLLBACK: TransactionResolution.ROLLBACK,
}


@dataclass
class _Open:
    topic: str
    transaction: Transaction
    leave_s: float
    """When it is left to the checks, on the monotonic clock of the store."""


class ServedTransactions:
    """Its calls run in the loop; what they hand to threads takes one step on a dict at a time."""

    def __init__(self, broker: Broker, off_loop: OffLoop, ask_producer: Callable[[StoredMessage, str], bool]) -> None:
        """`ask_producer` asks a producer about a half message and its transaction id; False if there is none to ask."""
        self._broker, self._off_loop, self._ask_producer = broker, off_loop, ask_producer
        self._open: dict[str, _Open] = {}
        self._left: dict[str, StoredMessage] = {}
        """Half messages that were left to the checks, where they were last seen."""
        self._leaving = threading.Lock()
        """Held while one goes from the open ones to those: an end would find it nowhere."""
        self._checkers: dict[str, TransactionChecker] = {}
        self._loop = asyncio.get_running_loop()

    def add(self, topic: str, transaction: Transaction, recovery_s: int | None) -> None:
        """A half message of a topic was put, whose producer is asked about it after so many seconds; None: as the
        store's settings say."""
        store = self._broker.store
        wait_s = store.settings.transaction_timeout_ms / 1000 if recovery_s is None else recovery_s
        due_s = store.message_store.clock.monotonic_s() + wait_s
        self._open[transaction.transaction_id] = _Open(topic, transaction, due_s)

    def may_have(self, transaction_id: str) -> bool:
        """Whether a transaction of this id waits for its end; False, too, in the moment when it is left."""
        return transaction_id in self._open or transaction_id in self._left

    def end(self, transaction_id: str, resolution: TransactionResolution, topic: str | None = None) -> bool:
        """End a transaction; False if none of this id is known, or if it is of another topic than this one. By a
        thread: it waits for the disk."""
        with self._leaving:
            waiting = self._open.get(transaction_id) or self._left.get(transaction_id)
            if topic is not None and waiting is not None and topic != _topic_of(waiting):
                return False
            opened = self._open.pop(transaction_id, None)
        if opened is not None:
            transaction = opened.transaction
            try:
                if resolution is TransactionResolution.COMMIT:
                    transaction.commit()
                else:
                    transaction.rollback()
            except FlightlogError:
                if transaction.resolution is None:  # nothing was stored: the client may try again
                    self._open[transaction_id] = opened
                raise
            return True
        half = self._left.pop(transaction_id, None)
        if half is None:
            return False
        try:
            self.answer(half, resolution)
        except FlightlogError:
            self._left[transaction_id] = half
            raise
        return True

    def answer(self, half: StoredMessage, resolution: TransactionResolution) -> None:
        """End a half message that is left to the checks."""
        store = self._broker.store
        transactions_of(store).answer(half, resolution)
        if store.settings.flush_mode is FlushMode.SYNC:
            store.flush()

    # -- checks

    def leave_due(self) -> None:
        """Leave the transactions that are old enough to the checks. By any thread."""
        now_s = self._broker.store.message_store.clock.monotonic_s()
        for transaction_id, opened in tuple(self._open.items()):
            if opened.leave_s > now_s:
                continue
            with self._leaving:
                if self._open.pop(transaction_id, None) is not None:
                    self._leave(opened.transaction)

    def _leave(self, transaction: Transaction) -> None:
        transaction.unknown()
        self._note_left(transaction)

    def _note_left(self, transaction: Transaction) -> None:
        half = self._broker.store.message_at(transaction.half_physical_offset)
        if half is not None and half.uniq_key == transaction.transaction_id:
            self._left[transaction.transaction_id] = half

    def leave_of_before(self) -> None:
        """Leave what was open in the store before it was lost and opened again. By a thread."""
        for transaction_id in tuple(self._open):
            with self._leaving:
                opened = self._open.pop(transaction_id, None)
                if opened is not None:
                    with suppress(FlightlogError):  # it was not durable, and something else is there now
                        self._note_left(opened.transaction)

    def check_groups(self, groups: set[str]) -> None:
        """The producer groups that have producers to ask; with gRPC clients they are called as their topics."""
        for group in self._checkers.keys() - groups:
            self._checkers.pop(group).close()
        for group in groups - self._checkers.keys():
            try:
                self._checkers[group] = TransactionChecker(self._broker.store, group, self._check)
            except FlightlogError as e:
                told = {"producer_group": group}
                log.warning("nobody is asked about transactions of producer group %r: %s", group, e, extra=told)

    def _check(self, half: StoredMessage) -> TransactionResolution:
        """In a thread of the store."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ask, half)
        return TransactionResolution.UNKNOWN

    def _ask(self, half: StoredMessage) -> None:
        transaction_id = half.uniq_key
        if transaction_id is None or not self._ask_producer(half, transaction_id):
            return
        self._left[transaction_id] = half
        told = {"uniq_key": transaction_id, "topic": half.topic}
        log.info("asked about the transaction %s of topic %r", transaction_id, half.topic, extra=told)

    def close(self) -> None:
        """Leave everything to the checks of the next life."""
        self.check_groups(set())
        for opened in self._open.values():
            with suppress(FlightlogError):
                opened.transaction.unknown()


def _topic_of(waiting: _Open | StoredMessage) -> str:
    """For what it was sent. A half message in the log stands in the topic of half messages."""
    if isinstance(waiting, _Open):
        return waiting.topic
    return waiting.properties.get(props.REAL_TOPIC, waiting.topic)
