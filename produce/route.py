"""The queues of a topic over all stores that a producer sends to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..store.disk.clock import Clock
from ..store.errors import StoreClosedError
from ..store.message import Message
from ..store.message_queue import MessageQueue
from ..store.results import PutResult
from ..store.settings import StoreSettings
from ..store.topic import NORMAL, Topic, TopicPermission, routable_queues
from .send_errors import NoRouteError

KNOWN_FOR_S = 1.0
"""How long a route is believed: after that, topics that were changed meanwhile are seen."""


@runtime_checkable
class SendStore(Protocol):
    """What a producer asks of a store that is open for writing: `flightlog.Store` is one."""

    path: Path
    settings: StoreSettings

    def put(self, message: Message) -> PutResult: ...

    def put_async(self, message: Message) -> Future[PutResult]: ...

    def put_many(self, messages: Iterable[Message]) -> list[PutResult]: ...

    def topic(self, name: str) -> Topic | None: ...

    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool: ...


@dataclass(frozen=True)
class Route:
    """The queues that one topic's messages can be put to."""

    queues: tuple[MessageQueue, ...]
    """By the stores' names, then by queue id: every producer of the same stores has the same order. A store that was
    closed since keeps its queues, until it is taken out: the others' would be counted differently without them."""
    unknown: tuple[str, ...]
    """Stores that were closed before anybody asked them."""
    message_types: frozenset[str]
    """The topic's type in each store that is open and has it, or makes it."""
    believed_until_s: float


class Routes:
    """The routes of all topics that were sent to. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._routes: dict[str, Route] = {}
        self._counts: dict[tuple[str, str], int] = {}
        """(store, topic) -> the queues to write to, when the store was last asked."""

    def forget(self, store: str | None = None) -> None:
        """Topics may not be as they were believed to be; `store` is another one from now on, or none."""
        with self._lock:
            self._routes = {}
            self._counts = {key: count for key, count in self._counts.items() if key[0] != store}

    def of(self, topic: str, stores: Mapping[str, SendStore]) -> Route:
        """Raises NoRouteError where no store has a queue of it, or makes one with its first put, and TooManyQueuesError
        where one has too many to go through."""
        route = self._routes.get(topic)
        now_s = self._clock.monotonic_s()
        if route is not None and now_s < route.believed_until_s:
            return route
        queues: list[MessageQueue] = []
        unknown: list[str] = []
        types: set[str] = set()
        for name in sorted(stores):
            try:
                found = stores[name].topic(topic)
            except StoreClosedError:
                if (name, topic) not in self._counts:
                    unknown.append(name)
                    continue
                count = self._counts[name, topic]
            else:
                count = self._counts[name, topic] = _write_queue_count(stores[name], topic, found)
                if count:
                    types.add(NORMAL if found is None else found.message_type)
            queues += (MessageQueue(topic, name, queue_id) for queue_id in range(count))
        if not queues:
            raise NoRouteError(
                f"topic {topic!r}: none of the stores ({', '.join(sorted(stores)) or 'there is none'}) takes messages "
                "of it: it is not there and not made by a put (auto_create_topics), has no queue to write to, or is "
                f"not open for puts (perm)" + (f"; closed: {', '.join(unknown)}" if unknown else "")
            )
        route = Route(tuple(queues), tuple(unknown), frozenset(types), now_s + KNOWN_FOR_S)
        with self._lock:
            self._routes[topic] = route
        return route


def _write_queue_count(store: SendStore, name: str, topic: Topic | None) -> int:
    if topic is None:
        return store.settings.default_queue_count if store.settings.auto_create_topics else 0
    count = topic.write_queue_count if TopicPermission.WRITE in topic.perm else 0
    return len(routable_queues(store.path, name, count, "write_queue_count"))
