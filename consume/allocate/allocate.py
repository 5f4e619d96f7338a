"""Which queues of a topic each member of a consumer group reads: RocketMQ's allocation strategies.

A strategy is a pure function of the sorted queues and the sorted members: each member works out its own part, and they
agree without a coordinator. The rules are those of the classes `AllocateMessageQueue...` of RocketMQ 5.3.3's client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

from ...store.errors import InvalidAllocationError
from ...store.message_queue import MessageQueue, java_order

Item = TypeVar("Item")


class AllocationStrategy(Protocol):
    """How a group shares the queues of a topic. Own ones need no more than this; with an attribute `spans_topics` that
    is true they are asked for the queues of all the group's topics in one go."""

    @property
    def name(self) -> str:
        """The same for all members of a group: with different strategies, queues would be read twice or not at all."""

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """The part of `member`, one of `members`. Both lists are sorted, and the same for every member."""


def allocate(
    strategy: AllocationStrategy, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> list[MessageQueue]:
    """The part of one member. Queues and members may be in any order; what is given twice counts once.

    A member that is not among the members has no part, as in RocketMQ: it has not been seen yet, or left. Raises
    InvalidAllocationError if a strategy gives a queue that is none of the topic's, or one twice.
    """
    return Sharing(group, queues, members).part_of(member, strategy)


class Sharing:
    """The queues and the members of a group in one round: sorted once, for all members."""

    def __init__(self, group: str, queues: Iterable[MessageQueue], members: Iterable[str]) -> None:
        self._group = group
        self._there = frozenset(queues)
        self._queues = tuple(sorted(self._there, key=_order()))
        self._members = tuple(sorted(set(members), key=java_order))

    def part_of(self, member: str, strategy: AllocationStrategy) -> list[MessageQueue]:
        """See `allocate`."""
        if not self._queues or member not in self._members:
            return []
        part = list(strategy.allocate(self._group, member, self._queues, self._members))
        self._check(part, member, strategy)
        return part

    def _check(self, part: list[MessageQueue], member: str, strategy: AllocationStrategy) -> None:
        if len(set(part)) == len(part) and self._there.issuperset(part):
            return
        strange = [queue for queue in part if queue not in self._there]
        twice = next((queue for queue in part if part.count(queue) > 1), None)
        raise InvalidAllocationError(
            f"group {self._group!r}: the strategy {strategy.name!r} gave {member!r} "
            + (f"{strange[0]}, which is none of the {len(self._queues)} queues" if strange else f"{twice} twice")
        )


def _order() -> Callable[[MessageQueue], tuple[bytes, bytes, int]]:
    """A key like `MessageQueue.order` that encodes each name once."""
    encoded = cache(java_order)
    return lambda queue: (encoded(queue.topic), encoded(queue.broker_name), queue.queue_id)


@dataclass(frozen=True)
class Averagely:
    """Neighbouring queues, as many for each member as can be; the first members have one more. RocketMQ's default."""

    name = "AVG"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        each, more = divmod(len(queues), len(members))
        index = members.index(member)
        start = index * each + min(index, more)
        return queues[start : start + each + (index < more)]


@dataclass(frozen=True)
class AveragelyByCircle:
    """Dealt out one by one, as cards are."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return queues[members.index(member) :: len(members)]


@dataclass(frozen=True)
class ByConfiguration:
    """A fixed list of queues for this member, independent of the other members.

    RocketMQ's takes queues that the topic does not have, and gives them to who is no member: here both wait for it.
    """

    queues: Sequence[MessageQueue]
    name = "CONFIG"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        there = set(queues)
        return [queue for queue in dict.fromkeys(self.queues) if queue in there]


@dataclass(frozen=True)
class ByMachineRoom:
    """Only queues of brokers in some rooms: a broker there has a name like `room@broker`."""

    rooms: frozenset[str]
    name = "MACHINE_ROOM"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        here = [queue for queue in queues if _room_of_name(queue.broker_name) in self.rooms]
        each, more = divmod(len(here), len(members))
        index = members.index(member)
        own = here[index * each : (index + 1) * each]
        return [*own, here[each * len(members) + index]] if index < more else own


class RoomResolver(Protocol):
    """Where brokers and members stand."""

    def room_of_queue(self, queue: MessageQueue) -> str:
        """Not empty."""

    def room_of_member(self, member: str) -> str:
        """Not empty."""


@dataclass(frozen=True)
class MachineRoomNearby:
    """The queues of a room go to the members in it, shared out by another strategy; those of a room without members to
    all members."""

    inner: AllocationStrategy
    resolver: RoomResolver

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        queues_of = _by_room(queues, [self.resolver.room_of_queue(queue) for queue in queues])
        members_of = _by_room(members, [self.resolver.room_of_member(each) for each in members])
        own = self.resolver.room_of_member(member)
        part: list[MessageQueue] = []
        if own in queues_of:
            part += self.inner.allocate(group, member, queues_of[own], members_of[own])
        for room in sorted(queues_of, key=java_order):
            if room not in members_of:
                part += self.inner.allocate(group, member, queues_of[room], members)
        return part


def _by_room(items: Sequence[Item], rooms: Sequence[str]) -> Mapping[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item, room in zip(items, rooms, strict=True):
        if not room:
            raise InvalidAllocationError(f"{item}: no machine room is known for it")
        found.setdefault(room, []).append(item)
    return found


def _room_of_name(broker_name: str) -> str | None:
    parts = broker_name.split("@")
    while parts and not parts[-1]:  # as Java's split leaves them out
        parts.pop()
    return parts[0] if len(parts) == 2 else None
