"""Locks of queues, for clients that consume them in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ....consume.group.queue_locks import QueueLocks
from ....consume.store import Store
from ....store.message_queue import MessageQueue
from ..wire.codes import ResponseCode
from .request import Answer, CommandRefused, Request
from .topics import queue_json

MAX_QUEUES = 65_536


class ClientLocks:
    """In one event loop."""

    def __init__(self, store: Store) -> None:
        self._store, self._locks = store, QueueLocks(store.message_store.clock)
        self._name = store.settings.broker_name

    async def lock(self, request: Request) -> Answer:
        """Take or renew locks; answers the queues that the client has now."""
        group, owner, queues = self._asked(request)
        got = [queue for queue in queues if self._locks.lock(group, queue, owner)]
        return Answer.of({"lockOKMQSet": [queue_json(self._name, queue.topic, queue.queue_id) for queue in got]})

    async def unlock(self, request: Request) -> Answer:
        group, owner, queues = self._asked(request)
        for queue in queues:
            self._locks.unlock(group, queue, owner)
        return Answer()

    def _asked(self, request: Request) -> tuple[str, object, list[MessageQueue]]:
        found = request.json()
        group, client_id, queues = found.get("consumerGroup"), found.get("clientId"), found.get("mqSet")
        if not (isinstance(group, str) and isinstance(client_id, str) and isinstance(queues, list)):
            expected = "expected consumerGroup, clientId and mqSet"
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"a lock of queues: {expected}")
        return group, sys.intern(client_id), list(self._known(queues[:MAX_QUEUES]))  # an owner is known by its identity

    def _known(self, queues: list[Any]) -> Iterator[MessageQueue]:
        """The queues that there are."""
        for each in queues:
            name, queue_id = (each.get("topic"), each.get("queueId")) if isinstance(each, dict) else (None, None)
            topic = self._store.topic(name) if isinstance(name, str) else None
            if topic is not None and isinstance(queue_id, int) and 0 <= queue_id < topic.queue_count:
                yield MessageQueue(topic.name, self._name, queue_id)
