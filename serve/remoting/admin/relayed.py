"""Questions of tools that a member of a group answers: they are passed on to it, and its answer back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ....consume.store import Store
from ....store.format.message_id import decode_message_id
from ...brokers.off_loop import OffLoop
from ...calls.clients import ClientGoneError, Clients
from ...calls.protocol import Code
from ...http2.call import Call
from ..answers.members import Member, Members
from ..answers.request import Answer, CommandRefused, Request
from ..wire import fastjson
from ..wire.codes import RequestCode, ResponseCode
from ..wire.connection import ClientLostError
from ..wire.message_bytes import record_of

log = logging.getLogger("flightlog.serve")

ANSWER_S = 10.0
"""How long a member has for its answer (`Broker2Client.callClient`)."""
OFFSETS_S = 5.0
"""The same, for its offsets (`Broker2Client.getConsumeStatus`)."""

NOTHING_RUNS: dict[str, Any] = {
    "properties": {},
    "subscriptionSet": [],
    "mqTable": {},
    "mqPopTable": {},
    "statusTable": {},
    "userConsumerInfo": {},
}
"""A `ConsumerRunningInfo` without the stacks, which are all that the proxy asks its clients for."""
CONSUMED = {Code.OK: "CR_SUCCESS", Code.FAILED_TO_CONSUME_MESSAGE: "CR_LATER", Code.MESSAGE_CORRUPTED: "CR_RETURN_NULL"}
"""A `CMResult` by a client's status (`ClientActivity.buildConsumeMessageDirectlyResult` of RocketMQ's proxy)."""


class Relayed:
    """In one event loop."""

    def __init__(
        self, store: Store, off_loop: OffLoop, members: Members, grpc_clients: Callable[[], Clients | None]
    ) -> None:
        self._store, self._off_loop, self._members, self._grpc_clients = store, off_loop, members, grpc_clients

    async def running_info(self, request: Request) -> Answer:
        """What a consumer is doing: its queues, figures, and stacks if they are asked for. Of one that speaks gRPC
        stacks alone."""
        consumer = self._grpc_consumer(request)
        if consumer is None:
            return await self._relayed(request, request.command.fields, b"")
        clients, stream = consumer
        if not request.is_set("jstackEnable"):
            return Answer.of(NOTHING_RUNS)
        told = await self._answered(request, clients.ask_for_stacks(stream, ANSWER_S))
        if told.status.code == Code.VERIFY_FIFO_MESSAGE_UNSUPPORTED:
            raise CommandRefused(ResponseCode.NO_PERMISSION, "forbidden to verify message")
        if told.status.code != Code.OK:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, "verify message failed")  # the proxy's text
        return Answer.of({**NOTHING_RUNS, "jstack": told.thread_stack_trace.thread_stack_trace})

    async def offsets(self, request: Request) -> Answer:
        """Up to where the members of a group, or one of them, have processed the queues of a topic. One that does not
        answer is left out, as with a broker."""
        topic, group, only = request.text("topic"), request.text("group"), request.text("clientAddr", "")
        found = self._members.consumers.get(group)
        if found is None or not found.members:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
        asked = [each for each in found.members.values() if not only or each.client_id == only]
        told = await asyncio.gather(*(self._offsets_of(each, topic, group) for each in asked))
        table = {each.client_id: offsets for each, offsets in zip(asked, told, strict=True) if offsets is not None}
        return Answer.of({"consumerTable": table, "messageQueueTable": {}})

    async def _offsets_of(self, member: Member, topic: str, group: str) -> Any:
        code, fields = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": topic, "group": group}
        try:
            answer = await member.connection.ask(code, fields, b"", OFFSETS_S)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                return None
            told = fastjson.decode_keyed(answer.body)
        except (TimeoutError, ClientLostError, ValueError) as e:
            log.warning("%s of %s does not tell its offsets: %s", member.client_id, group, e, extra={"cause": repr(e)})
            return None
        offsets = told.get("messageQueueTable") if isinstance(told, dict) else None
        return offsets if isinstance(offsets, dict | fastjson.ObjectKeys) else None

    async def consume_directly(self, request: Request) -> Answer:
        """Have a consumer process a message now, whatever its group has processed."""
        _, offset = decode_message_id(request.text("msgId"))
        message = await self._off_loop.run(self._store.message_at, offset)
        if message is None:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        if (consumer := self._grpc_consumer(request)) is not None:
            clients, stream = consumer
            began_s = time.monotonic()
            told = await self._answered(request, clients.ask_to_consume(stream, message, ANSWER_S))
            spent_ms = int((time.monotonic() - began_s) * 1000)
            result = {"consumeResult": CONSUMED.get(told.status.code), "remark": "from gRPC client"}
            return Answer.of({"order": False, "autoCommit": True, **result, "spentTimeMills": spent_ms})
        fields = {**request.command.fields, "brokerName": self._store.settings.broker_name}
        if (topic := self._store.topic(request.text("topic", ""))) is not None:
            fields["topicSysFlag"] = str(topic.sys_flag)
        return await self._relayed(request, fields, record_of(message))

    def _grpc_consumer(self, request: Request) -> tuple[Clients, Call] | None:
        """The clients that speak gRPC, and the stream of the one that is asked for; None if it is not among them."""
        clients = self._grpc_clients()
        if clients is None:
            return None
        stream = clients.consumer(request.text("consumerGroup"), request.text("clientId", ""))
        return None if stream is None else (clients, stream)

    async def _answered(self, request: Request, question: Coroutine[Any, Any, Any]) -> Any:
        """The answer of a client that speaks gRPC. Raises CommandRefused."""
        try:
            return await question
        except (TimeoutError, ClientGoneError) as e:
            raise _no_answer(request, e) from e

    async def _relayed(self, request: Request, fields: Mapping[str, str], body: bytes) -> Answer:
        group, client_id = request.text("consumerGroup"), request.text("clientId", "")
        found = self._members.consumers.get(group)
        member = None if found is None else found.members.get(client_id)
        if member is None:
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        try:
            answer = await member.connection.ask(RequestCode(request.command.code), fields, body, ANSWER_S)
        except (TimeoutError, ClientLostError) as e:
            raise _no_answer(request, e) from e
        return Answer(answer.fields, answer.body, answer.code, answer.remark)


def _no_answer(request: Request, error: Exception) -> CommandRefused:
    name = f"consumer <{request.text('consumerGroup')}> <{request.text('clientId', '')}>"
    if isinstance(error, TimeoutError):
        return CommandRefused(ResponseCode.CONSUME_MSG_TIMEOUT, f"{name} Timeout: no answer within {ANSWER_S:.0f} s")
    return CommandRefused(ResponseCode.SYSTEM_ERROR, f"invoke {name} Exception: {error}")
