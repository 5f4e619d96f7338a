"""What requests are answered with, asked without a client library."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from flightlog import FlushMode, InconsistentGroupError, Message, Store
from flightlog.serve.brokers import off_loop
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import HeaderKind
from flightlog.serve.remoting.wire.message_bytes import BATCH_HEAD
from flightlog.tests.serve.conftest import SETTINGS
from flightlog.tests.support.remoting_client import RemotingClient, heartbeat
from flightlog.tests.support.remoting_server import RemotingStore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flightlog import PutResult
    from flightlog.tests.conftest import AssertClean

LOOP, POOL = "served-store", "flightlog-serve"
"""Names of threads: of the event loop, and of those beside it."""
GROUP = "billing"
QUEUE = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0}
PULL = {**QUEUE, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4, "subscription": "*", "expressionType": "TAG"}
SUSPENDED = {**PULL, "sysFlag": 6, "suspendTimeoutMillis": 30_000}


def a_send(topic: str = "orders", **other: Any) -> dict[str, Any]:
    fields = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
    return fields | other


def join(client: RemotingClient, client_id: str, group: str = GROUP) -> None:
    assert client.call(RequestCode.HEART_BEAT, {}, heartbeat(client_id, group, "orders")).code == 0


@pytest.mark.parametrize("kind", HeaderKind)
def test_a_send_makes_its_topic_and_is_pulled(served: RemotingStore, kind: HeaderKind) -> None:
    with RemotingClient(served.port, kind) as client:
        sent = client.call(RequestCode.SEND_MESSAGE_V2, a_send(i="TAGS\x01a\x02UNIQ_KEY\x01u1\x02"), b"hello")
        assert (sent.code, sent.fields["queueId"], sent.fields["queueOffset"]) == (0, "0", "0")
        assert sent.fields["transactionId"] == "u1"
        pulled = client.call(RequestCode.PULL_MESSAGE, PULL)
        assert (pulled.code, pulled.fields["nextBeginOffset"], pulled.kind) == (0, "1", kind)
        assert b"hello" in pulled.body
    [message] = served.store.read("orders", 0)
    assert (message.body, message.tags, message.uniq_key) == (b"hello", "a", "u1")
    assert served.store.topic("orders").queue_count == 2  # type: ignore[union-attr]


def test_a_pull_that_waits_is_woken_by_a_put(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 2)
    waiting = client.send(RequestCode.PULL_MESSAGE, SUSPENDED)
    assert client.call(RequestCode.GET_MAX_OFFSET, QUEUE).fields["offset"] == "0"
    served.store.put(Message("orders", b"now"))
    assert b"now" in client.answer(waiting).body


def test_a_lost_connection_ends_its_pulls(served: RemotingStore) -> None:
    served.store.create_topic("orders", 1)
    with RemotingClient(served.port) as client:
        client.send(RequestCode.PULL_MESSAGE, SUSPENDED)
        assert client.call(RequestCode.GET_MAX_OFFSET, QUEUE).code == 0
    served.stop()  # does not wait for the pull


@pytest.mark.parametrize(
    ("at", "code", "next_offset"),
    [
        (0, ResponseCode.SUCCESS, 2),
        (2, ResponseCode.PULL_NOT_FOUND, 2),
        (9, ResponseCode.PULL_OFFSET_MOVED, 2),
    ],
)
def test_where_a_pull_goes_on(
    served: RemotingStore, client: RemotingClient, at: int, code: int, next_offset: int
) -> None:
    served.store.create_topic("orders", 1)
    served.store.put_many([Message("orders", b"one"), Message("orders", b"two")])
    pulled = client.call(RequestCode.PULL_MESSAGE, {**PULL, "queueOffset": at})
    assert (pulled.code, pulled.fields["nextBeginOffset"]) == (code, str(next_offset))
    assert (pulled.fields["minOffset"], pulled.fields["maxOffset"]) == ("0", "2")


def test_a_pull_without_a_filter_takes_that_of_its_group(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    served.store.put_many([Message("orders", b"one", tags="a"), Message("orders", b"two", tags="b")])
    bare = {**PULL, "sysFlag": 0, "subVersion": 5}
    assert client.call(RequestCode.PULL_MESSAGE, bare).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.call(RequestCode.HEART_BEAT, {}, heartbeat("c", GROUP, "orders", expression="b", version=4))
    assert client.call(RequestCode.PULL_MESSAGE, bare).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    client.call(RequestCode.HEART_BEAT, {}, heartbeat("c", GROUP, "orders", expression="b", version=5))
    pulled = client.call(RequestCode.PULL_MESSAGE, bare)
    assert b"two" in pulled.body
    assert b"one" not in pulled.body


def test_offsets_are_kept_where_the_store_keeps_them(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    served.store.put_many([Message("orders", b"x")] * 5)
    assert client.call(RequestCode.QUERY_CONSUMER_OFFSET, QUEUE).fields["offset"] == "0"
    strict = {**QUEUE, "setZeroIfNotFound": "false"}
    assert client.call(RequestCode.QUERY_CONSUMER_OFFSET, strict).code == ResponseCode.QUERY_NOT_FOUND
    client.say(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "commitOffset": 3})
    assert client.call(RequestCode.QUERY_CONSUMER_OFFSET, QUEUE).fields["offset"] == "3"
    assert served.store.group_offsets(GROUP, "orders") == {0: 3}
    client.call(RequestCode.PULL_MESSAGE, {**PULL, "sysFlag": 5, "commitOffset": 4})
    assert served.store.lag(GROUP) == {("orders", 0): 1}
    served.stop()
    served.start()
    assert served.store.group_offsets(GROUP, "orders") == {0: 4}


def test_members_are_told_of_each_other(served: RemotingStore, client: RemotingClient) -> None:
    join(client, "first")
    client.wait_until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    asked = {"consumerGroup": GROUP}
    with RemotingClient(served.port) as other:
        join(other, "second")
        told = client.wait_until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        assert told.fields == asked
        assert told.is_one_way
        members = client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked)
        assert members.body == b'{"consumerIdList":["first","second"]}'
    client.wait_until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
    assert client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked).body == b'{"consumerIdList":["first"]}'
    client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "first", "consumerGroup": GROUP})
    assert client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked).code == ResponseCode.SYSTEM_ERROR
    assert served.store.topic("%RETRY%billing") is not None


def test_a_group_has_members_of_one_kind(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    join(client, "first")
    with pytest.raises(InconsistentGroupError):
        served.store.subscribe("orders", GROUP)
    with pytest.raises(InconsistentGroupError):
        served.store.receive(GROUP, "orders")
    client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "first", "consumerGroup": GROUP})
    with served.store.subscribe("orders", GROUP):
        refused = client.call(RequestCode.HEART_BEAT, {}, heartbeat("first", GROUP, "orders"))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert GROUP in (refused.remark or "")
        assert client.call(RequestCode.PULL_MESSAGE, PULL).code == ResponseCode.SYSTEM_ERROR
        update = {**QUEUE, "commitOffset": 0}
        assert client.call(RequestCode.UPDATE_CONSUMER_OFFSET, update).code == ResponseCode.SYSTEM_ERROR
    join(client, "first")


def test_a_queue_is_locked_by_one_client(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    queues = [{"brokerName": "store", "queueId": i, "topic": "orders"} for i in range(2)]
    asked = {"consumerGroup": GROUP, "clientId": "first", "mqSet": queues}
    got = b'{"lockOKMQSet":[{"brokerName":"store","queueId":0,"topic":"orders"}]}'
    assert client.call(RequestCode.LOCK_BATCH_MQ, {}, asked).body == got
    other = {**asked, "clientId": "second"}
    assert client.call(RequestCode.LOCK_BATCH_MQ, {}, other).body == b'{"lockOKMQSet":[]}'
    assert client.call(RequestCode.LOCK_BATCH_MQ, {}, asked).body == got
    client.call(RequestCode.UNLOCK_BATCH_MQ, {}, other)
    client.call(RequestCode.UNLOCK_BATCH_MQ, {}, asked)
    assert client.call(RequestCode.LOCK_BATCH_MQ, {}, other).body == got
    served.clock.advance(60_000)
    assert client.call(RequestCode.LOCK_BATCH_MQ, {}, asked).body == got


def test_a_message_that_failed_comes_again_and_ends_as_a_dead_letter(
    served: RemotingStore, client: RemotingClient
) -> None:
    served.store.create_topic("orders", 1)
    put = served.store.put(Message("orders", b"fails"))
    fields = {"group": GROUP, "offset": put.physical_offset, "delayLevel": 0, "maxReconsumeTimes": 1}
    assert client.call(RequestCode.CONSUMER_SEND_MSG_BACK, fields).code == 0
    [waiting] = served.store.read("SCHEDULE_TOPIC_XXXX", 2)
    assert (waiting.reconsume_times, waiting.properties["REAL_TOPIC"]) == (1, "%RETRY%billing")
    again = {**fields, "offset": waiting.physical_offset}
    assert client.call(RequestCode.CONSUMER_SEND_MSG_BACK, again).code == 0
    assert [each.body for each in served.store.dead_letters(GROUP)] == [b"fails"]
    nothing = {**fields, "offset": 1 << 40}
    assert client.call(RequestCode.CONSUMER_SEND_MSG_BACK, nothing).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("code", "fields", "body", "expected", "text"),
    [
        (9999, {}, b"", ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "9999"),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "none"}, b"", ResponseCode.TOPIC_NOT_EXIST, "No topic route"),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, {}, b"", ResponseCode.SYSTEM_ERROR, "<topic>"),
        (RequestCode.PULL_MESSAGE, {**PULL, "topic": "none"}, b"", ResponseCode.TOPIC_NOT_EXIST, "none"),
        (RequestCode.PULL_MESSAGE, {**PULL, "queueId": 7}, b"", ResponseCode.SYSTEM_ERROR, "queueId[7]"),
        (RequestCode.PULL_MESSAGE, {**PULL, "queueId": "9" * 30}, b"", ResponseCode.SYSTEM_ERROR, "<queueId>"),
        (
            RequestCode.PULL_MESSAGE,
            {**PULL, "expressionType": "SQL92", "subscription": "price >"},
            b"",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "SQL92",
        ),
        (
            RequestCode.CHECK_CLIENT_CONFIG,
            {},
            {"subscriptionData": {"expressionType": "SQL92", "subString": "a b c"}},
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            "SQL92",
        ),
        (RequestCode.SEND_MESSAGE_V2, a_send("a/b"), b"x", ResponseCode.MESSAGE_ILLEGAL, "a/b"),
        (RequestCode.SEND_MESSAGE_V2, a_send("SCHEDULE_TOPIC_XXXX"), b"x", ResponseCode.MESSAGE_ILLEGAL, "SCHEDULE"),
        (RequestCode.SEND_MESSAGE_V2, a_send(e=99), b"x", ResponseCode.SYSTEM_ERROR, "99"),
        (RequestCode.SEND_MESSAGE_V2, a_send(), bytes(5 << 20), ResponseCode.MESSAGE_ILLEGAL, "body"),
        (RequestCode.SEND_BATCH_MESSAGE, a_send(), b"\x00\x00\x00\x05hello", ResponseCode.MESSAGE_ILLEGAL, "batch"),
        (RequestCode.HEART_BEAT, {}, b"[" * 100_000, ResponseCode.SYSTEM_ERROR, "body"),
        (RequestCode.HEART_BEAT, {}, {"clientID": "c", "producerDataSet": 7}, ResponseCode.SYSTEM_ERROR, "producer"),
        (RequestCode.LOCK_BATCH_MQ, {}, {"mqSet": 7}, ResponseCode.SYSTEM_ERROR, "mqSet"),
        (RequestCode.VIEW_MESSAGE_BY_ID, {"offset": -5}, b"", ResponseCode.SYSTEM_ERROR, "-5"),
        (
            RequestCode.QUERY_MESSAGE,
            {"topic": "orders", "key": "k", "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 1},
            b"",
            ResponseCode.QUERY_NOT_FOUND,
            "can not find",
        ),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {"topic": "../x", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6},
            b"",
            ResponseCode.MESSAGE_ILLEGAL,
            "../x",
        ),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, {"retryMaxTimes": 3}, ResponseCode.SYSTEM_ERROR, "group"),
    ],
)
def test_what_is_refused(
    served: RemotingStore,
    client: RemotingClient,
    code: int,
    fields: dict[str, Any],
    body: Any,
    expected: int,
    text: str,
) -> None:
    served.store.create_topic("orders", 1)
    found = client.call(code, fields, body)
    assert (found.code, text in (found.remark or "")) == (expected, True), found.remark
    assert client.call(RequestCode.GET_MAX_OFFSET, QUEUE).code == 0


@pytest.mark.parametrize(
    ("flush_mode", "most", "thread"), [("ASYNC", 10, LOOP), ("ASYNC", 9, POOL), ("SYNC", 10, POOL)]
)
def test_a_batch_that_may_wait_for_the_disk_is_a_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean, flush_mode: str, most: int, thread: str
) -> None:
    monkeypatch.setattr(off_loop, "MAX_IN_LOOP", most)
    seen: list[str] = []
    put_many = Store.put_many

    def noted(store: Store, messages: Iterable[Message]) -> list[PutResult]:
        seen.append(threading.current_thread().name)
        return put_many(store, messages)

    monkeypatch.setattr(Store, "put_many", noted)
    head = BATCH_HEAD.pack(BATCH_HEAD.size + 5 + 2, 0, 0, 0, 5)
    batch = b"".join(head + body + b"\0\0" for body in (b"one..", b"two.."))
    served = RemotingStore(tmp_path / "store", replace(SETTINGS, flush_mode=FlushMode[flush_mode]))
    with RemotingClient(served.port) as client:
        sent = client.call(RequestCode.SEND_BATCH_MESSAGE, a_send(m="true"), batch)
    assert (sent.code, sent.fields["msgId"].count(","), sent.fields["queueOffset"]) == (0, 1, "0")
    assert [message.body for message in served.store.read("orders")] == [b"one..", b"two.."]
    assert [name.startswith(thread) for name in seen] == [True]
    served.stop()
    assert_clean(served.path)


def test_a_topic_of_very_many_queues_is_refused_by_name(served: RemotingStore, client: RemotingClient) -> None:
    """To go through them would hold up every client."""
    served.store.create_topic("huge", (1 << 31) - 1)
    served.store.create_topic("orders", 4)
    served.store.commit_offset("billing", "huge", 0, 0)
    asked = {"consumerGroup": "billing", "group": "billing", "topic": "huge"}
    body = json.dumps(asked | {"clientId": "c", "strategyName": "AVG", "messageModel": "CLUSTERING"}).encode()
    routes = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.QUERY_ASSIGNMENT
    for code in (*routes, RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_CONSUME_STATS):
        answer = client.call(code, asked, body)
        assert answer.code != 0 and "update_topic('huge'" in (answer.remark or "")
    assert client.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}).code == 0


def test_the_state_of_the_broker_is_what_the_store_knows(served: RemotingStore, client: RemotingClient) -> None:
    for _ in range(3):
        assert client.call(RequestCode.SEND_MESSAGE_V2, a_send(i="TAGS\x01a\x02"), b"body").code == 0
    served.clock.advance(90_061_000)
    table = json.loads(client.call(RequestCode.GET_BROKER_RUNTIME_INFO).body)["table"]
    assert re.fullmatch(r"\[ 1 days, 1 hours, \d+ minutes, \d+ seconds \]", table["runtime"])  # the clock runs on
    assert table["putMessageTimesTotal"] == "3"
    assert float(table["putMessageAverageSize"]) * 3 == int(table["putMessageSizeTotal"]) > 0
    assert 0 <= float(table["commitLogDiskRatio"]) <= 1 and " GiB, Free : " in table["commitLogDirCapacity"]
    assert table["remainHowManyDataToFlush"].endswith(" B")
    assert table["sendThreadPoolQueueSize"] == table["pullThreadPoolQueueHeadWaitTimeMills"] == "0"
