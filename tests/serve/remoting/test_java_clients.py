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
def test_mqadmin_shows_what_is_there_and_talks_to_clients(served: RemotingStore) -> None:
    told = "\n".join(run(served, "Mqadmin", served.address))
    blocks = [(block.split("\n", 1)[0], block) for block in told.split("== ")[1:]]
    assert [name for name, _ in blocks] == [name for name, _ in COMMANDS], told
    missing = [
        (name, text)
        for (name, texts), (_, block) in zip(COMMANDS, blocks, strict=True)
        for text in texts
        if text not in block
    ]
    assert not missing, told


MESSAGE = ["Keys:                [key-7]", "Queue ID:            3", "Queue Offset:        1"]
OFFLINE = "CODE: 206  DESC: the consumer group[billing] not online"
ENDS = ["3                                         2", "0                                         3"]
COMMANDS = [
    ("updateTopic", ["create topic to"]),
    ("updateSubGroup", ["create subscription group to", "groupName=billing"]),
    ("consumerConnection", ["127.0.0.1@first", "127.0.0.1@second", "orders               *", "CONSUME_PASSIVELY"]),
    ("producerConnection", ["@producer", "V5_3_3"]),
    ("producer", ["producer group (producers) instance : clientId=", "@producer", "language=JAVA, version=479"]),
    ("getConsumeStatus", ["first 0 2", "first 1 2", "second 2 2", "second 3 2", "one [127.0.0.1@first"]),
    ("consumerProgress", ["Consume Diff Total: 0", "orders"]),
    ("consumerStatus", ["Same subscription in the same group of consumer", "Rebalance OK"]),
    ("consumerStatus", ["#Consumer MQ Detail#", "ConsumeMessageThread_billing_1"]),
    ("topicList", ["orders"]),
    ("topicStatus", ["store                             0     0                     2"]),
    ("topicRoute", ['"readQueueNums":4', '"brokerName":"store"']),
    ("clusterList", ["DefaultCluster", "V5_3_3"]),
    ("brokerStatus", ["brokerVersionDesc", "V5_3_3"]),
    ("allocateMQ", ['"a":[', '"b":[']),
    ("statsAll", ["#OutMsg24Hour", "billing"]),
    ("queryMsgByUniqueKey", [*MESSAGE, "MessageTrack [consumerGroup=billing, trackType=CONSUMED, exceptionDesc=null]"]),
    ("queryMsgById", ["ConsumeMessageDirectlyResult [order=false, autoCommit=true, consumeResult=CR_SUCCESS"]),
    ("queryMsgByKey", ["3                                        0"]),
    ("queryMsgByOffset", MESSAGE),
    (
        "printMsg",
        [f"minOffset=0, maxOffset=2, MessageQueue [topic=orders, brokerName=store, queueId={n}]" for n in range(4)],
    ),
    ("printMsgByQueue", ["queueOffset=0", "queueOffset=1"]),
    ("consumeMessage", ["Consume ok", "queueOffset=0", "queueOffset=1"]),
    ("getBrokerConfig", ["brokerName                                        =  store", "flushDiskType"]),
    ("updateBrokerConfig", ["CODE: 16  DESC: flushDiskType is ASYNC_FLUSH and cannot become 'SYNC_FLUSH'"]),
    ("updateBrokerConfig", ["update broker config success"]),
    ("sendMessage", ["SEND_OK"]),
    ("resetOffsetByTime", [f"{n}                                         0" for n in range(4)]),
    ("skipAccumulatedMessage", ENDS),
    ("consumerConnection", [OFFLINE]),
    ("producerConnection", ["CODE: 1  DESC: the producer group[producers] not exist"]),
    ("consumerStatus", [OFFLINE]),
    ("resetOffsetByTime", [f"{n}                                         0" for n in range(4)]),
    ("skipAccumulatedMessage", ENDS),
    ("deleteTopic", ["delete topic [orders] from NameServer success."]),
    ("done", []),
]
"""What mqadmin's commands say, in part: while clients are there, and once they are gone."""
