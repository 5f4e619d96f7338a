"""RocketMQ's own Java clients and admin tools, unmodified, over remoting."""

from __future__ import annotations

import pytest

from flightlog.tests.support.remoting_java import run_remoting_program
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_java import JavaClientMissingError

STEPS = {
    "sends": [
        "sent SEND_OK SEND_OK 3 3",
        "large SEND_OK",
        "by id sync, by key batch 1",
    ],
    "pushes": ["push [async, batch 0, batch 1, batch 2, large 100000, one way, sync]"],
    "filters": ["by tag [async, batch 1, large 100000]", "by sql [sync]"],
    "retries": ["attempts [failures 0, failures 1, failures 2], dead [fails]"],
    "orders": ["in order true of 4 keys"],
    "pulls": ["pulled 80"],
    "transactions": ["committed [committed, left], asked [left]"],
    "requests": ["reply answer to why"],
    "broadcasts": ["broadcast"],
}


def run(served: RemotingStore, program: str, *arguments: str, version: str = "5.3.3") -> list[str]:
    try:
        return run_remoting_program(program, served.address, *arguments, version=version, home=served.path.parent)
    except JavaClientMissingError as e:
        pytest.skip(str(e))


@pytest.mark.ci
@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
def test_java_clients_send_consume_transact_and_ask(served: RemotingStore, version: str) -> None:
    expected = [line for lines in STEPS.values() for line in lines]
    assert run(served, "Clients", *STEPS, version=version) == [*expected, "done"]


@pytest.mark.ci
def test_java_admin_client_makes_topics_and_groups(served: RemotingStore) -> None:
    assert run(served, "Admin") == [
        "cluster {DefaultCluster=[store]} [store]",
        "topic orders 4 4 6 {message.type=FIFO}",
        "group billing 3 true",
        "queues 4 0",
        "route 4 true",
        "topics [orders]",
        "all true true",
        "reset 4",
        "stats 4",
        "gone true",
        "done",
    ]


@pytest.mark.ci
def test_mqadmin_shows_what_is_there(served: RemotingStore) -> None:
    lines = run(served, "Mqadmin")
    assert lines[-1] == "done"
    told = "\n".join(lines)
    assert "Exception" not in told
    blocks = {block.split("\n", 1)[0]: block for block in told.split("== ")[1:]}
    assert set(COMMANDS) == set(blocks)
    missing = {name: text for name, texts in COMMANDS.items() for text in texts if text not in blocks[name]}
    assert not missing, told


COMMANDS = {
    "updateTopic": ["create topic to"],
    "updateSubGroup": ["create subscription group to", "groupName=billing"],
    "sendMessage": ["SEND_OK"],
    "topicList": ["orders"],
    "topicStatus": ["store                             0     0                     1"],
    "topicRoute": ['"readQueueNums":4', '"brokerName":"store"'],
    "clusterList": ["DefaultCluster", "V5_3_3"],
    "brokerStatus": ["brokerVersionDesc", "V5_3_3"],
    "queryMsgByKey": ["0                                        0"],
    "queryMsgByOffset": ["Keys:                [k1]", "Queue Offset:        0"],
    "printMsg": ["hello"],
    "consumerProgress": ["#Group"],
    "resetOffsetByTime": ["store                                     0                                         1"],
    "skipAccumulatedMessage": ["store                                     3"],
    "allocateMQ": ['"a":[', '"b":['],
    "deleteTopic": ["delete topic [orders] from NameServer success."],
}
"""What mqadmin's commands say, in part."""
