"""Pops over remoting: by requests of hand, and by RocketMQ's own client in its pop mode."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from flightlog import Message, TopicPermission
from flightlog.serve.remoting.wire.codes import RequestCode, ResponseCode
from flightlog.serve.remoting.wire.command import Command
from flightlog.tests.serve.remoting.test_java_clients import run
from flightlog.tests.support.remoting_client import RemotingClient, heartbeat
from flightlog.tests.support.remoting_server import RemotingStore

GROUP = {"consumerGroup": "poppers", "topic": "orders"}
POP = {**GROUP, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 120_000, "pollTime": 0, "initMode": 0}
POLL = {**POP, "pollTime": 30_000}
ASSIGNMENT = {**GROUP, "clientId": "one", "strategyName": "AVG", "messageModel": "CLUSTERING"}


@pytest.mark.ci
def test_java_clients_pop(served: RemotingStore) -> None:
    told = run(served, "Popping", served.address)
    assert "topic[orders] group[poppers] consume mode[POP] popShareQueueNum[0]" in told
    assert told[-4:] == [
        "popped 60, with handles 60, failed once 1",
        "pulled by assignment",
        "refused CODE: 1  DESC: group 'poppers': found a member that pulls 'orders', expected members that pop "
        "(clientRebalance=false), or the mode PULL (mqadmin setConsumeMode); or take another name for the group",
        "done",
    ]


def set_mode(client: RemotingClient, mode: str = "POP", **changes: Any) -> Command:
    return client.call(
        RequestCode.SET_MESSAGE_REQUEST_MODE, {}, {**GROUP, "mode": mode, "popShareQueueNum": 0} | changes
    )


def handles(found: Command) -> list[str]:
    """Handles of the messages of an answer, as a client makes them of the header and as the records have them."""
    fields = found.fields
    starts = {tuple(each.split(" ")[:2]): each.split(" ")[2] for each in fields["startOffsetInfo"].split(";")}
    made = []
    for each in fields["msgOffsetInfo"].split(";"):
        flag, queue_id, offsets = each.split(" ")
        shared = f"{starts[flag, queue_id]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} {flag}"
        made += [f"{shared} store {queue_id} {offset}" for offset in offsets.split(",")]
    assert all(f"POP_CK\x01{each}\x02".encode() in found.body for each in made)
    return made


def test_messages_are_popped_acknowledged_and_kept(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    served.store.put_many([Message("orders", b"%d" % number) for number in range(4)])
    found = client.call(RequestCode.POP_MESSAGE, POP)
    first, second, third, fourth = handles(found)
    assert (found.code, found.fields["restNum"]) == (0, "0")
    ack = {**GROUP, "queueId": 0, "offset": 0, "extraInfo": first}
    assert client.call(RequestCode.ACK_MESSAGE, ack).code == ResponseCode.SUCCESS
    start, pop_time, invisible, revive, flag, _, queue, _ = second.split(" ")
    bits = base64.b64encode(bytes([0b0110])).decode()
    point = {"c": "poppers", "t": "orders", "r": flag, "so": int(start), "q": int(queue), "rq": int(revive)}
    body = {"brokerName": "store", "acks": [{**point, "pt": int(pop_time), "it": int(invisible), "b": bits}]}
    assert client.call(RequestCode.BATCH_ACK_MESSAGE, {}, body).code == ResponseCode.SUCCESS
    change = {**GROUP, "queueId": 0, "offset": 3, "extraInfo": fourth, "invisibleTime": 240_000}
    changed = client.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)
    assert (changed.code, changed.fields["invisibleTime"]) == (0, "240000")
    words = f"3 {changed.fields['popTime']} 240000 {changed.fields['reviveQid']} 0 store 0 3"
    served.clock.advance(150_000)
    for late in (first, third):
        assert client.call(RequestCode.ACK_MESSAGE, {**ack, "extraInfo": late}).code == ResponseCode.NO_MESSAGE
    assert client.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change).code == ResponseCode.NO_MESSAGE
    served.clock.advance(100_000)
    again = client.call(RequestCode.POP_MESSAGE, POLL)
    (handle,) = handles(again)
    assert (handle.split(" ")[4], b"3" in again.body) == ("1", True)
    retried = {**ack, "topic": "%RETRY%poppers_orders", "extraInfo": handle}
    assert client.call(RequestCode.ACK_MESSAGE, retried).code == ResponseCode.SUCCESS
    assert client.call(RequestCode.ACK_MESSAGE, {**ack, "extraInfo": words}).code == ResponseCode.NO_MESSAGE
    assert client.call(RequestCode.ACK_MESSAGE, {**ack, "extraInfo": "?"}).code == ResponseCode.SYSTEM_ERROR
    assert client.call(RequestCode.BATCH_ACK_MESSAGE, {}, {"acks": [{"c": "x"}]}).code == ResponseCode.SYSTEM_ERROR
    assert client.call(RequestCode.POP_MESSAGE, POP).code == ResponseCode.POLLING_TIMEOUT


def test_a_suspended_message_comes_again_as_the_same_attempt(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    served.store.put(Message("orders", b"now"))
    for suspend in ("true", "false", "true"):
        popped = client.call(RequestCode.POP_MESSAGE, POLL)
        (handle,) = handles(popped)
        change = {**GROUP, "queueId": 0, "offset": 0, "extraInfo": handle, "invisibleTime": 1000, "suspend": suspend}
        change["topic"] = "%RETRY%poppers_orders" if handle.split(" ")[4] == "1" else "orders"
        assert client.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change).code == ResponseCode.SUCCESS
        served.clock.advance(5_000)
    client.call(RequestCode.POP_MESSAGE, POLL)
    assert [each.reconsume_times for each in served.store.read("%RETRY%poppers_orders")] == [0, 1, 1]


def test_a_pop_waits_for_a_message(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    popping = client.send(RequestCode.POP_MESSAGE, POLL)
    noticing = client.send(RequestCode.NOTIFICATION, {**POLL, "consumerGroup": "others"})
    waiting = client.call(RequestCode.POLLING_INFO, {**GROUP, "queueId": 0})
    assert waiting.fields["pollingNum"] == "1"
    served.store.put(Message("orders", b"now"))
    assert b"now" in client.answer(popping).body
    assert client.answer(noticing).fields["hasMsg"] == "true"
    assert client.call(RequestCode.NOTIFICATION, POP).fields["hasMsg"] == "false"


def test_a_peek_shows_what_would_be_popped_next(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 2)
    served.store.create_topic("closed", 1, perm=TopicPermission.WRITE)
    served.store.put_many([Message("orders", b"<%d>" % number, queue_id=number % 2) for number in range(4)])

    def peeked(**changes: Any) -> tuple[list[int], str]:
        found = client.call(RequestCode.PEEK_MESSAGE, {**GROUP, "queueId": -1, "maxMsgNums": 32} | changes)
        assert found.code == (ResponseCode.SUCCESS if found.body else ResponseCode.PULL_NOT_FOUND)
        return [number for number in range(4) if b"<%d>" % number in found.body], found.fields["restNum"]

    for _ in range(2):
        assert peeked() == ([0, 1, 2, 3], "4")
    assert peeked(queueId=1) == ([1, 3], "2")
    assert peeked(queueId=1, maxMsgNums=1) == ([1], "2")
    assert peeked(maxMsgNums=0) == ([], "4")
    assert client.call(RequestCode.POP_MESSAGE, POP).code == ResponseCode.SUCCESS
    assert peeked() == ([], "0")
    served.clock.advance(125_000)
    assert client.call(RequestCode.NOTIFICATION, POLL).fields["hasMsg"] == "true"
    first, _ = peeked(maxMsgNums=1)
    assert len(first) == 1  # of those that come again
    for wrong, code in (
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "closed"}, ResponseCode.NO_PERMISSION),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
    ):
        asked = {**GROUP, "queueId": -1, "maxMsgNums": 32} | wrong
        assert client.call(RequestCode.PEEK_MESSAGE, asked).code == code, wrong


def test_wrong_pops_are_refused(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 1)
    for wrong, code in (
        ({"topic": "nothing"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"expType": "SQL92", "exp": "price >"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"invisibleTime": 0}, ResponseCode.SYSTEM_ERROR),
    ):
        assert client.call(RequestCode.POP_MESSAGE, POP | wrong).code == code, wrong


def test_a_group_pops_or_pulls_and_stays_so(served: RemotingStore, client: RemotingClient) -> None:
    served.store.create_topic("orders", 4)
    served.store.put(Message("orders", b"one"))
    assert client.call(RequestCode.HEART_BEAT, body=heartbeat("one", "poppers", "orders")).code == 0
    pulls = client.call(RequestCode.QUERY_ASSIGNMENT, {}, ASSIGNMENT).body
    assert pulls.count(b'"mode":"PULL"') == 4
    refused = client.call(RequestCode.POP_MESSAGE, POP)
    assert "expected a group that only receives" in (refused.remark or "")
    assert set_mode(client).code == 0
    assert set_mode(client, topic="%RETRY%poppers").code == ResponseCode.NO_PERMISSION
    assert set_mode(client, topic="nothing").code == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode(client, "PEEK").code == ResponseCode.SYSTEM_ERROR
    assert client.call(RequestCode.POP_MESSAGE, POP).code == ResponseCode.SUCCESS
    pull = {**GROUP, "queueId": 0, "queueOffset": 0, "sysFlag": 0}
    offset = {**GROUP, "queueId": 0, "commitOffset": 0}
    for _ in range(2):
        for code, fields in ((RequestCode.PULL_MESSAGE, pull), (RequestCode.UPDATE_CONSUMER_OFFSET, offset)):
            assert "found a member that pulls 'orders'" in (client.call(code, fields).remark or "")
        served.stop()
        served.start()
        client = RemotingClient(served.port)
        assert client.call(RequestCode.HEART_BEAT, body=heartbeat("one", "poppers", "orders")).code == 0
        found = json.loads(client.call(RequestCode.QUERY_ASSIGNMENT, {}, ASSIGNMENT).body)
        queue = {"brokerName": "store", "queueId": -1, "topic": "orders"}
        assert found["messageQueueAssignments"] == [{"attachments": None, "messageQueue": queue, "mode": "POP"}]
    served.store.create_topic("others", 4)
    assert "pulls 'others'" in (client.call(RequestCode.PULL_MESSAGE, pull | {"topic": "others"}).remark or "")
    retries = client.call(RequestCode.PULL_MESSAGE, pull | {"topic": "%RETRY%poppers", "sysFlag": 4})
    assert retries.code == ResponseCode.PULL_NOT_FOUND
    assert set_mode(client, "PULL").code == 0
    assert client.call(RequestCode.UPDATE_CONSUMER_OFFSET, offset).code == 0
    client.close()
    mode = {**GROUP, "mode": "PULL", "popShareQueueNum": 0}
    written = json.loads((served.path / "config" / "messageRequestMode.json").read_text())
    assert written == {"messageRequestModeMap": {"orders": {"poppers": mode}}}
