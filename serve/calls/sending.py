"""SendMessage, EndTransaction and RecallMessage: a client's messages as stores take them.

Which store gets a message, and which other one if that fails, is the choice of `Producer` over all of them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from functools import partial
from typing import Any

from ...consume.store import Store
from ...produce.message_type import DELAY, MIXED, TRANSACTION_PREPARED, message_type_of
from ...produce.producer import Producer
from ...produce.queue_hash import by_jump_hash
from ...produce.send_result import SendResult
from ...produce.transaction.half_message import IMMUNITY_S, PRODUCER_GROUP
from ...store.format import property_names as props
from ...store.format.sys_flag import COMPRESSED
from ...store.message import Message
from ...store.results import PutStatus
from ...store.settings import StoreSettings
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop, is_quick
from . import checks
from .brokers import ServedBrokers
from .context import Context
from .message_out import TRACE_CONTEXT
from .protocol import Code, definition, milliseconds, status
from .refusals import Refused, type_conflict
from .routes import Routes
from .transactions import RESOLUTIONS

RECALL_VERSION = "v1"
IS_TRANSACTION, IS_GZIP = definition.MessageType.TRANSACTION, definition.Encoding.GZIP
STORED = status(Code.OK)


class Sending:
    """In one event loop."""

    def __init__(self, brokers: ServedBrokers, off_loop: OffLoop, routes: Routes) -> None:
        self._brokers, self._off_loop, self._routes = brokers, off_loop, routes
        self._producers: dict[str, Producer] = {}
        """By topic, which is the producer group of its transactions, as in the proxy."""

    async def send_message(self, context: Context, request: Any, response: Any) -> None:
        if not request.messages:
            raise Refused(Code.MESSAGE_CORRUPTED, "no message to send")
        topic = request.messages[0].topic
        name = checks.topic_name(topic)
        if len(request.messages) > 1 and any(each.topic != topic for each in request.messages):
            raise Refused(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        up = self._brokers.up()
        messages = [self._message(each, name, context.peer, up[0].store) for each in request.messages]
        await self._routes.having(name, up)
        first = request.messages[0].system_properties
        if first.message_type == IS_TRANSACTION:
            if len(messages) > 1:
                raise Refused(Code.MESSAGE_CORRUPTED, "transaction message is not supported in a batch")
            results = [await self._off_loop.run(self._begin, name, messages[0])]
        elif len(messages) > 1:
            send_many = partial(self._producer(name).send_many, messages, group=_group, one_queue=True)
            waits = not is_quick(messages, (each.store for each in up))
            results = await self._off_loop.run(send_many) if waits else send_many()
        else:
            sending = self._producer(name).send_async(messages[0], group=_group(messages[0]))
            results = [await self._off_loop.outcome(sending)]
        self._answer(response, messages, results)

    def _producer(self, topic: str) -> Producer:
        found = self._producers.get(topic)
        if found is None:
            stores = {each.name: each.store for each in self._brokers if each.broker.was_opened}
            found = Producer(stores, rule=by_jump_hash, producer_group=topic, check_message_type=True)
            self._producers[topic] = found
        return found

    def note_opened(self, broker: Broker) -> None:
        """Send to it, too, from the next message on: it was opened after the others, or again."""
        for producer in self._producers.values():
            producer.add_store(broker.name, broker.store)

    def _begin(self, topic: str, message: Message) -> SendResult:
        transaction = self._producer(topic).transaction(message, group=_group(message))
        recovery_s = (message.properties or {}).get(IMMUNITY_S)
        served = self._brokers[transaction.queue.broker_name]
        served.transactions.add(topic, transaction, None if recovery_s is None else int(recovery_s))
        return SendResult(transaction.half, transaction.queue, transaction.transaction_id, 1)

    def _message(self, found: Any, topic: str, peer: tuple[str, int], store: Store) -> Message:
        """`store`: any one; its clock and its settings count."""
        system = found.system_properties
        body, keys, tag, given = found.body, list(system.keys), system.tag, found.user_properties
        checks.check_body(body)
        properties: dict[str, str] = {}
        if given or keys or tag:
            checks.check_properties(given, tag, keys)
            # RocketMQ's readers drop what has an empty name or value, and its proxy takes it.
            properties = {name: value for name, value in given.items() if name and value}
        if not system.message_id.strip():
            raise Refused(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
        if system.HasField("lite_topic") or system.HasField("priority"):
            raise Refused(Code.NOT_IMPLEMENTED, "lite topics and priorities are not implemented by flightlog")
        if system.message_group:
            checks.check_message_group(system.message_group)
            properties[props.SHARDING_KEY] = system.message_group
        if system.HasField("delivery_timestamp"):
            at_ms = checks.deliver_at_ms(system.delivery_timestamp, store.message_store.clock.now_ms())
            properties[props.TIMER_DELIVER_MS] = str(at_ms)
        if system.trace_context:
            properties[TRACE_CONTEXT] = system.trace_context
        if system.message_type == IS_TRANSACTION:
            properties[TRANSACTION_PREPARED] = "true"
            if system.HasField("orphaned_transaction_recovery_duration"):
                recovery_s = checks.recovery_s(system.orphaned_transaction_recovery_duration)
                if recovery_s > 0:
                    properties[IMMUNITY_S] = str(min(recovery_s, _longest_recovery_s(store.settings)))
        properties[PRODUCER_GROUP] = topic
        is_compressed = system.body_encoding == IS_GZIP
        return Message(
            topic,
            body,
            tags=tag or None,
            keys=[part for key in keys for part in key.split()],
            properties=properties,
            uniq_key=system.message_id,
            born_timestamp_ms=milliseconds(system.born_timestamp) if system.HasField("born_timestamp") else None,
            born_host=_born_host(peer),
            sys_flag=COMPRESSED if is_compressed else 0,
        )

    def _answer(self, response: Any, messages: Sequence[Message], results: Sequence[SendResult]) -> None:
        codes = set()
        for message, sent in zip(messages, results, strict=True):
            result, served = sent.put, self._brokers[sent.queue.broker_name]
            served.traffic.note_sent(message.topic, message_type_of(message.properties or {}), result.size)
            if result.status is PutStatus.FLUSH_DISK_TIMEOUT:
                text = f"send message failed, sendStatus={result.status.value}"
                found = status(Code.MASTER_PERSISTENCE_TIMEOUT, text)
                response.entries.add(status=found)
            else:
                found, name = STORED, message.uniq_key or ""
                handle = _recall_handle(message, served.name, served.store.message_store.clock.now_ms())
                response.entries.add(
                    status=found,
                    message_id=name,
                    transaction_id=name,
                    offset=result.queue_offset,
                    recall_handle=handle,
                )
            codes.add(found.code)
        response.status.CopyFrom(status(codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS))

    async def recall_message(self, context: Context, request: Any, response: Any) -> None:
        topic = checks.topic_name(request.topic)
        found = next((there for each in self._brokers.up() if (there := each.store.topic(topic)) is not None), None)
        expected = "UNSPECIFIED" if found is None else found.message_type
        if expected not in (DELAY, MIXED):
            raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, type_conflict(expected, DELAY))
        named_topic, broker_name, at_ms, uniq_key = _recalled(request.recall_handle)
        if named_topic != topic:
            raise Refused(Code.BAD_REQUEST, "recall failed, topic in the handle is another one")
        served = self._brokers.named(broker_name)
        await served.off_loop.run(served.store.cancel_timer, topic, uniq_key, at_ms)
        response.message_id = uniq_key

    async def end_transaction(self, context: Context, request: Any, response: Any) -> None:
        topic, transaction_id = checks.topic_name(request.topic), request.transaction_id
        if not transaction_id.strip():
            raise Refused(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
        resolution = RESOLUTIONS.get(request.resolution)
        if resolution is None:
            return
        for served in sorted(self._brokers.up(), key=lambda each: not each.transactions.may_have(transaction_id)):
            if await served.off_loop.run(served.transactions.end, transaction_id, resolution, topic):
                return
        raise Refused(Code.INTERNAL_SERVER_ERROR, "cannot found transaction data")


def _group(message: Message) -> str | None:
    return None if message.properties is None else message.properties.get(props.SHARDING_KEY)


def _born_host(peer: tuple[str, int]) -> tuple[str, int] | None:
    return peer if peer[0] and "%" not in peer[0] else None


def _longest_recovery_s(settings: StoreSettings) -> int:
    return settings.transaction_check_max_count * settings.transaction_check_interval_ms // 1000


def _recall_handle(message: Message, broker_name: str, now_ms: int) -> str:
    """What names a delayed message until it is due (RocketMQ's `RecallMessageHandle.HandleV1`); empty for others."""
    at_ms = (message.properties or {}).get(props.TIMER_DELIVER_MS)
    if at_ms is None or int(at_ms) <= now_ms:
        return ""
    words = f"{RECALL_VERSION} {message.topic} {broker_name} {at_ms} {message.uniq_key}"
    return base64.urlsafe_b64encode(words.encode()).decode()


def _recalled(handle: str) -> tuple[str, str, int, str]:
    """Topic, broker, time of delivery in ms and uniq key of the message that a recall handle names."""
    try:
        version, topic, broker, at_ms, uniq_key = base64.urlsafe_b64decode(handle.encode()).decode().split(" ")
        if version == RECALL_VERSION and at_ms.isascii() and at_ms.isdigit() and len(at_ms) < 19:
            return topic, broker, int(at_ms), uniq_key
    except (ValueError, binascii.Error):
        pass
    raise Refused(Code.BAD_REQUEST, "recall handle is invalid")
