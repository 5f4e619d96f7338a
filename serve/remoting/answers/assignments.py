"""Which queues a consumer reads that leaves that to the server, and whether it pulls or pops them."""

from __future__ import annotations

from typing import Any

from ....consume.allocate.allocate import AllocationStrategy, Averagely, AveragelyByCircle, allocate
from ....consume.request_modes import POP, PULL, RequestMode, RequestModes
from ....consume.store import Store
from ....store.format.record import RETRY_TOPIC_PREFIX
from ....store.message_queue import MessageQueue
from ....store.topic import routable_queues
from ...brokers.off_loop import OffLoop
from ..wire.codes import ResponseCode
from .directory import Directory
from .members import Members
from .request import Answer, CommandRefused, Request
from .topics import queue_json

ALL_QUEUES = -1
STRATEGIES: dict[str, AllocationStrategy] = {each.name: each for each in (Averagely(), AveragelyByCircle())}
"""`QueryAssignmentProcessor`"""


class Assignments:
    """In one event loop."""

    def __init__(
        self, store: Store, off_loop: OffLoop, directory: Directory, members: Members, modes: RequestModes
    ) -> None:
        self._store, self._off_loop, self._directory = store, off_loop, directory
        self._members, self._modes = members, modes

    async def of_client(self, request: Request) -> Answer:
        """A member that pops has all queues, as in RocketMQ unless `popShareQueueNum` is set, which is kept alone; one
        that pulls has its part."""
        found = request.json()
        group, name, client_id = (str(found.get(key, "")) for key in ("consumerGroup", "topic", "clientId"))
        mode = self._modes.of(group, name)
        members = self._members.consumers.get(group)
        found_in = [(each, topic) for each, _ in self._directory.up() if (topic := each.store.topic(name)) is not None]
        queues = []
        for broker, topic in found_in:
            queue_ids = routable_queues(broker.store.path, name, topic.read_queue_count, "read_queue_count")
            for queue_id in (ALL_QUEUES,) if mode.name == POP else queue_ids:
                queues.append(MessageQueue(name, broker.name, queue_id))
        if not queues or members is None:
            return Answer.of({"messageQueueAssignments": None})
        if mode.name != POP:
            strategy = STRATEGIES.get(str(found.get("strategyName", "")))
            if strategy is None:
                return Answer.of({"messageQueueAssignments": None})
            queues = allocate(strategy, group, client_id, queues, list(members.members))
        return Answer.of(
            {
                "messageQueueAssignments": [
                    {
                        "attachments": None,
                        "messageQueue": queue_json(each.broker_name, name, each.queue_id),
                        "mode": mode.name,
                    }
                    for each in queues
                ]
            }
        )

    async def set_mode(self, request: Request) -> Answer:
        found: dict[str, Any] = request.json()
        group, name, mode = (str(found.get(key, "")) for key in ("consumerGroup", "topic", "mode"))
        if name.startswith(RETRY_TOPIC_PREFIX):
            raise CommandRefused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._store.topic(name) is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        share_count = found.get("popShareQueueNum")
        if mode not in (PULL, POP) or not isinstance(share_count, int):
            raise CommandRefused(
                ResponseCode.SYSTEM_ERROR, f"mode {mode[:80]!r}: expected PULL or POP, and popShareQueueNum"
            )
        self._store.group_settings(group)
        await self._off_loop.run(self._modes.set, group, name, RequestMode(mode, share_count))
        return Answer()
