"""Messages with a delay level are delivered in time, in order, once, and as RocketMQ delivers them."""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.schedule.delay_level import PAUSE_MS
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.store.format.host import Host
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.schedule.conftest import Bodies, ByHand, RunAll, Until

AssertClean = Callable[[Path], None]

SETTINGS = StoreSettings.small(delay_levels="1s 5s 10s", flush_interval_ms=3_600_000)


def java_host(host: Host) -> str:
    """As the manifest spells it."""
    if ":" not in host.address:
        return str(host)
    groups = ipaddress.ip_address(host.address).exploded.split(":")
    return f"[{':'.join(f'{int(group, 16):x}' for group in groups)}]:{host.port}"


def test_golden_messages_are_delivered_once_with_rocketmqs_properties(
    golden_copy: Callable[[str], Path],
    clock: ManualClock,
    kernel: str,
    assert_clean: AssertClean,
    by_hand: ByHand,
    run_all: RunAll,
) -> None:
    root = golden_copy("delay-tx")
    lines = [json.loads(line) for line in (root / "manifest.jsonl").read_text().splitlines()]
    parked = [m for m in lines if m.get("topic") == SCHEDULE_TOPIC and m["status"] == "PUT_OK"]
    assert len(parked) == 50
    clock.at_ms = max(m["storeTimestamp"] for m in lines if "storeTimestamp" in m)
    delays = {level: s * 1000 for level, s in enumerate((1, 5, 10, 30, *range(60, 660, 60), 1200, 1800, 3600, 7200), 1)}
    due = {m["commitLogOffset"]: m["storeTimestamp"] + delays[m["queueId"] + 1] for m in parked}
    with flightlog.open(root / "store", clock=clock) as store:
        ends = {key: end for key, (_, end) in store.queues().items()}
        run = by_hand(store)

        def count() -> int:
            return sum(end - ends[key] for key, (_, end) in store.queues().items())

        for at_ms in sorted(set(due.values())):
            if at_ms > clock.at_ms:
                clock.advance(at_ms - 1 - clock.at_ms)
            run()
            assert count() <= sum(ms <= clock.at_ms for ms in due.values()), "nothing comes early"
            clock.advance(1 + PAUSE_MS)
            run()
            assert count() >= sum(ms <= at_ms for ms in due.values()), "nothing comes late"
        clock.advance(100 * 86_400_000)
        run()
        assert count() == 50
        found = [m for key, end in ends.items() if key[0] != SCHEDULE_TOPIC for m in store.read(*key, end)]
        theirs = Counter(
            (
                *(m["properties"]["REAL_TOPIC"], int(m["properties"]["REAL_QID"]), m["bodyCRC"], m["bodyLen"]),
                *(m["flag"], m["sysFlag"], m["bornTimestamp"], m["bornHost"], m["storeHost"], m["reconsumeTimes"]),
                tuple(sorted(m["properties"].items())),
            )
            for m in parked
        )
        ours = Counter(
            (
                *(m.topic, m.queue_id, m.body_crc, len(m.body), m.flag, m.sys_flag, m.born_timestamp_ms),
                *(java_host(m.born_host), java_host(m.store_host), m.reconsume_times),
                tuple(sorted(m.properties.items())),
            )
            for m in found
        )
        assert ours == theirs
        assert all(state.pending == state.skipped == 0 for state in store.statistics().delays)
    assert_clean(root / "store")
    with flightlog.open(root / "store", clock=clock) as store:
        run_all(store)
        assert sum(end - ends.get(key, 0) for key, (_, end) in store.queues().items()) == 50, "none comes twice"


def test_it_comes_when_it_is_due_and_not_before(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, by_hand: ByHand, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run = by_hand(store)
        run()
        for level in (2, 1, 99):
            store.put(Message("t", b"%d" % level, delay_level=level))
        for ms, expected in ((999, []), (1, [b"1"]), (3999, [b"1"]), (1, [b"1", b"2"]), (4999, [b"1", b"2"])):
            clock.advance(ms)
            run()
            assert bodies(store) == expected
        clock.advance(1)
        run()
        assert bodies(store) == [b"1", b"2", b"99"]
        clock.advance(PAUSE_MS)
        assert run() is None, "nothing to wait for"
    assert_clean(tmp_path)


def test_none_comes_a_millisecond_early(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, by_hand: ByHand, bodies: Bodies
) -> None:
    """Store times are no whole seconds, and others of the level are due less than a second before."""
    settings = replace(SETTINGS, delay_levels="1s 2s")
    due_ms: dict[int, int] = {}
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        run = by_hand(store)
        clock.advance(1)
        for gap_ms in (0, 1, 7, 250, 740, 1, 998, 2):
            clock.advance(gap_ms)
            for delay_ms in (1000, 2000):
                due_ms[len(due_ms)] = clock.at_ms + delay_ms
                store.put(Message("t", b"%d" % (len(due_ms) - 1), delay_level=delay_ms // 1000))
            run()
        came_ms = dict.fromkeys(map(int, bodies(store)), clock.at_ms)
        assert came_ms and all(due_ms[number] <= at_ms for number, at_ms in came_ms.items())
        while len(came_ms) < len(due_ms):
            clock.advance(1)
            run()
            if store.queues()["t", 0][1] > len(came_ms):
                new = [int(body) for body in bodies(store)[len(came_ms) :]]
                assert all(due_ms[number] <= clock.at_ms for number in new), "never early"
                assert all(clock.at_ms <= due_ms[number] + PAUSE_MS for number in new), "nor later than gathering takes"
                came_ms |= dict.fromkeys(new, clock.at_ms)
            assert clock.at_ms < max(due_ms.values()) + 1000
    assert_clean(tmp_path)


def test_a_message_is_delivered_as_it_was_put(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll, bodies: Bodies
) -> None:
    given = Message(
        *("orders", b"body " * 2000, "TagA", ("k1", "k2"), {"a": "b", "WAIT": "true"}),
        queue_id=3,
        flag=7,
        uniq_key="U1",
        born_timestamp_ms=5,
        born_host=("::1", 99),
        sys_flag=0x8,
        reconsume_times=2,
        compress=flightlog.CompressionType.ZLIB,
        delay_level=2,
    )
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run_all(store)
        parked_at = store.put(given)
    moved = StoreSettings.small(delay_levels="1s 5s 10s", store_host=("10.0.0.1", 1))
    clock.advance(5000)
    with flightlog.open(tmp_path, moved, clock=clock) as store:
        run_all(store)
        (found,) = store.read("orders", 3)
        (parked,) = store.read(SCHEDULE_TOPIC, 1)
        assert found.properties == {
            "a": "b",
            "WAIT": "true",
            "KEYS": "k1 k2",
            "TAGS": "TagA",
            "UNIQ_KEY": "U1",
            "DELAY": "2",
            "REAL_TOPIC": "orders",
            "REAL_QID": "3",
        }
        assert found.decompressed_body() == given.body
        same = "body", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times"
        assert [getattr(found, name) for name in same] == [getattr(parked, name) for name in same]
        assert (found.queue_offset, found.store_timestamp_ms) == (0, clock.at_ms)
        assert found.physical_offset > parked_at.physical_offset
        assert [m.body for m in store.query("orders", "k2").messages] == [found.body]
        assert [m.queue_offset for m in store.read("orders", 3, tags="TagA")] == [0]
        run_all(store)
        assert len(bodies(store, "orders", 3)) == 1, "what was delivered is not parked again"
    assert_clean(tmp_path)


def test_levels_keep_their_order_and_take_turns(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, by_hand: ByHand, run_all: RunAll, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run = by_hand(store)
        store.put_many(Message("t", b"%d" % i, delay_level=1 + i % 2) for i in range(5000))
        clock.advance(5000)
        run()
        counts = [state.delivered for state in store.statistics().delays]
        assert counts == [1000, 1000, 0], "neither level waits for all of the other"
        run_all(store)
        found = [int(body) for body in bodies(store)]
        assert sorted(found) == list(range(5000))
        assert [n for n in found if n % 2] == list(range(1, 5000, 2))
        assert [n for n in found if n % 2 == 0] == list(range(0, 5000, 2))
    assert_clean(tmp_path)


@pytest.mark.parametrize("mode", flightlog.FlushMode)
def test_what_is_delivered_is_as_durable_as_a_put(
    mode: flightlog.FlushMode,
    tmp_path: Path,
    clock: ManualClock,
    assert_clean: AssertClean,
    run_all: RunAll,
    bodies: Bodies,
) -> None:
    settings = StoreSettings.small(delay_levels="1s", flush_mode=mode, flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        run_all(store)
        store.put_many(Message("t", b"%d" % i, delay_level=1) for i in range(300))
        clock.advance(1000)
        syncs = inside.log(store).sync_count
        run_all(store)
        assert len(bodies(store)) == 300
        assert inside.log(store).sync_count - syncs == (1 if mode is flightlog.FlushMode.SYNC else 0), (
            "one for all of them"
        )
        assert (inside.log(store).flushed == inside.log(store).end) is (mode is flightlog.FlushMode.SYNC)
    assert_clean(tmp_path)


def test_one_that_is_not_readable_yet_is_not_forgotten(
    tmp_path: Path, clock: ManualClock, by_hand: ByHand, run_all: RunAll, bodies: Bodies
) -> None:
    settings = StoreSettings.small(
        delay_levels="0s", flush_mode=flightlog.FlushMode.SYNC, flush_interval_ms=3_600_000, prepare_ahead_size=0
    )
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        run = by_hand(store)
        inside.flush_service(store).stop()  # nobody syncs for a put that does not wait
        store.put(Message("t", b"x", wait_store_ok=False, delay_level=1))
        assert run() == pytest.approx(0.01)
        store.flush()
        clock.advance(10)
        run_all(store)
        assert bodies(store) == [b"x"]


def test_a_clock_that_is_set_back_delivers_nothing_early_or_twice(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, by_hand: ByHand, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run = by_hand(store)
        store.put(Message("t", b"done", delay_level=1))
        store.put(Message("t", b"waits", delay_level=2))
        clock.advance(1000)
        run()
        due_ms = clock.at_ms + 4000
        clock.at_ms -= 3_600_000
        run()
        store.put(Message("t", b"put meanwhile", delay_level=2))
        while clock.at_ms + 60_000 < due_ms:
            clock.advance(60_000)
            run()
            assert bodies(store) == [b"done"]
        clock.advance(due_ms - 1 - clock.at_ms)
        run()
        assert bodies(store) == [b"done"]
        clock.advance(5000)
        run()
        assert bodies(store) == [b"done", b"waits", b"put meanwhile"]
    assert_clean(tmp_path)


def test_a_clock_that_is_set_forward_delivers_what_is_due(
    tmp_path: Path, clock: ManualClock, by_hand: ByHand, bodies: Bodies
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run = by_hand(store)
        store.put(Message("t", b"x", delay_level=3))
        run()
        clock.at_ms += 10_000
        run()
        assert bodies(store) == [b"x"]


def test_what_cannot_be_delivered_is_passed_over_and_told_of(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture, run_all: RunAll, bodies: Bodies
) -> None:
    def as_given(message: Message) -> Message:
        return Message(message.topic, message.body, properties=message.properties, queue_id=message.queue_id)

    good = {"DELAY": "1", "REAL_TOPIC": "t", "REAL_QID": "0"}
    spoiled: list[dict[str, str]] = [
        *({"DELAY": "1"}, good | {"REAL_QID": "x"}, good | {"REAL_QID": "-1"}, good | {"REAL_TOPIC": "../x"}),
        *(good | {"REAL_TOPIC": topic} for topic in ("RMQ_SYS_TRANS_HALF_TOPIC", SCHEDULE_TOPIC)),
    ]
    with flightlog.open(tmp_path, SETTINGS, clock=clock, pre_put_hook=as_given) as store:
        for properties in (good, *spoiled, good):
            store.put(Message(SCHEDULE_TOPIC, b"%d" % len(properties), properties=properties))
        store.put(Message(SCHEDULE_TOPIC, b"damaged", properties=good))
        damaged = store.put(Message(SCHEDULE_TOPIC, b"damaged too", properties=good))
        store.put(Message(SCHEDULE_TOPIC, b"last", properties=good))
        run_all(store)
    (segment,) = (tmp_path / "commitlog").iterdir()
    with open(segment, "r+b") as file:
        file.seek(damaged.physical_offset + 90)
        file.write(b"DAMAGED")
    clock.advance(1000)
    with (
        caplog.at_level(logging.ERROR, "flightlog.schedule"),
        flightlog.open(tmp_path, SETTINGS, clock=clock) as store,
    ):
        run_all(store)
        assert bodies(store) == [b"3", b"3", b"damaged", b"last"]
        state = store.statistics().delays[0]
        assert (state.delivered, state.skipped, state.pending) == (4, 7, 0)
    assert caplog.text.count("passed over") == 7


def test_its_topic_may_be_gone_or_closed_by_then(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, run_all: RunAll, bodies: Bodies
) -> None:
    settings = StoreSettings.small(delay_levels="1s", auto_create_topics=False)
    with flightlog.open(tmp_path, settings, clock=clock) as store:
        store.create_topic("gone", 2)
        store.create_topic("closed", 2)
        store.put(Message("gone", b"x", queue_id=1, delay_level=1))
        store.put(Message("closed", b"y", queue_id=1, delay_level=1))
        store.delete_topic("gone")
        store.update_topic("closed", perm=4)
        clock.advance(1000)
        run_all(store)
        assert (bodies(store, "gone", 1), bodies(store, "closed", 1)) == ([b"x"], [b"y"])
    assert_clean(tmp_path)


def test_statistics_tell_what_waits_and_how_late_it_is(
    tmp_path: Path, clock: ManualClock, by_hand: ByHand, run_all: RunAll
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        run_all(store)
        store.put_many(Message("t", b"x", delay_level=2) for _ in range(3))
        by_hand(store)()
        clock.advance(6000)
        states = store.statistics().delays
        assert [(s.level, s.delay_ms, s.pending) for s in states] == [(1, 1000, 0), (2, 5000, 3), (3, 10_000, 0)]
        assert [s.lag_ms for s in states] == [0, 0, 0], "nobody has looked at it yet"
        inside.delay_service(store).deadlines.run_due()
        assert store.statistics().delays[1].delivered == 3


@pytest.fixture
def threads() -> Iterator[Callable[[], list[str]]]:
    before = set(threading.enumerate())
    yield lambda: [t.name for t in threading.enumerate() if t not in before and t.name == "flightlog-delay"]


def test_the_thread_comes_with_the_first_that_waits(
    tmp_path: Path, threads: Callable[[], list[str]], assert_clean: AssertClean, until: Until, bodies: Bodies
) -> None:
    settings = StoreSettings.small(delay_levels="0s 2h")
    with flightlog.open(tmp_path, settings) as store:
        store.put(Message("t", b"now"))
        assert threads() == []
        store.put(Message("t", b"soon", delay_level=1))
        assert threads() == ["flightlog-delay"]
        until(lambda: bodies(store) == [b"now", b"soon"])
        store.put(Message("t", b"late", delay_level=2))
    assert threads() == []
    with flightlog.open(tmp_path, settings) as store:
        assert threads() == ["flightlog-delay"], "something waits"
        assert bodies(store) == [b"now", b"soon"]
    assert_clean(tmp_path)
