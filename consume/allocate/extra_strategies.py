"""Allocation strategies that RocketMQ has not: for a test version, and for a group that reads several topics."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...store.message_queue import MessageQueue
from .allocate import AllocationStrategy, Averagely


class WhenGone(enum.Enum):
    """Who has the queues while none of the designated members is there."""

    NOBODY = "nobody"
    """Messages wait for one to come."""
    EVERYBODY = "everybody"
    """The others share them until one comes."""


@dataclass(frozen=True)
class Designated:
    """Only these members read, a test version say; the others stand by."""

    members: frozenset[str]
    """Their names, as `subscribe(member=...)` gives them."""
    when_gone: WhenGone
    inner: AllocationStrategy = field(default_factory=Averagely)
    """Shares the queues among those who read."""

    @property
    def name(self) -> str:
        return f"DESIGNATED({','.join(sorted(self.members))};{self.when_gone.value})-{self.inner.name}"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        readers = [each for each in members if each in self.members]
        if not readers and self.when_gone is WhenGone.EVERYBODY:
            readers = list(members)
        return self.inner.allocate(group, member, queues, readers) if member in readers else []


@dataclass(frozen=True)
class AllTopics:
    """The queues of all topics that the group reads are shared out in one go.

    RocketMQ shares out each topic for itself, and the first members have one queue more in each: with three topics of
    one queue, the first of three members has all three, and the others nothing. Here each has one.
    """

    inner: AllocationStrategy = field(default_factory=Averagely)
    spans_topics = True

    @property
    def name(self) -> str:
        return f"ALL_TOPICS-{self.inner.name}"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return self.inner.allocate(group, member, queues, members)
