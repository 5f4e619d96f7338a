"""Light message queues that flightlog wrote, in RocketMQ, and back again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, ReadOnlyStore, Store
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import OpenResult, RocketMq

pytestmark = pytest.mark.ci

CONFIG = {"enableLmq": "true", "enableMultiDispatch": "true"}
NAMES = ("%LMQ%a", "", "%LMQ%b,%LMQ%a", "%LMQ%c", "")
COUNT = 400


def message(number: int) -> Message:
    names = NAMES[number % len(NAMES)]
    properties = {"INNER_MULTI_DISPATCH": names} if names else {}
    return Message(
        "orders", b"%d" % number * 20, tags="a", keys=f"k{number}", queue_id=number % 3, properties=properties
    )


def assert_equal(opened: OpenResult, store: Store | ReadOnlyStore) -> None:
    """RocketMQ's queues, entries and messages are flightlog's, light queues among them."""
    assert not opened.problems
    assert opened.bounds == store.queues()
    theirs = {(m["cqTopic"], m["cqQueueId"], m["cqOffset"]): m for m in opened.messages}
    for (topic, queue_id), (first, end) in store.queues().items():
        for queue_offset, mine in enumerate(store.read(topic, queue_id), first):
            line = theirs.pop((topic, queue_id, queue_offset))
            assert (line["cqPos"], line["cqSize"]) == (mine.physical_offset, mine.size)
            assert (line["topic"], line["queueId"], line["queueOffset"]) == (
                mine.topic,
                mine.queue_id,
                mine.queue_offset,
            )
            assert line["properties"] == mine.properties
        assert queue_offset == end - 1
    assert not theirs


@pytest.mark.parametrize("halt", [False, True], ids=["clean", "halted"])
def test_to_and_fro(rocketmq: RocketMq, tmp_path: Path, halt: bool) -> None:
    path = tmp_path / "store"
    sizes: Any = {**mixed.SMALL, "config": CONFIG}
    settings = mixed.small_settings(multi_dispatch=True)
    with flightlog.open(path, settings) as store:
        store.put_many(map(message, range(COUNT)))
    written = rocketmq.write_store(path, seed=3, count=COUNT, features=("light", "v6"), halt=halt, **sizes)
    assert sum("INNER_MULTI_QUEUE_OFFSET" in line["properties"] for line in written) > 30
    with flightlog.open(path, settings) as store:
        assert not store.recovery_report.damage and not store.recovery_report.cut
        for number in range(COUNT, COUNT + 50):
            store.put(message(number))
        lights = {key for key in store.queues() if key[0].startswith("%LMQ%")}
        assert lights == {("%LMQ%a", 0), ("%LMQ%b", 0), ("%LMQ%c", 0)}
        assert store.verify().is_clean

    opened = rocketmq.open_store(path, append=100, features=("light",), **sizes)

    # What RocketMQ appended stands behind what it read.
    with flightlog.open_read_only(path) as view:
        assert view.verify().is_clean
        assert opened.bounds_after == view.queues()
    again = rocketmq.open_store(path, **sizes)
    with flightlog.open(path, settings) as store:
        assert_equal(again, store)
        assert store.verify().is_clean
