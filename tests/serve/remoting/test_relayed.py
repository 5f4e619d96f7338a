"""Questions of tools that a member of a group answers, and figures of what clients sent and received."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flightlog import Message
from flightlog.serve.metrics.traffic import Traffic
from flightlog.serve.remoting.admin import relayed
from flightlog.serve.remoting.admin.statistics import Statistics
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import RESPONSE, Command
from flightlog.testing import ManualClock
from flightlog.tests.support.remoting_client import RemotingClient, heartbeat
from flightlog.tests.support.remoting_server import RemotingStore

ASKED = {"consumerGroup": "billing", "clientId": "member", "jstackEnable": "false"}


@pytest.fixture
def member(served: RemotingStore) -> Iterator[RemotingClient]:
    with RemotingClient(served.port) as made:
        assert made.call(RequestCode.HEART_BEAT, body=heartbeat("member", "billing", "orders")).code == 0
        yield made


def answer(member: RemotingClient, asked: Command, body: bytes, code: int = 0, remark: str | None = None) -> None:
    member.send_command(Command(code, asked.opaque, RESPONSE, {"by": "member"}, body, remark))


def test_a_member_says_what_it_is_doing(client: RemotingClient, member: RemotingClient) -> None:
    opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    asked = member.wait_until_told(RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert dict(asked.fields) == ASKED
    answer(member, Command(0, asked.opaque + 1), b"of another question")
    answer(member, asked, b"{}")
    found = client.answer(opaque)
    assert (found.code, found.body, found.fields["by"]) == (0, b"{}", "member")
    opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    answer(member, member.wait_until_told(RequestCode.GET_CONSUMER_RUNNING_INFO), b"", 1, "not now")
    assert client.answer(opaque).remark == "not now"


def test_a_message_is_consumed_directly(served: RemotingStore, client: RemotingClient, member: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    message_id = served.store.put(Message("orders", b"again")).message_id
    fields: dict[str, Any] = {**ASKED, "msgId": message_id, "topic": "orders"}
    opaque = client.send(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    asked = member.wait_until_told(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    assert b"again" in asked.body
    assert (asked.fields["brokerName"], asked.fields["topicSysFlag"]) == ("store", "0")
    answer(member, asked, b'{"consumeResult":"CR_SUCCESS"}')
    assert client.answer(opaque).body == b'{"consumeResult":"CR_SUCCESS"}'
    for wrong in ("?", message_id[:-16] + "0" * 15 + "7"):
        assert client.call(RequestCode.CONSUME_MESSAGE_DIRECTLY, {**fields, "msgId": wrong}).code == 1


def test_who_asks_a_member_that_does_not_answer_is_told(
    client: RemotingClient, member: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, {**ASKED, "clientId": "other"})
    assert (offline.code, offline.remark) == (1, "The Consumer <billing> <other> not online")
    with monkeypatch.context() as hurried:
        hurried.setattr(relayed, "ANSWER_S", 0.01)
        late = client.call(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    assert late.code == ResponseCode.CONSUME_MSG_TIMEOUT
    answer(member, member.wait_until_told(RequestCode.GET_CONSUMER_RUNNING_INFO), b"too late")
    opaque = client.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ASKED)
    member.wait_until_told(RequestCode.GET_CONSUMER_RUNNING_INFO)
    member.close()
    lost = client.answer(opaque)
    assert lost.remark == "invoke consumer <billing> <member> Exception: the client is gone"


def test_members_say_how_far_they_are(served: RemotingStore, client: RemotingClient, member: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    fields = {"topic": "orders", "group": "billing"}
    opaque = client.send(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    asked = member.wait_until_told(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    assert dict(asked.fields) == fields
    offsets = b'{{"brokerName":"store","queueId":0,"topic":"orders"}:7}'
    answer(member, asked, b' {"consumerTable": {}, "messageQueueTable":%b}' % offsets)
    assert client.answer(opaque).body == b'{"consumerTable":{"member":%b},"messageQueueTable":{}}' % offsets
    none = b'{"consumerTable":{},"messageQueueTable":{}}'
    for told, code in ((b"", 0), (b"{}", 1), (b"{{", 0), (b"{" * 100_000, 0), (b'{"messageQueueTable":[]}', 0)):
        opaque = client.send(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {**fields, "clientAddr": "member"})
        answer(member, member.wait_until_told(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT), told, code)
        assert client.answer(opaque).body == none, told
    other = client.call(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {**fields, "clientAddr": "other"})
    assert other.body == none
    offline = client.call(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {**fields, "group": "others"})
    assert (offline.code, offline.remark) == (1, "No Any Consumer online in the consumer group: [others]")


def test_figures_are_those_of_the_last_minute_hour_and_day(served: RemotingStore, client: RemotingClient) -> None:
    clock, traffic = ManualClock(), Traffic()
    figures = Statistics(traffic, clock)
    key = "TOPIC_PUT_NUMS", "orders"

    def sums() -> dict[str, int]:
        return {name: figure["sum"] for name, figure in figures.figures(key).items()}

    for _ in range(6):
        traffic.note_sent("orders", "NORMAL", 100)
        clock.advance(10_000)
        figures.sample()
    assert sums() == {"statsMinute": 6, "statsHour": 0, "statsDay": 0}
    assert figures.figures(key)["statsMinute"]["tps"] == pytest.approx(0.1)
    clock.advance(3_600_000)
    figures.sample()
    assert sums() == {"statsMinute": 5, "statsHour": 6, "statsDay": 6}
    refused = client.call(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": key[0], "statsKey": key[1]})
    assert (refused.code, refused.remark) == (1, "The stats <TOPIC_PUT_NUMS> <orders> not exist")
