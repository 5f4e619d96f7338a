"""What both servers are asked: good calls, each limit and each wrong argument."""

from __future__ import annotations

import time
from typing import Any

from rocketmq.grpc_protocol import definition_pb2 as definition
from rocketmq.grpc_protocol import service_pb2 as service

from .conversation import (
    CLIENT,
    PATIENCE_S,
    Conversation,
    ack,
    change,
    handle_of,
    message,
    receive,
    resource,
    send,
)

TOPICS = {
    "orders": (1, "NORMAL"),
    "wide": (3, "NORMAL"),
    "steps": (1, "FIFO"),
    "later": (1, "DELAY"),
    "deals": (1, "TRANSACTION"),
    "mixed": (1, "MIXED"),
    "acked": (1, "NORMAL"),
    "filtered": (1, "NORMAL"),
    "batches": (1, "NORMAL"),
    "dead": (1, "NORMAL"),
    "redelivered": (1, "NORMAL"),
}
"""Name -> number of queues, type of messages."""
GROUPS = {"billing": False, "ordered": True}
"""The groups that were made before: name -> whether it is ordered. The others come with their first receive."""
BAD_NAMES = {
    "blank": "",
    "of spaces": "  ",
    "too long": "t" * 128,
    "far too long": "g" * 300,
    "with bad characters": "a.b c",
    "of a system topic": "TBW102",
    "of the delayed messages": "SCHEDULE_TOPIC_XXXX",
    "of a transaction's topic": "RMQ_SYS_TRANS_HALF_TOPIC",
    "of a retry topic": "%RETRY%billing",
    "of a dead letter topic": "%DLQ%billing",
    "unknown": "unknown",
}
BAD_GROUPS = {
    "blank": "",
    "of spaces": " ",
    "too long": "g" * 256,
    "as long as a topic may be": "g" * 127,
    "with bad characters": "a b",
    "of the system": "CID_RMQ_SYS_x",
    "of tools": "TOOLS_CONSUMER",
}
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


def ask_all(talk: Conversation) -> None:
    """The order counts: later questions find what earlier ones left."""
    for part in (
        _routes, _assignments, _settings, _hearts, _sends, _wrong_sends, _types, _batches, _receives, _wrong_receives,
        _filters, _acks, _changes, _dead_letters, _redelivery, _fifo, _delays, _transactions, _absent,
    ):  # fmt: skip
        part(talk)


def _endpoints() -> Any:
    return definition.Endpoints(scheme=definition.IPv4, addresses=[definition.Address(host="127.0.0.1", port=8081)])


def route(topic: str) -> Any:
    return service.QueryRouteRequest(topic=resource(topic), endpoints=_endpoints())


def _routes(talk: Conversation) -> None:
    for topic in ("orders", "wide", "steps", "later", "deals", "mixed"):
        talk.ask(f"route: {topic}", "QueryRoute", route(topic))
    for what, topic in BAD_NAMES.items():
        talk.ask(f"route: a name {what}", "QueryRoute", route(topic))
    talk.ask("route: without a client id", "QueryRoute", route("orders"), client=())
    talk.ask("route: without endpoints", "QueryRoute", service.QueryRouteRequest(topic=resource("orders")))
    named = route("orders")
    named.endpoints.scheme, named.endpoints.addresses[0].host = definition.DOMAIN_NAME, "mq.example.org"
    talk.ask("route: by a domain name", "QueryRoute", named)


def _assignments(talk: Conversation) -> None:
    def assignment(topic: str = "wide", group: str = "billing") -> Any:
        return service.QueryAssignmentRequest(topic=resource(topic), group=resource(group), endpoints=_endpoints())

    talk.ask("assignment", "QueryAssignment", assignment())
    talk.ask("assignment: of an ordered group", "QueryAssignment", assignment(group="ordered"))
    for what, name in BAD_NAMES.items():
        talk.ask(f"assignment: a topic {what}", "QueryAssignment", assignment(name))
    for what, name in BAD_GROUPS.items():
        talk.ask(f"assignment: a group {what}", "QueryAssignment", assignment(group=name))
    talk.ask("assignment: without a client id", "QueryAssignment", assignment(), client=())


def _settings(talk: Conversation) -> None:
    def producer(*topics: str) -> Any:
        found = definition.Settings(client_type=definition.PRODUCER)
        found.request_timeout.seconds = 3
        found.publishing.topics.extend(resource(topic) for topic in topics)
        return service.TelemetryCommand(settings=found)

    def consumer(kind: int, group: str = "billing") -> Any:
        found = definition.Settings(client_type=kind)
        found.request_timeout.seconds = 3
        found.subscription.group.name = group
        subscribed = found.subscription.subscriptions.add(topic=resource("orders"))
        subscribed.expression.type, subscribed.expression.expression = definition.TAG, "*"
        return service.TelemetryCommand(settings=found)

    def tell(name: str, command: Any, client: Any = CLIENT) -> None:
        talk.ask(f"settings: {name}", "Telemetry", command, client=client)

    tell("of a producer", producer("orders"))
    tell("of a producer without topics", producer())
    tell("of a producer of an unknown topic", producer("unknown"))
    tell("of a producer of a bad topic", producer("a b"))
    for kind in ("PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER", "CLIENT_TYPE_UNSPECIFIED"):
        tell(f"of a {kind}", consumer(definition.ClientType.Value(kind)))
    tell("of an ordered push consumer", consumer(definition.PUSH_CONSUMER, "ordered"))
    for what, name in BAD_GROUPS.items():
        tell(f"of a group {what}", consumer(definition.PUSH_CONSUMER, name))
    tell("without a client id", producer("orders"), ())
    tell("that are none", service.TelemetryCommand(settings=definition.Settings()))


def _hearts(talk: Conversation) -> None:
    def client(name: str) -> Any:
        return (("x-mq-client-id", name), *CLIENT[1:])

    for name, request in (
        ("Heartbeat", service.HeartbeatRequest(group=resource("billing"))),
        ("NotifyClientTermination", service.NotifyClientTerminationRequest(group=resource("billing"))),
    ):
        talk.ask(f"{name}: of an unknown client", name, request, client=client("unknown"))
        talk.ask(f"{name}: without a client id", name, request, client=())
    for kind in ("PRODUCER", "PUSH_CONSUMER", "SIMPLE_CONSUMER", "PULL_CONSUMER"):
        settings = definition.Settings(client_type=definition.ClientType.Value(kind))
        if kind == "PRODUCER":
            settings.publishing.topics.add(name="orders")
        else:
            settings.subscription.group.name = "billing"
        who = client(kind)
        talk.ask(f"settings: of {kind}, for its heartbeats", "Telemetry", service.TelemetryCommand(settings=settings),
                 client=who)  # fmt: skip
        for what, group in (("", "billing"), (", another group", "another"), (", a bad group", "a b")):
            request = service.HeartbeatRequest(group=resource(group))
            request.client_type = settings.client_type
            talk.ask(f"Heartbeat: of {kind}{what}", "Heartbeat", request, client=who)
        ending = service.NotifyClientTerminationRequest(group=resource("billing"))
        talk.ask(f"NotifyClientTermination: of {kind}", "NotifyClientTermination", ending, client=who)
        talk.ask(f"NotifyClientTermination: of {kind}, again", "NotifyClientTermination", ending, client=who)


def _sends(talk: Conversation) -> None:
    whole = message("orders", b"whole", 1, tag="red", keys=["k1", "k2"], trace_context="trace", queue_id=7)
    whole.user_properties.update({"a": "1", "ü": "ß"})
    whole.system_properties.born_timestamp.seconds = 1_700_000_000
    whole.system_properties.born_host = "somewhere"
    whole.system_properties.body_encoding = definition.IDENTITY
    talk.ask("send: every field", "SendMessage", send(whole))
    [found] = talk.receive("receive: every field", receive("orders", "fields"))
    talk.ask("ack: every field", "AckMessage", ack([handle_of(found)], "orders", "fields"))
    talk.ask("send: as little as there can be", "SendMessage", send(message("orders", b"x", 2)))
    [found] = talk.receive("receive: as little as there can be", receive("orders", "fields"))
    talk.ask("ack: as little as there can be", "AckMessage", ack([handle_of(found)], "orders", "fields"))
    talk.ask("send: without a client id", "SendMessage", send(message()), client=())


def _wrong_sends(talk: Conversation) -> None:
    def wrong(name: str, *messages: Any) -> None:
        talk.ask(f"send: {name}", "SendMessage", send(*messages))

    def with_property(name: str, value: str) -> Any:
        found = message()
        found.user_properties[name] = value
        return found

    many, most = message(), message("orders", number=10)
    many.user_properties.update({str(number): "" for number in range(129)})
    most.user_properties.update({str(number): "" for number in range(128)})
    wrong("no message")
    wrong("two topics", message(), message("wide"))
    for what, name in BAD_NAMES.items():
        wrong(f"to a topic {what}", message(name))
    wrong("no body", message(body=b""))
    wrong("too large a body", message(body=bytes((4 << 20) + 1)))
    wrong("the largest body", message(body=bytes(4 << 20), number=11))
    wrong("too large properties", with_property("a", "x" * (16 << 10)))
    wrong("too many properties", many)
    wrong("the most properties", most)
    for name in ("KEYS", "TAGS", "UNIQ_KEY", "DELAY", "__SHARDINGKEY", "PGROUP", "TRACE_CONTEXT", "__CRC32#", "POP_CK"):
        wrong(f"a property of the system, {name}", with_property(name, "a"))
    for what, name, value in (
        ("a control character in a name", "a\x01", "b"),
        ("a control character in a value", "a", "b\x01"),
        ("a delete character in a value", "a", "b\x7f"),
        ("a property without a name", "", "b"),
        ("a property without a value", "a", ""),
    ):
        wrong(what, with_property(name, value))
    for what, tag in (("with a bar", "a|b"), ("of spaces", " "), ("with a control character", "a\x01")):
        wrong(f"a tag {what}", message(tag=tag))
    for what, keys in (("of spaces", [" "]), ("with a control character", ["a\x01"]), ("that is empty", [""])):
        wrong(f"a key {what}", message(keys=keys, number=12))
    wrong("a key with a space", message(keys=["a b"], number=13))
    wrong("no id", message(message_id=""))
    wrong("an id of spaces", message(message_id=" "))
    wrong("an id of another form", message(message_id="an id"))
    for what, group in (("too long", "g" * 64), ("of spaces", " "), ("with a control character", "a\x01")):
        wrong(f"a message group {what}", message("steps", message_group=group, message_type=definition.FIFO))
    wrong("a negative queue", message(queue_id=-3, number=14))
    wrong("a wrong encoding", message(body_encoding=definition.GZIP, number=15))
    digest = message(number=16)
    digest.system_properties.body_digest.type = definition.MD5
    digest.system_properties.body_digest.checksum = "no digest"
    wrong("a wrong digest", digest)


def _types(talk: Conversation) -> None:
    for topic in ("orders", "steps", "later", "deals", "mixed"):
        for kind in ("MESSAGE_TYPE_UNSPECIFIED", *TYPES):
            for what, fields in (
                ("plain", {}),
                ("group", {"message_group": "g"}),
                ("time", {"delivery_timestamp": int(time.time()) - 10}),
            ):
                number = 100 + len(talk.answers)
                kind_value = definition.MessageType.Value(kind)
                asked = message(topic, b"typed", number, message_type=kind_value, **fields)
                talk.ask(f"type: {kind} to {topic}, {what}", "SendMessage", send(asked))
    both = message("mixed", message_group="g", delivery_timestamp=int(time.time()) + 3600, number=99)
    talk.ask("type: a delayed message in a group", "SendMessage", send(both))


def _batches(talk: Conversation) -> None:
    talk.ask("batch: three", "SendMessage", send(*(message("batches", b"b%d" % i, 20 + i) for i in range(3))))
    for number in range(3):
        talk.receive(f"batch: receive {number}", receive("batches"))
    talk.ask("batch: one is wrong", "SendMessage", send(message("batches"), message("batches", b"")))
    now_s = int(time.time())
    delayed = [
        message("later", b"d", 30 + i, delivery_timestamp=now_s - 5, message_type=definition.DELAY) for i in (0, 1)
    ]
    talk.ask("batch: delayed", "SendMessage", send(*delayed))
    deals = [message("deals", b"t", 32 + i, message_type=definition.TRANSACTION) for i in (0, 1)]
    talk.ask("batch: in transactions", "SendMessage", send(*deals))
    steps = [message("steps", b"s", 34 + i, message_group="a", message_type=definition.FIFO) for i in (0, 1)]
    talk.ask("batch: in a group", "SendMessage", send(*steps))


def _receives(talk: Conversation) -> None:
    talk.ask("receive: nothing there", "ReceiveMessage", receive("wide"))
    talk.ask("receive: nothing there, of one queue", "ReceiveMessage", receive("wide", queue_id=1))
    talk.ask("receive: without a client id", "ReceiveMessage", receive("wide"), client=())
    for number in range(4):
        talk.ask(f"send: for the renewals {number}", "SendMessage", send(message("acked", b"%d" % number, 40 + number)))
    talk.receive("receive: renewed by the server", receive("acked", "renewed", seconds=None, auto_renew=True))
    talk.receive("receive: many", receive("acked", "many", batch_size=32))


def _wrong_receives(talk: Conversation) -> None:
    def wrong(name: str, request: Any, timeout: float = 60.0, **fields: Any) -> None:
        until_s = time.monotonic() + PATIENCE_S
        talk.ask(f"receive: {name}", "ReceiveMessage", request, timeout=timeout, **fields)
        while talk.answers[f"receive: {name}"].startswith("DEADLINE_EXCEEDED"):  # a slow machine
            assert time.monotonic() < until_s
            del talk.answers[f"receive: {name}"]
            talk.ask(f"receive: {name}", "ReceiveMessage", request, timeout=timeout, **fields)

    wrong("too short an invisible time", receive(seconds=9))
    wrong("too long an invisible time", receive(seconds=43_201))
    wrong("a negative invisible time", receive(seconds=-1))
    wrong("no invisible time", receive(seconds=None))
    old = (("x-mq-client-id", "tester"), ("x-mq-client-version", "5.0.2"))
    for timeout in (4.9, 4.0, 1.0):
        wrong(f"a client that waits for {timeout} s", receive("filtered"), timeout)
    wrong("an old client that waits for 4.0 s", receive("filtered"), 4.0, client=old)
    for what, name in BAD_NAMES.items():
        wrong(f"of a topic {what}", receive(name))
    for what, name in BAD_GROUPS.items():
        if what != "as long as a topic may be":
            wrong(f"by a group {what}", receive("acked", name))
    wrong("a batch of none", receive("acked", "none", batch_size=0))
    wrong("a negative batch", receive("acked", "negative", batch_size=-1))
    wrong("a large batch", receive("acked", "large", batch_size=1000))


def _filters(talk: Conversation) -> None:
    for number, (tag, value) in enumerate((("red", "1"), ("green", "5"), ("blue", "9"))):
        sent = message("filtered", tag.encode(), 50 + number, tag=tag)
        sent.user_properties["price"] = value
        talk.ask(f"send: {tag}", "SendMessage", send(sent))
    for number, tags in enumerate(("red", "green || blue", "*", "", "red|blue", "a ||", "|| ||", "none")):
        talk.receive(f"filter: by tag {tags!r}", receive("filtered", f"tags{number}", tag=tags, batch_size=32))
    for number, sql in enumerate(("price > 4", "price >", "TRUE", "TAGS = 'red'", "price in (1", "' '")):
        talk.receive(f"filter: by SQL {sql!r}", receive("filtered", f"sql{number}", sql=sql, batch_size=32))


def _acks(talk: Conversation) -> None:
    [first, second, *_] = talk.receive("receive: to acknowledge", receive("acked", "acks", batch_size=4))
    good, other = handle_of(first), handle_of(second)
    for what, handle in WRONG_HANDLES.items():
        talk.ask(f"ack: {what}", "AckMessage", ack([handle], "acked", "acks"))
        talk.ask(f"change: {what}", "ChangeInvisibleDuration", change(handle, 60, "acked", "acks"))
        forward = service.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, delivery_attempt=1)
        forward.group.name, forward.topic.name = "acks", "acked"
        talk.ask(f"forward: {what}", "ForwardMessageToDeadLetterQueue", forward)
    talk.ask("ack: no entry", "AckMessage", ack([], "acked", "acks"))
    talk.ask("ack: by another group", "AckMessage", ack([good], "acked", "foreign"))
    talk.ask("ack: of another topic", "AckMessage", ack([good], "orders", "acks"))
    for what, name in BAD_NAMES.items():
        talk.ask(f"ack: a topic {what}", "AckMessage", ack([good], name, "acks"))
    for what, name in BAD_GROUPS.items():
        talk.ask(f"ack: a group {what}", "AckMessage", ack([good], "acked", name))
    talk.ask("ack: good and bad", "AckMessage", ack([good, "no handle"], "acked", "acks"))
    talk.ask("ack: again", "AckMessage", ack([good], "acked", "acks"))
    talk.ask("ack: two at once", "AckMessage", ack([other, other], "acked", "acks"))
    talk.ask("ack: without a client id", "AckMessage", ack([good], "acked", "acks"), client=())


WRONG_HANDLES = {
    "an empty handle": "",
    "no handle": "no handle",
    "a handle of zeros": "0 0 0 0 0 0 0 0",
    "a handle of the past": "0 1000 1000 0 0 broker-a 0 0",
    "a handle of words": "a b c d e f g h",
}


def _changes(talk: Conversation) -> None:
    [found] = talk.receive("receive: to change", receive("acked", "changes", seconds=10))
    first = handle_of(found)

    def changed(name: str, handle: str, seconds: int | None, **fields: Any) -> Any:
        asked = change(handle, seconds, fields.pop("topic", "acked"), fields.pop("group", "changes"))
        return talk.ask(f"change: {name}", "ChangeInvisibleDuration", asked, **fields)

    renewed = changed("good", first, 60)
    handle = renewed.receipt_handle
    changed("a negative time", handle, -1)
    changed("too long a time", handle, 43_201)
    for what, name in BAD_NAMES.items():
        changed(f"a topic {what}", handle, 60, topic=name)
    for what, name in BAD_GROUPS.items():
        changed(f"a group {what}", handle, 60, group=name)
    changed("without a client id", handle, 60, client=())
    changed("with the old handle", first, 60)
    short = changed("to a second", handle, 1)
    talk.wait_ms(1500)
    talk.ask("ack: expired", "AckMessage", ack([short.receipt_handle], "acked", "changes"))
    changed("expired", short.receipt_handle, 60)
    forward = service.ForwardMessageToDeadLetterQueueRequest(receipt_handle=short.receipt_handle, delivery_attempt=1)
    forward.group.name, forward.topic.name = "changes", "acked"
    talk.ask("forward: expired", "ForwardMessageToDeadLetterQueue", forward)
    [found] = talk.receive("receive: to change to nothing", receive("acked", "changes2", seconds=60))
    changed("no time", handle_of(found), None, group="changes2")


def _dead_letters(talk: Conversation) -> None:
    def forward(handle: str, topic: str = "dead", group: str = "poison") -> Any:
        found = service.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, message_id="m")
        found.group.name, found.topic.name = group, topic
        found.delivery_attempt, found.max_delivery_attempts = 3, 3
        return found

    talk.ask("send: a poison", "SendMessage", send(message("dead", b"poison", 60, tag="t")))
    [found] = talk.receive("receive: a poison", receive("dead", "poison"))
    handle = handle_of(found)
    name = "ForwardMessageToDeadLetterQueue"
    for what, topic in BAD_NAMES.items():
        talk.ask(f"forward: a topic {what}", name, forward(handle, topic))
    for what, group in BAD_GROUPS.items():
        talk.ask(f"forward: a group {what}", name, forward(handle, group=group))
    talk.ask("forward: without a client id", name, forward(handle), client=())
    talk.ask("forward: good", name, forward(handle))
    talk.ask("forward: again", name, forward(handle))


def _redelivery(talk: Conversation) -> None:
    talk.ask("send: to come again", "SendMessage", send(message("redelivered", b"again", 70, tag="t", keys=["k"])))
    [found] = talk.receive("receive: to come again", receive("redelivered", "retries"))
    asked = change(handle_of(found), 1, "redelivered", "retries")
    talk.ask("change: to come again", "ChangeInvisibleDuration", asked)
    talk.wait_ms(1000)
    found = talk.receive_one("receive: that came again", receive("redelivered", "retries", polling=20))
    talk.ask("ack: that came again", "AckMessage", ack([handle_of(found)], "redelivered", "retries"))


def _fifo(talk: Conversation) -> None:
    sent = message("steps", b"first", 80, message_group="one", message_type=definition.FIFO)
    talk.ask("send: in a group", "SendMessage", send(sent))
    talk.receive("receive: in groups", receive("steps", "unordered", batch_size=32))


def _delays(talk: Conversation) -> None:
    def delayed(name: str, seconds: int, number: int) -> Any:
        at_s = int(time.time()) + seconds
        sent = message("later", b"later", number, delivery_timestamp=at_s, message_type=definition.DELAY)
        return talk.ask(f"delay: {name}", "SendMessage", send(sent))

    delayed("in the past", -3600, 90)
    delayed("too far", 25 * 3600, 91)
    delayed("in the year 58868", 1_800_000_000_000 - int(time.time()), 92)
    delayed("before 1970", -int(time.time()) - 1000, 93)
    found = delayed("in an hour", 3600, 94)
    handle = found.entries[0].recall_handle
    recall = service.RecallMessageRequest
    for what, request in {
        "of another topic": recall(topic=resource("orders"), recall_handle=handle),
        "of an unknown topic": recall(topic=resource("unknown"), recall_handle=handle),
        "of a bad topic": recall(topic=resource("a b"), recall_handle=handle),
        "without a handle": recall(topic=resource("later")),
        "with a handle that is none": recall(topic=resource("later"), recall_handle="?"),
        "with a handle of nothing": recall(topic=resource("later"), recall_handle="djE="),
        "good": recall(topic=resource("later"), recall_handle=handle),
        "again": recall(topic=resource("later"), recall_handle=handle),
    }.items():
        talk.ask(f"recall: {what}", "RecallMessage", request)
    plain = talk.ask("send: to recall at once", "SendMessage", send(message("orders", b"plain", 95)))
    asked = recall(topic=resource("orders"), recall_handle=plain.entries[0].recall_handle)
    talk.ask("recall: a message that is not delayed", "RecallMessage", asked)


def _transactions(talk: Conversation) -> None:
    def end(half: Any, resolution: int, topic: str = "deals", **fields: Any) -> Any:
        found = service.EndTransactionRequest(topic=resource(topic), resolution=resolution)
        found.message_id, found.transaction_id = half.message_id, half.transaction_id
        found.source = definition.SOURCE_CLIENT
        for name, value in fields.items():
            setattr(found, name, value)
        return found

    def half(name: str, number: int, **system: Any) -> Any:
        sent = message("deals", name.encode(), number, message_type=definition.TRANSACTION, **system)
        found = talk.ask(f"transaction: {name}", "SendMessage", send(sent))
        return found.entries[0] if found.entries else None

    half("too long a time", 200, orphaned_transaction_recovery_duration=3601)
    half("a negative time", 201, orphaned_transaction_recovery_duration=-1)
    commit, rollback = definition.COMMIT, definition.ROLLBACK
    begun = half("begun", 202, orphaned_transaction_recovery_duration=3600)
    for what, name in BAD_NAMES.items():
        talk.ask(f"end: a topic {what}", "EndTransaction", end(begun, commit, name))
    talk.ask("end: without an id", "EndTransaction", end(begun, commit, transaction_id=""))
    talk.ask("end: an unknown id", "EndTransaction", end(begun, commit, transaction_id="unknown"))
    talk.ask("end: without a message id", "EndTransaction", end(begun, commit, message_id=""))
    talk.ask("end: without a client id", "EndTransaction", end(begun, commit), client=())
    begun = half("begun to be unknown", 203, orphaned_transaction_recovery_duration=3600)
    unspecified = definition.TRANSACTION_RESOLUTION_UNSPECIFIED
    talk.ask("end: no resolution", "EndTransaction", end(begun, unspecified))
    begun = half("begun to be committed", 204, orphaned_transaction_recovery_duration=3600)
    talk.ask("end: commit", "EndTransaction", end(begun, commit))
    talk.ask("end: commit again", "EndTransaction", end(begun, commit))
    talk.ask("end: roll back what was committed", "EndTransaction", end(begun, rollback))
    begun = half("begun to be rolled back", 205, orphaned_transaction_recovery_duration=3600)
    talk.ask("end: roll back", "EndTransaction", end(begun, rollback))


def _absent(talk: Conversation) -> None:
    queue = definition.MessageQueue(topic=resource("orders"), id=0)
    group: Any = resource("billing")
    for name, request in {
        "GetOffset": service.GetOffsetRequest(group=group, message_queue=queue),
        "UpdateOffset": service.UpdateOffsetRequest(group=group, message_queue=queue),
        "QueryOffset": service.QueryOffsetRequest(message_queue=queue),
        "SyncLiteSubscription": service.SyncLiteSubscriptionRequest(topic=resource("orders"), group=group),
    }.items():
        talk.ask(f"absent: {name}", name, request)
