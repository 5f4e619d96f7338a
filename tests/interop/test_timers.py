"""Timers that one of the two puts and the other delivers: each once, none early, those that were cancelled never.

RocketMQ's clock cannot be set, so what it delivers is due a few seconds after it was put; ours is set to the times.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import flightlog
from flightlog.schedule.timer_checkpoint import read_timer_checkpoint
from flightlog.schedule.timer_log import TimerLog
from flightlog.schedule.timer_wheel import TimerWheel
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.interop.harness import Line, RocketMq
from flightlog.tests.support import timed_store

pytestmark = pytest.mark.ci

SIZES = {"segmentSize": 1 << 16, "queueEntries": 100, "index": False}
TOPIC = "orders"
START_MS = 20_000
"""By then RocketMQ has started, and been told what to do."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def run_rocketmq(rocketmq: RocketMq, root: Path, orders: Sequence[Sequence[object]], **options: object) -> list[Line]:
    """Its timers, with these orders; see TimersProgram.java."""
    path = root.parent / "orders"
    path.write_text("".join("\t".join(map(str, words)) + "\n" for words in orders))
    with rocketmq.run("timers", {"path": root, "orders": path, **SIZES, **options}, 300) as output:
        return [json.loads(line) for line in output.read_text().splitlines()]


def delivered(root: Path) -> Counter[int]:
    """How often each number is in the topic; none of them early."""
    found: Counter[int] = Counter()
    with flightlog.open_read_only(root) as view:
        assert view.verify().is_clean
        for message in view.read(TOPIC, 0):
            wanted_ms, properties = int(message.properties["TIMER_DELIVER_MS"]), message.properties
            assert message.store_timestamp_ms >= wanted_ms
            assert int(properties["TIMER_DEQUEUE_MS"]) >= wanted_ms
            assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (TOPIC, "0")
            found[int(message.body)] += 1
    return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_files(root: Path) -> None:
    """The chains of the wheel that lies there lead through the timer log that lies there."""
    timer_log, wheel = TimerLog(RealDisk(), root), TimerWheel(RealDisk(), root)
    timer_log.open()
    wheel.load()
    rebuilt = TimerWheel(RealDisk(), root)
    checkpoint = read_timer_checkpoint(RealDisk(), root)
    assert checkpoint is not None
    first = checkpoint.read_time_ms // 1000
    for position, units in timer_log.scan():
        rebuilt.add_all(position, units, first)
    second = rebuilt.next_second(first)
    while second is not None:
        assert wheel.get(second) == rebuilt.get(second)
        second = rebuilt.next_second(second + 1)
    timer_log.close()
    wheel.close()


@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_ours_are_delivered_by_rocketmq(rocketmq: RocketMq, root: Path, ends: str) -> None:
    clock = timed_store.SetClock(now_ms())
    ours = timed_store.TimedStore(root, clock, options={})
    start = clock.at_ms
    due = start - start % 1000 + START_MS
    for number in range(10):
        ours.put(TOPIC, number, start + 1000)
        ours.put(TOPIC, 10 + number, due + 100 * number)
        ours.put(TOPIC, 20 + number, start + 86_000_000)
    ours.cancel(TOPIC, 13, due + 300)
    ours.cancel(TOPIC, 17, due + 700)
    ours.run()
    clock.at_ms = start + 2000
    ours.run()
    ours.timers.save(clock.at_ms)
    assert ours.delivered() == list(range(10))
    ours.put(TOPIC, 30, due)  # parked, and not on the wheel yet
    ours.cancel(TOPIC, 11, due + 100)
    if ends == "closed":
        ours.close()
        check_files(root)
    else:
        ours.kill()
    run_rocketmq(
        *(rocketmq, root),
        [("taken",), ("put", TOPIC, 0, 31, due + 2500, 31), ("cancel", TOPIC, 15, due + 500), ("until", due + 4000)],
    )
    check_files(root)
    assert delivered(root) == Counter([*range(10), 10, 12, 14, 16, 18, 19, 30, 31])
    again = timed_store.TimedStore(root, timed_store.SetClock(start + 86_002_000), options={})
    again.run()
    again.close()
    assert delivered(root) == Counter([*range(10), 10, 12, 14, 16, 18, 19, 30, 31, *range(20, 30)])


@pytest.mark.parametrize("ends", ["closed", "halted"])
def test_rocketmqs_are_delivered_by_ours(rocketmq: RocketMq, root: Path, ends: str) -> None:
    start = now_ms()
    soon, later = start - start % 1000 + START_MS, start + 400_000
    orders: list[Sequence[object]] = []
    for number in range(10):
        orders.append(("put", TOPIC, 0, number, soon + 100 * number, number))
        orders.append(("put", TOPIC, 0, 10 + number, later + 700 * number, 10 + number))
        orders.append(("put", TOPIC, 0, 20 + number, start + 259_000_000, 20 + number))  # rolled
    orders += [
        ("cancel", TOPIC, 3, soon + 300),
        ("cancel", TOPIC, 15, later + 3500),
        ("taken",),
        ("until", soon + 3000),
    ]
    orders.append(("sleep", 2500))  # its check file is written every second
    lines = run_rocketmq(rocketmq, root, orders, halt=ends == "halted")
    assert all(line["status"] == "PUT_OK" for line in lines if line["type"] == "parked")
    first = [number for number in range(10) if number != 3]
    clock = timed_store.SetClock(now_ms())
    ours = timed_store.TimedStore(root, clock, options={})
    assert sorted(ours.delivered()) == first, "its threads deliver beside each other"
    ours.cancel(TOPIC, 12, later + 1400)
    ours.cancel(TOPIC, 22, start + 259_000_000)
    ours.run()
    assert sorted(ours.delivered()) == first, "RocketMQ has delivered them"
    assert ours.timers.pending == 10 - 2 + 10 - 1
    clock.at_ms = later + 10_000
    ours.run()
    second = [10, 11, 13, 14, 16, 17, 18, 19]
    assert ours.delivered()[len(first) :] == second
    ours.close()
    check_files(root)
    # Ours was ahead of its clock, where a new timer of RocketMQ's would wait: it only looks what is there.
    run_rocketmq(rocketmq, root, [("taken",), ("sleep", 2000)])
    assert delivered(root) == Counter([*first, *second]), "we have delivered them"
    ours = timed_store.TimedStore(root, clock, options={})
    while (due := ours.run()) is not None:
        clock.at_ms = due
    assert clock.at_ms - (start + 259_000_000) < 3000
    ours.close()
    assert delivered(root) == Counter([*first, *second, 20, 21, *range(23, 30)])


def test_whole_seconds_are_not_early_in_rocketmq_either(rocketmq: RocketMq, root: Path) -> None:
    """Its hook moves them a second back on the wheel, whose seconds it delivers when they are over."""
    whole = now_ms() // 1000 * 1000 + START_MS
    orders = [("put", TOPIC, 0, n, whole + 1000 * n, n) for n in range(3)]
    run_rocketmq(rocketmq, root, [*orders, ("until", whole + 3000)])
    assert delivered(root) == Counter([0, 1, 2])
    ours = timed_store.TimedStore(root, timed_store.SetClock(now_ms()), options={})
    outs = [int(message.properties["TIMER_OUT_MS"]) for message in ours.store.read(TOPIC, 0)]
    ours.close()
    assert outs == [whole - 1000, whole, whole + 1000]
