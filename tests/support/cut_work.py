"""What writers do until their power fails, and what they say of it."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import flightlog
from flightlog import Message, PutResult, PutStatus, Store
from flightlog.store.errors import DiskError, StorePoisonedError, SyncFailedError
from flightlog.tests.support.cut_fate import Fate

DOOMED, SETTLED = "doomed", "settled"
"""A topic that is deleted and made anew; one that is only made and changed. One thread of a writer does both."""
WIDE_QUEUES = 80
"""So many new queue files are made durable by one sync of the whole file system."""


def say(line: dict[str, Any]) -> None:
    raw = json.dumps(line).encode() + b"\n"
    assert os.write(1, raw) == len(raw) <= 4096


class Worker:
    """One thread of a writer. Every message names its round, thread and number, and ends with a digest of itself."""

    def __init__(self, store: Store, order: dict[str, Any], thread: int, fate: Fate) -> None:
        self._store, self._order, self._thread, self._fate = store, order, thread, fate
        self._dice = random.Random(order["seed"] * 10 + thread)
        self._is_sync = order["mode"] == "SYNC"
        self._unsaid: list[dict[str, Any]] = []
        self._number = self.turns = 0
        self._began_after = False

    def run(self, goes_on: Callable[[], bool]) -> None:
        try:
            while goes_on():
                self.turns += 1
                self.do_something()
        except (DiskError, StorePoisonedError) as e:
            if not self._fate.is_coming and self._order["site"]:
                say({"wrong": f"before the power was cut: {e!r}"})
        except BaseException as e:
            say({"wrong": repr(e)[:2000]})

    def do_something(self) -> None:
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Messages so far."""
        return self._number

    def _message(self, topic: str | None = None, queue_id: int = 0, of: int = 1, waits: bool = True) -> Message:
        """`of`: how many are in its inner batch."""
        dice = self._dice
        if topic is None:
            topic, queue_id = ("shared", dice.randrange(3)) if dice.random() < 0.5 else (f"own-{self._thread}", 0)
        name = f"{self._order['round']} {self._thread} {self._number}"
        self._number += 1
        body = f"{name} {of} ".encode() + dice.randbytes(dice.randrange(700))
        body += hashlib.sha1(body).digest()
        key = name.replace(" ", "-")
        return Message(topic, body, queue_id=queue_id, keys=key, tags="t", wait_store_ok=waits)

    def _note(self, messages: Sequence[Message], results: Sequence[PutResult], by: str) -> None:
        """Put by one call, which has returned."""
        must_be_there = self._is_sync and any(message.wait_store_ok for message in messages)
        if self._comes_too_late():
            return
        for message, result in zip(messages, results, strict=True):
            where = [result.topic, result.queue_id, result.queue_offset, result.physical_offset]
            line = {"where": where, "sha1": hashlib.sha1(message.body).hexdigest(), "by": by}
            if result.status is not PutStatus.PUT_OK:
                say({"wrong": f"{result}"})
            elif must_be_there:
                say(line)
            else:
                self._unsaid.append(line)

    def _begin(self) -> None:
        """Before a call whose acknowledgement counts."""
        self._began_after = self._fate.has_come

    def _comes_too_late(self) -> bool:
        """An acknowledgement while the file system goes down says nothing: for 0.1 s, ext4 lets a sync that is under
        way end well although what it wrote stays an unwritten extent. One that began later must keep its word."""
        return self._fate.is_coming and not self._began_after

    def _flush(self) -> None:
        """One that begins after the cut finds done what such a sync seems to have done, so it says nothing either."""
        self._store.flush()
        if self._fate.is_coming:
            return
        for line in self._unsaid:
            say(line)
        self._unsaid.clear()


class Putter(Worker):
    """Puts in every way there is."""

    def do_something(self) -> None:
        put: Callable[[], None] = self._dice.choices(
            (self._put, self._put_many, self._put_async, self._put_batch, self._append_columns, self._put_later),
            (50, 20, 10, 10, 10, 10),
        )[0]
        self._begin()
        put()
        if self._dice.random() < 0.05:
            self._flush()

    def _waits(self) -> bool:
        return self._dice.random() < 0.9

    def _put(self) -> None:
        message = self._message(waits=self._waits())
        self._note([message], [self._store.put(message)], "put")

    def _put_many(self) -> None:
        messages = [self._message(waits=self._waits()) for _ in range(self._dice.choice((2, 8, 40)))]
        self._note(messages, self._store.put_many(messages), "put_many")

    def _put_async(self) -> None:
        messages = [self._message(waits=self._waits()) for _ in range(2)]
        futures: list[Future[PutResult]] = [self._store.put_async(message) for message in messages]
        for message, future in zip(messages, futures, strict=True):
            self._note([message], [future.result()], "put_async")

    def _put_batch(self) -> None:
        count = self._dice.choice((1, 3, 10))
        messages = [self._message("batched", of=count) for _ in range(count)]
        self._note(messages, self._store.put_batch(messages), "put_batch")

    def _put_later(self) -> None:
        messages = [self._message("later", self._dice.randrange(2), waits=self._waits()) for _ in range(3)]
        for message in messages:
            if self._dice.random() < 0.5:
                message.delay_level = self._dice.randint(1, 2)
            else:
                message.properties = {"TIMER_DELAY_MS": str(self._dice.choice((1000, 2000)))}
        self._note(messages, self._store.put_many(messages), "put_many, for later")

    def _append_columns(self) -> None:
        messages = [self._message("columns", self._dice.randrange(2)) for _ in range(self._dice.choice((1, 10, 50)))]
        columns = {
            "value": [message.body for message in messages],
            "keys": [message.keys for message in messages],
            "tags": "t",
            "queue_id": [message.queue_id for message in messages],
        }
        result = self._store.append_columns("columns", columns)
        places = result.queue_ids.tolist(), result.queue_offsets.tolist(), result.physical_offsets.tolist()
        results = [PutResult(result.status, "columns", *place, 0, 0, b"") for place in zip(*places, strict=True)]
        self._note(messages, results, "append_columns")


class Steward(Worker):
    """Makes, changes and deletes topics, and has retention take the oldest segments: above all what the writer is to
    die of."""

    def __init__(self, store: Store, order: dict[str, Any], thread: int, fate: Fate) -> None:
        super().__init__(store, order, thread, fate)
        self._is_wide = order["site"] == "file system"
        shares: list[tuple[Callable[[], None], int, tuple[str, ...]]] = [
            (self._put_doomed, 8, ()),
            (self._settle, 3, ("topics", "rename")),
            (self._delete, 2, ("note", "delete")),
            (self._clean, 1, ("retention", "remove")),
            (self._flush, 1, ()),
        ]
        self._work = [call for call, share, sites in shares for _ in range(share + 12 * (order["site"] in sites))]

    def do_something(self) -> None:
        if self._is_wide and self._dice.random() < 0.3:
            self._go_wide()
        self._dice.choice(self._work)()

    def _put_doomed(self) -> None:
        messages = [self._message(DOOMED, self._dice.randrange(2)) for _ in range(5)]
        say({"makes": True})
        self._begin()
        self._note(messages, self._store.put_many(messages), "put_many")

    def _settle(self) -> None:
        count = self._dice.randint(1, 50)
        say({"tries": count})
        self._begin()
        if self._store.topic(SETTLED) is None:
            self._store.create_topic(SETTLED, count)
        else:
            self._store.update_topic(SETTLED, count)
        if not self._comes_too_late():
            say({"settled": count})

    def _delete(self) -> None:
        if self._store.topic(DOOMED) is None:
            self._put_doomed()
        say({"deletes": [self._order["round"], self._number]})
        self._unsaid = [line for line in self._unsaid if line["where"][0] != DOOMED]
        self._begin()
        with self._fate.during("delete"):
            self._store.delete_topic(DOOMED)
        if not self._comes_too_late():
            say({"deleted": True})

    def _clean(self) -> None:
        self._begin()
        with self._fate.during("retention"):
            report = self._store.clean_up(retention_hours=0)
        if not self._comes_too_late():
            say({"cleaned": report.min_physical_offset, "segments": len(report.segments)})

    def _go_wide(self) -> None:
        """A message into each of many queues."""
        self._is_wide = False
        messages = [self._message("wide", i) for i in range(WIDE_QUEUES)]
        self._begin()
        self._note(messages, self._store.put_many(messages), "put_many")


class Prover(Worker):
    """Asks a store whose power was cut to go on."""

    def prove(self) -> None:
        """A sync has to fail, and from then on every put is refused by name and none is acknowledged."""
        try:
            self._store.put(self._message(waits=False))
            is_stored = True
        except (DiskError, StorePoisonedError):  # also: no blocks for it
            is_stored = False
        try:
            self._store.flush()
        except (SyncFailedError, StorePoisonedError):
            pass
        else:
            say({"wrong": "a sync succeeded after the power was cut"} if is_stored else {"unpoisoned": True})
            return
        store, several = self._store, [self._message("batched", of=2) for _ in range(2)]
        asked: dict[str, Callable[[], object]] = {
            "put": lambda: store.put(self._message()),
            "put that does not wait": lambda: store.put(self._message(waits=False)),
            "put_many": lambda: store.put_many([self._message(), self._message()]),
            "put_async": lambda: store.put_async(self._message()).result(),
            "put_batch": lambda: store.put_batch(several),
            "append_columns": lambda: store.append_columns("columns", {"value": [self._message().body]}),
            "clean_up": lambda: store.clean_up(retention_hours=0),
            "flush": store.flush,
        }
        for name, call in asked.items():
            try:
                call()
            except StorePoisonedError:
                continue
            except flightlog.FlightlogError as e:
                say({"wrong": f"{name} after a failed sync raised {e!r}"})
            else:
                say({"wrong": f"{name} after a failed sync was acknowledged"})
        say({"poisoned": len(asked)})
