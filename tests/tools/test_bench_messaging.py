"""The messaging load: every message comes and is counted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flightlog.benches.messaging.flow import CONTENDERS, LISTS, burst, latency_cases, points_of, throughput_cases
from flightlog.benches.messaging.groups import CHANGES, STRATEGIES, Life, rebalance_cases
from flightlog.benches.messaging.pulls import pulls
from flightlog.benches.messaging.rocketmq_broker import JARS, RocketmqMessaging
from flightlog.benches.messaging.sqlite_queue import SqliteQueue
from flightlog.store.errors import UsageError
from flightlog.store.settings import FlushMode
from flightlog.tools.bench.runner import measure


def test_latencies_are_of_every_message(tmp_path: Path) -> None:
    outcomes = [
        outcome
        for mode in FlushMode
        for outcome in measure(latency_cases(mode, (1, 3), 1000, 0.05), 1, tmp_path, lambda: None)
    ]
    kinds = [who for who in CONTENDERS if who != LISTS]
    assert [outcome.case.who for outcome in outcomes] == [
        f"{who}, {members} consumers" for _ in FlushMode for members in (1, 3) for who in kinds
    ]
    for outcome in outcomes:
        [sample] = outcome.rounds
        ms, figures = sample.series, sample.figures
        assert figures["messages"] == len(ms) == 50
        assert 0 < ms[0] <= figures["p50 ms"] <= figures["p99 ms"] <= ms[-1] == figures["max ms"]
    lines = points_of({outcome.case.who: outcome.rounds[0].series for outcome in outcomes}, 100)
    assert list(lines) == kinds and all([members for members, _ in points] == [1, 3] for points in lines.values())


def test_a_backlog_is_worked_off_by_any_number(tmp_path: Path) -> None:
    outcomes = measure(throughput_cases((1, 3), 200), 1, tmp_path, lambda: None)
    assert [o.case.who.split(", ")[-1] for o in outcomes] == ["1 consumers"] * 4 + ["3 consumers"] * 4
    assert [o.figure("messages") for o in outcomes] == [200, 200, 200, 20] * 2
    assert all(outcome.figure("messages/s") > 0 for outcome in outcomes)
    lines = points_of({outcome.case.who: outcome.rounds[0].series for outcome in outcomes})
    assert [[members for members, _ in points] for points in lines.values()] == [[1, 3]] * 4


def test_rocketmq_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"--rocketmq .*: no rocketmq-broker-\*\.jar there"):
        RocketmqMessaging(tmp_path)
    for name in JARS:
        (tmp_path / f"{name}-5.3.3.jar").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no java on the PATH"):
        RocketmqMessaging(tmp_path)


def test_a_burst_is_followed_until_it_is_worked_off(tmp_path: Path) -> None:
    figures = burst(0.02, tmp_path).figures
    assert figures["messages"] == 1000 and 0 < figures["taken a second"] < 2_000 * 1.2
    assert figures["worked off after s"] >= 0.4


def test_a_rebalance_moves_queues_and_loses_nothing(tmp_path: Path) -> None:
    outcomes = measure(rebalance_cases(0.1), 1, tmp_path, lambda: None)
    assert [outcome.case.who for outcome in outcomes] == [
        f"{strategy.name}, {change}" for strategy in STRATEGIES for change in CHANGES
    ]
    moved = [outcome.figure("queues moved") for outcome in outcomes]
    assert moved[:4] == [6, 6, 12, 12] and moved[4] == moved[5] <= 6
    assert all(o.figure("pause p50 ms") <= o.figure("pause max ms") and o.figure("came again") >= 0 for o in outcomes)


def test_pauses_and_repeats_are_told_by_what_came() -> None:
    life = Life([(1.0, "a", 0, 1), (2.0, "a", 1, 2), (3.5, "b", 0, 1), (5.0, "b", 0, 3), (6.0, "b", 0, 3)])
    assert life.pauses_s({0, 1}, 3.0) == [2.5], "nothing came of queue 1 any more"
    assert [life.repeats_since(4.0), life.repeats_since(0.0)] == [1, 2]


def test_pulls_are_woken_and_renewed(tmp_path: Path) -> None:
    figures = pulls(50, 0.1, tmp_path).figures
    assert figures["pulls that wait"] == 50 and 0 <= figures["p50 ms"] <= figures["p99 ms"] <= figures["max ms"]
    assert figures["all of one queue ms"] > 0


@pytest.mark.parametrize(("is_sync", "poll_s"), [(False, None), (True, None), (False, 0.001)])
def test_the_sqlite_queue_gives_each_message_once_and_again_what_failed(
    is_sync: bool, poll_s: float | None, tmp_path: Path
) -> None:
    with SqliteQueue(tmp_path / "queue", is_sync=is_sync, poll_s=poll_s) as queue:
        queue.put_many([b"1", b"2"])
        queue.put(b"3")
        with pytest.raises(ValueError, match="not yet"), queue.taken() as body:
            raise ValueError(f"not yet: {body!r}")
        assert len(queue) == 3
        found: list[bytes] = []

        def take() -> None:
            for _ in range(2):
                with queue.taken() as body:
                    found.append(body)

        takers = [threading.Thread(target=take) for _ in range(2)]
        for taker in takers:
            taker.start()
        queue.put(b"4")  # one of them waits for it
        for taker in takers:
            taker.join()
        assert sorted(found) == [b"1", b"2", b"3", b"4"] and not len(queue)
