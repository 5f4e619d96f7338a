"""One store under the name that its readers know it by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from ...engine.message_store import MessageStore
from ...engine.services.arrivals import Arrivals
from ...engine.topics.offset_table import OffsetTable
from ...store.errors import FlightlogError
from ...store.format.light_queues import is_light
from ...store.message_queue import MessageQueue
from ...store.queue_offsets import QueueKey
from ...store.topic import TopicPermission, routable_queues
from ..retry.sent_back import SentBack
from ..retry.starts import Starts
from .group_table import GroupTable


class Owner(Protocol):
    """Balances groups."""

    def is_balancing(self, group: str) -> bool:
        """Whether it has members of this group."""


NoPop = Callable[[str, QueueKey], AbstractContextManager[object]]
"""(group, queue) -> a block during which the group pops nothing from the queue."""


@dataclass(frozen=True, eq=False)
class ConsumedStore:
    """A store and what is read of it with; to a group, a source of queues."""

    name: str
    """RocketMQ's broker name: part of the name of each of its queues."""
    store: MessageStore
    groups: GroupTable
    starts: Starts
    sent_back: SentBack
    owners: dict[str, Owner]
    """Group -> who balances it. One for all that read this store: two would give a queue to two members."""
    no_pop: NoPop

    @property
    def offsets(self) -> OffsetTable:
        return self.store.offsets

    @property
    def arrivals(self) -> Arrivals:
        return self.store.arrivals

    @property
    def poison(self) -> BaseException | None:
        """What has ended puts there, if anything has."""
        return self.store.poison

    @property
    def is_usable(self) -> bool:
        """A poisoned store can be read, but what was acknowledged cannot be written there any more."""
        return not self.store.is_closed and self.poison is None

    def queue_ids(self, topic: str) -> Sequence[int]:
        if is_light(topic):
            return range(1)
        found = self.store.topic(topic)
        # How many there are is checked by `routable_queues`: here even 2**31 - 1 cost nothing.
        return range(found.read_queue_count) if found is not None and TopicPermission.READ in found.perm else ()

    def has_topic(self, topic: str) -> bool:
        """Whether there is such a topic. A light queue comes into being with its first message."""
        return is_light(topic) or self.store.topic(topic) is not None

    def check_routable(self, topic: str) -> None:
        """Raises TooManyQueuesError if the topic has too many queues to share them out."""
        routable_queues(self.store.path, topic, len(self.queue_ids(topic)), "read_queue_count")

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """The offset of its first message, and one past its last."""
        return self.store.queue_bounds(queue.topic, queue.queue_id)


StoresNow = Callable[[], Mapping[str, ConsumedStore]]
"""The stores that are read at this moment, by name."""


def queues_not_at_end(
    stores: Mapping[str, ConsumedStore], positions: Mapping[MessageQueue, int]
) -> Iterator[MessageQueue]:
    """Those of these queues, in their order, whose end is not the position that they were read up to. One look at the
    log for all queues of a store, where a read of each would be one for each."""
    ends: dict[MessageQueue, int] = {}
    for name, store in stores.items():
        queues = [queue for queue in positions if queue.broker_name == name]
        keys = [(queue.topic, queue.queue_id) for queue in queues]
        with suppress(FlightlogError):  # then a read of each tells why
            ends.update(zip(queues, store.store.end_offsets(keys), strict=True))
    return (queue for queue, position in positions.items() if ends.get(queue) != position)


class ConsumeProgress(Protocol):
    """Where a member finds how far it is in a queue, and says it."""

    def get(self, queue: MessageQueue) -> int | None:
        """None: it never began there."""

    def set(self, queue: MessageQueue, queue_offset: int) -> None:
        """Written to the disk with the next save."""


class GroupProgress:
    """The members of a group are equally far: each store has the group's offsets in its queues."""

    def __init__(self, stores: StoresNow, group: str) -> None:
        self._stores, self._group = stores, group

    def get(self, queue: MessageQueue) -> int | None:
        store = self._stores().get(queue.broker_name)
        if store is None:
            return None
        # A receive under way moves the offset past what it popped. Later ones see that the group has members.
        with store.no_pop(self._group, (queue.topic, queue.queue_id)):
            return store.offsets.get(self._group, queue.topic, queue.queue_id)

    def set(self, queue: MessageQueue, queue_offset: int) -> None:
        store = self._stores().get(queue.broker_name)
        if store is not None:  # else it was taken out, and its messages come again where it is read next
            store.offsets.set(self._group, queue.topic, queue.queue_id, queue_offset)
