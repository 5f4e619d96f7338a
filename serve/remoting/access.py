"""What a request shows of its client, and which permissions it needs: as RocketMQ's `PlainAccessResource` has it.

Stricter than RocketMQ, which asks only for an account there: a lite pull and a pop need what a pull needs, a lock and a
reset of offsets what the update of an offset needs, a message for the retries of a group needs that group, and what
reads any message by its place, and the configuration, are an administrator's.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..access.accounts import GROUP_PREFIX, Credentials, Permission
from .answers.request import Request
from .answers.sending import long_names
from .wire.codes import RequestCode
from .wire.command import Command

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"
UNSIGNED = "_UNIQUE_KEY_QUERY"
"""Clients up to `UNSIGNED_VERSION` add this field after they signed."""
UNSIGNED_VERSION = 399
"""4.9.3"""
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
"""Every account may send its traces there."""
OPEN = {RequestCode.GET_ROUTEINFO_BY_TOPIC}
"""Asked of name servers, which know no accounts: a client that is refused here would tell its user of a missing route,
and not why."""
ADMINISTRATION = {
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
}
SENDING = {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
OF_GROUP = {
    RequestCode.CONSUMER_SEND_MSG_BACK: "group",
    RequestCode.UNREGISTER_CLIENT: "consumerGroup",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumerGroup",
    RequestCode.PULL_MESSAGE: "consumerGroup",
    RequestCode.LITE_PULL_MESSAGE: "consumerGroup",
    RequestCode.UPDATE_CONSUMER_OFFSET: "consumerGroup",
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "group",
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "group",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "consumerGroup",
    RequestCode.POP_MESSAGE: "consumerGroup",
    RequestCode.PEEK_MESSAGE: "consumerGroup",
    RequestCode.ACK_MESSAGE: "consumerGroup",
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: "consumerGroup",
    RequestCode.NOTIFICATION: "consumerGroup",
    RequestCode.POLLING_INFO: "consumerGroup",
}
"""Requests of consumers: the field that names their group."""
OF_TOPIC = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
}
"""Requests of consumers with a field `topic`."""

ACKS = {RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME}


@dataclass(frozen=True)
class Needed:
    """What a request needs."""

    permissions: dict[str, Permission] = field(default_factory=dict)
    """By resource."""
    admin_code: int | None = None
    """Its code, if it is an administrator's alone."""


def credentials_of(command: Command) -> Credentials:
    """The client signs the values of all other fields, in the order of their names, and the body after them."""
    fields, is_old = command.fields, command.version <= UNSIGNED_VERSION
    left_out = (SIGNATURE, UNSIGNED) if is_old else (SIGNATURE,)
    content = "".join(value for name, value in sorted(fields.items()) if name not in left_out)
    try:
        signature = binascii.a2b_base64(fields.get(SIGNATURE, ""), strict_mode=True)
    except ValueError:
        signature = b""
    return Credentials(fields.get(ACCESS_KEY), content.encode("utf-8", "surrogatepass") + command.body, signature)


def needed_for(request: Request) -> Needed:
    """Raises CommandRefused for a body that is not understood."""
    code, fields = request.command.code, request.command.fields
    if code in ADMINISTRATION:
        return Needed(admin_code=code)
    if code in SENDING:
        return Needed(_of_sending(long_names(request)))
    if code == RequestCode.HEART_BEAT:
        return Needed(dict.fromkeys(_of_heartbeat(request), Permission.SUB))
    if code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        return Needed({GROUP_PREFIX + str(request.json().get("consumerGroup", "")): Permission.SUB})
    if code == RequestCode.BATCH_ACK_MESSAGE:
        return Needed(dict.fromkeys(_of_acks(request), Permission.SUB))
    found: dict[str, Permission] = {}
    group = fields.get(OF_GROUP[RequestCode(code)]) if code in OF_GROUP else None
    if group:
        found[GROUP_PREFIX + group] = Permission.SUB
    if code in OF_TOPIC:
        topic = fields.get("topic", "")
        if code in ACKS:
            topic = _popped_from(group or "", topic)
        found[topic] = Permission.SUB
    return Needed(found)


def _of_sending(request: Request) -> dict[str, Permission]:
    topic = request.command.fields.get("topic", "")
    if topic.startswith(GROUP_PREFIX):  # a consumer sends to the retries of its own group
        return {topic: Permission.SUB}
    return {} if topic == TRACE_TOPIC else {topic: Permission.PUB}


def _of_acks(request: Request) -> Iterator[str]:
    """The groups and topics of its acks."""
    acks = request.json().get("acks") or ()
    for each in acks if isinstance(acks, list) else ():
        if isinstance(each, dict):
            group = str(each.get("c", ""))
            yield GROUP_PREFIX + group
            yield _popped_from(group, str(each.get("t", "")))


def _popped_from(group: str, topic: str) -> str:
    """The topic of an acknowledgement, which names the retry topic of a message that came again."""
    return topic.removeprefix(f"{GROUP_PREFIX}{group}_")


def _of_heartbeat(request: Request) -> Iterator[str]:
    """The groups and topics of its consumers."""
    consumers = request.json().get("consumerDataSet") or ()
    for each in consumers if isinstance(consumers, list) else ():
        if not isinstance(each, dict):
            continue
        yield GROUP_PREFIX + str(each.get("groupName", ""))
        wanted = each.get("subscriptionDataSet") or ()
        for subscription in wanted if isinstance(wanted, list) else ():
            if isinstance(subscription, dict):
                yield str(subscription.get("topic", ""))
