"""The same questions to RocketMQ and to flightlog, about a store that both open.

A question knows its words for the Java program `ask`, what RocketMQ's answer says, and how flightlog is asked. An
answer is a tuple or a number: two of them are compared with `==`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from flightlog import ReadOnlyStore, Store
from flightlog.store.errors import CorruptQueueError, CorruptRecordError
from flightlog.store.format.sys_flag import INNER_BATCH, TRANSACTION_MASK, TRANSACTION_ROLLBACK, has_queue_entry
from flightlog.tests.interop.harness import Geometry, Line, QueueName

LMQ_PREFIX = "%LMQ%"
HUGE = 1 << 62
COLLIDING_TAGS = ("Aa", "BB")  # equal Java hashes
INDEX_HEADER_SIZE, INDEX_BEGIN_AT = 40, 16
ALL_ANSWERS = 5_000  # RocketMQ makes room for as many at each query


class Question(Protocol):
    def words(self) -> Sequence[object]: ...

    def theirs(self, line: Line) -> Any: ...

    def ours(self, store: Store | ReadOnlyStore) -> Any: ...


@dataclass(frozen=True)
class Get:
    topic: str
    queue_id: int
    queue_offset: int
    max_count: int
    max_size: int | None = None
    tags: str | None = None

    def words(self) -> Sequence[object]:
        return (
            *("get", self.topic, self.queue_id, self.queue_offset, self.max_count),
            *(self.max_size or 0, self.tags or ""),
        )

    def theirs(self, line: Line) -> Any:
        found = [] if self.is_lmq else line["offsets"]
        return (line["status"], line["next"], line["min"], line["max"], found, line["positions"])

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        try:
            found = store.get(
                self.topic, self.queue_id, self.queue_offset, self.max_count, tags=self.tags, max_size=self.max_size
            )
        except (CorruptRecordError, CorruptQueueError) as error:
            return (type(error).__name__,)
        return (
            *(found.status.name, found.next_queue_offset, found.min_queue_offset, found.max_queue_offset),
            [] if self.is_lmq else [message.queue_offset for message in found.messages],
            [message.physical_offset for message in found.messages],
        )

    @property
    def is_lmq(self) -> bool:
        """The records of such a queue carry the queue offsets of another one."""
        return self.topic.startswith(LMQ_PREFIX)


@dataclass(frozen=True)
class OffsetAt:
    topic: str
    queue_id: int
    timestamp_ms: int
    boundary: Literal["lower", "upper"]

    def words(self) -> Sequence[object]:
        return ("time", self.topic, self.queue_id, self.timestamp_ms, self.boundary.upper())

    def theirs(self, line: Line) -> Any:
        return line["offset"]

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        return store.offset_at(self.topic, self.queue_id, self.timestamp_ms, self.boundary)


@dataclass(frozen=True)
class Query:
    topic: str
    key: str
    begin_ms: int = 0
    end_ms: int | None = None

    def words(self) -> Sequence[object]:
        return ("query", self.topic, self.key, ALL_ANSWERS, self.begin_ms, HUGE if self.end_ms is None else self.end_ms)

    def theirs(self, line: Line) -> Any:
        return line["positions"]

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        """Physical offsets, newest first; that of an inner batch, which RocketMQ answers as one message, once."""
        found = store.query(self.topic, self.key, self.begin_ms, self.end_ms, ALL_ANSWERS)
        assert not found.has_more
        places: list[int] = []
        for message in found.messages:
            if message.batch_index is None or places[-1:] != [message.physical_offset]:
                places.append(message.physical_offset)
        return places


@dataclass(frozen=True)
class Estimate:
    topic: str
    queue_id: int
    start: int
    stop: int
    tags: str | None = None

    def words(self) -> Sequence[object]:
        return ("estimate", self.topic, self.queue_id, self.start, self.stop, self.tags or "")

    def theirs(self, line: Line) -> Any:
        return line["count"]

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        return store.estimate_count(self.topic, self.queue_id, self.start, self.stop, tags=self.tags)


@dataclass(frozen=True)
class Look:
    physical_offset: int

    def words(self) -> Sequence[object]:
        return ("look", self.physical_offset)

    def theirs(self, line: Line) -> Any:
        """RocketMQ throws where four bytes of something else make a negative length: no message is there either."""
        return line["msgId"] if line.get("found") else None

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        message = store.message_at(self.physical_offset)
        return message.message_id if message is not None else None


@dataclass(frozen=True)
class Set:
    """Changes a setting of RocketMQ's from here on; flightlog is opened with its own beforehand."""

    name: str
    value: object

    def words(self) -> Sequence[object]:
        return ("set", self.name, self.value)

    def theirs(self, line: Line) -> Any:
        return line["type"]

    def ours(self, store: Store | ReadOnlyStore) -> Any:
        return "set"


@dataclass(frozen=True)
class Case:
    """A store as somebody left it; nobody writes to it."""

    name: str
    path: Path
    lines: list[Line]
    """What the log holds, in its order, in the words of the harness."""
    geometry: Geometry

    @property
    def ends_cleanly(self) -> bool:
        return not (self.path / "abort").exists()

    @cached_property
    def first_of_index_files(self) -> set[int]:
        """Physical offsets of the messages that index files begin with."""
        found: set[int] = set()
        for path in self.path.glob("index/*"):
            with path.open("rb") as file:
                found.update(struct.unpack_from(">q", file.read(INDEX_HEADER_SIZE), INDEX_BEGIN_AT))
        return found

    @cached_property
    def tags(self) -> set[str]:
        return {line["tags"] for line in self.lines if line["tags"]}

    def collides(self, tags: str | None) -> bool:
        """Whether messages pass this filter in RocketMQ whose tag only hashes like one that is asked for."""
        asked_for = {tag.strip() for tag in (tags or "").split("||")}.intersection(COLLIDING_TAGS)
        return bool(asked_for) and bool(self.tags.intersection(COLLIDING_TAGS) - asked_for)

    @cached_property
    def by_queue(self) -> dict[QueueName, list[Line]]:
        """The messages of every queue that is a queue of its topic."""
        found = defaultdict(list)
        for line in self.lines:
            if has_queue_entry(line["sysFlag"]) and not line["sysFlag"] & INNER_BATCH:
                found[line["topic"], line["queueId"]].append(line)
        return dict(found)

    @cached_property
    def by_key(self) -> dict[tuple[str, str], list[Line]]:
        """(topic, key) -> what a query must find, newest first."""
        found = defaultdict(list)
        for line in reversed(self.lines):
            if line["sysFlag"] & TRANSACTION_MASK != TRANSACTION_ROLLBACK:
                for key in keys_of(line):
                    found[line["topic"], key].append(line)
        return dict(found)

    def answer(self, query: Query) -> list[int]:
        """What a query must answer: physical offsets, newest first."""
        lines = self.by_key.get((query.topic, query.key), [])
        end_ms = HUGE if query.end_ms is None else query.end_ms
        return [line["commitLogOffset"] for line in lines if query.begin_ms <= line["storeTimestamp"] <= end_ms]


def keys_of(line: Line) -> set[str]:
    return {line["uniqKey"], *(line["keys"] or "").split(" ")} - {None, ""}


def differing(pairs: Iterable[tuple[Any, Any]], store: Store | ReadOnlyStore) -> list[tuple[Any, Any]]:
    """The questions, each with RocketMQ's answer, that flightlog answers otherwise."""
    return [(question, theirs) for question, theirs in pairs if question.ours(store) != theirs]
