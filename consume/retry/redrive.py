"""Bring dead letters back: put a copy of each to a topic, once.

A copy has the body, keys, tags, flag, sender and properties of its dead letter, without what makes a message count as
delivered before, delayed or transactional, and the property REDRIVEN_FROM: the message id of the dead letter.

Invariants:
- The dead letters are not changed: what was redriven is noted in `flightlog/redriven.json` (redrive_notes.py).
- A letter is noted as redriven after its copy is durable. What is to be put is noted before, durably, with the places
  to look for it: whatever comes in between, the next call finds the copies that are there.
- The letters of one call are those that are there when it begins: one that fails again meanwhile is for the next call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from ...engine.message_store import MessageStore
from ...engine.read.reading import OnCorrupt
from ...index.filter.sql_filter import SqlFilter
from ...store.arguments import check_flag, check_group, check_text
from ...store.disk.disk import Disk
from ...store.errors import FlightlogError, InvalidArgumentError, TopicNotFoundError, UsageError, WrongTypeError
from ...store.format import property_names as props
from ...store.format.crc_property import CRC_PROPERTY
from ...store.format.message_id import decode_message_id
from ...store.format.record import RETRY_TOPIC_PREFIX
from ...store.format.sys_flag import HOST_BITS, INNER_BATCH, NEED_UNWRAP, TRANSACTION_MASK
from ...store.message import Message
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ...store.topic import Topic
from .redrive_notes import LetterQueue, RedriveFile, RedriveNotes, UnderWay, is_in
from .send_back import dead_letter_topic, make_topic, retry_topic

LEFT_OUT = {
    *(props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID, "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "1ST_POP_TIME"),
    *(props.REAL_TOPIC, props.REAL_QUEUE_ID, props.DELAY, *props.TIMER_PROPERTIES, props.TIMER_OUT_MS),
    *(props.TIMER_ENQUEUE_MS, props.TIMER_DEQUEUE_MS, props.TIMER_ROLL_TIMES, "TIMER_DELAY_LEVEL"),
    *("TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "__transactionId__"),
    *(CRC_PROPERTY, props.WAIT, props.INNER_COUNT, props.INNER_BASE, props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET),
}
"""Properties of the dead letter that its copy does not have."""

BATCH_COUNT = 500
BATCH_SIZE = 8 << 20
"""Bytes of bodies after which a batch is put."""

Where = Callable[[StoredMessage], object] | SqlFilter


@dataclass(frozen=True)
class RedriveResult:
    """What was redriven, or would be."""

    by_topic: dict[str, int] = field(default_factory=dict)
    """Topic -> how many dead letters go to it."""
    message_ids: tuple[str, ...] = ()
    """Ids of the dead letters, in their order; `message_by_id` reads one."""

    def __len__(self) -> int:
        return len(self.message_ids)


class Letters(Protocol):
    """A store, or a read-only view."""

    @property
    def path(self) -> Path: ...

    def topic(self, name: str) -> Topic | None: ...

    def read(
        self, topic: str, queue_id: int = 0, queue_offset: int | None = None, *, on_corrupt: OnCorrupt = "raise"
    ) -> Iterator[StoredMessage]: ...

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def queues(self) -> Mapping[QueueKey, tuple[int, int]]: ...


class Planned(NamedTuple):
    """A dead letter that is to be redriven."""

    message_id: str
    physical_offset: int
    queue_id: int
    place: int
    """Among the letters of its queue."""
    topic: str
    """Where it goes."""


class Plan(NamedTuple):
    letters: list[Planned]
    queues: dict[int, LetterQueue]

    def result(self, letters: Iterable[Planned] | None = None) -> RedriveResult:
        chosen = list(self.letters if letters is None else letters)
        return RedriveResult(dict(Counter(each.topic for each in chosen)), tuple(each.message_id for each in chosen))


def check_redrive(group: str | int, to: str | None, where: Where | None) -> str:
    """Returns the name of the group. Raises InvalidArgumentError."""
    group = check_group(group)
    if to is not None:
        check_text("to", to, "the name of a topic as text, or None: the topic that each was first put to")
        if to == dead_letter_topic(group):
            raise InvalidArgumentError("to", to, "another topic than that of the dead letters")
    if not (where is None or isinstance(where, SqlFilter) or callable(where)):
        raise WrongTypeError("where", where, "a function that takes a message, or flightlog.sql(...)")
    return group


def plan_redrive(store: Letters, notes: RedriveNotes, group: str, to: str | None, where: Where | None) -> Plan:
    """The dead letters of the group that were not redriven and match. Raises TopicNotFoundError, UsageError, and what
    `where` raises."""
    topic = dead_letter_topic(group)
    redriven = notes.redriven.get(topic, {})
    wanted = where.matches if isinstance(where, SqlFilter) else where
    plan = Plan([], {})
    for queue_id in [queue_id for name, queue_id in store.queues() if name == topic]:
        ranges = sorted(redriven.get(queue_id, []))
        offsets: list[int] = []
        for letter in store.read(topic, queue_id, on_corrupt="skip"):
            offsets.append(letter.physical_offset)
            if is_in(letter.physical_offset, ranges) or (wanted is not None and not wanted(letter)):
                continue
            target = to or letter.properties.get(props.RETRY_TOPIC)
            if not target:
                why = f"dead letter {letter.message_id} does not say which topic it was first put to"
                raise UsageError(f"{store.path}: {why}: pass to=, or leave it out with where=")
            planned = Planned(letter.message_id, letter.physical_offset, queue_id, len(offsets) - 1, target)
            plan.letters.append(planned)
        plan.queues[queue_id] = LetterQueue(offsets, ranges)
    for target in {letter.topic for letter in plan.letters}:
        if store.topic(target) is None and target != retry_topic(group):
            raise TopicNotFoundError(store.path, target, "make it with create_topic, or redrive to=another one")
    return plan


def settled(store: Letters, notes: RedriveNotes) -> RedriveNotes:
    """The notes without anything under way: as redriven counts what has a copy."""
    if notes.under_way is None:
        return notes
    topic, letters, places = notes.under_way
    missing = dict(letters)
    redriven = {name: {number: list(ranges) for number, ranges in qs.items()} for name, qs in notes.redriven.items()}
    for target, queue_id, first in places:
        if store.topic(target) is None or store.queue_bounds(target, queue_id)[1] <= first:
            continue
        for message in store.read(target, queue_id, first, on_corrupt="skip"):
            message_id = message.properties.get(props.REDRIVEN_FROM, "")
            if message_id in missing:
                offset = decode_message_id(message_id)[1]
                redriven.setdefault(topic, {}).setdefault(missing.pop(message_id), []).append((offset, offset))
                if not missing:
                    return RedriveNotes(redriven)
    return RedriveNotes(redriven)


class Redrive:
    """Redrives dead letters of one store that is open for writing. Thread-safe: calls run one after the other."""

    def __init__(self, store: MessageStore) -> None:
        self._store, self._file = store, RedriveFile(store.disk, store.path)
        self._lock = threading.Lock()

    def redrive(
        self, group: str | int, *, to: str | None = None, where: Where | None = None, dry_run: bool = False
    ) -> RedriveResult:
        """Bring dead letters of a consumer group back, each once: put a copy of it to the topic `to`, or to the one
        that it was first put to. The dead letters stay where they are.

        `where` chooses among them: a function that takes the dead letter (a StoredMessage), or `flightlog.sql(...)`.
        `dry_run` only returns what would be redriven now.

        A copy keeps body, keys, tags, sender and properties, and counts as a new message: every group that reads the
        topic receives it, with all attempts before it. `to="%RETRY%GROUP"` has this group alone receive it. If the
        message that was first put is still in the log, the copy goes to its queue; otherwise queues take turns.

        When this returns, the copies and the note that they were made are durable, in every flush mode. A letter that
        was redriven is passed over by every later call. If a call fails, the process dies or the power fails, some
        letters may have been redriven: the next call finds their copies, and continues with the others. A copy that
        retention or `delete_topic` removed between a crash and that call is made again.

        Raises TopicNotFoundError for a topic that does not exist, UsageError for a letter without a topic to go to,
        InvalidArgumentError, and what `where` raises: then nothing was put. Raises what `put` raises otherwise.
        """
        group = check_redrive(group, to, where)
        check_flag("dry_run", dry_run)
        with self._lock:
            self._store.check_usable()
            notes = settled(self._store, self._file.read())
            plan = plan_redrive(self._store, notes, group, to, where)
            if not dry_run and plan.letters:
                self._put_all(group, plan, notes)
            return plan.result()

    def _put_all(self, group: str, plan: Plan, notes: RedriveNotes) -> None:
        topic = dead_letter_topic(group)
        if any(letter.topic == retry_topic(group) for letter in plan.letters):
            make_topic(self._store, retry_topic(group), 1)
        for batch in self._batches(plan.letters):
            self._store.flush()  # the letters, and the copies of the batch before
            places = {(copy.topic, copy.queue_id or 0) for _, copy in batch}
            under_way = UnderWay(
                topic,
                {letter.message_id: letter.queue_id for letter, _ in batch},
                [(*place, self._store.queue_bounds(*place)[1]) for place in sorted(places)],
            )
            self._file.write(_noted(notes, topic, plan, under_way))
            try:
                self._store.put_many([copy for _, copy in batch])
            except BaseException:
                with suppress(FlightlogError):  # then the next call does it
                    self._store.flush()
                    self._file.write(settled(self._store, _noted(notes, topic, plan, under_way)))
                raise
            for letter, _ in batch:
                plan.queues[letter.queue_id].is_done[letter.place] = True
        self._store.flush()
        self._file.write(_noted(notes, topic, plan, None))

    def _batches(self, letters: Iterable[Planned]) -> Iterator[list[tuple[Planned, Message]]]:
        batch: list[tuple[Planned, Message]] = []
        size = 0
        for turn, letter in enumerate(letters):
            message = self._store.message_at(letter.physical_offset)
            if message is None:  # retention has just removed it
                continue
            batch.append((letter, _copy(message, letter.topic, self._queue_for(message, letter, turn))))
            size += len(message.body)
            if len(batch) == BATCH_COUNT or size >= BATCH_SIZE:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _queue_for(self, message: StoredMessage, letter: Planned, turn: int) -> int:
        found = self._store.topic(letter.topic)
        count = found.write_queue_count if found is not None else 1
        with suppress(UsageError):  # no message id
            origin = self._store.message_by_id(message.properties.get(props.ORIGIN_MESSAGE_ID, ""))
            if origin is not None and origin.topic == letter.topic and origin.queue_id < count:
                return origin.queue_id
        return turn % max(count, 1)


def _noted(notes: RedriveNotes, topic: str, plan: Plan, under_way: UnderWay | None) -> RedriveNotes:
    ranges = {queue_id: queue.ranges() for queue_id, queue in plan.queues.items()}
    return RedriveNotes({**notes.redriven, topic: ranges}, under_way)


def _copy(letter: StoredMessage, topic: str, queue_id: int) -> Message:
    properties = {name: value for name, value in letter.properties.items() if name not in LEFT_OUT}
    if topic.startswith(RETRY_TOPIC_PREFIX) and props.RETRY_TOPIC in letter.properties:
        properties[props.RETRY_TOPIC] = letter.properties[props.RETRY_TOPIC]  # which members have as its topic
    properties[props.REDRIVEN_FROM] = letter.message_id
    return Message(
        topic,
        letter.body,
        properties=properties,
        queue_id=queue_id,
        flag=letter.flag,
        born_timestamp_ms=letter.born_timestamp_ms,
        born_host=letter.born_host,
        sys_flag=letter.sys_flag & ~(HOST_BITS | INNER_BATCH | NEED_UNWRAP | TRANSACTION_MASK),
    )


def stored_plan(disk: Disk, store: Letters, group: str | int, to: str | None, where: Where | None) -> RedriveResult:
    """As `Redrive.redrive` with `dry_run`, of a store that is open for reading."""
    group = check_redrive(group, to, where)
    notes = settled(store, RedriveFile(disk, store.path).read())
    return plan_redrive(store, notes, group, to, where).result()
