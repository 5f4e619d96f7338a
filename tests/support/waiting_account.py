"""What a store had to keep of messages for later, and whether what is found keeps it (see account.py for the rest).

A message that was put for later has its place where it waits. What is delivered of it is counted besides:

    never before its time, never without the record that waited, and what is in a queue is what was put
    all that waits is delivered in the end, unless it was cancelled in time: then never
    what a note on the disk calls done is there, and does not come a second time; nothing comes twice in one session

The one thing that may come twice in a session is a timer that was parked again (TIMER_ROLL_TIMES) just before a death:
then the record that it was, and the one that it became, both wait behind it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.timer_request import TIMER_TOPIC
from flightlog.tests.support import account
from flightlog.tests.support.account import Account, AnyStore, Found, Key, Mark, Place

if TYPE_CHECKING:
    import random

    from flightlog import Message, StoredMessage

LEVELS_MS = (1000, 3000, 20_000)
LEVELS = " ".join(f"{ms // 1000}s" for ms in LEVELS_MS)


class Cancellation(NamedTuple):
    """One that was acknowledged."""

    number: int
    physical_offset: int
    is_in_time: bool
    """Put before its timer was due, by a clock that never showed a later time."""
    is_settled: bool = True
    """Not so after a power cut within the life, until what that has left was read."""


@dataclass(frozen=True, slots=True)
class WaitingMark(Mark):
    """What an account of messages for later said at one moment."""

    cancellations: list[Cancellation]
    cancelled_count: int
    settled: frozenset[int]
    """Delivered, and a note of that is on the disk."""
    clock_ms: int


class WaitingAccount(Account):
    """Kept by one thread. `clock_ms` is set by whoever moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.cancellations: list[Cancellation] = []
        self.settled: frozenset[int] = frozenset()
        self.clock_ms = 0

    def mark(self) -> WaitingMark:
        plain = super().mark()
        known: list[Any] = [getattr(plain, each.name) for each in fields(Mark)]
        known += [self.cancellations, len(self.cancellations), self.settled, self.clock_ms]
        return WaitingMark(*known)

    def go_back(self, mark: Mark) -> None:
        assert isinstance(mark, WaitingMark)
        super().go_back(mark)
        self.cancellations = [each._replace(is_settled=False) for each in mark.cancellations[: mark.cancelled_count]]
        self.settled = mark.settled

    def settle(self, found: Found) -> None:
        assert isinstance(found, WaitingFound)
        super().settle(found)
        there = [each for each in self.cancellations if each.number in found.cancelled]
        self.cancellations = [each._replace(is_settled=True) for each in there]


class Delivered(NamedTuple):
    """A message that came out of where it had waited."""

    number: int
    key: Key
    queue_offset: int
    physical_offset: int
    due_ms: int
    level: int
    """0: a timer."""


@dataclass
class WaitingFound(Found):
    """What was read."""

    cancelled: set[int] = field(default_factory=set)
    due_ms: dict[int, int] = field(default_factory=dict)
    """Due times of what waits, or did."""
    rolled: Counter[int] = field(default_factory=Counter)
    """Number -> how often it was parked again."""
    delivered: list[Delivered] = field(default_factory=list)
    """In the order of the log."""

    def waits_in(self, number: int) -> int:
        """In how many records it may wait at the same time."""
        return 1 + self.rolled[number]


def read_all(store: AnyStore, offered: list[Message], min_physical_offset: int) -> WaitingFound:
    """Every message of every queue: each as it was offered, queues without holes; each that waits once, in order."""
    found = WaitingFound(min_physical_offset)
    queues = store.queues()
    for key in sorted(queues, key=lambda key: key[0] not in (SCHEDULE_TOPIC, TIMER_TOPIC)):
        (expected, end), last_number = queues[key], -1
        for message in store.read(*key, expected):
            assert message.queue_offset == expected, f"{key}: {message.queue_offset} where {expected} is expected"
            expected += 1
            properties = message.properties
            if "TIMER_DEL_UNIQKEY" in properties:
                found.cancelled.add(int(properties["TIMER_DEL_UNIQKEY"].partition("+u")[2]))
                continue
            number = account.number_of(message.body)
            assert number < len(offered), f"{message} was never put"
            _check_same(message, offered[number], number)
            if key[0] == TIMER_TOPIC and "TIMER_ROLL_TIMES" in properties:
                found.rolled[number] += 1
                continue
            if key[0] not in (SCHEDULE_TOPIC, TIMER_TOPIC) and "REAL_TOPIC" in properties:
                _note_delivered(found, message, number)
                continue
            assert last_number < number, f"{key}: message {number} lies behind {last_number}"
            assert number not in found.places, f"message {number} is there twice"
            last_number = number
            found.places[number] = Place(number, key, message.queue_offset, message.physical_offset)
            if key[0] == SCHEDULE_TOPIC:
                found.due_ms[number] = message.store_timestamp_ms + LEVELS_MS[key[1]]
            elif key[0] == TIMER_TOPIC:
                found.due_ms[number] = int(properties["TIMER_DELIVER_MS"])
        assert expected == end, f"{key}: read up to {expected}, and it ends at {end}"
    found.delivered.sort(key=lambda each: each.physical_offset)
    found.topics = {name: topic.queue_count for name, topic in store.topics().items()}
    return found


def _check_same(message: StoredMessage, put: Message, number: int) -> None:
    properties = message.properties
    topic = properties.get("REAL_TOPIC", message.topic), int(properties.get("REAL_QID", message.queue_id))
    there = *topic, message.body, list(message.keys), message.tags, message.uniq_key
    wanted = put.topic, put.queue_id, put.body, list(put.keys), put.tags, put.uniq_key
    assert there == wanted, f"message {number} was put as {wanted}, and is there as {there}"


def _note_delivered(found: WaitingFound, message: StoredMessage, number: int) -> None:
    key = message.topic, message.queue_id
    assert key == (message.properties["REAL_TOPIC"], int(message.properties["REAL_QID"]))
    due_ms = found.due_ms.get(number)
    assert due_ms is not None, f"message {number} is delivered, and nothing has waited for that"
    assert message.store_timestamp_ms >= due_ms, f"{number} comes at {message.store_timestamp_ms}, due at {due_ms}"
    level = int(message.properties.get("DELAY", "0"))
    found.delivered.append(Delivered(number, key, message.queue_offset, message.physical_offset, due_ms, level))


def check(mark: Mark, found: Found, *, was_cut: bool) -> None:
    """What waited is there, and what is noted as done."""
    assert isinstance(mark, WaitingMark) and isinstance(found, WaitingFound)
    account.check(mark, found, was_cut=was_cut)
    newest = max((place.physical_offset for place in found.places.values()), default=-1)
    for each in mark.cancellations[: mark.cancelled_count]:
        is_there = each.number in found.cancelled
        may_be_lost = (was_cut or not each.is_settled) and each.physical_offset > newest
        assert is_there or may_be_lost, f"{each} is lost, and the log goes on"
    missing = mark.settled - {each.number for each in found.delivered}
    assert not missing, f"messages {sorted(missing)} are noted as delivered, and are not there"


def check_keys(store: AnyStore, mark: Mark, found: Found, dice: random.Random, count: int) -> None:
    """Some keys answer what was delivered and read, newest first."""
    assert isinstance(found, WaitingFound)
    there = [(each.physical_offset, each.number) for each in found.delivered]
    there += [
        (place.physical_offset, place.number) for place in found.places.values() if place.number not in found.due_ms
    ]
    with_keys = sorted({number for _, number in there if mark.offered[number].keys})
    for number in dice.sample(with_keys, min(count, len(with_keys))):
        put = mark.offered[number]
        expected = sorted(
            (each for each in there if (put.topic, put.keys[0]) in _keys(mark.offered[each[1]])), reverse=True
        )
        answer = store.query(put.topic, put.keys[0], max_count=len(there))
        said = [(message.physical_offset, account.number_of(message.body)) for message in answer.messages]
        assert said == expected, f"key {put.keys[0]} of {put.topic} answers {said}, expected {expected}"


def _keys(message: Message) -> list[tuple[str, str]]:
    return [(message.topic, key) for key in message.keys]


def check_session(found: WaitingFound, new: list[Delivered], settled: frozenset[int]) -> None:
    """What one session has delivered, which began with these messages settled."""
    counts = Counter(each.number for each in new)
    twice = {number: count for number, count in counts.items() if count > found.waits_in(number)}
    assert not twice, f"delivered more than once by one process: {twice}"
    again = {number for number in settled & counts.keys() if found.waits_in(number) == 1}
    assert not again, f"delivered again, though that was noted as done: {sorted(again)}"
    order: dict[int, int] = {}
    for each in new:
        if each.level:
            offset = found.places[each.number].queue_offset
            assert order.get(each.level, -1) < offset, f"level {each.level}: {each.number} comes out of its turn"
            order[each.level] = offset


def check_end(mark_cancellations: list[Cancellation], found: WaitingFound) -> None:
    """Everything is over: all was delivered that was to be."""
    numbers = {each.number for each in found.delivered}
    in_time = {each.number for each in mark_cancellations if each.is_in_time} & found.cancelled
    assert not numbers & in_time, f"cancelled in time, and delivered: {sorted(numbers & in_time)}"
    lost = found.due_ms.keys() - numbers - found.cancelled
    assert not lost, f"never delivered: {sorted(lost)}"
