"""The plain model of support/model.py with what the state machine adds: topics and their deletion, retention, and inner
batches."""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from flightlog import GetStatus, Message, StoredMessage, Topic
from flightlog.tests.support.model import Limits, Model, Record

if TYPE_CHECKING:
    from flightlog.store.queue_offsets import QueueKey

WRITE = 2
BATCH_BITS = 64 | 128


@dataclass
class Route:
    """A topic as it must be."""

    read_queues: int
    write_queues: int
    perm: int = 6
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)
    turn: int = 0

    @property
    def queues(self) -> int:
        return max(self.read_queues, self.write_queues)

    @property
    def holds_batches(self) -> bool:
        return self.attributes.get("queue.type") == "BatchCQ"

    def grow(self, queue_id: int) -> None:
        """Have a queue of this id."""
        if queue_id >= self.queues:
            self.read_queues = self.write_queues = queue_id + 1

    @property
    def said(self) -> tuple[object, ...]:
        return self.read_queues, self.write_queues, self.perm, self.order, self.attributes


def route_of(topic: Topic) -> Route:
    return Route(
        topic.read_queue_count, topic.write_queue_count, int(topic.perm), topic.is_ordered, dict(topic.attributes)
    )


class Inner(NamedTuple):
    """A message of an inner batch."""

    record: Record
    place: int
    message: Message

    def fields(self) -> tuple[object, ...]:
        record, message = self.record, self.message
        return (
            *(record.queue_offset + self.place, record.physical_offset, self.place, message.body, message.flag),
            *(message.tags, list(message.keys), message.uniq_key, record.store_timestamp_ms),
        )


def inner_fields(found: StoredMessage) -> tuple[object, ...]:
    """What a message of a batch says, in the order of `Inner.fields`."""
    return (
        *(found.queue_offset, found.physical_offset, found.batch_index, found.body, found.flag),
        *(found.tags, found.keys, found.uniq_key, found.store_timestamp_ms),
    )


class MachineModel(Model):
    """`records` are those from `start` on; the lists of `queues` and `batches` keep those before, whose number is what
    gives queue offsets."""

    def __init__(self, limits: Limits, default_queues: int) -> None:
        super().__init__(limits)
        self._default_queues = default_queues
        self.start = 0
        """Physical offset where the log begins."""
        self.topics: dict[str, Route] = {}
        self.saved: dict[str, Route] = {}
        """As `config/topics.json` has them at least."""
        self.batches: dict[QueueKey, list[Inner]] = {}
        self.plain_bodies: dict[int, bytes] = {}
        """Physical offset -> body, of records whose body is compressed."""

    # -- topics

    def route(self, name: str, queue_id: int | None, *, makes: bool, is_batch: bool = False) -> int | None:
        """The queue id of a put, whose topic or queue is made if need be; None if it must be refused."""
        topic = self.topics.get(name)
        if topic is None:
            if not makes:
                return None
            count = 1 if name.startswith(("%RETRY%", "%DLQ%")) else self._default_queues
            topic = Route(count, count, attributes={"queue.type": "BatchCQ"} if is_batch else {})
        if topic.holds_batches is not is_batch or not topic.perm & WRITE:
            return None
        if queue_id is not None and queue_id >= topic.queues and not makes:
            return None
        if queue_id is None and not topic.write_queues:
            return None
        self.topics[name] = topic
        if queue_id is None:
            topic.turn += 1
            return (topic.turn - 1) % topic.write_queues
        topic.grow(queue_id)
        return queue_id

    def save_topics(self) -> None:
        """The file has them all."""
        self.saved = {name: replace(topic, turn=0) for name, topic in self.topics.items()}

    def adopt_topics(self, found: Mapping[str, Topic], *, is_clean: bool) -> None:
        """Check the topics of a store that was opened, and go on with them: a crash may take what only puts made."""
        there = {name: route_of(topic) for name, topic in found.items()}
        if is_clean:
            self.same("topics", {n: t.said for n, t in there.items()}, {n: t.said for n, t in self.topics.items()})
        for name in self.saved:
            assert name in there, f"the topic {name!r} was made durable and is gone"
        for name, topic in there.items():
            known = [t for t in (self.saved.get(name), self.topics.get(name)) if t is not None]
            assert known, f"nobody made the topic {name!r}"
            if name not in self.saved:
                known.append(Route(1, 1, attributes=known[0].attributes))
            listed = [queue_id + 1 for topic_name, queue_id in self._keys() if topic_name == name]
            most = max(*listed, *(t.queues for t in known), 0)
            for what in ("read_queues", "write_queues"):
                counts = [getattr(t, what) for t in known]
                assert min(counts) <= getattr(topic, what) <= most, (name, topic, known)
            for what in ("perm", "order", "attributes"):
                assert getattr(topic, what) in [getattr(t, what) for t in known], (name, topic, known)
        for topic_name, queue_id in self._keys():
            known = [t for t in (self.saved.get(topic_name), self.topics.get(topic_name)) if t is not None]
            if any(t.queues <= queue_id for t in known):
                continue  # its queues were made fewer, and nobody died since
            assert there[topic_name].queues > queue_id, f"the queue {queue_id} of {topic_name!r} counts for nothing"
        self.topics = there
        self.save_topics()

    def _keys(self) -> list[QueueKey]:
        """The queues that have something."""
        return [key for key, found in (*self.queues.items(), *self.batches.items()) if found]

    def delete_topic(self, name: str) -> None:
        self.topics.pop(name, None)
        self.saved.pop(name, None)
        self.queues = {key: records for key, records in self.queues.items() if key[0] != name}
        self.batches = {key: inner for key, inner in self.batches.items() if key[0] != name}
        self.records = [
            replace(record, is_listed=False, is_indexed=False) if record.queue_key[0] == name else record
            for record in self.records
        ]

    # -- inner batches

    def batch_message(self, messages: Sequence[Message], queue_id: int) -> Message:
        """The message whose record is a batch of these."""
        first = messages[0]
        at = len(self.batches.get((first.topic, queue_id), ()))
        keys = dict.fromkeys(key for m in messages for key in (*m.keys, m.uniq_key) if key)
        return Message(
            first.topic,
            b"".join(map(_inner, messages)),
            keys=tuple(keys),
            properties={"INNER_BASE": f"{at:019d}", "INNER_NUM": str(len(messages))},
            queue_id=queue_id,
            sys_flag=BATCH_BITS,
        )

    def put_batch(self, messages: Sequence[Message], queue_id: int, now_ms: int, store_host: tuple[str, int]) -> Record:
        queue = self.batches.setdefault((messages[0].topic, queue_id), [])
        record = self.put(self.batch_message(messages, queue_id), now_ms, store_host, batch_at=len(queue))
        queue += [Inner(record, place, message) for place, message in enumerate(messages)]
        return record

    def inner(self, key: QueueKey, end: int) -> list[Inner]:
        """What is read of a batch queue."""
        return [one for one in self.batches.get(key, ()) if self.start <= one.record.physical_offset < end]

    # -- what goes

    def advance(self, start: int) -> None:
        """Retention took what lies before this physical offset."""
        assert start >= self.start
        self.start = start
        self.records = [record for record in self.records if record.physical_offset >= start]

    def keep(self, end: int, at_least: int) -> None:
        assert at_least <= end, f"the log ends at {end}, but everything below {at_least} was acknowledged"
        kept = [record for record in self.records if record.stop <= end]
        last = kept[-1].stop if kept else self.start
        rolled_to = self.records[len(kept)].physical_offset if len(kept) < len(self.records) else self.end
        assert end in (last, rolled_to), f"neither a record nor a filler ends at {end}: {last}, {rolled_to}"
        self.records = kept
        self.queues = {key: [r for r in records if r.stop <= end] for key, records in self.queues.items()}
        self.batches = {key: [i for i in inner if i.record.stop <= end] for key, inner in self.batches.items()}
        self.last_timestamp_ms = kept[-1].store_timestamp_ms if kept else 0
        self.end = end

    @contextmanager
    def seen_from(self, start: int) -> Iterator[None]:
        """For a reader whose log begins further on."""
        assert start >= self.start, f"a view begins at {start}, before the log at {self.start}"
        before = self.start, self.records
        self.advance(start)
        yield
        self.start, self.records = before

    # -- reading

    def first(self, key: QueueKey) -> int:
        """Queue offset of the first message that is still there."""
        return bisect_left(self.queues.get(key, []), self.start, key=lambda record: record.physical_offset)

    def bounds(self, end: int) -> dict[QueueKey, tuple[int, int]]:
        counts = {key: len(self.listed(key, end)) for key in self.queues}
        return {key: (self.first(key), count) for key, count in counts.items() if count}

    def get(
        self, key: QueueKey, queue_offset: int, max_count: int, tags: str | None, max_size: int | None, end: int
    ) -> tuple[GetStatus, int, list[Record]]:
        first = self.first(key)
        if self.listed(key, end) and queue_offset < first:
            return GetStatus.OFFSET_TOO_SMALL, first, []
        return super().get(key, queue_offset, max_count, tags, max_size, end)

    def offset_at(self, key: QueueKey, timestamp_ms: int, boundary: str, end: int) -> int:
        first = self.first(key)
        times = [record.store_timestamp_ms for record in self.listed(key, end)[first:]]
        if boundary == "lower":
            return first + next((i for i, time in enumerate(times) if time >= timestamp_ms), len(times))
        return first + max((i for i, time in enumerate(times) if time <= timestamp_ms), default=0)

    def count(self, key: QueueKey, start: int, stop: int, tags: str | None, end: int) -> int:
        first = self.first(key)
        if tags not in (None, "*") and start < min(first, stop):
            start, stop = first, first + stop - start
        return super().count(key, start, stop, tags, end)


def deleted_below(root: Path, topic: str) -> int:
    """What the note about deletions says of a topic; 0 where it says nothing."""
    path = root / "flightlog" / "deleted-topics.json"
    return json.loads(path.read_text())["deletedBelow"].get(topic, 0) if path.exists() else 0


def _inner(message: Message) -> bytes:
    properties = {"KEYS": " ".join(message.keys), "TAGS": message.tags, "UNIQ_KEY": message.uniq_key}
    raw = "".join(f"{name}\x01{value}\x02" for name, value in properties.items() if value).encode()
    size = 22 + len(message.body) + len(raw)
    return (
        struct.pack(">iiiii", size, 0, 0, message.flag, len(message.body))
        + message.body
        + struct.pack(">h", len(raw))
        + raw
    )
