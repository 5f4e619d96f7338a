"""Puts of every kind, of messages with numbers, and what an account learns from them (tests/support/account.py)."""

from __future__ import annotations

import random
from collections.abc import Callable

import flightlog
from flightlog import FlushMode, Message
from flightlog.store.errors import DiskFullError
from flightlog.tests.support.account import Account

QUEUES = (("orders", 0), ("orders", 0), ("orders", 1), ("payments", 0))
BATCH_TOPIC = "batches"


class NumberedPuts:
    """One call, one put; `store()` is the store that is open now, and `say` is told what is about to be done."""

    topics = ("orders", "payments", BATCH_TOPIC)

    def __init__(
        self,
        dice: random.Random,
        account: Account,
        store: Callable[[], flightlog.Store],
        say: Callable[[str], None],
    ) -> None:
        self._dice, self._account, self._store, self._say = dice, account, store, say

    def _message(self, topic: str | None = None, queue_id: int = 0) -> Message:
        dice, number = self._dice, len(self._account.offered)
        if topic is None:
            topic, queue_id = dice.choice(QUEUES)
        return self._account.offer(
            Message(
                topic,
                dice.randbytes(dice.choice((0, 30, 200)) + dice.randrange(150)),
                queue_id=queue_id,
                keys=[f"k{number % 7}"] if dice.random() < 0.7 else [],
                tags=dice.choice((None, "A", "B")),
                uniq_key=f"u{number}" if dice.random() < 0.5 else None,
                wait_store_ok=dice.random() < 0.9,
            )
        )

    def _append(self, messages: list[Message], put: Callable[[], list[flightlog.PutResult]]) -> None:
        """Put them, and note what that said."""
        first = len(self._account.offered) - len(messages)
        try:
            results = put()
        except DiskFullError as e:
            self._acknowledge(messages, list(e.results))
            self._account.refused += range(first + len(e.results), len(self._account.offered))
            raise
        self._acknowledge(messages, results)

    def _acknowledge(self, messages: list[Message], results: list[flightlog.PutResult]) -> None:
        for message, result in zip(messages, results, strict=False):
            assert result.status is flightlog.PutStatus.PUT_OK
            key = result.topic, result.queue_id
            self._account.acknowledge(message.body, key, result.queue_offset, result.physical_offset)
        is_sync = self._store().settings.flush_mode is FlushMode.SYNC
        if results and is_sync and any(message.wait_store_ok for message in messages):
            self._account.is_durable()

    def put(self) -> None:
        message = self._message()
        self._say(f"put message {len(self._account.offered) - 1}")
        self._append([message], lambda: [self._store().put(message)])

    def put_many(self) -> None:
        messages = [self._message() for _ in range(self._dice.choice((2, 3, 8)))]
        self._say(f"put {len(messages)} messages up to {len(self._account.offered) - 1}")
        self._append(messages, lambda: self._store().put_many(messages))

    def put_async(self) -> None:
        message = self._message()
        self._say(f"put message {len(self._account.offered) - 1} without waiting")
        self._append([message], lambda: [self._store().put_async(message).result(240)])

    def put_batch(self) -> None:
        messages = [self._message(BATCH_TOPIC) for _ in range(self._dice.choice((1, 2, 5)))]
        for message in messages:
            message.wait_store_ok = True
        self._say(f"put a batch of {len(messages)} up to message {len(self._account.offered) - 1}")
        self._append(messages, lambda: self._store().put_batch(messages))

    def append_columns(self) -> None:
        topic, queue_id = self._dice.choice(QUEUES)
        messages = [self._message(topic, queue_id) for _ in range(self._dice.choice((3, 6)))]
        for message in messages:
            message.tags, message.keys, message.uniq_key, message.wait_store_ok = "C", ["columns"], None, True
        self._say(f"append {len(messages)} rows up to message {len(self._account.offered) - 1}")
        columns = {"body": [message.body for message in messages], "tags": "C", "keys": "columns", "queue_id": queue_id}

        def note(result: flightlog.AppendResult | None) -> int:
            count = len(result) if result is not None else 0
            for message, offset, at in zip(
                messages,
                result.queue_offsets if result else (),
                result.physical_offsets if result else (),
                strict=False,
            ):
                self._account.acknowledge(message.body, (topic, queue_id), int(offset), int(at))
            if count and self._store().settings.flush_mode is FlushMode.SYNC:
                self._account.is_durable()
            return count

        try:
            note(self._store().append_columns(topic, columns))
        except DiskFullError as e:
            count = len(messages) - note(e.appended)
            self._account.refused += range(len(self._account.offered) - count, len(self._account.offered))
            raise
