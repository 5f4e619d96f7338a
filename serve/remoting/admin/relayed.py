"""Questions of tools that a member of a group answers: they are passed on to it, and its answer back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from ....consume.store import Store
from ....store.format.message_id import decode_message_id
from ...brokers.off_loop import OffLoop
from ..answers.members import Member, Members
from ..answers.request import Answer, Refused, Request
from ..wire import fastjson
from ..wire.codes import RequestCode, ResponseCode
from ..wire.connection import LostError
from ..wire.message_bytes import record_of

log = logging.getLogger("flightlog.serve")

ANSWER_S = 10.0
"""How long a member has for its answer (`Broker2Client.callClient`)."""
OFFSETS_S = 5.0
"""The same, for its offsets (`Broker2Client.getConsumeStatus`)."""


class Relayed:
    """In one event loop."""

    def __init__(self, store: Store, off_loop: OffLoop, members: Members) -> None:
        self._store, self._off_loop, self._members = store, off_loop, members

    async def running_info(self, request: Request) -> Answer:
        """What a consumer is doing: its queues, figures, and stacks if they are asked for."""
        return await self._relayed(request, request.command.fields, b"")

    async def offsets(self, request: Request) -> Answer:
        """Up to where the members of a group, or one of them, have processed the queues of a topic. One that does not
        answer is left out, as with a broker."""
        topic, group, only = request.text("topic"), request.text("group"), request.text("clientAddr", "")
        found = self._members.consumers.get(group)
        if found is None or not found.members:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
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
        except (TimeoutError, LostError, ValueError) as e:
            log.warning("%s of %s does not tell its offsets: %s", member.client_id, group, e, extra={"cause": repr(e)})
            return None
        offsets = told.get("messageQueueTable") if isinstance(told, dict) else None
        return offsets if isinstance(offsets, dict | fastjson.ObjectKeys) else None

    async def consume_directly(self, request: Request) -> Answer:
        """Have a consumer process a message now, whatever its group has processed."""
        _, offset = decode_message_id(request.text("msgId"))
        message = await self._off_loop.run(self._store.message_at, offset)
        if message is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        fields = {**request.command.fields, "brokerName": self._store.settings.broker_name}
        if (topic := self._store.topic(request.text("topic", ""))) is not None:
            fields["topicSysFlag"] = str(topic.sys_flag)
        return await self._relayed(request, fields, record_of(message))

    async def _relayed(self, request: Request, fields: Mapping[str, str], body: bytes) -> Answer:
        group, client_id = request.text("consumerGroup"), request.text("clientId", "")
        found = self._members.consumers.get(group)
        member = None if found is None else found.members.get(client_id)
        if member is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        try:
            answer = await member.connection.ask(RequestCode(request.command.code), fields, body, ANSWER_S)
        except TimeoutError as e:
            text = f"consumer <{group}> <{client_id}> Timeout: no answer within {ANSWER_S:.0f} s"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, text) from e
        except LostError as e:
            text = f"invoke consumer <{group}> <{client_id}> Exception: {e}"
            raise Refused(ResponseCode.SYSTEM_ERROR, text) from e
        return Answer(answer.fields, answer.body, answer.code, answer.remark)
