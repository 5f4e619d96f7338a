"""Requests by plain gRPC to a server, whichever it is, and its answers as lines of text that can be compared."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service
from rocketmq.grpc_protocol.service_pb2_grpc import MessagingServiceStub

CLIENT = (("x-mq-client-id", "tester"), ("x-mq-client-version", "5.1.2"), ("x-mq-language", "PYTHON"))
PATIENCE_S = 60.0
VARIABLE = {
    "receipt_handle": "<handle>",
    "recall_handle": "<handle>",
    "born_host": "<host>",
    "store_host": "<host>",
    "born_timestamp": "<time>",
    "store_timestamp": "<time>",
    "delivery_timestamp": "<time>",
    "port": "<port>",
}
"""Fields whose values differ between any two servers or runs: only their presence is compared."""
UNEQUAL = {"offset", "queue_offset"}
"""Where a message lies depends on what was taken before it."""


NOISE = re.compile(
    r"org\.apache\.[\w.]+Exception: |CODE: 17  DESC: |\nFor more information, please visit the url, https://[\w./]+06FAQ"
)
"""What RocketMQ puts around its texts: names of its classes, and where to read more."""
BATCH_ID = re.compile("[0-9A-F]{50,}")
"""The id that RocketMQ makes for a batch."""


class Conversation:
    """Collects the answers of one server by the name of each question."""

    def __init__(self, channel: grpc.Channel, wait_ms: Callable[[int], None]) -> None:
        """`wait_ms` lets time pass for the server."""
        self.stub, self.wait_ms = MessagingServiceStub(channel), wait_ms
        self.answers: dict[str, str] = {}

    def ask(self, name: str, call: str, request: Any, *, client: Any = CLIENT, timeout: float = PATIENCE_S) -> Any:
        """Ask and note the answer; returns it, or None for a failed call. Streamed answers are a list."""
        assert name not in self.answers, name
        method = getattr(self.stub, call)
        try:
            if call == "Telemetry":
                found = self._tell(request, client)
            elif call == "ReceiveMessage":
                found = list(method(request, metadata=client, timeout=timeout))
            else:
                found = method(request, metadata=client, timeout=timeout)
        except grpc.RpcError as e:
            self.answers[name] = NOISE.sub("", f"{e.code().name}: {e.details()}")
            return None
        self.answers[name] = rendered(found)
        return found

    def _tell(self, command: Any, client: Any) -> Any:
        """The first answer to a command. The client's half of the stream stays open for it, as clients keep it."""
        answered = threading.Event()

        def commands() -> Iterator[Any]:
            yield command
            answered.wait(PATIENCE_S)

        stream = self.stub.Telemetry(commands(), metadata=client, timeout=PATIENCE_S)
        try:
            return next(iter(stream))
        finally:
            answered.set()

    def receive(self, name: str, request: Any, **fields: Any) -> list[Any]:
        """The messages of a receive."""
        found = self.ask(name, "ReceiveMessage", request, **fields) or []
        return [each.message for each in found if each.WhichOneof("content") == "message"]

    def receive_one(self, name: str, request: Any) -> Any:
        """The first message that comes, however many empty polls come before it."""
        until_s = time.monotonic() + PATIENCE_S
        while not (found := self.receive(name, request)):
            assert time.monotonic() < until_s, "the message does not come"
            del self.answers[name]
        return found[0]


def rendered(found: Any) -> str:
    """An answer, or those of a stream, on one line."""
    parts = found if isinstance(found, list) else [found]
    return " + ".join(json.dumps(_plain(_as_dict(part)), sort_keys=True, ensure_ascii=True) for part in parts)


def _as_dict(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


def _plain(value: Any, name: str = "") -> Any:
    if name in VARIABLE:
        return VARIABLE[name]
    if isinstance(value, str):
        return "<batch>" if BATCH_ID.fullmatch(value) else NOISE.sub("", value)
    if isinstance(value, dict):
        if name == "broker":
            value = {**value, "name": "<broker>"}
        return {key: _plain(each, key) for key, each in value.items() if key not in UNEQUAL}
    return [_plain(each, name) for each in value] if isinstance(value, list) else value


# -- requests


def resource(name: str) -> Any:
    return definition.Resource(name=name)


def message(topic: str = "orders", body: bytes = b"body", number: int = 1, **system: Any) -> Any:
    """A message with this uniq key, and with fields of its system properties."""
    found = definition.Message(topic=resource(topic), body=body)
    found.system_properties.message_id = f"01{number:032X}"
    found.system_properties.message_type = definition.NORMAL
    for name, value in system.items():
        if name in ("delivery_timestamp", "orphaned_transaction_recovery_duration"):
            getattr(found.system_properties, name).seconds = value
        elif name == "keys":
            found.system_properties.keys.extend(value)
        else:
            setattr(found.system_properties, name, value)
    return found


def send(*messages: Any) -> Any:
    return service.SendMessageRequest(messages=messages)


def receive(topic: str = "orders", group: str = "billing", **fields: Any) -> Any:
    """A receive; `seconds`: of the invisible time, `polling`: of the long poll, None for neither."""
    found = service.ReceiveMessageRequest(batch_size=fields.pop("batch_size", 1))
    found.group.name, found.message_queue.topic.name = group, topic
    found.message_queue.id = fields.pop("queue_id", -1)
    seconds, polling = fields.pop("seconds", 60), fields.pop("polling", 5)
    if seconds is not None:
        found.invisible_duration.seconds = seconds
    if polling is not None:
        found.long_polling_timeout.seconds = polling
    found.filter_expression.type, found.filter_expression.expression = definition.TAG, fields.pop("tag", "*")
    if sql := fields.pop("sql", None):
        found.filter_expression.type, found.filter_expression.expression = definition.SQL, sql
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def ack(handles: Iterable[str], topic: str = "orders", group: str = "billing") -> Any:
    found = service.AckMessageRequest(group=resource(group), topic=resource(topic))
    for handle in handles:
        found.entries.add(receipt_handle=handle, message_id="m")
    return found


def change(handle: str, seconds: int | None, topic: str = "orders", group: str = "billing") -> Any:
    found = service.ChangeInvisibleDurationRequest(group=resource(group), topic=resource(topic), receipt_handle=handle)
    found.message_id = "m"
    if seconds is not None:
        found.invisible_duration.seconds = seconds
    return found


def handle_of(message: Any) -> str:
    return str(message.system_properties.receipt_handle)
