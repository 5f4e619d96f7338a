"""Streams beside a flightlog writer in another process; both are killed and started again."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import flightlog
from flightlog.tests.support import stream_runs, stream_writer
from flightlog.tests.support.process import LIMIT_S
from flightlog.tests.support.stream_runs import SinkRow, StreamRuns

QUERIES = {
    "log": {"startingOffsets": "earliest", "includeInternal": "true", "splitBytes": "65536"},
    "topics": {"startingOffsets": "earliest", "subscribePattern": ".*", "maxOffsetsPerTrigger": "3000"},
}
QUEUES = 12
NEVER_PUT = 1000
"""Numbers that are passed over when a writer was killed: some of its last puts may not have been told."""


class Writer:
    """stream_writer.py, one process after the other; and what they said was put."""

    def __init__(self, program: Path, store: Path, rate: float) -> None:
        self._program, self._store, self._rate = program, store, rate
        self.acknowledged: list[range] = []
        self._first = 0

    @contextmanager
    def running(self, *, until_killed: bool = False) -> Iterator[None]:
        """A writer; in the end it is killed, or told to close."""
        command = [sys.executable, "-P", str(self._program), str(self._store), str(self._first), str(self._rate)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        said: list[int] = []
        has_put = threading.Event()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(int(line))
                has_put.set()
            has_put.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            assert has_put.wait(LIMIT_S), "the writer does not start"
            assert said, "the writer ended at once"
            yield
            assert process.poll() is None, "the writer ended by itself"
            if not until_killed:
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            process.wait()
            listener.join()
        self.acknowledged.append(range(self._first, said[-1]))
        self._first = said[-1] + NEVER_PUT


def check(path: Path, runs: StreamRuns, writer: Writer) -> list[SinkRow]:
    """Every message that the store has, once, and with it every one that was acknowledged; nothing else."""
    shared, program = stream_runs, stream_writer
    rows = runs.rows("log")
    shared.check_log(rows, program.SEGMENT_SIZE)
    shared.check_queues(rows)
    with flightlog.open_read_only(path) as view:
        report = view.verify()
        stored = {message.physical_offset: message.body for queue in view.queues() for message in view.read(*queue)}
    assert report.is_clean, "\n".join(map(str, report.findings))
    assert {row.physical_offset: row.body_sha1 for row in rows} == {
        offset: hashlib.sha1(body).hexdigest() for offset, body in stored.items()
    }
    numbers = {int(body.split()[0]) for body in stored.values()}
    lost = set(itertools.chain(*writer.acknowledged)) - numbers
    assert not lost, f"{len(lost)} acknowledged messages are not there"
    by_topic = runs.rows("topics")
    shared.check_queues(by_topic)
    assert sorted(by_topic) == rows
    assert max(map(len, runs.batches("topics"))) <= 3000 + QUEUES
    return rows


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(Path(stream_writer.__file__ or ""), tmp_path / "store", 100.0)


@pytest.fixture
def runs(tmp_path: Path) -> StreamRuns:
    made: StreamRuns = StreamRuns(tmp_path / "store", tmp_path / "queries", QUERIES)
    return made


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_stream_beside_a_writer_that_are_both_killed(tmp_path: Path, writer: Writer, runs: StreamRuns) -> None:
    with writer.running(until_killed=True), runs.running(dieAfter=4) as run:
        assert run.await_end() < 0, run.said()
    with writer.running(), runs.running() as run:
        for query in QUERIES:
            run.await_batches(query, 2)
    runs.read_to_the_end()
    assert len(check(tmp_path / "store", runs, writer)) > 500


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_minutes_beside_a_writer(tmp_path: Path, writer: Writer, runs: StreamRuns) -> None:
    end_s, rounds = time.monotonic() + 600, 0
    while time.monotonic() < end_s:
        rounds += 1
        with writer.running(until_killed=rounds % 2 == 1), runs.running(dieAfter=rounds % 3 * 9 or None) as run:
            if rounds % 3:
                assert run.await_end() < 0, run.said()
            else:
                run.await_batches("log", 20)
    runs.read_to_the_end()
    rows = check(tmp_path / "store", runs, writer)
    print(f"{len(rows)} messages, each once; {rounds} rounds of writers and of streams")
    assert rounds >= 3
    assert len(rows) > 10_000
