"""Messages popped in order that one of the two hands out and the other acknowledges, changes and hands out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, PopHandle
from flightlog.store.disk.config_file import parse_config
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.interop.test_pop import AGAIN_MS, INVISIBLE_MS, SETTINGS, popped_by, run_broker
from flightlog.tests.interop.test_pop import ours as at_the_end_of_the_log
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

pytestmark = pytest.mark.ci

LONG_MS = 600_000
COUNT = 8


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    fill(root)
    return root


def fill(root: Path) -> None:
    with flightlog.open(root, SETTINGS) as store:
        store.create_topic("orders", 1)
        for number in range(COUNT):
            store.put(Message("orders", b"%d" % number))


def in_order(rocketmq: RocketMq, root: Path, *orders: tuple[object, ...]) -> list[Line]:
    return run_broker(rocketmq, root, ("orderly", "g"), *orders)


def ours(root: Path) -> PoppedStore:
    """Opened after the last pop, of which a broker leaves no record."""
    here = at_the_end_of_the_log(root)
    if (root / "config" / "consumerOrderInfo.json").exists():
        here.clock.at_ms = max(here.clock.at_ms, info_of(root)["popTime"] + 1000)
    return here


def info_of(root: Path) -> dict[str, Any]:
    path = root / "config" / "consumerOrderInfo.json"
    found: dict[str, Any] = parse_config(path.read_bytes(), path)["table"]["orders@g"]["0"]
    return found


def infos(root: Path) -> dict[str, Any]:
    """The order info of the queue; without times, and the keys as text."""
    found = info_of(root)
    at_ms = found["popTime"]
    assert found.pop("l") >= at_ms
    return {**found, "popTime": "T", "ot": sorted(found.get("ot", {}))}


def offset(root: Path) -> int:
    with flightlog.open(root, SETTINGS) as store:
        return store.group_offsets("g", "orders")[0]


def test_both_write_the_same_file(rocketmq: RocketMq, root: Path, tmp_path: Path) -> None:
    """The same calls here and there, up to where a message comes again, leave the same order info and offset."""
    other = tmp_path / "other" / "store"
    other.parent.mkdir()
    fill(other)
    lines = in_order(
        *(rocketmq, root),
        ("pop", "g", "orders", 4, LONG_MS, "a", "attempt-1"),
        ("pop", "g", "orders", 4, LONG_MS, "b", "attempt-2"),
        ("ack", "g", "orders", "a0"),
        ("ack", "g", "orders", "a2"),
        ("change", "g", "orders", "a1", LONG_MS),
    )
    assert [line["count"] for line in lines if line["type"] == "pop"] == [4, 0]
    here = ours(other)
    here.store.update_group("g", is_ordered=True)
    messages = here.receive(4, invisible_ms=LONG_MS, attempt_id="attempt-1")
    assert here.receive(4, invisible_ms=LONG_MS, attempt_id="attempt-2") == []
    here.store.ack(messages[0].handle, messages[2].handle)
    here.store.change_invisible(messages[1].handle, LONG_MS)
    here.store.close()
    words = [line["handle"].split(" ") for line in popped_by(lines).values()]
    own = [each.handle.extra_info.split(" ") for each in messages]
    assert [each[:1] + each[2:] for each in own] == [each[:1] + each[2:] for each in words], "but for the pop time"
    assert infos(other) == infos(root)
    assert offset(other) == offset(root) == 1


def test_a_broker_goes_on_with_what_was_popped_here(rocketmq: RocketMq, root: Path) -> None:
    with flightlog.open(root, SETTINGS) as store:
        store.update_group("g", is_ordered=True)
        first, second, third = store.receive("g", "orders", 3, invisible_ms=LONG_MS)
        store.ack(first.handle)
        again = store.change_invisible(second.handle, LONG_MS, count_attempt=False)
        store.ack(third.handle)
    lines = in_order(
        *(rocketmq, root),
        ("pop", "g", "orders", 4, LONG_MS, "blocked"),
        ("handle", "x", again.extra_info),
        ("ack", "g", "orders", "x"),
        ("pop", "g", "orders", 2, INVISIBLE_MS, "a"),
        ("sleep", 2 * INVISIBLE_MS),
        ("pop", "g", "orders", 2, LONG_MS, "b"),
    )
    assert [line["count"] for line in lines if line["type"] == "pop"] == [0, 2, 2]
    assert [line["body"] for line in popped_by(lines).values()] == ["3", "4", "3", "4"]
    here = ours(root)
    assert here.numbers() == [], "a broker's receiver has it"
    here.clock.advance(LONG_MS)
    [message] = here.receive()
    assert (message.body, message.attempt) == (b"3", 3)
    here.store.close()


def test_what_a_broker_popped_goes_on_here(rocketmq: RocketMq, root: Path) -> None:
    lines = in_order(
        *(rocketmq, root),
        ("pop", "g", "orders", 3, LONG_MS, "a", "attempt-1"),
        ("ack", "g", "orders", "a0"),
        ("change", "g", "orders", "a1", LONG_MS),
    )
    changed = next(line["handle"] for line in lines if line["type"] == "change")
    found = popped_by(lines)
    here = ours(root)
    try:
        assert here.numbers(attempt_id="attempt-2") == []
        here.store.ack(PopHandle("g", "orders", changed))
        here.store.ack(PopHandle("g", "orders", found["a2"]["handle"]))
        assert here.store.group_offsets("g", "orders")[0] == 3
        assert here.numbers(2) == [3, 4]
    finally:
        here.store.close()


def test_a_lost_answer_of_one_is_received_again_from_the_other(rocketmq: RocketMq, root: Path) -> None:
    in_order(rocketmq, root, ("pop", "g", "orders", 3, LONG_MS, "a", "attempt-1"))
    here = ours(root)
    messages = here.receive(3, invisible_ms=LONG_MS, attempt_id="attempt-1")
    assert [(int(each.body), each.attempt) for each in messages] == [(0, 1), (1, 1), (2, 1)]
    here.store.ack(messages[0].handle)
    here.store.close()
    lines = in_order(
        *(rocketmq, root),
        ("pop", "g", "orders", 3, LONG_MS, "b", "attempt-2"),
        ("pop", "g", "orders", 3, LONG_MS, "b", "attempt-1"),
    )
    assert [line["body"] for line in popped_by(lines).values()] == ["1", "2", "3"]
    assert json.dumps(lines).count("qo0%") == 0, "no attempt was counted"


def test_lives_of_both_in_turn(rocketmq: RocketMq, root: Path) -> None:
    """Attempts are handed on from life to life, and the order is kept."""
    lines = in_order(rocketmq, root, ("pop", "g", "orders", 2, INVISIBLE_MS, "a"))
    assert [line["body"] for line in popped_by(lines).values()] == ["0", "1"]
    here = ours(root)
    here.clock.advance(AGAIN_MS)
    [second] = here.receive(invisible_ms=INVISIBLE_MS)
    assert (second.body, second.attempt) == (b"0", 2)
    here.store.close()
    lines = in_order(rocketmq, root, ("sleep", AGAIN_MS), ("pop", "g", "orders", 1, LONG_MS, "c"))
    assert [line["body"] for line in popped_by(lines).values()] == ["0"]
    [counts] = [line["counts"] for line in lines if line["type"] == "pop"]
    assert counts.startswith("0 qo0%0 2"), "two deliveries before this one"
    here = ours(root)
    here.clock.advance(LONG_MS)
    [fourth] = here.receive(max_attempts=4)
    assert (fourth.body, fourth.attempt) == (b"0", 4)
    here.clock.advance(LONG_MS)
    behind = here.receive(max_attempts=4)
    assert numbers_of(behind) == list(range(1, COUNT)), "a broker forgets what it did not pop again"
    assert [message.body for message in here.store.dead_letters("g")] == [b"0"]
    here.store.close()
