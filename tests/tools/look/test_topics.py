"""`topics`, and `topic_states` beneath it: of the golden sets as RocketMQ reads them, and of stores of our own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoreSettings, topic_states
from flightlog.engine.read.selection import Selection

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

WHOLE = (
    *("abort", "abort-late", "abort-reopen", "batch-bcq", "cqext", "delay-tx", "lmq", "minoffset", "propcrc"),
    *("rollover", "v1-clean", "v2-v6"),
)
"""Golden sets that RocketMQ reads whole."""


@pytest.mark.parametrize("name", WHOLE)
def test_topics_are_those_that_rocketmq_reads(golden: Callable[[str], Path], name: str) -> None:
    folder = golden(name)
    lines = [json.loads(line) for line in (folder / "java-read.jsonl").read_text().splitlines()]
    queues = [line for line in lines if line["type"] == "queue" and line["max"]]
    with flightlog.open_read_only(folder / "store") as view:
        found = topic_states(view, include_system=True)
    with_queues = {state.name: state for state in found.values() if state.queues}
    assert with_queues.keys() == {line["topic"] for line in queues}
    for topic, state in with_queues.items():
        of_topic = [line for line in queues if line["topic"] == topic]
        assert state.queues == len(of_topic)
        assert state.messages == sum(line["max"] - line["min"] for line in of_topic)
        assert (state.first_offset, state.end_offset) == (
            min(line["min"] for line in of_topic),
            max(line["max"] for line in of_topic),
        )
        times = [line["storeTimestamp"] for line in lines if line["type"] == "msg" and line["cqTopic"] == topic]
        if times:
            assert (state.first_store_timestamp_ms, state.last_store_timestamp_ms) == (min(times), max(times))


def test_filler_before_the_first_message_of_a_queue_is_none(golden: Callable[[str], Path]) -> None:
    """RocketMQ takes filler for the beginning of such a queue: by its bounds topic T110_0 has 176 messages, and 118
    were put. All others of its topics differ as well."""
    folder = golden("preblank")
    theirs, put = Counter[str](), Counter[str]()
    for line in map(json.loads, (folder / "java-read.jsonl").read_text().splitlines()):
        if line["type"] == "queue":
            theirs[line["topic"]] += line["max"] - line["min"]
    for line in map(json.loads, (folder / "manifest.jsonl").read_text().splitlines()):
        if line["type"] == "msg" and line["status"] == "PUT_OK":
            put[line["topic"]] += 1
    assert (theirs["T110_0"], put["T110_0"]) == (176, 118)
    with flightlog.open_read_only(folder / "store") as view:
        found = topic_states(view)
        assert {name: state.messages for name, state in found.items()} == put
        assert {name: len(list(Selection(topics=(name,)).messages(view))) for name in put} == put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        store.create_topic("invoices", 8, attributes={"message.type": "FIFO"})
        store.create_topic("closed", read_queue_count=2, write_queue_count=1, perm=4)
        for number in range(10):
            store.put(Message("orders", b"%d" % number, queue_id=number % 2))
        store.commit_offset("billing", "orders", 0, 3)
        store.commit_offset("CID_RMQ_SYS_TRANS", "orders", 0, 3)
        store.put(Message("orders", b"later", delay_level=18))
    return path


def objects(finished: Finished) -> dict[str, dict[str, Any]]:
    assert (finished.code, finished.err) == (0, "")
    return {each["topic"]: each for each in json.loads(finished.out)}


def test_a_topic_is_told_with_its_settings_times_and_groups(cli: Cli, path: Path) -> None:
    with flightlog.open_read_only(path) as view:
        times = [each.store_timestamp_ms for queue_id in (0, 1) for each in view.read("orders", queue_id)]
        state = topic_states(view)["orders"]
    assert (state.first_store_timestamp_ms, state.last_store_timestamp_ms) == (min(times), max(times))
    found = objects(cli("topics", path, "--json"))
    assert found.keys() == {"closed", "invoices", "orders"}
    assert list(found["orders"]) == [
        *("topic", "queues", "read_queues", "write_queues", "permission", "type", "holds_batches", "messages"),
        *("first_offset", "end_offset", "first_store_time", "last_store_time", "groups"),
    ]
    assert (found["orders"]["messages"], found["orders"]["end_offset"], found["orders"]["groups"]) == (
        10,
        5,
        {"billing": 7},
    )
    assert (found["invoices"]["type"], found["invoices"]["read_queues"], found["invoices"]["queues"]) == ("FIFO", 8, 0)
    assert (found["closed"]["permission"], found["closed"]["last_store_time"]) == ("r", None)
    system = objects(cli("topics", path, "--json", "--system"))
    assert system["SCHEDULE_TOPIC_XXXX"]["permission"] is None
    assert system["orders"]["groups"] == {"CID_RMQ_SYS_TRANS": 7, "billing": 7}
    lines = [line.split() for line in cli("topics", path).out.splitlines()]
    [row] = [line for line in lines if line[-1:] == ["orders"]]
    assert (row[:6], row[8:]) == (["10", "4", "rw", "normal", "0", "5"], ["billing", "7", "orders"])
    assert ["0", "2", "read,", "1", "write", "r", "normal", "0", "0", "closed"] in lines
    assert lines[-1] == ["3", "topics,", "10", "messages"]


def test_an_open_store_tells_its_topics_too(path: Path) -> None:
    with flightlog.open(path) as store:
        store.put(Message("orders", b"x", queue_id=0))
        store.commit_offset("billing", "orders", 0, 6)
        state = topic_states(store)["orders"]
    assert (state.messages, state.end_offset, state.groups) == (11, 6, {"billing": 5})


def test_a_damaged_last_message_is_passed_over(golden: Callable[[str], Path]) -> None:
    """Its topic's last time is that of the message before it."""
    with flightlog.open_read_only(golden("clean-crcflip") / "store") as view:
        found = topic_states(view, include_system=True)
        for topic, state in found.items():
            keys = [key for key in view.queues() if key[0] == topic]
            times = [each.store_timestamp_ms for key in keys for each in view.read(*key, on_corrupt="skip")]
            assert state.last_store_timestamp_ms == max(times, default=None)
        assert view.corrupt_skipped
