"""Topics: where they are, making and deleting them, and how many messages they have."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ....consume.store import Store
from ....store.errors import TopicExistsError, TopicNotFoundError
from ....store.topic import Topic, routable_queues
from ...brokers.broker import Broker
from ...brokers.off_loop import OffLoop
from ..wire.codes import ResponseCode
from ..wire.fastjson import ObjectKeys
from .directory import Directory
from .request import Answer, CommandRefused, Request

CLUSTER = "DefaultCluster"
AUTO_CREATE_TOPIC = "TBW102"
"""Producers that do not know a topic ask for the route of this one, and send there; the broker then makes the topic."""
AUTO_CREATE_PERM = 7
REPLY_TOPIC = f"{CLUSTER}_REPLY_TOPIC"
"""Consumers address their replies to it; no reply is stored there."""
REPLY_PERM = 6


class Topics:
    """In one event loop."""

    def __init__(
        self,
        store: Store,
        off_loop: OffLoop,
        directory: Directory,
        advertised_host: str | None,
        *,
        auto_create: bool,
    ) -> None:
        """`advertised_host`: what every client is told to dial; None: what it dialled."""
        self._store, self._off_loop, self._directory = store, off_loop, directory
        self._name = store.settings.broker_name
        self._advertised_host, self._auto_create = advertised_host, auto_create

    # -- as name server

    def _broker(self, request: Request, name: str, port: int) -> dict[str, Any]:
        """A broker of this server, on the host that the client dialled; this one on the port that it dialled, too."""
        host, dialled = request.connection.local
        host, port = self._advertised_host or host, dialled if name == self._name else port
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        is_strict = request.is_set("acceptStandardJsonOnly")
        return {
            "brokerAddrs": {"0" if is_strict else 0: address},
            "brokerName": name,
            "cluster": CLUSTER,
            "enableActingMaster": False,
        }

    async def route(self, request: Request) -> Answer:
        name = request.text("topic")
        brokers: list[dict[str, Any]] = []
        queues: list[dict[str, Any]] = []
        for broker, port in self._directory.up():
            if (found := self._queues(broker, name)) is not None:
                brokers.append(self._broker(request, broker.name, port))
                queues.append(found)
        if not brokers:
            text = f"No topic route info in name server for the topic: {name}"
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, text)
        return Answer.of({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues})

    def _queues(self, broker: Broker, name: str) -> dict[str, Any] | None:
        """Those of a topic at a broker; None if it is not there."""
        topic = broker.store.topic(name)
        if topic is not None:
            reads, writes, perm = topic.read_queue_count, topic.write_queue_count, int(topic.perm)
            sys_flag = topic.sys_flag
            routable_queues(broker.store.path, name, topic.queue_count, "queue_count")
        elif name == AUTO_CREATE_TOPIC and self._auto_create:
            reads = writes = broker.store.settings.default_queue_count
            perm, sys_flag = AUTO_CREATE_PERM, 0
        elif name == REPLY_TOPIC:
            reads = writes = 1
            perm, sys_flag = REPLY_PERM, 0
        else:
            return None
        return {
            "brokerName": broker.name,
            "perm": perm,
            "readQueueNums": reads,
            "topicSysFlag": sys_flag,
            "writeQueueNums": writes,
        }

    async def cluster(self, request: Request) -> Answer:
        brokers = {broker.name: self._broker(request, broker.name, port) for broker, port in self._directory.up()}
        return Answer.of({"brokerAddrTable": brokers, "clusterAddrTable": {CLUSTER: list(brokers)}})

    async def names(self, request: Request) -> Answer:
        found = {name for broker, _ in self._directory.up() for name in broker.store.topics()}
        return Answer.of({"topicList": sorted(found)})

    async def no_config(self, request: Request) -> Answer:
        """There are no orders of topics, which is what clients ask a name server's configuration for."""
        namespace, key = request.text("namespace", ""), request.text("key", "")
        raise CommandRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")

    # -- as broker

    async def make(self, request: Request) -> Answer:
        """Make a topic, or change it."""
        name = request.text("topic")
        reads, writes = request.whole("readQueueNums"), request.whole("writeQueueNums")
        perm, order = request.whole("perm"), request.is_set("order")
        changes = request.text("attributes", "")
        await self._off_loop.run(self._make, name, reads, writes, perm, order, changes)
        return Answer()

    def _make(self, name: str, reads: int, writes: int, perm: int, order: bool, changes: str) -> None:
        there = self._store.topic(name)
        attributes = _changed(dict(there.attributes) if there else {}, changes)
        if there is None:
            self._store.create_topic(
                name, read_queue_count=reads, write_queue_count=writes, perm=perm, order=order, attributes=attributes
            )
        else:
            self._store.update_topic(
                name,
                read_queue_count=reads,
                write_queue_count=writes,
                perm=perm,
                order=order,
                attributes=attributes,
                allow_unread=True,
            )

    async def for_sending(self, name: str, queue_count: int) -> Topic:
        """A topic that a message is for: it is made if a producer may make topics."""
        found = self._store.topic(name)
        if found is not None:
            return found
        if not self._auto_create:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        most = self._store.settings.default_queue_count
        return await self._off_loop.run(self.made, name, min(max(queue_count, 1), most))

    def made(self, name: str, queue_count: int) -> Topic:
        """By a thread: it waits for the disk."""
        try:
            return self._store.create_topic(name, queue_count)
        except TopicExistsError:  # made just now
            found = self._store.topic(name)
            if found is None:
                raise
            return found

    async def delete(self, request: Request) -> Answer:
        with suppress(TopicNotFoundError):  # deleted already, as a broker answers
            await self._off_loop.run(self._store.delete_topic, request.text("topic"))
        return Answer()

    async def delete_route(self, request: Request) -> Answer:
        """The name server's part of it: there is nothing besides the broker's."""
        return Answer()

    async def config(self, request: Request) -> Answer:
        found = self._store.topic(request.text("topic"))
        if found is None:
            text = f"No topic in this broker. topic: {request.text('topic')}"
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, text)
        return Answer.of(found.to_json())

    async def configs(self, request: Request) -> Answer:
        table = {name: topic.to_json() for name, topic in self._store.topics(include_system=True).items()}
        version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        return Answer.of({"dataVersion": version, "topicConfigTable": table})

    async def statistics(self, request: Request) -> Answer:
        name = request.text("topic")
        topic = self._store.topic(name)
        if topic is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return await self._off_loop.run(self._statistics, topic)

    def _statistics(self, topic: Topic) -> Answer:
        pairs = []
        for queue_id in routable_queues(self._store.path, topic.name, topic.queue_count, "queue_count"):
            first, end = self._store.queue_bounds(topic.name, queue_id)
            stored_ms = self._stored_ms(topic.name, queue_id, end - 1) if end > first else 0
            offsets = {"lastUpdateTimestamp": stored_ms, "maxOffset": end, "minOffset": first}
            pairs.append((queue_json(self._name, topic.name, queue_id), offsets))
        return Answer.of({"offsetTable": ObjectKeys(pairs)})

    def _stored_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        found = self._store.get(topic, queue_id, queue_offset, 1).messages
        return found[0].store_timestamp_ms if found else 0


def queue_json(broker_name: str, topic: str, queue_id: int) -> dict[str, Any]:
    """A `MessageQueue`."""
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


def _changed(attributes: dict[str, str], changes: str) -> dict[str, str]:
    """Attributes after changes such as `+message.type=FIFO,-queue.type`."""
    for change in filter(None, changes.split(",")):
        name, _, value = change[1:].partition("=")
        if change[0] == "+" and name:
            attributes[name] = value
        elif change[0] == "-" and name:
            attributes.pop(name, None)
        else:
            raise CommandRefused(
                ResponseCode.SYSTEM_ERROR, f"attribute change {change[:80]!r}: expected +NAME=VALUE or -NAME"
            )
    return attributes
