"""Offsets: of a group in its queues, and of the first, the last and the message of a time in a queue."""

from __future__ import annotations

from ....consume.store import Store
from ....store.queue_offsets import QueueKey
from ....store.topic import Topic
from ...brokers.off_loop import OffLoop
from ..wire.codes import ResponseCode
from .members import Members
from .request import Answer, CommandRefused, Request


class Offsets:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop, members: Members) -> None:
        self._store, self._off_loop, self._members = store, off_loop, members

    async def of_group(self, request: Request) -> Answer:
        """A group that has none in a queue begins at its first message, if that is message 0; else its client
        decides."""
        group, queue = request.text("consumerGroup"), self._queue(request)
        found = await self._off_loop.run(self._members.outside.offset, group, queue)
        if found is None:
            first, _ = self._store.queue_bounds(*queue)
            if first > 0 or request.text("setZeroIfNotFound", "true").lower() == "false":
                text = "Not found, maybe this group consumer boot first"
                raise CommandRefused(ResponseCode.QUERY_NOT_FOUND, text)
            found = 0
        return Answer({"offset": found})

    async def update(self, request: Request) -> Answer:
        group, at = request.text("consumerGroup"), request.whole("commitOffset")
        if at < 0:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"commitOffset {at}: expected 0 or more")
        queue = self._queue(request)
        self._members.check_pulls(group, queue[0])
        self._members.outside.set_offset(group, queue, at)
        return Answer()

    async def first(self, request: Request) -> Answer:
        return Answer({"offset": self._store.queue_bounds(*self._queue(request))[0]})

    async def end(self, request: Request) -> Answer:
        return Answer({"offset": self._store.queue_bounds(*self._queue(request))[1]})

    async def at_time(self, request: Request) -> Answer:
        queue, timestamp_ms = self._queue(request), max(request.whole("timestamp"), 0)
        is_upper = request.text("boundaryType", "lower").lower() == "upper"
        found = await self._off_loop.run(self._store.offset_at, *queue, timestamp_ms, "upper" if is_upper else "lower")
        return Answer({"offset": found})

    async def first_stored(self, request: Request) -> Answer:
        topic, queue_id = self._queue(request)
        first, _ = self._store.queue_bounds(topic, queue_id)
        found = (await self._off_loop.run(self._store.get, topic, queue_id, first, 1)).messages
        return Answer({"timestamp": found[0].store_timestamp_ms if found else -1})

    def _queue(self, request: Request) -> QueueKey:
        name, queue_id = request.text("topic"), request.whole("queueId")
        topic: Topic | None = self._store.topic(name)
        if topic is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        if not 0 <= queue_id < topic.queue_count:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"queueId[{queue_id}] is illegal, topic:[{name}]")
        return name, queue_id
