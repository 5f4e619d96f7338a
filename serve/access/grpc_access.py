"""What a gRPC call shows of its client, and which permissions it needs.

As RocketMQ's `PlainAccessResource` has it, and besides it: a route needs either permission for its topic, for it may
make it; ChangeInvisibleDuration and QueryAssignment need those of a receive, RecallMessage that of a send.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from .accounts import GROUP_PREFIX, AccessDenied, Credentials, Permission

CONTENT_HEADER = "x-mq-date-time"
"""What clients sign. It is no time that could be checked: Java and Python send their local time as UTC."""


def credentials_of(headers: Mapping[str, str]) -> Credentials:
    """From the header `authorization`: `MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX`.
    Raises AccessDenied for one that cannot be read."""
    text = headers.get("authorization")
    if text is None:
        return Credentials(None)
    _, space, rest = text.partition(" ")
    if not space:
        raise AccessDenied("authorization header is incorrect")
    key: str | None = None
    signature = b""
    for pair in rest.split(","):
        name, equals, value = pair.strip().partition("=")
        if not equals:
            raise AccessDenied("authorization keyValues length is incorrect, actual length=1")
        if name == "Credential":
            key = value.partition("/")[0]
        elif name == "Signature":
            try:
                signature = binascii.unhexlify(value)
            except ValueError as e:
                raise AccessDenied("authorization signature is not hexadecimal") from e
    return Credentials(key, headers.get(CONTENT_HEADER, "").encode(), signature)


def needed_for(call: str, request: Any) -> dict[str, Permission]:
    """The permissions that a request needs, by resource. The names are those that are served: a namespace, which no
    call here looks at, is none of them."""
    if call == "SendMessage":
        return _topics((message.topic for message in request.messages), Permission.PUB)
    if call in ("EndTransaction", "RecallMessage"):
        return _topics([request.topic], Permission.PUB)
    if call == "QueryRoute":
        return _topics([request.topic], Permission.ANY)
    if call == "ReceiveMessage":
        return _consuming(request.group, [request.message_queue.topic])
    if call in ("AckMessage", "ForwardMessageToDeadLetterQueue", "ChangeInvisibleDuration", "QueryAssignment"):
        return _consuming(request.group, [request.topic])
    if call in ("Heartbeat", "NotifyClientTermination") and request.group.name:
        return _consuming(request.group, [])
    if call == "Telemetry" and request.WhichOneof("command") == "settings":
        settings = request.settings
        if settings.HasField("publishing"):
            return _topics(settings.publishing.topics, Permission.PUB)
        if settings.HasField("subscription"):
            entries = settings.subscription.subscriptions
            return _consuming(settings.subscription.group, (entry.topic for entry in entries))
    return {}


def _topics(topics: Iterable[Any], permission: Permission) -> dict[str, Permission]:
    return {topic.name: permission for topic in topics}


def _consuming(group: Any, topics: Iterable[Any]) -> dict[str, Permission]:
    return {GROUP_PREFIX + group.name: Permission.SUB, **_topics(topics, Permission.SUB)}
