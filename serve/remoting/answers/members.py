"""Clients and the groups that they are in: producers, and consumers that share out the queues among themselves.

A consumer that comes or goes is told to the others of its group; each of them then asks for all members, and computes
which queues are its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....consume.request_modes import RequestModes
from ....consume.retry.send_back import make_topic, retry_topic
from ....consume.store import Store
from ....index.filter.sql_filter import SqlFilter
from ....store.errors import FlightlogError, InconsistentGroupError, InvalidArgumentError
from ...brokers.off_loop import OffLoop
from ...calls.clients import ConnectedClient
from ..wire.codes import RequestCode, ResponseCode
from ..wire.connection import Connection
from .request import Answer, CommandRefused, Request

GONE_S = 120.0
"""After how long without a heartbeat a client is gone (`channelExpiredTimeout`); they come every 30 s."""
TAG, SQL = "TAG", "SQL92"
BROADCASTING = "BROADCASTING"
MAX_GROUPS, MAX_TOPICS = 256, 1024
"""Limits per client, and per group of a client: ours, so that a heartbeat is bounded."""


@dataclass
class Member:
    """A client in a group."""

    client_id: str
    connection: Connection
    language: str
    version: int
    heard_s: float


@dataclass
class ConsumerGroup:
    """What its members said last."""

    name: str
    members: dict[str, Member] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Topic -> its `SubscriptionData`."""
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"


class Members:
    """In one event loop; `is_balancing` is asked by any thread."""

    def __init__(
        self, store: Store, off_loop: OffLoop, on_producers: Callable[[set[str]], None], modes: RequestModes
    ) -> None:
        """`on_producers` is told the producer groups when they change; `modes` knows which groups pop."""
        self._modes = modes
        self._store, self._off_loop, self._on_producers = store, off_loop, on_producers
        self.outside = store.outside_groups(self)
        self.producers: dict[str, dict[str, Member]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}

    def is_balancing(self, group: str) -> bool:
        """A group that pops shares no queues out: its members get messages as gRPC's do."""
        found = self.consumers.get(group)
        return found is not None and bool(found.members) and not self._modes.pops(group)

    def check_pulls(self, group: str, topic: str) -> None:
        """Raises InconsistentGroupError for a group that pops, this topic or another one. Its own retries, which only
        members that pull send messages to, are pulled in any case."""
        if self._modes.pops(group) and topic != retry_topic(group):
            expected = "members that pop (clientRebalance=false), or the mode PULL (mqadmin setConsumeMode)"
            raise InconsistentGroupError(group, f"a member that pulls {topic!r}", expected)

    def connected(self) -> dict[str, list[ConnectedClient]]:
        """The consumers of every group, for people. Any thread may ask."""
        return {
            name: [
                ConnectedClient(each.client_id, "{}:{}".format(*each.connection.peer), f"remoting, {each.language}")
                for each in tuple(group.members.values())
            ]
            for name, group in tuple(self.consumers.items())
        }

    # -- calls

    async def heartbeat(self, request: Request) -> Answer:
        found = request.json()
        client_id = _text(found, "clientID")
        if not client_id:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, "a heartbeat without a clientID")
        for each in _list(found, "producerDataSet", MAX_GROUPS):
            self._add_producer(_text(each, "groupName"), self._member(request, client_id))
        for each in _list(found, "consumerDataSet", MAX_GROUPS):
            await self._add_consumer(each, self._member(request, client_id))
        return Answer({"IS_SUPPORT_HEART_BEAT_V2": True, "IS_SUB_CHANGE": True})

    def _member(self, request: Request, client_id: str) -> Member:
        asked = request.command
        return Member(client_id, request.connection, asked.language, asked.version, time.monotonic())

    def _add_producer(self, group: str, member: Member) -> None:
        is_new = group not in self.producers
        self.producers.setdefault(group, {})[member.client_id] = member
        if is_new:
            self._producers_changed()

    async def _add_consumer(self, found: Mapping[str, Any], member: Member) -> None:
        name = _text(found, "groupName")
        settings = self._store.group_settings(name)
        self.outside.check(name)
        if self._store.topic(retry_topic(name)) is None:
            await self._off_loop.run(
                make_topic, self._store.message_store, retry_topic(name), settings.retry_queue_count
            )
        if member.connection.is_lost:
            return
        group = self.consumers.setdefault(name, ConsumerGroup(name))
        group.consume_type = _text(found, "consumeType") or group.consume_type
        group.message_model = _text(found, "messageModel") or group.message_model
        group.consume_from = _text(found, "consumeFromWhere") or group.consume_from
        before = {topic: _identity(each) for topic, each in group.subscriptions.items()}
        wanted = {_text(each, "topic"): each for each in _list(found, "subscriptionDataSet", MAX_TOPICS)}
        for topic, each in wanted.items():
            there = group.subscriptions.get(topic)
            if there is None or _version(each) >= _version(there):
                group.subscriptions[topic] = dict(each)
        for topic in group.subscriptions.keys() - wanted.keys():
            del group.subscriptions[topic]
        known = group.members.get(member.client_id)
        group.members[member.client_id] = member  # before the claim, so that no subscription comes in between
        try:
            self.outside.claim(name)
        except FlightlogError:
            del self.consumers[name]
            raise
        is_new = known is None or known.connection is not member.connection
        if is_new or before != {topic: _identity(each) for topic, each in group.subscriptions.items()}:
            self._tell(group)

    async def unregister(self, request: Request) -> Answer:
        client_id = request.text("clientID")
        self._remove(lambda member: member.client_id == client_id, request.text("producerGroup", ""), is_producer=True)
        self._remove(lambda member: member.client_id == client_id, request.text("consumerGroup", ""), is_producer=False)
        return Answer()

    async def list_members(self, request: Request) -> Answer:
        group = self.consumers.get(request.text("consumerGroup"))
        if group is None or not group.members:
            text = f"no consumer for this group, {request.text('consumerGroup')}"
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, text)
        return Answer.of({"consumerIdList": list(group.members)})

    async def consumer_connections(self, request: Request) -> Answer:
        group = self.consumers.get(request.text("consumerGroup"))
        if group is None or not group.members:
            text = f"the consumer group[{request.text('consumerGroup')}] not online"
            raise CommandRefused(ResponseCode.CONSUMER_NOT_ONLINE, text)
        return Answer.of(
            {
                "connectionSet": [_connection(member) for member in group.members.values()],
                "consumeFromWhere": group.consume_from,
                "consumeType": group.consume_type,
                "messageModel": group.message_model,
                "subscriptionTable": group.subscriptions,
            }
        )

    async def producer_connections(self, request: Request) -> Answer:
        found = self.producers.get(request.text("producerGroup"))
        if not found:
            text = f"the producer group[{request.text('producerGroup')}] not exist"
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, text)
        return Answer.of({"connectionSet": [_connection(member) for member in found.values()]})

    async def all_producers(self, request: Request) -> Answer:
        """Those of every group."""
        now_ms, now_s = self._store.message_store.clock.now_ms(), time.monotonic()
        table = {
            group: [
                {
                    "clientId": each.client_id,
                    "language": each.language,
                    "lastUpdateTimestamp": now_ms - int((now_s - each.heard_s) * 1000),
                    "remoteIP": "/{}:{}".format(*each.connection.peer),
                    "version": each.version,
                }
                for each in members.values()
            ]
            for group, members in self.producers.items()
        }
        return Answer.of({"data": table})

    async def check_client(self, request: Request) -> Answer:
        """Whether a filter that a consumer is about to subscribe with is understood."""
        found = request.json().get("subscriptionData")
        if isinstance(found, dict) and found.get("expressionType") == SQL:
            checked_filter(SQL, _text(found, "subString"))
        return Answer()

    # -- what others ask

    def subscription(self, group: str, topic: str) -> dict[str, Any] | None:
        found = self.consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def producer_of(self, group: str) -> Connection | None:
        """A producer of this group, any one of them."""
        found = [member.connection for member in self.producers.get(group, {}).values()]
        return random.choice(found) if found else None

    def client(self, client_id: str) -> Connection | None:
        """A client by its id."""
        for members in (*self.producers.values(), *(group.members for group in self.consumers.values())):
            if client_id in members:
                return members[client_id].connection
        return None

    # -- coming and going

    def forget(self, connection: Connection) -> None:
        """It is lost, and its client with it."""
        self._remove_everywhere(lambda member: member.connection is connection)

    def sweep(self) -> None:
        """Forget clients that are gone without a word."""
        oldest_s = time.monotonic() - GONE_S
        self._remove_everywhere(lambda member: member.heard_s < oldest_s)

    def _remove_everywhere(self, is_gone: Callable[[Member], bool]) -> None:
        for name in tuple(self.producers):
            self._remove(is_gone, name, is_producer=True)
        for name in tuple(self.consumers):
            self._remove(is_gone, name, is_producer=False)

    def _remove(self, is_gone: Callable[[Member], bool], group: str, *, is_producer: bool) -> None:
        if is_producer:
            members = self.producers.get(group, {})
        else:
            members = self.consumers[group].members if group in self.consumers else {}
        gone = [client_id for client_id, member in members.items() if is_gone(member)]
        for client_id in gone:
            del members[client_id]
        if is_producer:
            if gone and not members:
                del self.producers[group]
                self._producers_changed()
        elif gone:
            self._tell(self.consumers[group])
            if not members:
                del self.consumers[group]

    def _producers_changed(self) -> None:
        self._on_producers(set(self.producers))

    def _tell(self, group: ConsumerGroup) -> None:
        """Have the members share out the queues again."""
        for member in group.members.values():
            member.connection.tell(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group.name})


def checked_filter(kind: str, expression: str) -> str | SqlFilter:
    """Tags such as `a || b`, or a SQL92 filter."""
    if kind != SQL:
        return expression or "*"
    try:
        return SqlFilter(expression)
    except InvalidArgumentError as e:
        raise CommandRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse SQL92 filter failed: {e}") from e


def _connection(member: Member) -> dict[str, Any]:
    host, port = member.connection.peer
    return {
        "clientAddr": f"{host}:{port}",
        "clientId": member.client_id,
        "language": member.language,
        "version": member.version,
    }


def _identity(subscription: Mapping[str, Any]) -> tuple[str, str]:
    return _text(subscription, "expressionType"), _text(subscription, "subString")


def _version(subscription: Mapping[str, Any]) -> int:
    found = subscription.get("subVersion", 0)
    return found if isinstance(found, int) else 0


def _text(found: Any, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _list(found: Mapping[str, Any], name: str, most: int) -> list[dict[str, Any]]:
    value = found.get(name) or []
    if not isinstance(value, list) or len(value) > most or not all(isinstance(each, dict) for each in value):
        raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"{name}: expected a list of {most} objects at most")
    return value
