"""Replies: a consumer answers a message, and the producer that asked gets it at once."""

from __future__ import annotations

from ....consume.store import Store
from ....store.format.properties import decode_properties, encode_properties
from ..wire.codes import RequestCode, ResponseCode
from .members import Members
from .request import Answer, CommandRefused, Request
from .sending import long_names

REPLY_TO_CLIENT, PUSH_REPLY_TIME = "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"
PASSED_ON = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "reconsumeTimes", "unitMode"),
)


class Replies:
    """In one event loop. A reply is not stored: a producer that is gone does not get it."""

    def __init__(self, store: Store, members: Members) -> None:
        self._clock, self._store_host, self._members = store.message_store.clock, store.settings.store_host, members

    async def reply(self, asked: Request) -> Answer:
        request = long_names(asked)
        properties = decode_properties(request.text("properties", "").encode("utf-8", "surrogatepass"))
        client_id = properties.get(REPLY_TO_CLIENT)
        producer = None if client_id is None else self._members.client(client_id)
        if producer is None:
            text = f"push reply message fail, channel of <{client_id}> not found."
            raise CommandRefused(ResponseCode.SYSTEM_ERROR, text)
        now_ms = self._clock.now_ms()
        properties[PUSH_REPLY_TIME] = str(now_ms)
        fields = {name: request.command.fields[name] for name in PASSED_ON if name in request.command.fields}
        host, port = request.connection.peer
        fields |= {
            "bornHost": f"{host}:{port}",
            "storeHost": f"{self._store_host[0]}:{self._store_host[1]}",
            "storeTimestamp": str(now_ms),
            "properties": encode_properties(properties, is_foreign=True).decode(),
        }
        producer.tell(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, request.command.body)
        return Answer({"msgId": "0", "queueId": 0, "queueOffset": 0})
