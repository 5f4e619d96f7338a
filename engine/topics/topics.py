"""The topics of a store: how many queues each has, and who may use it. `config/topics.json`, in RocketMQ's shape.

Invariants:
- A put reads one dict, without a lock; changes of a topic hold the lock, and change that dict last.
- What `create`, `update` and `remove` did is durable when they return. A topic that a put made, or gave more queues, is
  written with the next flush of the queues: it can be told from the queues, so a kill takes nothing. What an opening
  told from the queues is written before it says that it writes now.
- A fast path (store/native/fast_path_protocol.py) takes messages to the topics that `register_topic` told it of;
  a change of a topic unregisters it first, under the same lock.
- A topic that has queues and is not in the file (a store that no broker served, a kill) is there all the same.
- A put adds queues only to a topic that a put created (store/state/auto_topics.py), and only up to
  `max_auto_queue_count`. Queues that already hold messages are never refused: recovery gives their topic as many queues
  as it takes.

RocketMQ: `TopicConfigManager`, `SendMessageProcessor`. Its default of `defaultTopicQueueNums` is 8, of which its
clients ask for 4; so ours is 4.
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
from ...store.format.record import INT32_MAX, RETRY_TOPIC_PREFIX
from ...store.native.fast_path_protocol import FastPathProtocol
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.state.auto_topics import AutoTopicsFile
from ...store.topic import (
    BATCH_QUEUE_TYPE,
    NO_TOPIC_OF_APPLICATIONS,
    QUEUE_TYPE,
    Topic,
    TopicPermission,
    is_system_topic,
    topic_from_json,
)

log = logging.getLogger("flightlog.store")

TOPICS_FILE = "topics.json"
DEAD_LETTER_PREFIX = "%DLQ%"


Integers = NDArray[np.int64]


class _Route:
    """What a put must know of a topic."""

    __slots__ = ("holds_batches", "queue_count", "turn", "write_queue_count")

    def __init__(self, topic: Topic) -> None:
        is_writable = TopicPermission.WRITE in topic.perm
        self.write_queue_count = topic.write_queue_count if is_writable else 0
        self.queue_count = topic.queue_count if is_writable else 0
        self.holds_batches = topic.holds_batches
        self.turn = itertools.count()


class TopicTable:
    """The topics of a store that is open for writing. Safe from many threads."""

    def __init__(self, disk: Disk, root: Path, settings: StoreSettings, clock: Clock) -> None:
        self._root, self._settings, self._clock = root, settings, clock
        self._file = ConfigFile(disk, topics_path(root))
        self._auto_file = AutoTopicsFile(disk, root)
        self._auto_created: set[str] = set()
        """The topics that a put created and that `update` has not changed since."""
        self.lock = threading.RLock()
        """Held while a topic is changed. Taken before the append lock."""
        self._document: Config = {}
        self._topics: dict[str, Topic] = {}
        self._routes: dict[str, _Route] = {}
        self._fast_path: FastPathProtocol[Any, Any] | None = None
        self._registered: set[str] = set()
        self._is_unsaved = self._save_failed = False
        self._finish_deletion: Callable[[], None] | None = None
        """What a deletion has yet to do once the file is without its topic: until then, the next open would take a
        topic of that name for deleted, also one that was made since."""

    def load(
        self,
        queue_keys: Iterable[QueueKey],
        pending: Iterable[str],
        *,
        batch_topics: Set[str] = frozenset(),
        grows: bool,
    ) -> None:
        """Read the file, and add the topics that have queues, those of `batch_topics` batch queues; take those out
        whose deletion is `pending`. `grows`: the last writer may have died before it wrote what puts had made. Raises
        DiskError, and ConfigFileError for a file that cannot be read, nor its `.bak`."""
        self._document = self._file.read() or {}
        self._topics = topics_in(self._document, self._file.path)
        self._auto_created = self._auto_file.read() & self._topics.keys()
        gone = [name for name in pending if self._topics.pop(name, None) is not None]
        if gone:
            self._save(self._topics)
        before = dict(self._topics)
        add_found(self._topics, queue_keys, self._settings, grows=grows)
        if grows:  # `create` is durable when it returns, so what is not in the file was created by a put
            self._auto_created |= self._topics.keys() - before.keys()
        self._is_unsaved = grows and self._topics != before  # else a clean close would lose what the kill did not
        for name in batch_topics & self._topics.keys():  # what lies there decides, as in RocketMQ
            self._topics[name] = of_batches(self._topics[name])
        # A broker's file names its own topics too; no put goes there for that.
        self._routes = {
            name: _Route(topic) for name, topic in self._topics.items() if name not in NO_TOPIC_OF_APPLICATIONS
        }

    # -- what puts ask

    def queue_for(self, name: str, queue_id: int | None, *, is_internal: bool, is_batch: bool = False) -> int:
        """The queue id of a message to this topic, or of an inner batch; None: the next one in turn. A topic or a queue
        that is not there is made if the settings want that.

        Raises TopicNotFoundError, QueueNotFoundError, and TopicPermissionError, also for RocketMQ's own topics unless
        it `is_internal`; InvalidMessageError where a topic is for the other kind.
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
        """The queue ids of so many messages to this topic, one at least, that take turns. Raises as `queue_for`."""
        with self.lock:  # no change or deletion in between
            first = self.queue_for(name, None, is_internal=False)
            route = self._routes[name]
            turns = np.fromiter(itertools.islice(route.turn, count - 1), np.int64, count - 1)
        return np.concatenate([np.array([first], np.int64), turns % route.write_queue_count])

    def queue_for_delivery(self, name: str, queue_id: int) -> int:
        """This queue, for a message that was taken when it was parked: topic and queue are made where they are gone,
        and permissions do not matter any more. A queue that is gone and has an id of `max_auto_queue_count` or more is
        not made: the message goes to another queue of the topic. Raises InvalidMessageError for a topic that holds
        batches now."""
        route = self._routes.get(name)
        if route is not None and queue_id < route.queue_count and not route.holds_batches:
            return queue_id
        if is_system_topic(name):
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
        """Whether a topic created by a put may get a queue with this id by a put."""
        return self._settings.put_adds_queues or queue_id < self._settings.max_auto_queue_count

    def open_fast_path(self, fast_path: FastPathProtocol[Any, Any]) -> None:
        """Have `register_topic` tell this fast path of topics."""
        self._fast_path = fast_path

    def register_topic(self, name: str, raw: bytes) -> None:
        """Let the fast path take messages to this topic, `raw` in UTF-8; nothing changes if they are not for it."""
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

    # -- what applications ask

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
        """Delete a topic: first its queues, then here, then `finish`; if one of the last two fails, the next save does
        them. Raises TopicNotFoundError, DiskError."""
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
        route = _Route(topic)
        before = self._routes.get(topic.name)
        if before is not None:
            route.turn = before.turn
        self._routes[topic.name] = route

    # -- the file

    def save(self) -> None:
        """Write what puts have made. Raises nothing: it can be told from the queues, and is tried again."""
        if not self._is_unsaved:
            return
        try:
            with self.lock:
                self._save(self._topics)
        except DiskError as e:
            if not self._save_failed:  # once, however often it is tried again
                log.warning("%s: not written yet: %s", self._file.path, e, extra={"path": str(self._file.path)})
            self._save_failed = True

    def _save(self, topics: Mapping[str, Topic], *, by_hand: str | None = None) -> None:
        auto_created = self._auto_created - {by_hand}
        self._auto_file.write(auto_created)  # first: what is in the other file alone was made by hand
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
    """The topics in the file as it is now; None without a file. Raises ConfigFileError."""
    file = ConfigFile(disk, topics_path(root))
    document = file.read()
    return None if document is None else topics_in(document, file.path)


def topics_in(document: Config, path: Path) -> dict[str, Topic]:
    """The topics of what the file says. Raises ConfigFileError."""
    table = document.get("topicConfigTable", {})
    if not isinstance(table, dict):
        raise ConfigFileError(path, f"a topicConfigTable that is a {type(table).__name__}", "an object")
    return {name: topic_from_json(name, found, path) for name, found in table.items()}


def new_topic(name: str, settings: StoreSettings) -> Topic:
    """As a put makes it. Retry and dead-letter topics have one queue, as in RocketMQ."""
    count = 1 if name.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX)) else settings.default_queue_count
    return Topic(name, count, count)


def of_batches(topic: Topic) -> Topic:
    """The topic with queues of inner batches."""
    return replace(topic, attributes={**topic.attributes, QUEUE_TYPE: BATCH_QUEUE_TYPE})


def with_queue(topic: Topic, queue_id: int) -> Topic:
    """The topic with queues enough for this id."""
    count = min(queue_id + 1, INT32_MAX)
    return replace(topic, read_queue_count=count, write_queue_count=count)


def add_found(
    topics: dict[str, Topic], queue_keys: Iterable[QueueKey], settings: StoreSettings, *, grows: bool
) -> None:
    """Add the topics that have queues and are not there; `grows`: and queues to those that are."""
    highest: dict[str, int] = {}
    for name, queue_id in queue_keys:
        if queue_id > highest.get(name, -1):
            highest[name] = queue_id
    for name, queue_id in highest.items():
        if is_light(name) or is_system_topic(name):
            continue
        topic = topics.get(name)
        if topic is None:
            topic = new_topic(name, settings)
        elif not grows:
            continue
        topics[name] = with_queue(topic, queue_id) if queue_id >= topic.queue_count else topic
