"""Where a topic is: the brokers that have it, all at the address that their client dialled."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from ...consume.store import Store
from ...produce.message_type import DELAY, FIFO, MIXED, TRANSACTION
from ...store.errors import TopicExistsError
from ...store.topic import MESSAGE_TYPE, NORMAL, Topic, TopicPermission, routable_queues
from . import checks
from .brokers import ServedBroker, ServedBrokers
from .context import Context
from .protocol import Code, definition
from .refusals import Refused

WHOLE_BROKER = -1
"""The queue id of an assignment that is all queues of a broker."""
TYPES: dict[str, tuple[int, ...]] = {
    NORMAL: (definition.MessageType.NORMAL,),
    FIFO: (definition.MessageType.FIFO,),
    DELAY: (definition.MessageType.DELAY,),
    TRANSACTION: (definition.MessageType.TRANSACTION,),
}
MIXED_TYPES = tuple(types[0] for types in TYPES.values())


class Routes:
    """In one event loop."""

    def __init__(self, brokers: ServedBrokers, advertised: str | None, *, auto_create: bool) -> None:
        """`advertised`: the address that every client is told, `host:port`; None: the one that it dialled."""
        self._brokers = brokers
        self._advertised, self._auto_create = advertised, auto_create

    async def query_route(self, context: Context, request: Any, response: Any) -> None:
        for served, topic in await self.having(checks.topic_name(request.topic), self._brokers.up()):
            broker = self._broker(served.name, context, request.endpoints)
            types = MIXED_TYPES if topic.message_type == MIXED else TYPES.get(topic.message_type, (0,))
            for queue_id, permission in enumerate(_permissions(topic)):
                response.message_queues.add(
                    topic=request.topic, id=queue_id, permission=permission, broker=broker, accept_message_types=types
                )

    async def query_assignment(self, context: Context, request: Any, response: Any) -> None:
        name, group = checks.topic_name(request.topic), checks.group_name(request.group)
        for served, topic in await self.having(name, self._brokers.up()):
            if TopicPermission.READ not in topic.perm or not topic.read_queue_count:
                continue
            is_ordered = served.store.group_settings(group).is_ordered
            broker = self._broker(served.name, context, request.endpoints)
            permission = _permission(topic.perm)
            for queue_id in range(topic.read_queue_count) if is_ordered else (WHOLE_BROKER,):
                queue = response.assignments.add().message_queue
                queue.topic.CopyFrom(request.topic)
                queue.broker.CopyFrom(broker)
                queue.id, queue.permission = queue_id, permission
        if not response.assignments:
            raise Refused(Code.FORBIDDEN, "no readable queue")

    async def having(self, name: str, brokers: Sequence[ServedBroker]) -> list[tuple[ServedBroker, Topic]]:
        """Those of these brokers that have a topic, each with the topic as it is there. Where it is not there it is
        made, if clients may make topics. Raises Refused if none has it, TooManyQueuesError."""
        found = [(each, each.store.topic(name)) for each in brokers]
        there = [(each, topic) for each, topic in found if topic is not None]
        for each, topic in there:
            routable_queues(each.store.path, name, topic.queue_count, "queue_count")
        if len(there) == len(found):
            return there
        if self._auto_create:
            pattern = there[0][1] if there else None
            made = {
                each.name: await each.off_loop.run(_make, each.store, name, pattern)
                for each, topic in found
                if topic is None
            }
            return [(each, topic or made[each.name]) for each, topic in found]
        if not there:
            raise Refused(Code.TOPIC_NOT_FOUND, f"No topic route info in name server for the topic: {name}")
        return there

    def _broker(self, name: str, context: Context, asked: Any) -> Any:
        """A broker of this server as clients dial it."""
        found = definition.Broker(name=name, id=0)
        if self._advertised is None and asked.addresses:
            found.endpoints.CopyFrom(asked)
            return found
        host, _, port = (self._advertised or context.authority).rpartition(":")
        host = host.strip("[]")
        found.endpoints.scheme = _scheme(host)
        found.endpoints.addresses.add(host=host, port=int(port) if port.isdigit() else 0)
        return found


def _make(store: Store, name: str, pattern: Topic | None) -> Topic:
    """Make a topic as another broker has it, or else for messages of every type. By a thread."""
    try:
        if pattern is None:
            return store.create_topic(name, attributes={MESSAGE_TYPE: MIXED})
        return store.create_topic(
            name,
            read_queue_count=pattern.read_queue_count,
            write_queue_count=pattern.write_queue_count,
            perm=pattern.perm,
            order=pattern.is_ordered,
            attributes=pattern.attributes,
        )
    except TopicExistsError:  # made just now
        found = store.topic(name)
        if found is None:
            raise
        return found


def _scheme(host: str) -> int:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return int(definition.AddressScheme.DOMAIN_NAME)
    return int(definition.AddressScheme.IPv4 if version == 4 else definition.AddressScheme.IPv6)


def _permission(perm: TopicPermission) -> int:
    names = {(True, True): "READ_WRITE", (True, False): "READ", (False, True): "WRITE", (False, False): "NONE"}
    return int(definition.Permission.Value(names[TopicPermission.READ in perm, TopicPermission.WRITE in perm]))


def _permissions(topic: Topic) -> list[int]:
    """Permission of each queue id: first those that are read and written, then those that are only one of the two."""
    reads = topic.read_queue_count if TopicPermission.READ in topic.perm else 0
    writes = topic.write_queue_count if TopicPermission.WRITE in topic.perm else 0
    if not reads and not writes:
        return [int(definition.Permission.NONE)] * max(topic.queue_count, 1)
    both = min(reads, writes)
    rest = definition.Permission.READ if reads > writes else definition.Permission.WRITE
    return [int(definition.Permission.READ_WRITE)] * both + [int(rest)] * (max(reads, writes) - both)
