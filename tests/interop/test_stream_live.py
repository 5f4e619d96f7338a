"""Spark's streams beside a RocketMQ that is writing; both are killed and started again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.tests.interop.harness import Geometry, Line
from flightlog.tests.interop.live import LiveRocketMq
from flightlog.tests.support import stream_runs
from flightlog.tests.support.stream_runs import SinkRow, StreamRuns

if TYPE_CHECKING:
    StartLive = Callable[..., AbstractContextManager[LiveRocketMq]]

GEOMETRY: Geometry = {"segment_size": 256 << 10, "queue_entries": 1000, "index_slots": 10_000, "index_entries": 40_000}
QUERIES = {
    "log": {"startingOffsets": "earliest", "includeInternal": "true", "splitBytes": "65536"},
    "topics": {"startingOffsets": "earliest", "subscribePattern": ".*", "maxOffsetsPerTrigger": "3000"},
}
MANY = 1_000_000
"""Messages; more than any test has time for."""


class Sessions:
    """One RocketMQ after the other on the same store; their messages depend on the seed alone."""

    def __init__(self, start: StartLive, path: Path, seed: int) -> None:
        self._start, self._path, self._seed, self._first = start, path, seed, 0
        self.put: list[Line] = []

    def session(self) -> AbstractContextManager[LiveRocketMq]:
        """One that puts at most 100 messages a second."""
        options: dict[str, Any] = {"first": self._first, "count": 2 * MANY, "seed": self._seed, "pause_ms": 10}
        self._first += 2 * MANY
        return self._start(
            self._path, **options, features=("unicode", "empty", "batch", "v6"), body_max=400, **GEOMETRY
        )


def check(path: Path, runs: StreamRuns, put: list[Line]) -> list[SinkRow]:
    """Every message that the store has, once, and with it every one that RocketMQ said was put; nothing else."""
    shared = stream_runs
    rows, by_topic = runs.rows("log"), runs.rows("topics")
    shared.check_log(rows, GEOMETRY["segment_size"])
    shared.check_queues(rows)
    shared.check_queues(by_topic)
    assert sorted(by_topic) == rows
    with flightlog.open(path) as store:  # RocketMQ leaves keys out of its index after a kill: this puts them in
        report = store.verify()
        stored = {message.physical_offset for queue in store.queues() for message in store.read(*queue)}
    assert report.is_clean, "\n".join(map(str, report.findings))
    assert {row.physical_offset for row in rows} == stored
    wanted = {
        (*(line[name] for name in ("commitLogOffset", "size", "topic", "queueId", "queueOffset", "bodySha1")),)
        for line in put
    }
    assert len(wanted) == len(put)
    lost = wanted.difference(map(tuple, rows))
    assert not lost, f"{len(lost)} of {len(put)} messages that were put are not there as they were, {min(lost)} first"
    return rows


@pytest.fixture
def runs(tmp_path: Path) -> StreamRuns:
    made: StreamRuns = StreamRuns(tmp_path / "store", tmp_path / "queries", QUERIES)
    return made


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_stream_beside_a_rocketmq_that_are_both_killed(
    live_rocketmq: StartLive, interop_seed: int, tmp_path: Path, runs: StreamRuns
) -> None:
    """Between the two RocketMQs nobody has the store open, and what no queue lists yet is read, too; the second one
    lists it anew while the stream goes on."""
    sessions = Sessions(live_rocketmq, tmp_path / "store", interop_seed % 1_000_003)
    with sessions.session() as live:
        live.put(100)
        live.await_caught_up()
        live.put(MANY)
        with runs.running(dieAfter=4) as run:
            assert run.await_end() < 0, run.said()
        assert live.is_putting, "it was too fast"
    put = live.messages
    with runs.running() as run:
        with sessions.session() as live:
            while not all(run.has_batches(query, 2) for query in QUERIES):
                live.put(100)
                live.await_caught_up()
            live.close()
        put += live.messages
    runs.read_to_the_end()
    assert len(check(tmp_path / "store", runs, put)) > 1000


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_minutes_beside_a_rocketmq(
    live_rocketmq: StartLive, interop_seed: int, tmp_path: Path, runs: StreamRuns
) -> None:
    sessions = Sessions(live_rocketmq, tmp_path / "store", interop_seed % 1_000_003)
    dice, put = random.Random(interop_seed), list[Any]()
    end_s, rounds = time.monotonic() + 600, 0
    while time.monotonic() < end_s:
        rounds += 1
        with sessions.session() as live:
            live.put(50)
            live.await_caught_up()
            live.put(MANY)
            with runs.running(dieAfter=dice.choice((3, 10, 20))) as run:
                assert run.await_end() < 0, run.said()
        put += live.messages
    runs.read_to_the_end()
    rows = check(tmp_path / "store", runs, put)
    print(f"{len(rows)} messages, each once; {rounds} rounds of writers and of streams")
    assert rounds >= 3
    assert len(rows) > 10_000
