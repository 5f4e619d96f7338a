"""Calls for a whole consumer group of one store: what there is, resetting offsets, deleting.

Invariants:
- No member joins or leaves, and no queue moves, while offsets are changed: what a call sets is what the group goes on
  at.
- What `reset_offset`, `commit_offset` and `delete` did is durable when they return.

RocketMQ: `AdminBrokerProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

from ..engine.message_store import MessageStore
from ..store.arguments import check_flag, check_group, check_queue, check_topic, check_whole
from ..store.errors import InvalidArgumentError, QueueNotFoundError, TopicNotFoundError
from ..store.format.light_queues import is_light
from ..store.format.record import RETRY_TOPIC_PREFIX
from ..store.queue_offsets import QueueKey
from ..store.stored_message import StoredMessage
from .deliver.subscription import Subscription
from .group.consumed_store import ConsumedStore
from .group.group_errors import GroupHasMembersError, GroupNotFoundError
from .group.group_settings import GroupSettings
from .group.group_state import GroupState, is_system_group, lag_of
from .group.group_table import GroupTable
from .group.offset_reset import checked_target, reset_places
from .group.store_checks import check_new_group
from .group_coordinator import GroupCoordinator
from .pop.pop_service import PopService
from .readers import without_joins
from .retry.send_back import dead_letter_topic, retry_topic
from .retry.sent_back import SentBack

Coordinators = Mapping[GroupCoordinator, ConsumedStore]
"""Who balances groups of the store, and the store as each knows it."""


class GroupAdmin:
    """Thread-safe."""

    def __init__(
        self,
        store: MessageStore,
        table: GroupTable,
        coordinators: Coordinators,
        pop: PopService,
        sent_back: SentBack,
        delete_topic: Callable[[str], None],
    ) -> None:
        self._store, self._table, self._coordinators = store, table, coordinators
        self._pop, self._sent_back, self._delete_topic = pop, sent_back, delete_topic

    # -- what there is

    def groups(self, *, include_system: bool = False) -> dict[str, GroupState]:
        """The consumer groups that have offsets, settings or members in this store, by name; with `include_system` also
        those of RocketMQ's own. Their lag is computed from the bounds of all queues: the call costs time in proportion
        to their number. Raises InvalidArgumentError, StoreClosedError, ForkedStoreError."""
        check_flag("include_system", include_system)
        offsets, bounds = self._store.offsets.by_group(), self._store.queues()
        members = self._members()
        names = (offsets.keys() | members.keys() | set(self._table.names())) - {""}
        return {
            name: self._state(name, offsets.get(name, {}), members.get(name, []), bounds)
            for name in sorted(names)
            if include_system or not is_system_group(name)
        }

    def _state(
        self,
        name: str,
        offsets: Mapping[str, Mapping[int, int]],
        members: list[Subscription],
        bounds: Mapping[QueueKey, tuple[int, int]],
    ) -> GroupState:
        settings = self._table.settings(name)
        return GroupState(
            name,
            topics=tuple(sorted(offsets.keys() | {topic for member in members for topic in member.topics})),
            members=tuple(sorted(member.name for member in members)),
            lag=sum(lag_of(offsets, bounds).values()),
            is_ordered=members[0].is_ordered if members else settings.is_ordered,
            is_broadcasting=any(member.is_broadcasting for member in members),
            settings=settings,
            owners={
                (queue.topic, queue.queue_id): member.name
                for member in members
                if not member.is_broadcasting
                for queue in member.queues
            },
        )

    def lag(self, group: str | int) -> dict[QueueKey, int]:
        """How many messages of each queue the group has yet to acknowledge, by topic and queue id: of all queues of the
        topics that it has offsets in, also if it has no members. Filtered messages count.

        Raises InvalidArgumentError, StoreClosedError, ForkedStoreError.
        """
        return lag_of(self._store.offsets.by_group().get(check_group(group), {}), self._store.queues())

    def settings(self, group: str | int) -> GroupSettings:
        """The settings of a consumer group, set with `update_group` or by a broker; RocketMQ's defaults for one without
        any. Raises InvalidArgumentError, StoreClosedError, ForkedStoreError."""
        return self._table.settings(check_group(group))

    def _members(self) -> dict[str, list[Subscription]]:
        found: dict[str, list[Subscription]] = {}
        for coordinator in self._coordinators:
            for member in coordinator.members():
                found.setdefault(member.group, []).append(member)
        return found

    def dead_letters(self, group: str | int) -> Iterator[StoredMessage]:
        """The messages that the group could not process, the oldest first. The original topic of a message is its
        property RETRY_TOPIC, the number of its deliveries its `reconsume_times`.

        Raises InvalidArgumentError, StoreClosedError, ForkedStoreError; and as `read` while it is iterated.
        """
        topic = dead_letter_topic(check_group(group))
        queue_ids = [queue_id for name, queue_id in self._store.queues() if name == topic]
        return chain.from_iterable(self._store.read(topic, queue_id) for queue_id in queue_ids)

    # -- offsets

    def group_offsets(self, group: str | int, topic: str) -> dict[int, int]:
        """Queue id -> the group's offset, for each queue in which it has one."""
        group = check_group(group)
        check_topic(topic)
        return self._store.offsets.of(group, topic)

    def reset_offset(
        self,
        group: str | int,
        topic: str,
        to: Any,
        *,
        queue_id: int | None = None,
        dry_run: bool = False,
    ) -> dict[int, int]:
        """Move a consumer group to other offsets in a topic; returns the new offsets by queue id.

        `to` is a queue offset (moved to the nearest existing one), a datetime with a time zone (the first message
        stored then or later), "first" or "last" (after the last message). `queue_id` resets one queue; None: all that
        have messages or an offset of the group.

        Running members continue there at once: messages that they have in process are dropped, so their
        acknowledgements have no effect, and they are redelivered if they are behind the new offset. Messages that were
        received by `receive` stay with their receivers, as with RocketMQ's broker. Durable when this returns. `dry_run`
        only computes the offsets.

        Raises TopicNotFoundError, InvalidGroupError, InvalidArgumentError, DiskError, StoreClosedError,
        ForkedStoreError.
        """
        group = check_group(group)
        check_topic(topic)
        if queue_id is not None:
            queue_id = check_queue(topic, queue_id)
        check_flag("dry_run", dry_run)
        target = checked_target(to)
        check_new_group(self._store, self._table, group)
        self._check_topic(topic)
        offsets = reset_places(self._store, self._store.offsets.of(group, topic), topic, target, queue_id)
        if offsets and not dry_run:
            self._set(group, topic, offsets)
        return offsets

    def _set(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with self._without_changes(group):
            for coordinator, consumed in self._coordinators.items():
                if coordinator.has_group(group):
                    coordinator.reset_offsets(consumed, group, topic, offsets)
                    for queue_id in offsets:
                        with self._pop.moving(group, (topic, queue_id)):
                            pass  # it goes on there: nothing that was popped in order counts any more
                    break
            else:
                for queue_id, queue_offset in offsets.items():
                    self._set_one(group, topic, queue_id, queue_offset)
        self._sent_back.forget(group)
        self._store.offsets.save()

    def _set_one(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        with self._pop.moving(group, (topic, queue_id)):  # it would set where it goes on
            self._store.offsets.set(group, topic, queue_id, queue_offset)

    def commit_offset(self, group: str | int, topic: str, queue_id: int, queue_offset: int) -> None:
        """Set the group's offset in a queue that none of its members has, up or down: for programs that read with `get`
        or `pull`. Durable when this returns.

        Raises GroupHasMembersError if a member has the queue (`reset_offset` moves it), TopicNotFoundError,
        QueueNotFoundError, InvalidGroupError, InvalidArgumentError for an offset beyond the end of the queue,
        DiskError, StoreClosedError, ForkedStoreError.
        """
        group, queue_id = check_group(group), check_queue(topic, queue_id)
        queue_offset = check_whole("queue_offset", queue_offset)
        check_new_group(self._store, self._table, group)
        self._check_topic(topic)
        _, end = self._store.queue_bounds(topic, queue_id)
        found = self._store.topic(topic)
        if end == 0 and found is not None and queue_id >= found.queue_count:
            raise QueueNotFoundError(f"{self._store.path}: topic {topic!r} has no queue {queue_id}")
        if queue_offset > end:
            expected = f"{end}, where queue {queue_id} of {topic!r} ends, or less"
            raise InvalidArgumentError("queue_offset", queue_offset, expected)
        with self._without_changes(group):
            has = [
                member.name
                for member in self._members().get(group, [])
                if any((queue.topic, queue.queue_id) == (topic, queue_id) for queue in member.queues)
            ]
            if has:
                to_do = "acknowledge its messages, or use reset_offset"
                raise GroupHasMembersError(self._store.path, group, has, to_do)
            self._set_one(group, topic, queue_id, queue_offset)
        self._store.offsets.save()

    # -- deleting

    def delete(self, group: str | int, *, with_topics: bool = False) -> None:
        """Delete a consumer group: its offsets and its settings. With `with_topics` also its retry topics and its dead
        letters. A later group of this name starts as a new one. Durable when this returns; after a failure or a crash
        in the middle, call it again.

        Raises GroupHasMembersError while it has members, GroupNotFoundError, InvalidArgumentError, DiskError,
        StoreClosedError, ForkedStoreError.
        """
        group = check_group(group)
        check_flag("with_topics", with_topics)
        with self._without_changes(group):
            members = [member.name for member in self._members().get(group, [])]
            if members:
                raise GroupHasMembersError(self._store.path, group, members, "close them first")
            topics = self._topics_of(group)
            is_known = group in self._store.offsets.by_group() or group in self._table.names()
            if not is_known and not (topics and with_topics):
                raise GroupNotFoundError(self._store.path, group)
            for topic in topics if with_topics else ():
                self._delete_topic(topic)
            offsets = self._store.offsets.by_group().get(group, {})
            with self._pop.no_pop(group, *((topic, queue_id) for topic in offsets for queue_id in offsets[topic])):
                self._pop.forget(group=group)
                self._store.offsets.forget_group(group)
            self._sent_back.forget(group)
            self._store.offsets.save()
            self._table.remove(group)

    def _topics_of(self, group: str) -> list[str]:
        """Retry topics and dead letters of a group, those that there are; also of RocketMQ's pop, for which a group has
        a retry topic a topic."""
        consumed = self._store.offsets.by_group().get(group, {})
        of_pop = [f"{RETRY_TOPIC_PREFIX}{group}{between}{topic}" for topic in consumed for between in "_+"]
        there = self._store.topics()
        return [name for name in (retry_topic(group), dead_letter_topic(group), *of_pop) if name in there]

    # --

    def _check_topic(self, topic: str) -> None:
        if not is_light(topic) and self._store.topic(topic) is None:
            raise TopicNotFoundError(self._store.path, topic, "its offsets cannot be set")

    @contextmanager
    def _without_changes(self, group: str) -> Iterator[None]:
        """No member joins or leaves, unless it has died, and no round of the group is under way."""
        with without_joins(self._coordinators), ExitStack() as held:
            for coordinator in self._coordinators:  # in any order: the joins of all are locked
                held.enter_context(coordinator.between_rounds(group))
            yield
