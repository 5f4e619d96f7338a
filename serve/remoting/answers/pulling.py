"""Pulls: the messages of one queue from an offset on, and long polls for those that are to come."""

from __future__ import annotations

import asyncio

from ....consume.store import Store
from ....engine.services.long_polls import MAX_WAIT_S
from ....index.filter.sql_filter import SqlFilter
from ....store.get_result import GetResult, GetStatus
from ....store.topic import TopicPermission
from ...brokers.off_loop import OffLoop
from ...metrics.traffic import Traffic
from ..wire.codes import ResponseCode
from ..wire.message_bytes import record_of
from .members import SQL, TAG, Members, checked_filter
from .request import Answer, CommandRefused, Request

COMMITS_OFFSET, SUSPENDS, HAS_SUBSCRIPTION = 0x1, 0x2, 0x4
"""Bits of a pull's `sysFlag` (`PullSysFlag`)."""
MAX_COUNT = 1024
MAX_SIZE = 4 << 20
"""Bytes of an answer's records, whatever a client asks for; the store's own limits are lower unless they were set."""
CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
"""`PullMessageProcessor`; of a queue without messages it depends on the offset that was asked for."""


class Pulling:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop, members: Members, traffic: Traffic) -> None:
        self._store, self._off_loop, self._members, self._traffic = store, off_loop, members, traffic
        self._waiting: set[asyncio.Future[GetResult]] = set()
        self._is_closed = False

    async def pull(self, request: Request) -> Answer:
        group, topic = request.text("consumerGroup"), request.text("topic")
        queue_id, at, flags = request.whole("queueId"), request.whole("queueOffset"), request.whole("sysFlag", 0)
        self._check(group, topic, queue_id)
        wanted = self._wanted(request, group, topic, is_given=bool(flags & HAS_SUBSCRIPTION))
        if flags & COMMITS_OFFSET and (commits := request.whole("commitOffset", -1)) >= 0:
            self._members.outside.set_offset(group, (topic, queue_id), commits)
        wait_s = min(request.whole("suspendTimeoutMillis", 0) / 1000, MAX_WAIT_S) if flags & SUSPENDS else 0.0
        count, size = request.whole("maxMsgNums", 32), request.whole("maxMsgBytes", MAX_SIZE)
        tags, sql = (wanted, None) if isinstance(wanted, str) else (None, wanted)
        pulling = await self._off_loop.run(
            self._store.pull,
            topic,
            queue_id,
            max(at, 0),
            min(max(count, 1), MAX_COUNT),
            tags=tags,
            filter=sql,
            max_size=min(max(size, 1), MAX_SIZE),
            wait_s=0.0 if self._is_closed else max(wait_s, 0.0),
        )
        waiting = asyncio.wrap_future(pulling)
        self._waiting.add(waiting)
        try:
            found = await waiting
        finally:
            self._waiting.discard(waiting)
        answer = await self._off_loop.run(_answer, found, at)
        for message in found.messages:
            self._traffic.note_received(group, topic, message)
        return answer

    def close(self) -> None:
        """End the pulls that wait; from now on a pull answers at once."""
        self._is_closed = True
        for waiting in tuple(self._waiting):
            waiting.cancel()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def _check(self, group: str, name: str, queue_id: int) -> None:
        self._members.outside.check(group)
        self._members.check_pulls(group, name)
        if not self._store.group_settings(group).is_enabled:
            raise CommandRefused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
        topic = self._store.topic(name)
        if topic is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        if TopicPermission.READ not in topic.perm:
            raise CommandRefused(ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden")
        if not 0 <= queue_id < topic.read_queue_count:
            text = (
                f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{topic.read_queue_count}]"
            )
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, text)

    def _wanted(self, request: Request, group: str, topic: str, *, is_given: bool) -> str | SqlFilter:
        """What the pull says, or else what the group's heartbeats said."""
        if is_given:
            return checked_filter(request.text("expressionType", TAG), request.text("subscription", "*"))
        if group not in self._members.consumers:
            raise CommandRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        found = self._members.subscription(group, topic)
        if found is None:
            raise CommandRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if found.get("subVersion", 0) < request.whole("subVersion", 0):
            raise CommandRefused(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        kind = SQL if found.get("expressionType") == SQL else TAG
        return checked_filter(kind, str(found.get("subString", "*")))


def _answer(found: GetResult, at: int) -> Answer:
    """By a thread: it copies every message."""
    code = CODES.get(found.status)
    if code is None:
        code = ResponseCode.PULL_OFFSET_MOVED if at else ResponseCode.PULL_NOT_FOUND
    fields = {
        "suggestWhichBrokerId": 0,
        "nextBeginOffset": found.next_queue_offset,
        "minOffset": found.min_queue_offset,
        "maxOffset": found.max_queue_offset,
    }
    return Answer(fields, b"".join(map(record_of, found.messages)), code, found.status.value)
