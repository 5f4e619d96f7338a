"""The topics of a store, with queue counts and permissions: `config/topics.json`, in RocketMQ's format.

Invariants:
- A put reads one dict, without a lock. A change of a topic holds the lock, and updates that dict last.
- `create`, `update` and `delete` are durable on return. A topic that a put created or extended is written with the next
  flush of the queues: after a kill it is recovered from the queues. Topics that an open recovered from the queues are
  written before the store is marked as open for writing.
- The fast path (store/native/fast_path_protocol.py) accepts only topics passed to its `register_topic`. A change of a
  topic unregisters it first, under the same lock.
- A topic that has queues but is not in the file (a store without a broker's config, or after a kill) exists.
- A put adds queues only to a topic that a put created (store/state/auto_topics.py), and only up to
  `max_auto_queue_count`. Existing queues are always accepted: recovery gives their topic enough queues.

RocketMQ: `TopicConfigManager`, `SendMessageProcessor`. There `defaultTopicQueueNums` is 8, but clients ask for 4, hence
the default of 4 here.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.disk.clock import Clock
from ...store.disk.config_file import CONFIG_FOLDER, Config, ConfigFile, next_data_version
from ...store.disk.disk import Disk
from ...store.errors import (
    ConfigFileError,
    DiskError,
    InvalidMessageError,
    QueueNotFoundError,
    TopicExistsError,
    TopicNotFoundError,
    TopicPermissionError,
)
from ...store.format.light_queues import is_light
from ...store.format.record import DEAD_LETTER_PREFIX, INT32_MAX, RETRY_TOPIC_PREFIX
from ...store.native.fast_path_protocol import FastPathProtocol
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.state.auto_topics import AutoTopicsFile
from ...store.topic import (
    BATCH_QUEUE_TYPE,
    GIVEN_UP_TOPIC,
    NO_TOPIC_OF_APPLICATIONS,
    QUEUE_TYPE,
    STRICT_WAY_OUT,
    Topic,
    TopicPermission,
    check_characters,
    has_no_settings,
    topic_from_json,
)

log = logging.getLogger("flightlog.store")

TOPICS_FILE = "topics.json"


Integers = NDArray[np.int64]


class _Route:
    """What a put needs to know about a topic. Read without a lock."""

    __slots__ = ("holds_batches", "queue_count", "turn", "write_queue_count")

    def __init__(self, topic: Topic) -> None:
        is_writable = TopicPermission.WRITE in topic.perm
        self.write_queue_count = topic.write_queue_count if is_writable else 0
        self.queue_count = topic.queue_count if is_writable else 0
        self.holds_batches = topic.holds_batches
        self.turn = itertools.count()


class TopicTable:
    """The topics of a store that is open for writing. Thread-safe."""

    def __init__(self, disk: Disk, root: Path, settings: StoreSettings, clock: Clock) -> None:
        self._root, self._settings, self._clock = root, settings, clock
        self._file = ConfigFile(disk, topics_path(root))
        self._auto_file = AutoTopicsFile(disk, root)
        self._auto_created: set[str] = set()
        """The topics that a put created and that `update` has not changed since."""
        self.lock = threading.RLock()
        """Held while a topic is changed. Acquired before the append lock."""
        self._document: Config = {}
        self._topics: dict[str, Topic] = {}
        self._routes: dict[str, _Route] = {}
        self._fast_path: FastPathProtocol[Any, Any] | None = None
        self._registered: set[str] = set()
        self._is_unsaved = self._save_failed = False
        self._finish_deletion: Callable[[], None] | None = None
        """The last step of a pending deletion, to run when the file has been written without the topic. Until it has
        run, the next open deletes any topic of that name, even one created since."""

    def load(
        self,
        queue_keys: Iterable[QueueKey],
        pending: Iterable[str],
        *,
        batch_topics: Set[str] = frozenset(),
        grows: bool,
    ) -> None:
        """Read the file, add topics that only have queues (batch queues for `batch_topics`), and remove those whose
        deletion is `pending`. `grows`: the last writer may have died before it wrote topics and queues that puts had
        created. Raises DiskError, and ConfigFileError if neither the file nor its `.bak` can be parsed."""
        self._document = self._file.read() or {}
        self._topics = topics_in(self._document, self._file.path)
        self._auto_created = self._auto_file.read() & self._topics.keys()
        gone = [name for name in pending if self._topics.pop(name, None) is not None]
        if gone:
            self._save(self._topics)
        before = dict(self._topics)
        add_found(self._topics, queue_keys, self._settings, grows=grows)
        if grows:  # `create` is durable on return, so a topic missing in the file was created by a put
            self._auto_created |= self._topics.keys() - before.keys()
        # Otherwise a clean close would lose the topics that were only in the queues.
        self._is_unsaved = grows and self._topics != before
        for name in batch_topics & self._topics.keys():  # the queues on disk decide, as in RocketMQ
            self._topics[name] = of_batches(self._topics[name])
        # A broker's file lists its system topics too; applications still cannot put to them.
        self._routes = {
            name: _Route(topic) for name, topic in self._topics.items() if name not in NO_TOPIC_OF_APPLICATIONS
        }

    # -- for puts

    def queue_for(self, name: str, queue_id: int | None, *, is_internal: bool, is_batch: bool = False) -> int:
        """The queue id for a message, or an inner batch, to this topic. `queue_id` None: round robin. Creates a missing
        topic or queue if the settings allow it.

        Raises TopicNotFoundError, QueueNotFoundError; TopicPermissionError, also for RocketMQ's own topics unless
        `is_internal`; InvalidMessageError for a batch to a topic without batch queues, or the reverse.
        """
        route = self._routes.get(name)
        if route is not None and route.holds_batches is not is_batch:
            raise InvalidMessageError(
                f"{self._root}: the topic {name!r} has queues of inner batches: put to it with put_batch"
                if route.holds_batches
                else f"{self._root}: the topic {name!r} has queues of single messages: put_batch needs a topic that is "
                f"new, or made with attributes={{{QUEUE_TYPE!r}: {BATCH_QUEUE_TYPE!r}}}"
            )
        if route is not None:
            if queue_id is None:
                if route.write_queue_count:
                    return next(route.turn) % route.write_queue_count
            elif queue_id < route.queue_count:
                return queue_id
        return self._make_queue(name, queue_id, is_internal, is_batch)

    def next_queues(self, name: str, count: int) -> Integers:
        """Round-robin queue ids for `count` messages (at least one) to this topic. Raises as `queue_for`."""
        with self.lock:  # no change or deletion in between
            first = self.queue_for(name, None, is_internal=False)
            route = self._routes[name]
            turns = np.fromiter(itertools.islice(route.turn, count - 1), np.int64, count - 1)
        return np.concatenate([np.array([first], np.int64), turns % route.write_queue_count])

    def queue_for_delivery(self, name: str, queue_id: int) -> int:
        """The queue id for a parked message, which was accepted when it was put: a deleted topic or queue is created
        again, and permissions are not checked. A deleted queue with an id of `max_auto_queue_count` or above is not
        created; the message goes to another queue of the topic. Raises InvalidMessageError if the topic now has batch
        queues."""
        route = self._routes.get(name)
        if route is not None and queue_id < route.queue_count and not route.holds_batches:
            return queue_id
        if has_no_settings(name):
            return queue_id
        with self.lock:
            before = self._topics.get(name)
            topic = before or new_topic(name, self._settings)
            if topic.holds_batches:
                raise InvalidMessageError(
                    f"{self._root}: the topic {name!r} has queues of inner batches now: a message that waited for it "
                    "cannot be delivered while it has"
                )
            if queue_id >= topic.queue_count:
                if not self._may_have(queue_id):
                    queue_id %= max(topic.queue_count, 1)
                topic = with_queue(topic, queue_id) if queue_id >= topic.queue_count else topic
            if topic is not before:
                self._set(topic)
                self._is_unsaved = True
            if before is None:
                self._auto_created.add(name)
        return queue_id

    def _may_have(self, queue_id: int) -> bool:
        """Whether a put may add a queue with this id to a topic that a put created."""
        return self._settings.put_adds_queues or queue_id < self._settings.max_auto_queue_count

    def open_fast_path(self, fast_path: FastPathProtocol[Any, Any]) -> None:
        """Register topics with this fast path from now on."""
        self._fast_path = fast_path

    def register_topic(self, name: str, raw: bytes) -> None:
        """Register a topic (`raw` is its name in UTF-8) with the fast path, unless it is one for the slow path."""
        if self._fast_path is None or name in self._registered:
            return
        with self.lock:
            route = self._routes.get(name)
            if route is not None and route.queue_count and not route.holds_batches:
                self._registered.add(name)
                self._fast_path.register_topic(name, raw, route.queue_count)

    def _unregister_topic(self, name: str) -> None:
        if self._fast_path is not None:
            self._fast_path.unregister_topic(name)
            self._registered.discard(name)

    def _make_queue(self, name: str, queue_id: int | None, is_internal: bool, is_batch: bool) -> int:
        if name in NO_TOPIC_OF_APPLICATIONS:
            if is_internal:
                return queue_id or 0
            raise TopicPermissionError(f"{self._root}: the topic {name!r} is RocketMQ's own and takes no puts")
        makes = self._settings.auto_create_topics
        with self.lock:
            before = topic = self._topics.get(name)
            if topic is None:
                if not makes:
                    raise TopicNotFoundError(
                        self._root, name, "make it with create_topic, or set auto_create_topics=True"
                    )
                of_group = name.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX))
                if self._settings.rocketmq_strict and not is_internal and not of_group:  # the group was checked
                    check_characters(name, STRICT_WAY_OUT)
                topic = new_topic(name, self._settings)
                topic = of_batches(topic) if is_batch else topic
            elif TopicPermission.WRITE not in topic.perm:
                raise TopicPermissionError(
                    f"{self._root}: the topic {name!r} has permission {int(topic.perm)}: no puts. "
                    "Give it 2 (write) with update_topic"
                )
            if queue_id is not None and queue_id >= topic.queue_count:
                self._check_may_add(topic, queue_id, is_new=before is None)
                topic = with_queue(topic, queue_id)
            if queue_id is None and topic.write_queue_count == 0:
                raise QueueNotFoundError(
                    f"{self._root}: the topic {name!r} has no queue for puts without a queue id. "
                    "Give it some with update_topic(write_queue_count=...)"
                )
            self._set(topic)
            self._is_unsaved = True
            if before is None:
                self._auto_created.add(name)
            return next(self._routes[name].turn) % topic.write_queue_count if queue_id is None else queue_id

    def _check_may_add(self, topic: Topic, queue_id: int, *, is_new: bool) -> None:
        """Raise QueueNotFoundError unless a put may add a queue with this id to the topic."""
        settings, name, count = self._settings, topic.name, topic.queue_count
        is_auto_created = is_new or name in self._auto_created
        if settings.auto_create_topics and (settings.put_adds_queues or (is_auto_created and self._may_have(queue_id))):
            return
        has = "would get" if is_new else "has"
        what = f"{self._root}: topic {name!r} {has} {count} queues (ids below {count}), and none with id {queue_id}"
        if settings.auto_create_topics and is_auto_created:
            what += f"; puts add queues up to max_auto_queue_count={settings.max_auto_queue_count}"
        raise QueueNotFoundError(
            f"{what}. Use an id below {count} (for a key: its hash modulo {count}) or queue_id=None, or "
            + ("create the topic with create_topic" if is_new else "add queues with update_topic")
            + "; the setting put_adds_queues=True lets puts add any queue"
        )

    # -- for applications

    def all(self) -> dict[str, Topic]:
        with self.lock:
            return dict(self._topics)

    def create(self, topic: Topic) -> None:
        """Raises TopicExistsError, DiskError."""
        with self.lock:
            if topic.name in self._topics:
                raise TopicExistsError(
                    f"{self._root}: there is a topic {topic.name!r} already; change it with update_topic"
                )
            self._save(self._topics | {topic.name: topic}, by_hand=topic.name)
            self._set(topic)

    def update(self, name: str, changes: Mapping[str, Any]) -> Topic:
        """Set some fields of a topic. Raises TopicNotFoundError, DiskError."""
        with self.lock:
            topic = self._topics.get(name)
            if topic is None:
                raise TopicNotFoundError(self._root, name, "make it with create_topic")
            topic = replace(topic, **changes)
            self._save(self._topics | {name: topic}, by_hand=name)
            self._set(topic)
            return topic

    def delete(self, name: str, delete_queues: Callable[[], None], finish: Callable[[], None]) -> None:
        """Delete a topic: call `delete_queues`, remove it from the file, then call `finish`. If one of the last two
        fails, the next `save` repeats both. Raises TopicNotFoundError, DiskError."""
        with self.lock:
            if name not in self._topics:
                raise TopicNotFoundError(self._root, name, "it cannot be deleted")
            self._unregister_topic(name)
            delete_queues()
            self._routes.pop(name, None)
            del self._topics[name]
            self._auto_created.discard(name)
            self._is_unsaved, self._finish_deletion = True, finish
            self._save(self._topics)

    def _set(self, topic: Topic) -> None:
        self._unregister_topic(topic.name)
        self._topics[topic.name] = topic
        if topic.name in NO_TOPIC_OF_APPLICATIONS:
            return
        route = _Route(topic)
        before = self._routes.get(topic.name)
        if before is not None:
            route.turn = before.turn
        self._routes[topic.name] = route

    # -- the file

    def save(self) -> None:
        """Write topics and queues that puts created. Raises nothing: the next call tries again, and after a crash the
        topics are recovered from the queues."""
        if not self._is_unsaved:
            return
        try:
            with self.lock:
                self._save(self._topics)
        except DiskError as e:
            if not self._save_failed:  # logged once, not on every retry
                log.warning("%s: not written yet: %s", self._file.path, e, extra={"path": str(self._file.path)})
            self._save_failed = True

    def _save(self, topics: Mapping[str, Topic], *, by_hand: str | None = None) -> None:
        auto_created = self._auto_created - {by_hand}
        # First: a topic that is only in topics.json counts as created by the application.
        self._auto_file.write(auto_created)
        self._auto_created = auto_created
        version = next_data_version(self._document, self._clock.now_ms())
        table = {name: topic.to_json() for name, topic in topics.items()}
        document = self._document | {"dataVersion": version, "topicConfigTable": table}
        self._file.write(document)
        self._document = document
        if self._finish_deletion is not None:
            self._finish_deletion()
            self._finish_deletion = None
        self._is_unsaved = self._save_failed = False


def topics_path(root: Path) -> Path:
    return root / CONFIG_FOLDER / TOPICS_FILE


def read_topics(disk: Disk, root: Path) -> dict[str, Topic] | None:
    """The topics in the file; None if there is no file. Raises ConfigFileError."""
    file = ConfigFile(disk, topics_path(root))
    document = file.read()
    return None if document is None else topics_in(document, file.path)


def topics_in(document: Config, path: Path) -> dict[str, Topic]:
    """The topics in the file's content. Raises ConfigFileError."""
    table = document.get("topicConfigTable", {})
    if not isinstance(table, dict):
        raise ConfigFileError(path, f"a topicConfigTable that is a {type(table).__name__}", "an object")
    return {name: topic_from_json(name, found, path) for name, found in table.items()}


def new_topic(name: str, settings: StoreSettings) -> Topic:
    """The topic that a put creates. Retry and dead-letter topics have one queue, as in RocketMQ, and so has that of
    transactions that were given up."""
    has_one = name == GIVEN_UP_TOPIC or name.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX))
    count = 1 if has_one else settings.default_queue_count
    return Topic(name, count, count)


def of_batches(topic: Topic) -> Topic:
    """The topic with batch queues."""
    return replace(topic, attributes={**topic.attributes, QUEUE_TYPE: BATCH_QUEUE_TYPE})


def with_queue(topic: Topic, queue_id: int) -> Topic:
    """The topic with enough queues for this id."""
    count = min(queue_id + 1, INT32_MAX)
    return replace(topic, read_queue_count=count, write_queue_count=count)


def add_found(
    topics: dict[str, Topic], queue_keys: Iterable[QueueKey], settings: StoreSettings, *, grows: bool
) -> None:
    """Add missing topics for existing queues; with `grows`, also missing queues of known topics."""
    highest: dict[str, int] = {}
    for name, queue_id in queue_keys:
        if queue_id > highest.get(name, -1):
            highest[name] = queue_id
    for name, queue_id in highest.items():
        if is_light(name) or has_no_settings(name):
            continue
        topic = topics.get(name)
        if topic is None:
            topic = new_topic(name, settings)
        elif not grows:
            continue
        topics[name] = with_queue(topic, queue_id) if queue_id >= topic.queue_count else topic
