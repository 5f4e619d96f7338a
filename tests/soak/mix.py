"""One thread of a soak's writer: puts of every kind, flushes, retention, topics made and deleted, in a mixed order.

Whatever returns is said at once, as a line of JSON (see ledger.py); what must be known if the writer dies in the middle
of a call is said before it. An acknowledgement that comes while the file system goes down says nothing, see
`Worker._comes_too_late` in tests/support/cut_work.py: the same rule holds here, for every call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import flightlog
from flightlog.store.errors import DiskError, DiskFullError, StorePoisonedError, TopicExistsError
from flightlog.tests.soak.checker import OWN
from flightlog.tests.soak.ledger import DURABLE, STORED, VISIBLE
from flightlog.tests.soak.telling import Head, body_of, digest_of
from flightlog.tests.support.cut_fate import Fate
from flightlog.tests.support.cut_work import say

CLEAN_BATCH_COUNT = 3
SHARED, BATCHES = "shared", "batches"
SHARED_QUEUES = 3
OF_BATCHES = {"queue.type": "BatchCQ"}
MESSAGES_A_LINE = 20
"""A line is one write to a pipe, and whole up to 4 KiB."""
RETRY_S = 0.01
STARVED_S = 240
PUTS_AFTER_REFUSAL = 15
REFUSALS_BEFORE_END = 5


class Mix:
    """The calls of one thread until its order is done, the disk says no, or the process ends."""

    def __init__(self, store: flightlog.Store, order: dict[str, Any], thread: int, fate: Fate) -> None:
        self._store, self._order, self._thread, self._fate = store, order, thread, fate
        self._dice = random.Random(f"{order['seed']} {thread}")
        self._is_sync, self._is_full = order["mode"] == "SYNC", order["full"]
        self._number = self._refusals = self._since_refusal = 0
        self._began_after = False
        self._log_size = 0
        self._log_start = 0
        self._own = f"{OWN}{thread}"
        calls: list[tuple[int, Callable[[], None]]] = [
            (30, self._put),
            (14, self._put_many),
            (10, self._put_async),
            (10, self._append_columns),
            (8, self._put_batch),
            (4, self._flush),
            (3, self._make_topic),
        ]
        if not self._is_full:  # retention would make room, and a deletion that finds none ends the session
            calls += [(1, self._delete_topic)]
        self._weights, self._calls = zip(*calls, strict=True)

    def run(self) -> None:
        try:
            self._run()
        except (DiskError, StorePoisonedError) as e:
            if not self._fate.is_coming:
                say({"wrong": f"thread {self._thread}, before its end came: {e!r}"})
        except BaseException as e:
            say({"wrong": f"thread {self._thread}: {e!r}"[:2000]})

    def _run(self) -> None:
        steps, deadline_s = 0, time.monotonic() + STARVED_S
        while not self._is_done(steps):
            if self._is_full and time.monotonic() > deadline_s:
                raise TimeoutError(f"{steps} calls, {self._refusals} refusals, {self._since_refusal} puts since")
            [call] = self._dice.choices(self._calls, self._weights)
            self._began_after = self._fate.has_come
            try:
                call()
                self._since_refusal += 1
            except DiskFullError:
                if not self._is_full or self._fate.is_coming:  # a disk without power may go on saying that it is full
                    raise
                self._wait_for_room()
            if self._thread == 0 and not self._is_full:
                self._clean_if_due()
            steps += 1

    def _is_done(self, steps: int) -> bool:
        if not self._is_full:
            return bool(steps >= self._order["steps"])
        return self._refusals > 0 and self._since_refusal >= PUTS_AFTER_REFUSAL

    def _wait_for_room(self) -> None:
        self._refusals += 1
        self._since_refusal = 0
        if self._refusals == REFUSALS_BEFORE_END and self._order["end"] != "close":
            self._fate.come()
        time.sleep(RETRY_S)  # nothing tells when another program lets go of its room

    # -- messages

    def _message(self, topic: str, queue_id: int, *, plain: bool = False) -> flightlog.Message:
        dice = self._dice
        size = dice.randrange(20_000) if dice.random() < 0.02 else dice.randrange(700)
        head = Head(self._order["round"], self._thread, self._number)
        self._number += 1
        return flightlog.Message(
            topic,
            body_of(topic, queue_id, head, dice.randbytes(size)),
            queue_id=queue_id,
            keys=head.key,
            tags=f"t{self._number % 3}",
            wait_store_ok=plain or dice.random() < 0.9,
            compress=None if plain or dice.random() < 0.95 else flightlog.CompressionType.ZLIB,
        )

    def _place(self) -> tuple[str, int]:
        return (SHARED, self._dice.randrange(SHARED_QUEUES)) if self._dice.random() < 0.6 else (self._own, 0)

    def _heads(self, first: int) -> list[Head]:
        return [Head(self._order["round"], self._thread, number) for number in range(first, self._number)]

    def _comes_too_late(self) -> bool:
        return self._fate.is_coming and not self._began_after

    def _say(self, line: dict[str, Any]) -> None:
        if not self._comes_too_late():
            say(line)

    def _note(self, messages: Sequence[flightlog.Message], results: Sequence[flightlog.PutResult], first: int) -> None:
        """Say what was acknowledged; `first` is the number of the first of the messages."""
        waits = any(message.wait_store_ok for message in messages)
        is_late = any(result.status is not flightlog.PutStatus.PUT_OK for result in results)
        level = STORED if is_late else (DURABLE if waits else STORED) if self._is_sync else VISIBLE
        physical_offset, place, said = -1, 0, []
        for number, (message, result) in enumerate(zip(messages, results, strict=False), first):
            place = place + 1 if result.physical_offset == physical_offset else 0
            physical_offset = result.physical_offset
            where = [result.topic, result.queue_id, result.queue_offset, physical_offset, place]
            said.append([*where, number, digest_of(message.body)])
        self._acknowledge(level, said)

    def _acknowledge(self, level: int, said: list[list[Any]]) -> None:
        for at in range(0, len(said), MESSAGES_A_LINE):
            by = [self._order["round"], self._thread]
            self._say({"ack": level, "by": by, "of": said[at : at + MESSAGES_A_LINE]})
        self._log_size = max(self._log_size, said[-1][3]) if said else self._log_size

    def _refused(self, first: int) -> None:
        """Nothing may be there of the messages from this number on."""
        heads = self._heads(first)
        for at in range(0, len(heads), MESSAGES_A_LINE):
            say({"refused": heads[at : at + MESSAGES_A_LINE], "by": self._thread})

    # -- calls

    def _put(self) -> None:
        first, message = self._number, self._message(*self._place())
        try:
            self._note([message], [self._store.put(message)], first)
        except DiskFullError:
            self._refused(first)
            raise

    def _put_many(self) -> None:
        first = self._number
        messages = [self._message(*self._place()) for _ in range(self._dice.choice((2, 8, 40)))]
        try:
            results: Sequence[flightlog.PutResult] = self._store.put_many(messages)
        except DiskFullError as e:
            self._note(messages, e.results, first)
            self._refused(first + len(e.results))
            raise
        self._note(messages, results, first)

    def _put_async(self) -> None:
        futures = []
        try:
            for _ in range(self._dice.randint(1, 8)):
                first, message = self._number, self._message(*self._place())
                try:
                    futures.append((message, self._store.put_async(message), first))
                except DiskFullError:
                    self._refused(first)
                    raise
        finally:
            for message, future, number in futures:
                self._note([message], [future.result()], number)

    def _append_columns(self) -> None:
        first, count = self._number, self._dice.choice((3, 30, 150))
        topic = SHARED if self._dice.random() < 0.6 else self._own
        queue_ids = [self._dice.randrange(SHARED_QUEUES) if topic == SHARED else 0 for _ in range(count)]
        messages = [self._message(topic, queue_id, plain=True) for queue_id in queue_ids]
        columns = {
            "value": [message.body for message in messages],
            "keys": [message.keys for message in messages],
            "tags": [message.tags for message in messages],
            "queue_id": queue_ids,
        }
        try:
            result = self._store.append_columns(topic, columns)
        except DiskFullError as e:
            count = len(e.appended) if e.appended is not None else 0
            if e.appended is not None:
                self._note_rows(messages, e.appended, first)
            self._refused(first + count)
            raise
        self._note_rows(messages, result, first)

    def _note_rows(self, messages: list[flightlog.Message], result: flightlog.AppendResult, first: int) -> None:
        is_late = result.status is not flightlog.PutStatus.PUT_OK
        level = STORED if is_late else DURABLE if self._is_sync else VISIBLE
        columns = (result.queue_ids, result.queue_offsets, result.physical_offsets)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        said: list[list[Any]] = []
        for number, (message, row) in enumerate(zip(messages, rows, strict=False), first):
            said.append([result.topic, *row, 0, number, digest_of(message.body)])
        self._acknowledge(level, said)

    def _put_batch(self) -> None:
        first = self._number
        messages = [self._message(BATCHES, 0, plain=True) for _ in range(self._dice.randint(1, 10))]
        try:
            self._note(messages, self._store.put_batch(messages), first)
        except DiskFullError:
            self._refused(first)
            raise

    def _flush(self) -> None:
        self._store.flush()
        if not self._fate.is_coming:  # one that began later may find it done by a sync that only seemed to end well
            self._say({"flushed": self._thread})

    def _make_topic(self) -> None:
        """The own one, which a put may have made; nobody else makes it."""
        try:
            self._store.create_topic(self._own, self._dice.randint(1, 4))
        except TopicExistsError:
            if self._store.topic(self._own) is None:
                raise
            return
        self._say({"made": self._own})

    def _delete_topic(self) -> None:
        if self._store.topic(self._own) is None:
            return
        say({"deleting": self._own})
        self._store.delete_topic(self._own)
        self._say({"deleted": self._own})

    def _clean_if_due(self) -> None:
        """Segments go when there are many, or now and then."""
        size = self._log_size - self._log_start
        if size > self._order["log_size_max"] or self._dice.random() < 0.01:
            say({"cleaning": CLEAN_BATCH_COUNT})
            self._began_after = self._fate.has_come
            self._log_start = self._store.clean_up(retention_hours=0).min_physical_offset
            self._say({"cleaned": self._log_start})
