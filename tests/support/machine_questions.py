"""The questions of support/questions.py, asked to stores that let go of their beginning, have topics, inner batches and
compressed bodies, and by record batches, too."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from flightlog import GetStatus, StoredMessage
from flightlog.tests.support import machine_model, questions
from flightlog.tests.support.machine_model import Inner, MachineModel
from flightlog.tests.support.questions import FILTERS, Questions, Reading

if TYPE_CHECKING:
    from flightlog.store.queue_offsets import QueueKey

BATCH_TOPIC = "batch"
BATCH_KEYS = (("batch", 0), ("batch", 1))
COLUMNS = ("value", "partition", "offset", "physicalOffset", "size", "tags", "keys", "uniqKey", "sysFlag", "topic")


class SomeKeys:
    """What a question by key asks for: a key or uniq key of some message, or none of any."""

    def __init__(self, model: MachineModel) -> None:
        self._model = model
        self.dice = random.Random(0)

    def some_key(self) -> str:
        records = self._model.records[-20:]
        known = sorted({key for record in records for key in record.keys} | {"k1"})
        return self.dice.choice([*known, "nobody's"])


class MachineQuestions(Questions):
    """`ask(store, end)` draws from `dice`, which every step of the machine sets anew."""

    def __init__(self, model: MachineModel) -> None:
        self._keys = SomeKeys(model)
        super().__init__(model, self._keys, self._keys.dice)  # type: ignore[arg-type]
        self._model: MachineModel = model

    def draw_from(self, dice: random.Random) -> None:
        self._dice = self._keys.dice = dice

    def ask(self, store: Reading, end: int) -> str:
        get, query = self.get, self.query
        kinds = (
            *(get, get, query, query, self.read, self.bounds, self.offset_at, self.count, self.one),
            *(self.columns, self.decompressed, self.batch, self.batch_keys, self.sizes),
        )
        return self._dice.choice(kinds)(store, end)

    # -- plain queues

    def bounds(self, store: Reading, end: int) -> str:
        found = {key: bounds for key, bounds in store.queues().items() if bounds != (0, 0) and key[0] != BATCH_TOPIC}
        self._model.same("bounds", found, self._model.bounds(end))
        return "queues()"

    def _listed(self, key: QueueKey, offset: int | None, end: int) -> list[Any]:
        return self._model.listed(key, end)[max(offset or 0, self._model.first(key)) :]

    def read(self, store: Reading, end: int) -> str:
        key, offset = self.some_key(), self._dice.choice((None, 0, self._dice.randrange(60)))
        tags = self._dice.choice(FILTERS)
        records = [record for record in self._listed(key, offset, end) if self._model.matches(record, tags)]
        self._model.check_messages(store.read(*key, offset, tags=tags), records)
        return f"read({key[0][:8]!r}, {key[1]}, {offset}, tags={tags!r})"

    def columns(self, store: Reading, end: int) -> str:
        """A queue by record batches, from some offset on."""
        key, offset = self.some_key(), self._dice.choice((None, 0, self._dice.randrange(60)))
        max_count, max_size = self._dice.choice((1, 7, 100)), self._dice.choice((1, 2000, 1 << 20))
        expected, at = self._listed(key, offset, end), offset
        found: list[tuple[object, ...]] = []
        while True:
            batch = store.read_batch(*key, at, max_count=max_count, max_size=max_size, columns=COLUMNS)
            if not batch.num_rows:
                break
            assert batch.num_rows <= max_count
            found += zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)
            at = int(batch.schema.metadata[b"nextQueueOffset"])
        wanted = [
            (
                *(r.fields[5], r.queue_key[1], r.queue_offset, r.physical_offset, r.size, r.tags),
                *(dict(r.fields[14]).get("KEYS", "").split(), r.uniq_key, r.fields[7], r.queue_key[0]),
            )
            for r in expected
        ]
        self._model.same(f"record batches of {key} from {offset}", found, wanted)
        return f"read_batch({key[0][:8]!r}, {key[1]}, {offset})"

    def decompressed(self, store: Reading, end: int) -> str:
        """Bodies as they were before their put compressed them."""
        key = self.some_key()
        found = [message.body for message in store.read(*key, decompress=True)]
        plain = self._model.plain_bodies
        expected = [plain.get(r.physical_offset, r.fields[5]) for r in self._listed(key, None, end)]
        self._model.same("bodies before compression", found, expected)
        return f"read({key[0][:8]!r}, {key[1]}, decompress=True)"

    # -- inner batches

    def batch(self, store: Reading, end: int) -> str:
        key = self._dice.choice(BATCH_KEYS)
        self._batch(store, end, key, self._dice.choice((1, 3, 32)))
        return f"the batches of {key}"

    def _batch(self, store: Reading, end: int, key: QueueKey, max_count: int = 32) -> None:
        expected = self._model.inner(key, end)
        self._same_inner(store.read(*key), expected)
        for tags in ("A", "Aa || ä"):
            wanted = [one for one in expected if one.message.tags in tags.split(" || ")]
            self._same_inner(store.read(*key, tags=tags), wanted)
        if not expected:
            return
        first, stop = expected[0].fields()[0], expected[-1].record.queue_offset + expected[-1].place + 1
        self._model.same(f"bounds of {key}", store.queues()[key], (first, stop))
        paged: list[StoredMessage] = []
        at: int = expected[0].record.queue_offset
        while (page := store.get(*key, at, max_count)).status is GetStatus.FOUND:
            assert 0 < len(page.messages) <= max_count
            paged += page.messages
            at = page.next_queue_offset
        self._model.same("the end of batches", at, stop)
        self._same_inner(paged, expected)

    def batch_keys(self, store: Reading, end: int) -> str:
        known = [one for key in BATCH_KEYS for one in self._model.inner(key, end)]
        names = sorted({key for one in known for key in (*one.message.keys, one.message.uniq_key or "k1")} | {"k1"})
        name = self._dice.choice(names)
        self._batch_key(store, name, known)
        for one in known[-2:]:
            self._same_inner([m for m in [store.message_at(one.record.physical_offset, one.place)] if m], [one])
        return f"query({BATCH_TOPIC!r}, {name!r})"

    def _batch_key(self, store: Reading, name: str, known: list[Inner]) -> None:
        if not self.has_keys(store):
            return
        having = [one for one in known if name in (*one.message.keys, one.message.uniq_key)]
        having.sort(key=lambda one: (one.record.physical_offset, one.place), reverse=True)
        self._same_inner(store.query(BATCH_TOPIC, name, max_count=1000).messages, having)

    def _same_inner(self, found: Any, expected: list[Inner]) -> None:
        fields = machine_model.inner_fields
        self._model.same("messages of batches", [fields(m) for m in found], [one.fields() for one in expected])

    # -- everything

    def sizes(self, store: Reading, end: int) -> str:
        store.queues()  # which has everything dispatched
        model, found = self._model, store.statistics().sizes
        self.same_sizes(found.min_physical_offset, found.end_physical_offset, end)
        plain = sum(stop - first for first, stop in model.bounds(end).values())
        inner = sum(len(model.inner(key, end)) for key in BATCH_KEYS)
        model.same("messages in all queues", found.messages, plain + inner)
        return "statistics()"

    def same_sizes(self, start: int, stop: int, end: int) -> None:
        self._model.same("where the log begins and ends", (start, stop), (self._model.start, end))

    def newest(self, store: Reading, end: int) -> None:
        self.bounds(store, end)
        for key in self._model.queues:
            self._check_tail(store, end, key, 5)
        for key in BATCH_KEYS:
            self._same_inner(store.read(*key), self._model.inner(key, end))

    def _check_tail(self, store: Reading, end: int, key: QueueKey, count: int) -> None:
        stop = len(self._model.listed(key, end))
        self._model.check_messages(store.read(*key, max(stop - count, 0)), self._listed(key, stop - count, end))

    def everything(self, store: Reading, end: int, *, samples: int = 8) -> None:
        model = self._model
        self.newest(store, end)
        for key in model.queues:
            self._check_tail(store, end, key, 1 << 30)
            stop = len(model.listed(key, end))
            for offset in (0, model.first(key), stop - 1, stop):
                self._get(store, end, key, offset)
        for key in BATCH_KEYS:
            self._batch(store, end, key)
        for record in [record for record in model.records if not record.is_listed][-samples:]:
            self._check_one(store.message_at(record.physical_offset), record if record.stop <= end else None)
        names = sorted({(record.queue_key[0], key) for record in model.records for key in record.keys})
        newest = [(record.queue_key[0], key) for record in model.records[-2:] for key in record.keys]
        for topic, name in names[:samples] + newest:
            if topic != BATCH_TOPIC:
                self._query(store, end, topic, name, 0, None, 1000)
        known = [one for key in BATCH_KEYS for one in model.inner(key, end)]
        for name in sorted({key for one in known for key in one.message.keys})[:samples]:
            self._batch_key(store, name, known)
        self.sizes(store, end)

    def is_a_part(self, store: Reading, end: int) -> None:
        """What is read is of each queue a beginning, in order and once: of stores that may lag behind."""
        for key in self._model.queues:
            expected = self._listed(key, None, end)
            found = list(store.read(*key))
            assert len(found) <= len(expected), f"{key}: {len(found)} messages, of {len(expected)} that were put"
            self._model.check_messages(found, expected[: len(found)])

    @staticmethod
    def has_keys(store: Reading) -> bool:
        return bool(questions.has_keys(store))
