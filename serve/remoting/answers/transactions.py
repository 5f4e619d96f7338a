"""Transactions: half messages, their ends, and asking producers about those that have none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ....produce.producer import Producer
from ....produce.transaction.half_message import IMMUNITY_S, PRODUCER_GROUP
from ....produce.transaction.resolution import TransactionResolution
from ....schedule.delivered import HALF_TOPIC
from ....store.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ....store.message import Message
from ....store.message_queue import MessageQueue
from ....store.results import PutResult
from ....store.stored_message import StoredMessage
from ...brokers.broker import Broker
from ...brokers.off_loop import OffLoop
from ...calls.transactions import ServedTransactions
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import InvalidFrameError
from ..wire.message_bytes import record_of
from .members import Members
from .request import Answer, CommandRefused, Request

RESOLUTIONS = {
    TRANSACTION_COMMIT: TransactionResolution.COMMIT,
    TRANSACTION_ROLLBACK: TransactionResolution.ROLLBACK,
}


class RemotingTransactions:
    """In one event loop; `begin` in a thread beside it."""

    def __init__(self, broker: Broker, off_loop: OffLoop, members: Members) -> None:
        self._store, self._off_loop, self._members = broker.store, off_loop, members
        self.served = ServedTransactions(broker, off_loop, self._ask)

    def begin(self, producer_group: str, message: Message) -> PutResult:
        """Put the half message of a transaction."""
        properties = message.properties or {}
        producer = Producer(self._store, producer_group=producer_group)

        def chosen(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
            named = [queue for queue in queues if queue.queue_id == message.queue_id]
            if message.queue_id is not None and not named:
                raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"request queueId[{message.queue_id}] is illegal")
            return (named or queues)[0]

        message.uniq_key = properties.get("UNIQ_KEY")
        transaction = producer.transaction(message, selector=chosen)
        immunity = properties.get(IMMUNITY_S, "")
        self.served.add(
            message.topic, transaction, int(immunity) if immunity.isascii() and immunity.isdigit() else None
        )
        return transaction.half

    async def end(self, request: Request) -> Answer:
        resolution = RESOLUTIONS.get(request.whole("commitOrRollback"))
        if resolution is not None:
            await self._off_loop.run(self._end, request, resolution)
        return Answer()

    def _end(self, request: Request, resolution: TransactionResolution) -> None:
        transaction_id = request.text("msgId")
        if self.served.end(transaction_id, resolution):
            return
        half = self._store.message_at(request.whole("commitLogOffset"))  # of a life before this one
        is_it = half is not None and half.topic == HALF_TOPIC and half.uniq_key == transaction_id
        if half is None or not is_it or half.properties.get(PRODUCER_GROUP) != request.text("producerGroup"):
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        self.served.answer(half, resolution)

    def _ask(self, half: StoredMessage, transaction_id: str) -> bool:
        producer = self._members.producer_of(half.properties.get(PRODUCER_GROUP, ""))
        if producer is None:
            return False
        fields = {
            "topic": half.topic,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.physical_offset),
            "msgId": transaction_id,
            "transactionId": transaction_id,
            "offsetMsgId": half.message_id,
        }
        with suppress(InvalidFrameError):  # larger than a frame
            producer.tell(RequestCode.CHECK_TRANSACTION_STATE, fields, record_of(half))
        return True
