"""Create, change and delete topics of a store that is open for writing.

The steps of a deletion, in an order that survives a crash:

    1  note          written durably to `flightlog/deleted-topics.json`, under the append lock: records of the topic
                     below the noted offset are deleted, those above belong to a later topic of that name. This is the
                     commit point: after a crash the next open does the remaining steps
    2  queues        removed from memory and disk, under the dispatch lock; the next record of that name gets offset 0
    3  topics.json   written without the topic
    4  note          the mark that the deletion is pending is removed

If the note cannot be written, nothing has happened. If a later step fails, the store is poisoned until it is reopened,
because queues on disk and in memory may differ.

The records stay in the log, as in RocketMQ, until retention removes them: `message_at` still finds them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...store.arguments import check_flag, check_text
from ...store.errors import (
    DiskError,
    DiskFullError,
    InvalidTopicError,
    SyncFailedError,
    UnreadMessagesError,
    UsageError,
    WrongTypeError,
)
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.state.deleted_topics import DeletedTopics, DeletedTopicsFile
from ...store.topic import (
    READ_WRITE,
    Topic,
    TopicPermission,
    check_perm,
    check_queue_count,
    check_topic_name,
    is_system_topic,
)
from .offset_table import OffsetTable
from .topics import TopicTable

log = logging.getLogger("flightlog.store")


class TopicAdmin:
    """Creates, changes and deletes topics. Each change is durable when its call returns."""

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        topics: TopicTable,
        offsets: OffsetTable,
        deleted: DeletedTopics,
        deleted_file: DeletedTopicsFile,
        queue_bounds: Callable[[], dict[QueueKey, tuple[int, int]]],
        delete_queues: Callable[[str, DeletedTopicsFile], None],
        poison: Callable[[BaseException], None],
    ) -> None:
        """`delete_queues` does steps 1 and 2 above; `poison` makes every later put fail."""
        self._path, self._default_queue_count, self._topics = path, settings.default_queue_count, topics
        self._offsets, self._deleted, self._deleted_file = offsets, deleted, deleted_file
        self._queue_bounds, self._delete_queues, self._poison = queue_bounds, delete_queues, poison

    def create(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic. `queue_count` sets the number of read and write queues; None: the setting
        `default_queue_count`. `perm` is a sum of 2 (write: puts are accepted), 4 (read: consumers may read) and 1
        (inherit).

        Raises InvalidTopicError for a name that RocketMQ does not allow, TopicExistsError, UsageError, and DiskError
        (the topic was not created).
        """
        topic = created_topic(
            *(
                self._default_queue_count,
                name,
                queue_count,
                read_queue_count,
                write_queue_count,
                perm,
                order,
                attributes,
            )
        )
        self._topics.create(topic)
        return topic

    def update(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        allow_unread: bool = False,
    ) -> Topic:
        """Change the given fields of a topic. Puts see the change at once, read-only views when they refresh.

        Lowering a queue count deletes no message: `read` still finds messages in queues above the count, but consumer
        groups do not. To take queues out of service, first lower `write_queue_count`, and lower `read_queue_count` when
        the queues have been consumed. If a group has unconsumed messages in queues that `read_queue_count` would cut
        off, this raises UnreadMessagesError with their numbers; with `allow_unread` the change is made, and the numbers
        are logged as a warning. Messages in such queues are also logged if no group has ever read the topic.

        Raises TopicNotFoundError, UsageError, and DiskError (nothing was changed).
        """
        check_text("name", name, "the name of a topic as text")
        check_flag("allow_unread", allow_unread)
        changes = topic_changes(name, queue_count, read_queue_count, write_queue_count, perm, order, attributes)
        before = self._topics.all().get(name)
        if before is None or changes.get("read_queue_count", before.read_queue_count) >= before.read_queue_count:
            return self._topics.update(name, changes)
        cut_off = range(changes["read_queue_count"], before.read_queue_count)
        unread = self._unread(name, cut_off)
        if any(unread.values()) and not allow_unread:
            raise UnreadMessagesError(self._path, name, cut_off, unread)
        topic = self._topics.update(name, changes)
        self._tell_unread(name, cut_off)  # counted again, because puts went on meanwhile
        return topic

    def _tell_unread(self, name: str, cut_off: range) -> None:
        unread = self._unread(name, cut_off)
        shown = "; ".join(f"group {group!r}: {count}" for group, count in unread.items() if count)
        if not unread:
            count = sum(end - first for first, end in self._bounds(name, cut_off).values())
            shown = f"{count}, and no group has ever read the topic" if count else ""
        if shown:
            text = "%s: topic %r: no consumer reads queues %d to %d any more, with messages that were not consumed: %s"
            extra = {"path": str(self._path), "topic": name, "first_queue_id": cut_off[0], "last_queue_id": cut_off[-1]}
            log.warning(text, self._path, name, cut_off[0], cut_off[-1], shown, extra=extra | {"unread": unread})

    def delete(self, name: str) -> None:
        """Delete a topic and its messages permanently: no queue, query, view, Spark scan or rebuilt queue shows them
        again. A topic of this name that is created later starts at queue offset 0.

        The bytes stay in the log until retention removes them, and `message_at` still finds them, as in RocketMQ. Puts
        to all topics wait while the deletion is written to disk. A message put to this topic at the same time is either
        deleted, or creates the topic again. Durable on return. After a crash, either nothing has happened or the next
        open completes the deletion.

        Raises TopicNotFoundError; InvalidTopicError for RocketMQ's own topics; DiskFullError or DiskError (nothing has
        happened); SyncFailedError (the store accepts no more puts: reopen it to see whether the topic is deleted).
        """
        check_text("name", name, "the name of a topic as text")
        if is_system_topic(name):
            raise InvalidTopicError(f"topic {name!r}: one of RocketMQ's own topics; it cannot be deleted")
        # First, so that no group starts in the middle of a later topic of this name.
        self._offsets.forget_topic(name)
        self._offsets.save()
        note, deleted = self._deleted_file, self._deleted

        def finish() -> None:
            note.write(deleted, pending=[])
            deleted.pending = []

        try:
            self._topics.delete(name, lambda: self._delete_queues(name, note), finish)
        except DiskError as e:  # after a full disk, the next open completes the deletion
            if isinstance(e, SyncFailedError) or (name in deleted.pending and not isinstance(e, DiskFullError)):
                self._poison(e)
            raise

    def _unread(self, name: str, queue_ids: range) -> dict[str, int]:
        """The number of unconsumed messages in these queues, by consumer group."""
        bounds = self._bounds(name, queue_ids)
        return {
            group: sum(end - min(max(offsets.get(i, first), first), end) for i, (first, end) in bounds.items())
            for group, offsets in self._offsets.of_topic(name).items()
        }

    def _bounds(self, name: str, queue_ids: range) -> dict[int, tuple[int, int]]:
        """Queue id -> (first queue offset, one past the last), of those of these queues that have ever had messages."""
        return {key[1]: found for key, found in self._queue_bounds().items() if key[0] == name and key[1] in queue_ids}


def created_topic(
    default_queue_count: int,
    name: str,
    queue_count: int | None,
    read_queue_count: int | None,
    write_queue_count: int | None,
    perm: int,
    order: bool,
    attributes: Mapping[str, str] | None,
) -> Topic:
    """The topic that `TopicAdmin.create` makes of these arguments. Raises as it does."""
    check_topic_name(name)
    count = default_queue_count if queue_count is None else queue_count
    given = _changes(queue_count, read_queue_count, write_queue_count, perm, order, attributes)
    return replace(Topic(name, count, count), **given)


def topic_changes(
    name: str,
    queue_count: int | None,
    read_queue_count: int | None,
    write_queue_count: int | None,
    perm: int | None,
    order: bool | None,
    attributes: Mapping[str, str] | None,
) -> dict[str, Any]:
    """What `TopicAdmin.update` changes by these arguments, by the names of Topic's fields. Raises as it does."""
    changes = _changes(queue_count, read_queue_count, write_queue_count, perm, order, attributes)
    if not changes:
        raise UsageError(f"topic {name!r}: nothing to change was given")
    return changes


def _changes(
    queue_count: int | None,
    read_queue_count: int | None,
    write_queue_count: int | None,
    perm: int | None,
    order: bool | None,
    attributes: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The arguments that are not None, checked, by the names of Topic's fields."""
    changes: dict[str, Any] = {}
    if queue_count is not None:
        check_queue_count("queue_count", queue_count)
        changes |= {"read_queue_count": queue_count, "write_queue_count": queue_count}
    for name, count in (("read_queue_count", read_queue_count), ("write_queue_count", write_queue_count)):
        if count is not None:
            check_queue_count(name, count, 0)
            changes[name] = count
    if perm is not None:
        changes["perm"] = TopicPermission(check_perm(perm))
    if order is not None:
        check_flag("order", order)
        changes["is_ordered"] = order
    if attributes is not None:
        if not isinstance(attributes, Mapping) or not all(
            isinstance(text, str) for pair in attributes.items() for text in pair
        ):
            raise WrongTypeError("attributes", attributes, "a mapping of text to text")
        changes["attributes"] = dict(attributes)
    return changes
