"""Popped messages that one of the two hands out and the other acknowledges, changes and brings back.

RocketMQ's clock cannot be set, so what it brings back is due a few seconds after it was popped; ours follows it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import Message, PopHandle, StoreSettings
from flightlog.consume.pop.check_point import NEXT_OFFSET
from flightlog.consume.pop.pop_topics import REVIVE_QUEUE_COUNT, REVIVE_TOPIC
from flightlog.consume.retry.send_back import REVIVED
from flightlog.testing.clock import ManualClock
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

pytestmark = pytest.mark.ci

SIZES = {"segmentSize": 1 << 20, "queueEntries": 1000, "index": False}
SETTINGS = StoreSettings(segment_size=1 << 20, queue_file_entries=1000, key_index=False)
QUEUES = 2
INVISIBLE_MS = 2_000
AGAIN_MS = 8_000
"""By then a broker has brought back what was invisible for INVISIBLE_MS."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with flightlog.open(root, SETTINGS) as store:
        store.create_topic("orders", QUEUES)
        for number in range(12):
            store.put(Message("orders", b"%d" % number, queue_id=number % QUEUES, tags=f"t{number}", keys=f"k{number}"))
    return root


def run_broker(rocketmq: RocketMq, root: Path, *orders: Sequence[object]) -> list[Line]:
    """A broker with these orders; see PopProgram.java."""
    path = root.parent / "orders"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in (("group", "g"), ("sleep", 2000), *orders)))
    with rocketmq.run("pop", {"path": root, "orders": path, **SIZES}, 300) as output:
        return [json.loads(line) for line in output.read_text().splitlines()]


def ours(root: Path) -> PoppedStore:
    """Opened at the end of the log's time."""
    with flightlog.open_read_only(root) as view:
        last_ms = max(m.store_timestamp_ms for key in view.queues() for m in view.read(*key))
    return PoppedStore(root, ManualClock(last_ms + 1000), SETTINGS)


def popped_by(lines: list[Line]) -> dict[str, Line]:
    """What a broker handed out, by the names of the orders."""
    return {line["name"]: line for line in lines if line["type"] == "popped"}


def revive_records(root: Path) -> list[dict[str, Any]]:
    """Bodies, tags and uniq keys in the revive topic, in order, without times."""
    found = []
    with flightlog.open_read_only(root) as view:
        for queue_id in range(REVIVE_QUEUE_COUNT):
            for message in view.read(REVIVE_TOPIC, queue_id):
                body = json.loads(message.body)
                assert list(body) == sorted(body)
                times = {body["pt"]: "PT", body.get("reviveTime"): "REVIVE"}
                uniq_key = (message.uniq_key or "").replace(str(body["pt"]), "PT")
                due_ms = int(message.properties["TIMER_DELIVER_MS"]) - body["pt"]
                names = sorted(message.properties.keys() - {NEXT_OFFSET})
                words = {
                    name: times.get(value, value) if name in ("pt", "reviveTime") else value
                    for name, value in body.items()
                }
                found.append(
                    {
                        "queue": queue_id,
                        "tag": message.tags,
                        "key": uniq_key,
                        "due": due_ms,
                        **words,
                        "properties": names,
                    }
                )
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def retries(root: Path) -> list[tuple[Any, ...]]:
    with flightlog.open_read_only(root) as view:
        return [
            (m.body, m.reconsume_times, m.tags, m.keys, m.flag, m.sys_flag, sorted(m.properties.keys() - {REVIVED}))
            for m in view.read("%RETRY%g_orders")
        ]


def test_both_write_the_same_records(rocketmq: RocketMq, root: Path, tmp_path: Path) -> None:
    """The same calls here and there leave the same check points, acks, retries and offsets."""
    other = tmp_path / "other" / "store"
    other.parent.mkdir()
    with flightlog.open(other, SETTINGS) as store:
        store.create_topic("orders", QUEUES)
        for number in range(12):
            store.put(Message("orders", b"%d" % number, queue_id=number % QUEUES, tags=f"t{number}", keys=f"k{number}"))
    lines = run_broker(
        *(rocketmq, root),
        ("pop", "g", "orders", 32, INVISIBLE_MS, "a"),
        *(("ack", "g", "orders", f"a{number}") for number in range(0, 12, 2)),
        ("change", "g", "orders", "a1", INVISIBLE_MS),
        ("arrived", "%RETRY%g_orders", 6),
        ("sleep", 4_000),
    )
    assert not [line for line in lines if line["type"] == "missing"]
    assert [line["code"] for line in lines if "code" in line] == [0] * 8
    here = ours(other)
    messages = here.receive(invisible_ms=INVISIBLE_MS)
    by_body = {int(each.body): each.handle for each in messages}
    order = [int(line["body"]) for line in popped_by(lines).values()]
    for number in order[::2]:
        here.store.ack(by_body[number])
    here.store.change_invisible(by_body[order[1]], INVISIBLE_MS)
    here.pass_time(AGAIN_MS)
    here.store.close()

    def without_place(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Which queue a check point goes to is a matter of turns."""
        return [{name: value for name, value in each.items() if name != "queue"} for each in records]

    assert without_place(revive_records(other)) == without_place(revive_records(root))
    assert sorted(retries(other)) == sorted(retries(root))
    for group, topic in (("g", "orders"), ("g", "%RETRY%g_orders")):
        with flightlog.open(root, SETTINGS) as theirs, flightlog.open(other, SETTINGS, clock=here.clock) as own:
            assert own.group_offsets(group, topic) == theirs.group_offsets(group, topic)


def test_a_broker_goes_on_with_what_was_popped_here(rocketmq: RocketMq, root: Path) -> None:
    with flightlog.open(root, SETTINGS) as store:
        first = store.receive("g", "orders", 4, invisible_ms=600_000)
        again = store.receive("g", "orders", 4, invisible_ms=INVISIBLE_MS)
        store.ack(first[0].handle)
        changed = store.change_invisible(first[1].handle, INVISIBLE_MS, count_attempt=False)  # it counts it
        assert changed.extra_info.split(" ")[2] == str(INVISIBLE_MS)
    lines = run_broker(
        *(rocketmq, root),
        ("handle", "x", first[2].handle.extra_info),
        ("ack", "g", "orders", "x"),
        ("handle", "y", first[3].handle.extra_info),
        ("change", "g", "orders", "y", INVISIBLE_MS),
        ("arrived", "%RETRY%g_orders", 6),
        ("pop", "g", "orders", 32, 60_000, "a"),
        ("pop", "g", "orders", 32, 60_000, "b"),
    )
    assert not [line for line in lines if line["type"] == "missing"]
    found = popped_by(lines)
    new = {int(line["body"]) for line in found.values() if line["reconsumeTimes"] == 0}
    old = {int(line["body"]) for line in found.values() if line["reconsumeTimes"] == 1}
    taken = set(numbers_of(first)) | set(numbers_of(again))
    assert new == set(range(12)) - taken
    assert old == set(numbers_of(again)) | {int(first[1].body), int(first[3].body)}
    assert len(found) == len(new) + len(old)


def test_a_broker_brings_back_what_was_popped_on_a_clock_that_was_set_back(rocketmq: RocketMq, root: Path) -> None:
    """A broker puts timers on its wheel before it begins to deliver, also in seconds that were delivered before: there
    it forgets them. So the store has put them on the wheel when it closes."""
    here = ours(root)
    taken = here.receive(2, invisible_ms=9_000)
    here.pass_time(10_000)
    here.clock.at_ms -= 9_000
    taken += here.receive(4, invisible_ms=INVISIBLE_MS)
    here.store.close()
    lines = run_broker(rocketmq, root, ("arrived", "%RETRY%g_orders", 6))
    assert [line for line in lines if line["type"] == "missing"] == []
    assert sorted(int(body) for body, *_ in retries(root)) == sorted(numbers_of(taken))


def test_a_broker_behind_a_kill_loses_nothing(rocketmq: RocketMq, root: Path) -> None:
    """Timers that were not on the wheel at the kill are overdue when it starts. It delivers them in no order, and drops
    an acknowledgement that arrives before its check point: the message comes again. The group continues from the
    offsets that were written last, as after a kill of the broker: what came since comes again."""
    here = ours(root)
    taken = [message for _ in range(3) for message in here.receive(4, invisible_ms=INVISIBLE_MS)]
    assert len(taken) == 12
    here.store.ack(*(each.handle for each in taken[::2]))
    here.kill()
    written = json.loads((root / "config/consumerOffset.json").read_text())["offsetTable"]["orders@g"]
    since = {2 * offset + queue_id for queue_id in range(2) for offset in range(written.get(str(queue_id), 0), 6)}
    lines = run_broker(
        *(rocketmq, root),
        ("arrived", "%RETRY%g_orders", 6),
        ("sleep", 8_000),  # an idle revive thread of a broker looks every three seconds
        *(("pop", "g", "orders", 32, 60_000, name) for name in "abc"),
    )
    assert not [line for line in lines if line["type"] == "missing"]
    assert {int(line["body"]) for line in popped_by(lines).values() if line["reconsumeTimes"] == 0} == since
    again = [int(line["body"]) for line in popped_by(lines).values() if line["reconsumeTimes"] == 1]
    assert len(again) == len(set(again))
    assert set(again) >= set(numbers_of(taken[1::2]))


def test_what_a_broker_popped_goes_on_here(rocketmq: RocketMq, root: Path) -> None:
    lines = run_broker(
        *(rocketmq, root),
        ("pop", "g", "orders", 4, 600_000, "a"),
        ("pop", "g", "orders", 4, INVISIBLE_MS, "b"),
        ("ack", "g", "orders", "a0"),
        ("change", "g", "orders", "a1", INVISIBLE_MS),
    )
    found = popped_by(lines)
    handles = {line["name"]: line["handle"] for line in lines if "handle" in line}
    here = ours(root)
    try:
        here.store.ack(PopHandle("g", "orders", handles["a2"]))
        here.store.change_invisible(PopHandle("g", "orders", handles["a3"]), 20_000)
        here.pass_time(10_000)
        messages = [message for _ in range(3) for message in here.receive(invisible_ms=600_000)]
        old = {int(each.body) for each in messages if each.attempt == 2}
        new = {int(each.body) for each in messages if each.attempt == 1}
        popped = {name: int(line["body"]) for name, line in found.items()}
        assert new == set(range(12)) - set(popped.values())
        assert old == {number for name, number in popped.items() if name.startswith("b")} | {popped["a1"]}
        here.pass_time(30_000)
        assert here.numbers() == [popped["a3"]]
        here.pass_time(600_000)
        again = [message for _ in range(3) for message in here.receive()]
        assert popped["a0"] not in numbers_of(again)
        assert popped["a2"] not in numbers_of(again)
    finally:
        here.store.close()


def test_lives_of_both_in_turn(rocketmq: RocketMq, root: Path) -> None:
    """What was not acknowledged is handed on from life to life, its attempts counted."""
    lines = run_broker(rocketmq, root, ("pop", "g", "orders", 32, INVISIBLE_MS, "a"))
    assert len(popped_by(lines)) == 12
    here = ours(root)
    here.pass_time(10_000)
    second = here.receive(invisible_ms=1_000)
    assert {each.attempt for each in second} == {2}
    here.store.ack(*(each.handle for each in second[:6]))
    here.pass_time(10_000)
    assert len(list(here.store.read("%RETRY%g_orders"))) == 18
    here.store.close()
    lines = run_broker(rocketmq, root, ("sleep", 3_000), ("pop", "g", "orders", 32, 60_000, "c"))
    third = popped_by(lines)
    assert {line["reconsumeTimes"] for line in third.values()} == {2}
    assert sorted(int(line["body"]) for line in third.values()) == sorted(numbers_of(second[6:]))
