"""Sends: one message, in a short or a long header, or a batch; to the queue that the client has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....consume.retry.send_back import dead_letter_topic, make_topic
from ....consume.store import Store
from ....produce.message_type import message_type_of
from ....store.format import property_names as props
from ....store.format.properties import decode_properties
from ....store.format.record import RETRY_TOPIC_PREFIX
from ....store.format.sys_flag import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS
from ....store.message import Message
from ....store.results import PutResult, PutStatus
from ....store.topic import routable_queues
from ...brokers.off_loop import OffLoop, is_quick
from ...metrics.traffic import Traffic
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import Command, InvalidFrameError
from ..wire.message_bytes import batch_messages
from .request import Answer, CommandRefused, Request
from .topics import CLUSTER, Topics
from .transactions import RemotingTransactions

LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "brokerName",
}
"""`SendMessageRequestHeaderV2`"""
OF_SENDERS = COMPRESSED | MULTI_TAGS | COMPRESSION_MASK
"""Flags that a sender sets."""
CLUSTER_PROPERTY, IS_TRANSACTION = "CLUSTER", "TRAN_MSG"


def long_names(request: Request) -> Request:
    """The same request with the long names of its fields."""
    asked = request.command
    if asked.code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE):
        return request
    fields = {LONG_NAMES.get(name, name): value for name, value in asked.fields.items()}
    return Request(request.connection, Command(asked.code, asked.opaque, asked.flag, fields, asked.body))


class Sending:
    """In one event loop."""

    def __init__(
        self, store: Store, off_loop: OffLoop, topics: Topics, transactions: RemotingTransactions, traffic: Traffic
    ) -> None:
        self._store, self._off_loop, self._topics, self._transactions = store, off_loop, topics, transactions
        self._traffic = traffic

    async def send(self, asked: Request) -> Answer:
        request = long_names(asked)
        if request.is_set("batch") or request.command.code == RequestCode.SEND_BATCH_MESSAGE:
            return await self._send_batch(request)
        properties = decode_properties(request.text("properties", "").encode("utf-8", "surrogatepass"))
        message = self._message(request, request.command.body, request.whole("flag", 0), properties)
        await self._find_topic(request, message)
        if properties.get(IS_TRANSACTION, "").lower() == "true":
            group = request.text("producerGroup")
            result = await self._off_loop.run(self._transactions.begin, group, message)
        else:
            putting = self._store.put_async(message)
            result = await self._off_loop.outcome(putting)
        self._note(message, result)
        return _answer(request, self._store.settings.broker_name, [result], properties.get(props.UNIQ_KEY))

    async def _send_batch(self, request: Request) -> Answer:
        try:
            found = list(batch_messages(request.command.body))
        except InvalidFrameError as e:
            raise CommandRefused(ResponseCode.MESSAGE_ILLEGAL, str(e)) from e
        if not found:
            raise CommandRefused(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        messages = [self._message(request, body, flag, properties) for flag, body, properties in found]
        if messages[0].topic.startswith(RETRY_TOPIC_PREFIX):
            raise CommandRefused(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
        topic = await self._topics.for_sending(messages[0].topic, request.whole("defaultTopicQueueNums", 0))
        if messages[0].queue_id is None:
            queues = routable_queues(self._store.path, topic.name, topic.write_queue_count, "write_queue_count")
            queue_id = self._store.message_store.clock.now_ms() % max(len(queues), 1)
            for message in messages:
                message.queue_id = queue_id
        put_many = partial(self._store.put_many, messages)
        results = put_many() if is_quick(messages, (self._store,)) else await self._off_loop.run(put_many)
        for message, result in zip(messages, results, strict=True):
            self._note(message, result)
        keys = [properties.get(props.UNIQ_KEY, "") for _, _, properties in found]
        return _answer(request, self._store.settings.broker_name, results, ",".join(keys))

    def _note(self, message: Message, result: PutResult) -> None:
        self._traffic.note_sent(message.topic, message_type_of(message.properties or {}), result.size)

    async def _find_topic(self, request: Request, message: Message) -> None:
        """Have the topic there; a message that was retried too often becomes a dead letter."""
        if not message.topic.startswith(RETRY_TOPIC_PREFIX):
            await self._topics.for_sending(message.topic, request.whole("defaultTopicQueueNums", 0))
            return
        group = message.topic.removeprefix(RETRY_TOPIC_PREFIX)
        settings = self._store.group_settings(group)
        if message.reconsume_times > request.whole("maxReconsumeTimes", settings.retry_max_times):
            message.topic, message.queue_id = dead_letter_topic(group), 0
            message.properties = {k: v for k, v in (message.properties or {}).items() if k != props.DELAY}
        count = settings.retry_queue_count if message.topic.startswith(RETRY_TOPIC_PREFIX) else 1
        await self._off_loop.run(make_topic, self._store.message_store, message.topic, count)

    def _message(self, request: Request, body: bytes, flag: int, properties: Mapping[str, str]) -> Message:
        queue_id, host = request.whole("queueId", -1), request.connection.peer
        return Message(
            request.text("topic"),
            body,
            properties={**properties, CLUSTER_PROPERTY: CLUSTER},
            queue_id=None if queue_id < 0 else queue_id,
            flag=flag,
            born_timestamp_ms=request.whole("bornTimestamp"),
            born_host=host if host[0] and "%" not in host[0] else None,
            sys_flag=request.whole("sysFlag", 0) & OF_SENDERS,
            reconsume_times=max(request.whole("reconsumeTimes", 0), 0),
        )


def _answer(request: Request, broker_name: str, results: list[PutResult], uniq_key: str | None) -> Answer:
    """A batch has one message id a message, and the queue offset of its first."""
    first, queue_id = results[0], request.whole("queueId", -1)
    is_late = any(each.status is PutStatus.FLUSH_DISK_TIMEOUT for each in results)
    fields: dict[str, Any] = {
        "msgId": ",".join(each.message_id for each in results),
        "queueId": first.queue_id if queue_id < 0 else queue_id,
        "queueOffset": first.queue_offset,
        "transactionId": uniq_key,
        "brokerName": broker_name,
    }
    return Answer(fields, code=ResponseCode.FLUSH_DISK_TIMEOUT if is_late else ResponseCode.SUCCESS)
