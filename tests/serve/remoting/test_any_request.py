"""Requests with any fields and bodies: each is answered with a code, and none with an error of Python's."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flightlog import Message
from flightlog.serve.remoting.wire.codes import RequestCode
from flightlog.serve.remoting.wire.command import Command, HeaderKind
from flightlog.tests.support.remoting_client import RemotingClient
from flightlog.tests.support.remoting_server import RemotingStore

NAMES = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"),
    *("topic", "consumerGroup", "group", "groupName", "producerGroup", "clientID", "clientId", "queueId", "offset"),
    *("queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "subscription", "expressionType", "subVersion"),
    *("extraInfo", "invisibleTime", "initMode", "exp", "expType", "attemptId", "msgId", "key", "maxNum"),
    *("beginTimestamp", "endTimestamp", "timestamp", "delayLevel", "properties", "bornTimestamp", "flag", "batch"),
    *("readQueueNums", "writeQueueNums", "perm", "attributes", "topicFilterType", "statsName", "statsKey", "offset"),
    *("tranStateTableOffset", "commitLogOffset", "commitOrRollback", "transactionId", "defaultTopic"),
    *("defaultTopicQueueNums", "reconsumeTimes", "originTopic", "maxMsgBytes", "boundaryType", "isForce"),
    *("clientID", "clientId", "consumerDataSet", "producerDataSet", "subscriptionDataSet", "subscriptionData", "mqSet"),
    *("acks", "mode", "popShareQueueNum", "strategyName", "subString", "groupRetryPolicy", "so", "pt", "it", "rq"),
    *("q", "t", "r", "consumeType", "brokerName"),
)
VALUES = st.sampled_from(
    [
        *("", "0", "1", "-1", "2147483648", "9223372036854775807", "-9223372036854775808", "9" * 40, "?", "\x00"),
        *("orders", "none", "billing", "%RETRY%billing", "true", "TAG", "SQL92", "a >", "POP", "+a=b", "AAAA"),
        *(
            "0 1 1000 0 0 store 0 0",
            "7F00000100002A9F0000000000000000",
            "KEYS\x01",
            "UNIQ_KEY\x01x\x02DELAY\x01999\x02",
        ),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | VALUES,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(NAMES), each, max_size=5),
    max_leaves=12,
)
BODIES = st.binary(max_size=60) | JSON.map(lambda each: json.dumps(each).encode())
BINARY_MAX = 0x7FFF
"""RocketMQ's own serialization has 16 bits for a code: its clients cannot pop with it."""
OF_PYTHON = re.compile(r"[A-Z]\w*(Error|Exception|Warning): |\w+ object ")


def kind_of(code: int, opaque: int) -> HeaderKind:
    return HeaderKind.ROCKETMQ if code <= BINARY_MAX and opaque % 2 else HeaderKind.JSON


@given(
    st.lists(
        st.tuples(st.sampled_from(RequestCode), st.dictionaries(st.sampled_from(NAMES), VALUES), BODIES), max_size=20
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_is_answered(served: RemotingStore, requests: list[tuple[int, dict[str, str], bytes]]) -> None:
    if served.store.topic("orders") is None:
        served.store.create_topic("orders", 2)
        served.store.put(Message("orders", b"one", keys=["1"]))
    with RemotingClient(served.port) as client:
        for opaque, (code, fields, body) in enumerate(requests):
            answered = client.ask(Command(code, opaque, 0, fields, body, kind=kind_of(code, opaque)))
            told = str(answered.remark)
            assert not OF_PYTHON.search(told), (code, fields, body, told)


def test_a_body_that_is_a_bomb_is_refused(client: RemotingClient) -> None:
    bombs: list[Any] = [b"[" * 100_000, b'{"a":' * 100_000, b'{"clientID":' + b"9" * 10_000 + b"}", b"\xff", b"[]"]
    for code in (RequestCode.HEART_BEAT, RequestCode.LOCK_BATCH_MQ, RequestCode.BATCH_ACK_MESSAGE):
        for bomb in bombs:
            assert client.call(code, {}, bomb).code == 1
