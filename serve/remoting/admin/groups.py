"""Consumer groups as admin tools see them: settings, offsets, deleting."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ....consume.group.group_errors import GroupNotFoundError
from ....consume.group.group_settings import GroupSettings, changed_entry, new_entry, policy_from_json
from ....consume.store import Store
from ....store.errors import InvalidArgumentError
from ....store.topic import routable_queues
from ...brokers.off_loop import OffLoop
from ..answers.members import Members
from ..answers.request import Answer, CommandRefused, Request
from ..answers.topics import queue_json
from ..wire.codes import RequestCode, ResponseCode
from ..wire.fastjson import ObjectKeys

FLAGS = {
    "consumeEnable": "is_enabled",
    "consumeBroadcastEnable": "is_broadcast_enabled",
    "consumeMessageOrderly": "is_ordered",
}
NUMBERS = {
    "retryQueueNums": "retry_queue_count",
    "retryMaxTimes": "retry_max_times",
    "consumeTimeoutMinute": "consume_timeout_minutes",
}
NOW = -1
"""The time of a reset that means the end of a queue."""


class Groups:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop, members: Members) -> None:
        self._store, self._off_loop, self._members = store, off_loop, members

    async def make(self, request: Request) -> Answer:
        """Make a group, or change its settings: those that take effect here."""
        found = request.json()
        name = found.get("groupName")
        if not isinstance(name, str) or not name:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, "a group without a groupName")
        changes: dict[str, Any] = {}
        for key, field_name in FLAGS.items():
            if isinstance(found.get(key), bool):
                changes[field_name] = found[key]
        for key, field_name in NUMBERS.items():
            value = found.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                changes[field_name] = value
        if isinstance(found.get("groupRetryPolicy"), dict):
            try:
                changes["retry_policy"] = policy_from_json(found["groupRetryPolicy"])
            except (InvalidArgumentError, TypeError, AttributeError) as e:
                raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"groupRetryPolicy: {e}") from e
        await self._off_loop.run(self._store.update_group, name, **changes)
        return Answer()

    async def config(self, request: Request) -> Answer:
        return Answer.of(_config(self._store.group_settings(request.text("group"))))

    async def configs(self, request: Request) -> Answer:
        groups = await self._off_loop.run(self._store.groups, include_system=True)
        table = {name: _config(state.settings) for name, state in groups.items()}
        version = {"counter": 0, "stateVersion": 0, "timestamp": 0}
        return Answer.of({"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": table})

    async def delete(self, request: Request) -> Answer:
        group = request.text("groupName")
        if self._members.is_balancing(group):
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"group {group!r} has members: close them first")
        with suppress(GroupNotFoundError):  # deleted already, as a broker answers
            await self._off_loop.run(self._store.delete_group, group)
        return Answer()

    async def statistics(self, request: Request) -> Answer:
        """How far the group is in its topics, or in one of them."""
        group, only = request.text("consumerGroup"), request.text("topic", "")
        return await self._off_loop.run(self._statistics, group, only)

    def _statistics(self, group: str, only: str) -> Answer:
        topics = [only] if only else self._topics_of(group)
        pairs = []
        for name in topics:
            topic = self._store.topic(name)
            if topic is None:
                continue
            offsets = self._store.group_offsets(group, name)
            for queue_id in routable_queues(self._store.path, name, topic.read_queue_count, "read_queue_count"):
                _, end = self._store.queue_bounds(name, queue_id)
                at = offsets.get(queue_id, 0)
                stored_ms = 0
                if at > 0 and (found := self._store.get(name, queue_id, at - 1, 1).messages):
                    stored_ms = found[0].store_timestamp_ms
                values = {"brokerOffset": end, "consumerOffset": at, "lastTimestamp": stored_ms, "pullOffset": at}
                pairs.append((queue_json(self._store.settings.broker_name, name, queue_id), values))
        return Answer.of({"consumeTps": 0.0, "offsetTable": ObjectKeys(pairs)})

    def _topics_of(self, group: str) -> list[str]:
        """Those that the group has offsets in or reads now."""
        state = self._store.groups(include_system=True).get(group)
        found = self._members.consumers.get(group)
        now = set() if found is None else set(found.subscriptions)
        return sorted(now.union(() if state is None else state.topics))

    async def topics(self, request: Request) -> Answer:
        names = await self._off_loop.run(self._topics_of, request.text("group"))
        return Answer.of({"topicList": names})

    async def of_topic(self, request: Request) -> Answer:
        """The groups that read a topic or have offsets in it."""
        topic = request.text("topic")
        reading = {name for name, group in self._members.consumers.items() if topic in group.subscriptions}
        states = await self._off_loop.run(self._store.groups)
        return Answer.of(
            {"groupList": sorted(reading | {name for name, each in states.items() if topic in each.topics})}
        )

    async def reset_offset(self, request: Request) -> Answer:
        """Have a group go on at a time, an offset, or the end; its members are told."""
        topic, group = request.text("topic"), request.text("group")
        if self._store.topic(topic) is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist")
        offsets = await self._off_loop.run(self._reset, request, topic, group)
        broker_name = self._store.settings.broker_name
        pairs = [(queue_json(broker_name, topic, queue_id), offset) for queue_id, offset in offsets.items()]
        answer = Answer.of({"offsetTable": ObjectKeys(pairs)})
        found = self._members.consumers.get(group)
        for member in () if found is None else tuple(found.members.values()):
            fields = {"topic": topic, "group": group, "timestamp": request.text("timestamp", "0"), "isForce": "true"}
            member.connection.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, answer.body)
        return answer

    def _reset(self, request: Request, topic: str, group: str) -> Mapping[int, int]:
        queue_id, at = request.whole("queueId", -1), request.whole("offset", -1)
        if queue_id >= 0 and at >= 0:
            return self._store.reset_offset(group, topic, at, queue_id=queue_id)
        timestamp_ms = request.whole("timestamp")
        if timestamp_ms == NOW:
            return self._store.reset_offset(group, topic, "last")
        found = self._store.topic(topic)
        count = 0 if found is None else found.read_queue_count
        offsets: dict[int, int] = {}
        for each in routable_queues(self._store.path, topic, count, "read_queue_count"):
            place = self._store.offset_at(topic, each, max(timestamp_ms, 0))
            offsets |= self._store.reset_offset(group, topic, place, queue_id=each)
        return offsets


def _config(settings: GroupSettings) -> dict[str, Any]:
    """A `SubscriptionGroupConfig`."""
    changes = {
        field_name: getattr(settings, field_name) for field_name in (*FLAGS.values(), *NUMBERS.values(), "retry_policy")
    }
    return changed_entry(new_entry(settings.name), changes)
