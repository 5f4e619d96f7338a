"""Questions to an open store or view, whose answers must be the model's."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal

import pytest

import flightlog
from flightlog import StoredMessage
from flightlog.store.errors import UsageError
from flightlog.tests.support.messages import MessageMaker
from flightlog.tests.support.model import Model, Record

if TYPE_CHECKING:
    from flightlog.store.queue_offsets import QueueKey


Reading = flightlog.Store | flightlog.ReadOnlyStore
FILTERS = (None, None, "*", "A", "Aa || A", "BB", "ä||AaAa", "nobody's")


class Questions:
    """`end` is the physical offset up to which the one who is asked may see."""

    def __init__(self, model: Model, maker: MessageMaker, dice: random.Random) -> None:
        self._model, self._maker, self._dice = model, maker, dice

    def some_key(self) -> QueueKey:
        """A queue to ask, which there may not be."""
        return self._dice.choice([*self._model.queues, ("nobody", 0), ("orders", 7)])

    def some_time(self) -> int:
        """In ms, around the times of messages."""
        records = self._model.records
        around = self._dice.choice(records).store_timestamp_ms if records else 0
        return max(around + self._dice.choice((-5000, -1, 0, 0, 0, 1, 5000)), 0)

    def ask(self, store: Reading, end: int) -> str:
        """One question of any kind; returns what it was."""
        get, query = self.get, self.query
        kinds = (get, get, get, get, query, query, query, self.read, self.bounds, self.offset_at, self.count, self.one)
        return self._dice.choice(kinds)(store, end)

    def bounds(self, store: Reading, end: int) -> str:
        found = {key: bounds for key, bounds in store.queues().items() if bounds != (0, 0)}
        self._model.same("bounds", found, self._model.bounds(end))
        return "queues()"

    def get(self, store: Reading, end: int) -> str:
        key, dice = self.some_key(), self._dice
        offset = dice.choice((-1, 0, dice.randrange(40), dice.randrange(400)))
        tags, max_size = dice.choice(FILTERS), dice.choice((None, None, 1, 500, 5000))
        self._get(store, end, key, offset, dice.choice((1, 2, 10, 32, 100)), tags, max_size)
        return f"get({key[0][:8]!r}, {key[1]}, {offset}, tags={tags!r})"

    def _get(
        self,
        store: Reading,
        end: int,
        key: QueueKey,
        offset: int,
        max_count: int = 32,
        tags: str | None = None,
        max_size: int | None = None,
    ) -> None:
        found = store.get(*key, offset, max_count, tags=tags, max_size=max_size)
        status, next_offset, records = self._model.get(key, offset, max_count, tags, max_size, end)
        bounds = self._model.bounds(end).get(key, (0, 0))
        answer = (found.status, found.next_queue_offset, found.min_queue_offset, found.max_queue_offset)
        asked = f"get {key} {offset} {max_count} {tags} {max_size}"
        self._model.same(asked, answer, (status, next_offset, *bounds))
        self._model.check_messages(found.messages, records)

    def read(self, store: Reading, end: int) -> str:
        key, offset = self.some_key(), self._dice.choice((None, 0, self._dice.randrange(100)))
        tags = self._dice.choice(FILTERS)
        records = [
            record for record in self._model.listed(key, end)[offset or 0 :] if self._model.matches(record, tags)
        ]
        self._model.check_messages(store.read(*key, offset, tags=tags), records)
        return f"read({key[0][:8]!r}, {key[1]}, {offset}, tags={tags!r})"

    def query(self, store: Reading, end: int) -> str:
        dice = self._dice
        topic, key = self.some_key()[0], self._maker.some_key()
        begin_ms, end_ms = dice.choice((0, self.some_time())), dice.choice((None, self.some_time()))
        self._query(store, end, topic, key, begin_ms, end_ms, dice.choice((1, 3, 32)))
        return f"query({topic[:8]!r}, {key!r}, {begin_ms}, {end_ms})"

    def _query(
        self, store: Reading, end: int, topic: str, key: str, begin_ms: int, end_ms: int | None, max_count: int
    ) -> None:
        if not has_keys(store):
            with pytest.raises(UsageError, match="without a key index"):
                store.query(topic, key, begin_ms, end_ms, max_count)
            return
        found = store.query(topic, key, begin_ms, end_ms, max_count)
        records = self._model.query(topic, key, begin_ms, end_ms, end)
        self._model.check_messages(found.messages, records[:max_count])
        self._model.same("has_more", found.has_more, len(records) > max_count)

    def offset_at(self, store: Reading, end: int) -> str:
        key, time_ms = self.some_key(), self.some_time()
        boundary: Literal["lower", "upper"] = self._dice.choice(("lower", "upper"))
        found, expected = store.offset_at(*key, time_ms, boundary), self._model.offset_at(key, time_ms, boundary, end)
        asked = f"offset_at({key[0][:8]!r}, {key[1]}, {time_ms}, {boundary!r})"
        self._model.same(asked, found, expected)
        return asked

    def count(self, store: Reading, end: int) -> str:
        key, tags = self.some_key(), self._dice.choice(FILTERS)
        start, stop = sorted(self._dice.randrange(60) for _ in range(2))
        found = store.estimate_count(*key, start, stop, tags=tags)
        asked = f"estimate_count({key[0][:8]!r}, {key[1]}, {start}, {stop}, tags={tags!r})"
        self._model.same(asked, found, self._model.count(key, start, stop, tags, end))
        return asked

    def one(self, store: Reading, end: int) -> str:
        """One message by what names it, or none by what names none."""
        model, dice = self._model, self._dice
        if not model.records:
            return "nothing"
        record = dice.choice(model.records)
        offset = record.physical_offset + dice.choice((0, 0, 0, 1, record.size))
        self._check_one(store.message_at(offset), model.at(offset, end))
        self._check_one(store.message_by_id(record.message_id), record if record.stop <= end else None)
        if record.uniq_key is not None and has_keys(store):
            self._uniq_key(store, end, record.queue_key[0], record.uniq_key)
        return f"message_at({offset}), message_by_uniq_key({record.uniq_key!r})"

    def _uniq_key(self, store: Reading, end: int, topic: str, uniq_key: str) -> None:
        records = [r for r in self._model.records if r.uniq_key == uniq_key and r.is_indexed and r.stop <= end]
        there = [r for r in records if r.queue_key[0] == topic]
        self._check_one(store.message_by_uniq_key(topic, uniq_key), there[-1] if there else None)
        self._model.same(f"was_stored({uniq_key!r}, {topic!r})", store.was_stored(uniq_key, topic), bool(there))
        topics = {key[0] for key in store.queues()}  # without a topic, those that have a queue are asked
        there = [r for r in records if r.queue_key[0] in topics]
        self._model.same(f"was_stored({uniq_key!r})", store.was_stored(uniq_key), bool(there))

    def _check_one(self, found: StoredMessage | None, expected: Record | None) -> None:
        self._model.check_messages([found] if found else [], [expected] if expected else [])

    def newest(self, store: Reading, end: int) -> None:
        """Bounds, and the last messages of every queue."""
        self.bounds(store, end)
        for key in self._model.queues:
            records = self._model.listed(key, end)
            self._model.check_messages(store.read(*key, max(len(records) - 5, 0)), records[-5:])

    def everything(self, store: Reading, end: int, *, samples: int = 12) -> None:
        """Every message, and `samples` keys."""
        model = self._model
        self.bounds(store, end)
        for key in model.queues:
            records = model.listed(key, end)
            model.check_messages(store.read(*key), records)
            for offset in (0, len(records) - 1, len(records)):
                self._get(store, end, key, offset)
        for record in [record for record in model.records if not record.is_listed][-samples:]:
            self._check_one(store.message_at(record.physical_offset), record if record.stop <= end else None)
        names = sorted({(record.queue_key[0], key) for record in model.records for key in record.keys})
        newest = [(record.queue_key[0], key) for record in model.records[-2:] for key in record.keys]
        for topic, name in self._dice.sample(names, min(samples, len(names))) + newest:
            self._query(store, end, topic, name, 0, None, 1000)


def has_keys(store: Reading) -> bool:
    """A view gathers keys itself where there is no index."""
    return isinstance(store, flightlog.ReadOnlyStore) or store.settings.key_index
