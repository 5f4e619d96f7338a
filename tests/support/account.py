"""What a store had to keep, moment by moment, and whether what is found of it keeps it.

Every message has a number, which its body begins with. An account is kept by whoever puts; `mark` is what it says now,
cheap enough to be asked before every operation of the disk. `check` judges what was found after a cut or a kill.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import flightlog
from flightlog import Message

if TYPE_CHECKING:
    import random

AnyStore = flightlog.Store | flightlog.ReadOnlyStore
Key = tuple[str, int]


class Place(NamedTuple):
    """Where a message was said to be, or is."""

    number: int
    key: Key
    queue_offset: int
    physical_offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What an account said at one moment. Its lists only grow; the counts say how far they had come."""

    offered: list[Message]
    offered_count: int
    acknowledged: list[Place]
    acknowledged_count: int
    sure_count: int
    """How many of these a power cut must leave."""
    refused: list[int]
    """Numbers of messages that must not be there: they were refused, or a recovery did not find them."""
    refused_count: int
    deletions: tuple[tuple[str, int, bool], ...]
    """(topic, number below which its messages were deleted, whether the deletion was confirmed)."""
    topics: tuple[tuple[str, frozenset[int]], ...]
    """Topics that are not put to -> how many queues they may have; 0: the topic is not there."""
    removable_below: int
    """Physical offset below which retention may have removed segments."""


class Account:
    """Kept by one thread."""

    def __init__(self) -> None:
        self.offered: list[Message] = []
        self.acknowledged: list[Place] = []
        self.sure_count = 0
        self.refused: list[int] = []
        self.deletions: list[tuple[str, int, bool]] = []
        self.topics: dict[str, frozenset[int]] = {}
        self.removable_below = 0

    def mark(self) -> Mark:
        return Mark(
            *(self.offered, len(self.offered), self.acknowledged, len(self.acknowledged), self.sure_count),
            *(self.refused, len(self.refused), tuple(self.deletions), tuple(self.topics.items()), self.removable_below),
        )

    def offer(self, message: Message) -> Message:
        """Number it; about to be put."""
        message.body = f"{len(self.offered)} ".encode() + message.body
        self.offered.append(message)
        return message

    def acknowledge(self, body: bytes, key: Key, queue_offset: int, physical_offset: int) -> None:
        self.acknowledged.append(Place(number_of(body), key, queue_offset, physical_offset))

    def is_durable(self) -> None:
        """All that was acknowledged so far."""
        self.sure_count = len(self.acknowledged)

    def go_back(self, mark: Mark) -> None:
        """The power was cut at an earlier moment: what followed has never happened, and must not be there."""
        self.refused = mark.refused[: mark.refused_count] + list(range(mark.offered_count, len(self.offered)))
        self.acknowledged = mark.acknowledged[: mark.sure_count]
        self.sure_count = mark.sure_count
        self.deletions, self.topics = list(mark.deletions), dict(mark.topics)
        self.removable_below = mark.removable_below

    def settle(self, found: Found) -> None:
        """A recovered store was opened: what it found is durable now, and what it did not find must not come back,
        unless it lies in segments whose removal may yet be undone by a cut."""
        retired = {place.number for place in self.acknowledged if place.physical_offset < found.min_physical_offset}
        there = found.places.keys() | retired | set(self.refused)
        self.refused = self.refused + [number for number in range(len(self.offered)) if number not in there]
        self.acknowledged = sorted(found.places.values(), key=lambda place: (place.physical_offset, place.number))
        self.deletions.clear()
        self.topics = {name: frozenset([found.topics.get(name, 0)]) for name in self.topics}
        self.removable_below = found.min_physical_offset
        self.is_durable()


@dataclass
class Found:
    """What was read."""

    min_physical_offset: int
    places: dict[int, Place] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)


def number_of(body: bytes) -> int:
    return int(body[: body.index(b" ")])


def read_all(store: AnyStore, offered: list[Message], min_physical_offset: int) -> Found:
    """Every message of every queue: each as it was offered, each once, queues in order and without holes."""
    found = Found(min_physical_offset)
    for key, (first, end) in store.queues().items():
        expected, last_number = first, -1
        for message in store.read(*key, first):
            assert message.queue_offset == expected, f"{key}: {message.queue_offset} where {expected} is expected"
            expected += 1
            number = number_of(message.body)
            assert number < len(offered), f"{message} was never put"
            put = offered[number]
            there = message.topic, message.queue_id, message.body, list(message.keys), message.tags, message.uniq_key
            wanted = put.topic, put.queue_id, put.body, list(put.keys), put.tags, put.uniq_key
            assert there == wanted, f"message {number} was put as {wanted}, and is there as {there}"
            assert last_number < number, f"{key}: message {number} lies behind {last_number}"
            assert number not in found.places, f"message {number} is there twice"
            last_number = number
            found.places[number] = Place(number, key, message.queue_offset, message.physical_offset)
        assert expected == end, f"{key}: read up to {expected}, and it ends at {end}"
    found.topics = {name: topic.queue_count for name, topic in store.topics().items()}
    return found


def check(mark: Mark, found: Found, *, was_cut: bool) -> None:
    """What had to be there is there; a log keeps its beginning; nothing has come back."""
    start = found.min_physical_offset
    assert start <= mark.removable_below, f"the log begins at {start}, and {mark.removable_below} was not to go"
    acknowledged = mark.acknowledged[: mark.acknowledged_count]
    must = acknowledged[: mark.sure_count] if was_cut else acknowledged
    deleted = {
        number
        for topic, below, _ in mark.deletions
        for number in range(min(below, len(mark.offered)))
        if mark.offered[number].topic == topic
    }
    must = [place for place in must if place.physical_offset >= start and place.number not in deleted]
    lost = [place for place in must if found.places.get(place.number) != place]
    assert not lost, f"{len(lost)} of {len(must)} acknowledged messages are lost or elsewhere: {lost[:3]}"
    newest = max((place.physical_offset for place in found.places.values()), default=-1)
    holes = [
        place
        for place in acknowledged
        if start <= place.physical_offset <= newest and place.number not in (found.places.keys() | deleted)
    ]
    assert not holes, f"the log has lost its middle, {holes[:3]}: it goes on to {newest}"
    strange = [number for number in found.places if number >= mark.offered_count]
    back = [number for number in mark.refused[: mark.refused_count] if number in found.places]
    assert not strange and not back, f"messages {strange} were not put yet, {back} must not be there any more"
    _check_deletions(mark, found)
    for name, counts in mark.topics:
        count = found.topics.get(name, 0)
        assert count in counts, f"topic {name} has {count} queues, expected one of {sorted(counts)} (0: none)"


def _check_deletions(mark: Mark, found: Found) -> None:
    """A topic that was deleted is not there; one that is being deleted, all of it or nothing."""
    begins: dict[str, int] = {}
    for topic, below, is_confirmed in mark.deletions:
        first = begins.get(topic, 0)
        begins[topic] = below
        there = [number for number in found.places if number < below and mark.offered[number].topic == topic]
        assert not (there and is_confirmed), f"topic {topic} was deleted, and {there} are there"
        sure = [place for place in mark.acknowledged[: mark.sure_count] if place.key[0] == topic]
        wanted = [place for place in sure if first <= place.number < below]
        lost = [place for place in wanted if place.physical_offset >= found.min_physical_offset]
        lost = [place for place in lost if place.number not in found.places]
        assert not (there and lost), f"topic {topic} was deleted in part: {there} are there, {lost[:3]} are not"


def check_keys(store: AnyStore, mark: Mark, found: Found, dice: random.Random, count: int) -> None:
    """Some keys answer what was read, newest first."""
    with_keys = sorted(number for number in found.places if mark.offered[number].keys)
    for number in dice.sample(with_keys, min(count, len(with_keys))):
        topic, key = mark.offered[number].topic, mark.offered[number].keys[0]
        expected = _newest_first(
            place for place in found.places.values() if _has(mark.offered[place.number], topic, key)
        )
        answer = store.query(topic, key, max_count=len(found.places))
        there = [(message.physical_offset, number_of(message.body)) for message in answer.messages]
        assert there == expected, f"key {key} of {topic} answers {there}, expected {expected}"


def _newest_first(places: Iterable[Place]) -> list[tuple[int, int]]:
    return sorted(((place.physical_offset, place.number) for place in places), reverse=True)


def _has(message: Message, topic: str, key: str) -> bool:
    return message.topic == topic and key in message.keys
