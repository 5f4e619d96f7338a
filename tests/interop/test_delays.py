"""Delay levels beside RocketMQ's own ScheduleMessageService: who parked a message does not matter to who delivers it,
and what one has delivered the other does not deliver again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.tests.interop import harness, mixed
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import process

pytestmark = pytest.mark.ci

LEVELS = "1s 2s 1h"
LIMIT_S = 120.0
COUNT = 30
Broker = Callable[..., dict[str, dict[int, int]]]
AwaitLevels = Callable[..., None]


@pytest.fixture
def broker(rocketmq: RocketMq) -> Callable[..., dict[str, dict[int, int]]]:
    """What a broker's ScheduleMessageService does with a store: its offsets when it has `loaded` and `stopped`."""

    def deliver(path: Path, *, park: str = "", await_: str = "") -> dict[str, dict[int, int]]:
        options = {"path": path, **mixed.SMALL, "config": {"messageDelayLevel": LEVELS}}
        arguments = harness.java_options(options) | {"park": park, "await": await_}
        with rocketmq.run("delays", arguments, LIMIT_S) as output:
            lines: list[Line] = [json.loads(line) for line in output.read_text().splitlines()]
        assert lines[0]["ok"] is True
        return {line["type"]: {int(level): int(at) for level, at in line["offsets"].items()} for line in lines}

    return deliver


@pytest.fixture
def settings() -> Callable[..., StoreSettings]:
    return lambda **changes: mixed.small_settings(delay_levels=LEVELS, **changes)


def put_ours(store: Store) -> None:
    store.put_many(
        Message("ours", b"ours-%d-%d" % (level, i), "TagA", queue_id=i % 2, uniq_key=f"O{level}-{i}", delay_level=level)
        for i in range(COUNT)
        for level in (1, 2, 3)
    )


@pytest.fixture
def await_levels() -> AwaitLevels:
    """Wait until nothing waits in these levels."""

    def wait(store: Store, *levels: int) -> None:
        process.wait_until(lambda: not any(store.statistics().delays[level - 1].pending for level in levels))

    return wait


def check(store: Store, levels: dict[str, tuple[int, ...]]) -> None:
    """Each message of these levels is in its queue, once, not early, and as RocketMQ delivers them."""
    for topic, delivered in levels.items():
        for queue_id in range(2):
            found = list(store.read(topic, queue_id))
            wanted = [
                b"%s-%d-%d" % (topic.encode(), n, i) for n in delivered for i in range(COUNT) if i % 2 == queue_id
            ]
            assert Counter(m.body for m in found) == Counter(wanted)
            for m in found:
                level, number = map(int, m.body.decode().split("-")[1:])
                p = m.properties
                assert (p["REAL_TOPIC"], p["REAL_QID"], p["DELAY"]) == (topic, str(queue_id), str(level))
                assert m.uniq_key == f"{topic[0].upper()}{level}-{number}"
                waited_ms = m.store_timestamp_ms - parked_at(store)[level - 1, m.uniq_key]
                assert waited_ms >= (1000, 2000)[level - 1]
    assert store.verify().is_clean


def parked_at(store: Store) -> dict[tuple[int, str | None], int]:
    return {
        (m.queue_id, m.uniq_key): m.store_timestamp_ms for level in range(3) for m in store.read(SCHEDULE_TOPIC, level)
    }


def test_ours_are_delivered_by_rocketmq(
    broker: Broker, settings: Callable[..., StoreSettings], await_levels: AwaitLevels, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, settings(deliver_delayed=False)) as store:
        put_ours(store)
    offsets = broker(path, await_="1,2")
    assert offsets["loaded"] == {} and {k: v for k, v in offsets["stopped"].items() if v} == {1: COUNT, 2: COUNT}
    with flightlog.open(path, settings(deliver_delayed=True)) as store:
        await_levels(store, 1, 2)
        assert [s.delivered for s in store.statistics().delays] == [0, 0, 0], "what RocketMQ has delivered is done"
        assert store.statistics().delays[2].pending == COUNT
        check(store, {"ours": (1, 2)})


def test_theirs_are_delivered_by_us_and_by_them_in_turn(
    broker: Broker, settings: Callable[..., StoreSettings], await_levels: AwaitLevels, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    assert broker(path, park=f"1:{COUNT},2:{COUNT},3:{COUNT}", await_="1")["stopped"][1] == COUNT
    with flightlog.open(path, settings(deliver_delayed=True)) as store:
        await_levels(store, 1, 2)
        state = store.statistics().delays
        assert (state[0].delivered, state[2].pending) == (0, COUNT)
        check(store, {"theirs": (1, 2)})
        put_ours(store)
        await_levels(store, 1)
    file = path / "config" / "delayOffset.json"
    ours = {int(level): offset for level, offset in json.loads(file.read_text())["offsetTable"].items()}
    assert ours[1] == 2 * COUNT
    offsets = broker(path, await_="1,2")
    assert {k: v for k, v in offsets["loaded"].items() if v} == {k: v for k, v in ours.items() if v}
    with flightlog.open(path, settings(deliver_delayed=True)) as store:
        check(store, {"theirs": (1, 2), "ours": (1, 2)})
        assert [s.delivered for s in store.statistics().delays] == [0, 0, 0]
        assert store.statistics().delays[2].pending == 2 * COUNT
