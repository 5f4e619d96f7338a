"""Creating, changing and deleting topics of a store that is open for writing.

A topic is deleted in this order, so that it stays deleted:

    1  the note      `flightlog/deleted-topics.json`, durable, under the append lock: no record of the topic is appended
                     between what the note calls deleted and what belongs to a later topic of that name. This is the
                     commit point: after a crash the next open does the rest
    2  queues        forgotten and removed, under the dispatch lock; the next record of that name begins at offset 0
    3  topics.json   without the topic
    4  the note      without the mark that the deletion is under way

If the note cannot be written, nothing has happened. If a later step fails, the store is poisoned until it is reopened:
queues on disk and in memory may differ.

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
    """Makes, changes and deletes topics. What these calls did is durable when they return."""

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
        """`delete_queues` does steps 1 and 2 above; `poison` refuses puts from then on."""
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
        """Make a topic. `queue_count` is for reads and writes alike; None: the setting `default_queue_count`. `perm` is
        a sum of 2 (puts are taken), 4 (consumers may read) and 1 (inherit).

        Raises InvalidTopicError for a name that RocketMQ gives no topic, TopicExistsError, UsageError, and DiskError
        (nothing was made).
        """
        check_topic_name(name)
        count = self._default_queue_count if queue_count is None else queue_count
        topic = replace(
            Topic(name, count, count),
            **_changes(queue_count, read_queue_count, write_queue_count, perm, order, attributes),
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
        """Change what is given, and leave the rest as it is. Puts see it at once, read-only views when they look.

        Fewer queues take no message away: `read` still finds those above the count. Consumer groups do not: so to take
        queues out of service, lower `write_queue_count` first, and `read_queue_count` when they have been consumed.
        Where a group has yet to consume messages of queues that `read_queue_count` cuts off, this is an
        UnreadMessagesError with their numbers; with `allow_unread` it is done, and the numbers are logged as a warning.
        Messages in such queues are logged, too, where no group has ever read the topic.

        Raises TopicNotFoundError, UsageError, and DiskError (nothing was changed).
        """
        check_text("name", name, "the name of a topic as text")
        check_flag("allow_unread", allow_unread)
        changes = _changes(queue_count, read_queue_count, write_queue_count, perm, order, attributes)
        if not changes:
            raise UsageError(f"update_topic({name!r}): nothing to change was given")
        before = self._topics.all().get(name)
        if before is None or changes.get("read_queue_count", before.read_queue_count) >= before.read_queue_count:
            return self._topics.update(name, changes)
        cut_off = range(changes["read_queue_count"], before.read_queue_count)
        unread = self._unread(name, cut_off)
        if any(unread.values()) and not allow_unread:
            raise UnreadMessagesError(self._path, name, cut_off, unread)
        topic = self._topics.update(name, changes)
        self._tell_unread(name, cut_off)  # counted again: puts continued meanwhile
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
        """Delete a topic with its messages, for good: no queue, query, view, Spark scan or rebuilding shows them again.
        A topic of this name that is made later begins at queue offset 0.

        The bytes stay in the log until retention takes them, and `message_at` still finds them, as in RocketMQ. Puts of
        all topics wait while the deletion is noted on the disk. A put to this topic that comes at the same time is
        deleted, or creates the topic again. Durable when this returns; after a crash in the middle either nothing
        happened, or the next open does the rest.

        Raises TopicNotFoundError, InvalidTopicError for RocketMQ's own topics, and DiskFullError or DiskError (nothing
        has happened), SyncFailedError (the store takes no more puts; open it again to see).
        """
        check_text("name", name, "the name of a topic as text")
        if is_system_topic(name):
            raise InvalidTopicError(f"topic {name!r}: one of RocketMQ's own topics; it cannot be deleted")
        # First: a topic of this name that is made later must not be read from the middle.
        self._offsets.forget_topic(name)
        self._offsets.save()
        note, deleted = self._deleted_file, self._deleted

        def finish() -> None:
            note.write(deleted, pending=[])
            deleted.pending = []

        try:
            self._topics.delete(name, lambda: self._delete_queues(name, note), finish)
        except DiskError as e:  # with a full disk, what has begun is done by the next open
            if isinstance(e, SyncFailedError) or (name in deleted.pending and not isinstance(e, DiskFullError)):
                self._poison(e)
            raise

    def _unread(self, name: str, queue_ids: range) -> dict[str, int]:
        """How many messages of these queues each consumer group of the topic has yet to consume."""
        bounds = self._bounds(name, queue_ids)
        return {
            group: sum(end - min(max(offsets.get(i, first), first), end) for i, (first, end) in bounds.items())
            for group, offsets in self._offsets.of_topic(name).items()
        }

    def _bounds(self, name: str, queue_ids: range) -> dict[int, tuple[int, int]]:
        """Queue id -> the offset of its first message, one past its last: of those of the topic's queues that have
        ever had messages."""
        return {key[1]: found for key, found in self._queue_bounds().items() if key[0] == name and key[1] in queue_ids}


def _changes(
    queue_count: int | None,
    read_queue_count: int | None,
    write_queue_count: int | None,
    perm: int | None,
    order: bool | None,
    attributes: Mapping[str, str] | None,
) -> dict[str, Any]:
    """The given ones, checked, by the names of Topic's fields."""
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
