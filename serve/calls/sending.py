"""SendMessage and RecallMessage: a client's messages as a store takes them."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from ...consume.readers import STORE_NAME
from ...consume.store import Store
from ...produce.message_type import DELAY, MIXED, TRANSACTION_PREPARED, message_type_of
from ...produce.producer import Producer
from ...produce.queue_hash import by_jump_hash
from ...produce.transaction.half_message import IMMUNITY_S, PRODUCER_GROUP
from ...store.format import property_names as props
from ...store.format.sys_flag import COMPRESSED
from ...store.message import Message
from ...store.results import PutResult, PutStatus
from ..metrics.traffic import Traffic
from . import checks
from .context import Context
from .message_out import TRACE_CONTEXT
from .off_loop import OffLoop
from .protocol import Code, definition, milliseconds, status
from .refusals import Refused, type_conflict
from .routes import Routes
from .transactions import ServedTransactions

RECALL_VERSION = "v1"


class Sending:
    """In one event loop."""

    def __init__(
        self, store: Store, off_loop: OffLoop, routes: Routes, transactions: ServedTransactions, traffic: Traffic
    ) -> None:
        self._store, self._off_loop, self._routes, self._transactions = store, off_loop, routes, transactions
        self._traffic = traffic
        self._clock = store.message_store.clock
        settings = store.settings
        self._longest_recovery_s = settings.transaction_check_max_count * settings.transaction_check_interval_ms // 1000
        self._producers: dict[str, Producer] = {}
        """By topic, which is the producer group of its transactions, as in the proxy."""

    async def send_message(self, context: Context, request: Any, response: Any) -> None:
        if not request.messages:
            raise Refused(Code.MESSAGE_CORRUPTED, "no message to send")
        name = checks.topic_name(request.messages[0].topic)
        if any(each.topic != request.messages[0].topic for each in request.messages):
            raise Refused(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        messages = [self._message(each, name, context.peer) for each in request.messages]
        await self._routes.topic(name)
        first = request.messages[0].system_properties
        if first.message_type == definition.MessageType.TRANSACTION:
            if len(messages) > 1:
                raise Refused(Code.MESSAGE_CORRUPTED, "transaction message is not supported in a batch")
            results = [await self._off_loop.run(self._begin, name, messages[0])]
        elif len(messages) > 1:
            sent = await self._off_loop.run(self._producer(name).send_many, messages, group=_group, one_queue=True)
            results = [each.put for each in sent]
        else:
            sending = self._producer(name).send_async(messages[0], group=_group(messages[0]))
            results = [(sending.result() if sending.done() else await asyncio.wrap_future(sending)).put]
        self._answer(response, messages, results)

    def _producer(self, topic: str) -> Producer:
        found = self._producers.get(topic)
        if found is None:
            found = Producer(self._store, rule=by_jump_hash, producer_group=topic, check_message_type=True)
            self._producers[topic] = found
        return found

    def _begin(self, topic: str, message: Message) -> PutResult:
        transaction = self._producer(topic).transaction(message, group=_group(message))
        recovery_s = (message.properties or {}).get(IMMUNITY_S)
        self._transactions.add(topic, transaction, None if recovery_s is None else int(recovery_s))
        return transaction.half

    def _message(self, found: Any, topic: str, peer: tuple[str, int]) -> Message:
        system = found.system_properties
        body, keys = found.body, list(system.keys)
        checks.check_body(body)
        checks.check_properties(found.user_properties, system.tag, keys)
        # RocketMQ's readers drop what has an empty name or value, and its proxy takes it.
        properties = {name: value for name, value in found.user_properties.items() if name and value}
        if not system.message_id.strip():
            raise Refused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
        if system.HasField("lite_topic") or system.HasField("priority"):
            raise Refused(Code.NOT_IMPLEMENTED, "lite topics and priorities are not implemented by flightlog")
        if system.message_group:
            checks.check_message_group(system.message_group)
            properties[props.SHARDING_KEY] = system.message_group
        if system.HasField("delivery_timestamp"):
            at_ms = checks.deliver_at_ms(system.delivery_timestamp, self._clock.now_ms())
            properties[props.TIMER_DELIVER_MS] = str(at_ms)
        if system.trace_context:
            properties[TRACE_CONTEXT] = system.trace_context
        if system.message_type == definition.MessageType.TRANSACTION:
            properties[TRANSACTION_PREPARED] = "true"
            if system.HasField("orphaned_transaction_recovery_duration"):
                recovery_s = checks.recovery_s(system.orphaned_transaction_recovery_duration)
                if recovery_s > 0:
                    properties[IMMUNITY_S] = str(min(recovery_s, self._longest_recovery_s))
        properties[PRODUCER_GROUP] = topic
        is_compressed = system.body_encoding == definition.Encoding.GZIP
        return Message(
            topic,
            body,
            tags=system.tag or None,
            keys=[part for key in keys for part in key.split()],
            properties=properties,
            uniq_key=system.message_id,
            born_timestamp_ms=milliseconds(system.born_timestamp) if system.HasField("born_timestamp") else None,
            born_host=_born_host(peer),
            sys_flag=COMPRESSED if is_compressed else 0,
        )

    def _answer(self, response: Any, messages: Sequence[Message], results: Sequence[PutResult]) -> None:
        codes = set()
        for message, result in zip(messages, results, strict=True):
            entry = response.entries.add()
            self._traffic.note_sent(message.topic, message_type_of(message.properties or {}), result.size)
            if result.status is PutStatus.FLUSH_DISK_TIMEOUT:
                text = f"send message failed, sendStatus={result.status.value}"
                entry.status.CopyFrom(status(Code.MASTER_PERSISTENCE_TIMEOUT, text))
            else:
                entry.status.CopyFrom(status(Code.OK))
                entry.message_id = entry.transaction_id = message.uniq_key or ""
                entry.offset = result.queue_offset
                entry.recall_handle = _recall_handle(message, self._clock.now_ms())
            codes.add(entry.status.code)
        response.status.CopyFrom(status(codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS))

    async def recall_message(self, context: Context, request: Any, response: Any) -> None:
        topic = checks.topic_name(request.topic)
        found = self._store.topic(topic)
        expected = "UNSPECIFIED" if found is None else found.message_type
        if expected not in (DELAY, MIXED):
            raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, type_conflict(expected, DELAY))
        named_topic, at_ms, uniq_key = _recalled(request.recall_handle)
        if named_topic != topic:
            raise Refused(Code.BAD_REQUEST, "recall failed, topic in the handle is another one")
        await self._off_loop.run(self._cancel, topic, uniq_key, at_ms)
        response.message_id = uniq_key

    def _cancel(self, topic: str, uniq_key: str, at_ms: int) -> PutResult:
        return self._store.cancel_timer(topic, uniq_key, at_ms)


def _group(message: Message) -> str | None:
    return None if message.properties is None else message.properties.get(props.SHARDING_KEY)


def _born_host(peer: tuple[str, int]) -> tuple[str, int] | None:
    return peer if peer[0] and "%" not in peer[0] else None


def _recall_handle(message: Message, now_ms: int) -> str:
    """What names a delayed message until it is due (RocketMQ's `RecallMessageHandle.HandleV1`); empty for others."""
    at_ms = (message.properties or {}).get(props.TIMER_DELIVER_MS)
    if at_ms is None or int(at_ms) <= now_ms:
        return ""
    words = f"{RECALL_VERSION} {message.topic} {STORE_NAME} {at_ms} {message.uniq_key}"
    return base64.urlsafe_b64encode(words.encode()).decode()


def _recalled(handle: str) -> tuple[str, int, str]:
    """Topic, time of delivery in ms and uniq key of the message that a recall handle names."""
    try:
        version, topic, _, at_ms, uniq_key = base64.urlsafe_b64decode(handle.encode()).decode().split(" ")
        if version == RECALL_VERSION and at_ms.isascii() and at_ms.isdigit() and len(at_ms) < 19:
            return topic, int(at_ms), uniq_key
    except (ValueError, binascii.Error):
        pass
    raise Refused(Code.BAD_REQUEST, "recall handle is invalid")
