"""Pops: messages for an invisible time, by consumers whose queues the server shares out (`clientRebalance=false`).

Members of a group pop, or they share out the queues and pull: a group does either, and the other is refused by name.
"""

from __future__ import annotations

import asyncio
import binascii
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Any

from ....consume.group.initial_offset import StartFrom
from ....consume.pop.check_point import MAX_COUNT
from ....consume.pop.pop_errors import ExpiredHandleError
from ....consume.pop.popped import RETRY, HandleWords, PopHandle, PoppedMessage, words_of
from ....index.filter.sql_filter import SqlFilter
from ....store.format.record import RETRY_TOPIC_PREFIX
from ....store.stored_message import StoredMessage
from ....store.topic import Topic, TopicPermission
from ...brokers.broker import Broker
from ...brokers.off_loop import OffLoop
from ...calls.kept_messages import give_back
from ...calls.long_polls import ServedLongPolls
from ..wire.codes import ResponseCode
from ..wire.message_bytes import popped_record_of, record_of
from .members import TAG, checked_filter
from .request import Answer, CommandRefused, Request

MAX_WAIT_S = 30.0
FROM_END = 1
"""`initMode` (`ConsumeInitMode.MAX`)."""


class Popping:
    """In one event loop."""

    def __init__(self, broker: Broker, off_loop: OffLoop) -> None:
        self._store, self._off_loop, self._traffic = broker.store, off_loop, broker.traffic
        self.polls = ServedLongPolls()
        self._give_back = partial(give_back, broker)
        self._waiting: Counter[tuple[str, str]] = Counter()

    async def pop(self, request: Request) -> Answer:
        """Up to 32 messages of a topic, from all of its queues, whichever the request names."""
        group, topic = request.text("consumerGroup"), request.text("topic")
        self._check_topic(topic)
        count, invisible_ms = request.whole("maxMsgNums"), request.whole("invisibleTime")
        if count > MAX_COUNT:
            raise CommandRefused(ResponseCode.INVALID_PARAMETER, f"pop message's num is greater than {MAX_COUNT}")
        wanted = checked_filter(request.text("expType", TAG), request.text("exp", "*"))
        is_ordered = self._store.group_settings(group).is_ordered
        pop_now = partial(
            self._store.receive,
            *(group, topic, max(count, 1)),
            invisible_ms=invisible_ms,
            tags=wanted if isinstance(wanted, str) else "*",
            filter=wanted if isinstance(wanted, SqlFilter) else None,
            start=StartFrom.LAST if request.whole("initMode", 0) == FROM_END else StartFrom.FIRST,
            attempt_id=(request.text("attemptId", "") or None) if is_ordered else None,
        )
        popped = await self._until(group, topic, request.whole("pollTime", 0), partial(self._pop, pop_now))
        if not popped:
            none = {"popTime": self._store.message_store.clock.now_ms(), "invisibleTime": invisible_ms}
            return Answer(none | {"reviveQid": 0, "restNum": 0}, code=ResponseCode.POLLING_TIMEOUT, remark="NO_MESSAGE")
        self._traffic.in_flight.received(popped)
        for each in popped:
            self._traffic.note_received(group, topic, each.message)
        return await self._off_loop.run(_answer, popped)

    async def _until(self, group: str, topic: str, wait_ms: int, look: Callable[[], Any]) -> Any:
        """What `look` finds, now or once messages have come."""
        loop, pops = asyncio.get_running_loop(), self._store.pop_service
        due_s = loop.time() + min(max(wait_ms / 1000, 0.0), MAX_WAIT_S)
        self._waiting[group, topic] += 1
        try:
            watched = self._store.message_store.arrivals, set(pops.queue_keys(group, topic))
            with self.polls.on([watched]) as arrival, pops.expecting(arrival, group):
                while True:
                    arrival.expect()
                    found = await look()
                    left_s = due_s - loop.time()
                    if found or left_s <= 0 or self.polls.is_closed:
                        return found
                    await arrival.wait(min(left_s, pops.free_in_s(group, topic)))
        finally:
            self._waiting[group, topic] -= 1
            if not self._waiting[group, topic]:
                del self._waiting[group, topic]

    async def _pop(self, pop_now: Callable[[], list[PoppedMessage]]) -> list[PoppedMessage]:
        popping = self._off_loop.submit(pop_now)
        try:
            return await asyncio.wrap_future(popping)
        except asyncio.CancelledError:  # the client is gone
            popping.add_done_callback(self._return)
            raise

    def _return(self, popping: Future[list[PoppedMessage]]) -> None:
        if not popping.cancelled() and popping.exception() is None and popping.result():
            self._off_loop.submit(self._give_back, *(each.handle for each in popping.result()))

    async def ack(self, request: Request) -> Answer:
        handle = _handle(request.text("consumerGroup"), request.text("topic"), request.text("extraInfo"))
        await self._acknowledge([handle])
        return Answer()

    async def ack_many(self, request: Request) -> Answer:
        """Acknowledge messages of several check points; each has a bit set of the messages behind its first one."""
        found = request.json().get("acks")
        if not isinstance(found, list):
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, "acks: expected a list")
        handles = [handle for each in found for handle in _batched(each)]
        if handles:
            await self._acknowledge(handles)
        return Answer()

    async def _acknowledge(self, handles: list[PopHandle]) -> None:
        try:
            await self._off_loop.run(self._store.ack, *handles)
            for each in handles:
                self._traffic.in_flight.done(each)
        except ExpiredHandleError as e:
            raise CommandRefused(ResponseCode.NO_MESSAGE, str(e)) from e

    async def change_invisible(self, request: Request) -> Answer:
        handle = _handle(request.text("consumerGroup"), request.text("topic"), request.text("extraInfo"))
        invisible_ms = max(request.whole("invisibleTime"), 1)
        change = partial(self._store.change_invisible, count_attempt=not request.is_set("suspend"))
        try:
            changed = await self._off_loop.run(change, handle, invisible_ms)
        except ExpiredHandleError as e:
            raise CommandRefused(ResponseCode.NO_MESSAGE, str(e)) from e
        self._traffic.in_flight.done(handle)
        self._traffic.in_flight.changed(changed)
        return Answer(_fields(words_of(changed)[0]))

    async def notification(self, request: Request) -> Answer:
        """Whether there is something to pop, now or within the time of the poll."""
        group, topic = request.text("consumerGroup"), request.text("topic")
        self._check_topic(topic)
        look = partial(self._off_loop.run, self._has_message, group, topic)
        return Answer({"hasMsg": await self._until(group, topic, request.whole("pollTime", 0), look)})

    def _has_message(self, group: str, topic: str) -> bool:
        for name, queue_id in self._store.pop_service.queue_keys(group, topic):
            if self._store.topic(name) is not None:
                first, end = self._store.queue_bounds(name, queue_id)
                if max(self._store.group_offsets(group, name).get(queue_id, 0), first) < end:
                    return True
        return False

    async def peek(self, request: Request) -> Answer:
        """Messages that the group would pop next, which stay where they are: of a queue, or of all (-1), and those that
        come again behind them."""
        group, topic, queue_id = request.text("consumerGroup"), request.text("topic"), request.whole("queueId")
        if TopicPermission.READ not in self._check_topic(topic).perm:
            raise CommandRefused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
        count = min(request.whole("maxMsgNums"), MAX_COUNT)
        found, rest = await self._off_loop.run(self._peeked, group, topic, queue_id, count)
        fields = {"popTime": 0, "invisibleTime": 0, "reviveQid": 0, "restNum": rest}
        if not found:
            return Answer(fields, code=ResponseCode.PULL_NOT_FOUND, remark="NO_MESSAGE_IN_QUEUE")
        return Answer(fields, b"".join(record_of(each) for each in found), remark="FOUND")

    def _peeked(self, group: str, topic: str, queue_id: int, count: int) -> tuple[list[StoredMessage], int]:
        """And how many messages there are, of every tag."""
        keys = [key for key in self._store.pop_service.queue_keys(group, topic) if self._store.topic(key[0])]
        if queue_id >= 0:
            if (topic, queue_id) not in keys:
                raise CommandRefused(ResponseCode.INVALID_PARAMETER, f"queueId[{queue_id}] is illegal, topic:[{topic}]")
            keys = [key for key in keys if key[0] != topic or key[1] == queue_id]
        found: list[StoredMessage] = []
        rest = 0
        for name, each in sorted(keys, key=lambda key: (key[0] != topic, key[1])):
            first, end = self._store.queue_bounds(name, each)
            at = max(self._store.group_offsets(group, name).get(each, 0), first)
            rest += max(end - at, 0)
            if at < end and len(found) < count:
                found += self._store.get(name, each, at, count - len(found)).messages
        return found, rest

    async def polling_info(self, request: Request) -> Answer:
        """How many pops wait."""
        return Answer({"pollingNum": self._waiting[request.text("consumerGroup"), request.text("topic")]})

    def _check_topic(self, name: str) -> Topic:
        topic = self._store.topic(name)
        if topic is None:
            raise CommandRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        return topic


def _answer(popped: list[PoppedMessage]) -> Answer:
    """Every record has its own handle as a property. The header has what clients would make handles of otherwise."""
    starts: dict[tuple[str, int], int] = {}
    offsets: dict[tuple[str, int], list[int]] = {}
    records = []
    for each in popped:
        words, offset = words_of(each.handle)
        key = _flag(words), words.key.queue_id
        starts.setdefault(key, words.key.start_offset)
        offsets.setdefault(key, []).append(offset)
        records.append(popped_record_of(each.message, each.handle.extra_info))
    start_info = ";".join(f"{flag} {queue_id} {start}" for (flag, queue_id), start in starts.items())
    offset_info = ";".join(
        f"{flag} {queue_id} {','.join(map(str, each))}" for (flag, queue_id), each in offsets.items()
    )
    first, _ = words_of(popped[0].handle)
    fields = {**_fields(first), "restNum": 0, "startOffsetInfo": start_info, "msgOffsetInfo": offset_info}
    return Answer(fields, b"".join(records), remark="FOUND")


def _fields(words: HandleWords) -> dict[str, int]:
    return {
        "popTime": words.key.pop_time_ms,
        "invisibleTime": words.invisible_ms,
        "reviveQid": words.revive_queue_id,
    }


def _flag(words: HandleWords) -> str:
    return str(words).split(" ")[4]


def _handle(group: str, topic: str, text: str) -> PopHandle:
    """Clients name the retry topic of a message that came again."""
    words = text.split(" ")
    prefix = f"{RETRY_TOPIC_PREFIX}{group}_"
    if len(words) > 4 and words[4] == RETRY:
        topic = topic.removeprefix(prefix)
    return PopHandle(group, topic, text)


def _batched(found: Any) -> Iterable[PopHandle]:
    try:
        words = {name: int(found[name]) for name in ("so", "pt", "it", "rq", "q")}
        group, topic, flag = str(found["c"]), str(found["t"]), str(found["r"])
        bits = int.from_bytes(binascii.a2b_base64(str(found["b"])), "little")
    except (TypeError, KeyError, ValueError) as e:
        raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"an ack of several messages: {e!r}") from e
    start = words["so"]
    shared = f"{start} {words['pt']} {words['it']} {words['rq']} {flag}"
    for place in range(min(bits.bit_length(), MAX_COUNT)):
        if bits >> place & 1:
            yield _handle(group, topic, f"{shared} store {words['q']} {start + place}")
