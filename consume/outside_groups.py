"""Groups whose members share out the queues among themselves, outside of this process: RocketMQ's remoting clients.

Their offsets are where those of every other group are. A group has members of one kind at a time: its queues would be
read twice otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from ..engine.message_store import MessageStore
from ..store.arguments import check_group
from ..store.errors import InconsistentGroupError
from ..store.queue_offsets import QueueKey
from .group.consumed_store import NoPop, Owner


class OutsideGroups:
    """The groups of one owner, who knows their members. Thread-safe."""

    def __init__(
        self,
        store: MessageStore,
        owners: dict[str, Owner],
        owner: Owner,
        no_pop: NoPop,
        no_joins: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """`no_joins` makes a block during which no subscription joins a group of the store."""
        self._store, self._owners, self._owner = store, owners, owner
        self._no_pop, self._no_joins = no_pop, no_joins

    def check(self, group: str) -> None:
        """Raises InconsistentGroupError if the group has other members: subscriptions in this process."""
        found = self._owners.get(group)
        if found is not None and found is not self._owner and found.is_balancing(group):
            expected = "either those, or clients that share out the queues among themselves"
            raise InconsistentGroupError(group, "subscriptions in the process of the store", expected)

    def claim(self, group: str) -> None:
        """From now on the group is the owner's, as long as its `is_balancing` says so. Raises InconsistentGroupError,
        InvalidArgumentError."""
        group = check_group(group)
        with self._no_joins():
            self.check(group)
            self._owners[group] = self._owner

    def offset(self, group: str, queue: QueueKey) -> int | None:
        """Where the group goes on; None: it never began there."""
        with self._no_pop(group, queue):  # a receive under way moves the offset past what it popped
            return self._store.offsets.get(group, *queue)

    def set_offset(self, group: str, queue: QueueKey, queue_offset: int) -> None:
        """Written to the disk with the next `save`. Raises InconsistentGroupError, UsageError."""
        self.check(group)
        self._store.offsets.set(group, *queue, queue_offset)

    def save(self) -> None:
        """Durable on return. Raises DiskError, StoreClosedError."""
        self._store.offsets.save()
