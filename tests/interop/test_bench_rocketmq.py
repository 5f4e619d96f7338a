"""`flightlog bench --versus rocketmq=FOLDER`: RocketMQ's own store writes the messages of the bench in every way, and
reads, asks and recovers the files that this store's cases are measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flightlog.benches.loads import BenchOptions
from flightlog.benches.messaging.flow import THEIRS, latency_cases, throughput_cases
from flightlog.benches.messaging.rocketmq_broker import RocketmqMessaging
from flightlog.benches.targets.command import run_targets
from flightlog.store.settings import FlushMode
from flightlog.tests.interop import harness
from flightlog.tests.interop.harness import RocketMq
from flightlog.tools.bench.case import MAPPED, Outcome
from flightlog.tools.bench.java_program import RocketmqEndedError
from flightlog.tools.bench.plan import SUBJECTS, subject_cases
from flightlog.tools.bench.reads.reads import QUERY
from flightlog.tools.bench.report import rival_of
from flightlog.tools.bench.rocketmq import RIVALS, Rocketmq, check_store_jars
from flightlog.tools.bench.runner import measure, run

FIELDS: tuple[dict[str, Any], ...] = (
    {},
    {"batch": 8},
    {"rate": 2_000},
    {"sync": True},
    {"sync": True, "threads": 4},
    {"sync": True, "filled": 1_000},
    {"pool": True},
)
CALLS = 40


@pytest.mark.ci
def test_every_case_is_put(rocketmq: RocketMq, tmp_path: Path) -> None:
    jars = harness.JAVA_FOLDER / "target" / "dependency"
    check_store_jars("--rocketmq", jars)
    theirs = Rocketmq(jars)
    with theirs.running(tmp_path, 1_000):
        for fields in FIELDS:
            case = theirs.put_case(body_size=100, calls=CALLS, **fields)
            found = run(case, tmp_path, stamps=True)
            assert found.count == CALLS * case.batch, case
            assert 0 < found.put_s <= found.drained_s, case
            assert found.latencies_ns.shape == (CALLS,) and (found.latencies_ns > 0).all(), case
        (tmp_path / "in-the-way").touch()
        with pytest.raises(RocketmqEndedError, match="in-the-way"):
            theirs.put(tmp_path / "in-the-way", theirs.put_case(body_size=100), stamps=False)


@pytest.mark.ci
def test_a_target_is_held_against_it(rocketmq: RocketMq, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jars = harness.JAVA_FOLDER / "target" / "dependency"
    options = BenchOptions(only=("recovery",), rocketmq=jars, rounds=1, quick=True, folder=tmp_path, as_json=True)
    assert run_targets(options) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert len(lines) == 2, "beside RocketMQ, and in seconds"
    assert all(line["group"] == "recovery" and line["measured"] > 0 for line in lines)
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_the_same_files_are_read_asked_and_recovered(rocketmq: RocketMq, tmp_path: Path) -> None:
    theirs = Rocketmq(harness.JAVA_FOLDER / "target" / "dependency")
    found = [case for subject in SUBJECTS for case in subject_cases(subject, [100], theirs, messages=CALLS)]
    outcomes = []
    with theirs.running(tmp_path, 1_000):
        for case in (case for case in found if case.who == MAPPED):
            sample = run(case, tmp_path)
            assert sample.drained_s > 0, case
            assert len(sample.latencies_ns) == (CALLS if case.task == QUERY else 0), case
            assert (sample.latencies_ns > 0).all()
            outcomes.append(Outcome(case, [sample]))
        assert not (tmp_path / "copy").exists(), "it never writes to what is kept"
    assert {outcome.case.task for outcome in outcomes} == set(RIVALS.values())
    for case in (case for case in found if case.kernel == "pure" and case.task in RIVALS):
        rival = rival_of(Outcome(case), outcomes)
        assert rival is not None and rival.case.task == RIVALS[case.task]


@pytest.mark.ci
def test_its_broker_and_client_take_the_messaging_loads(rocketmq: RocketMq, tmp_path: Path) -> None:
    jars = harness.JAVA_FOLDER / "target" / "dependency"
    with RocketmqMessaging(jars, tmp_path, warm_count=20) as theirs:
        cases = latency_cases(FlushMode.ASYNC, (2,), 100, 0.1, theirs) + throughput_cases((2,), CALLS, theirs)
        theirs_alone = [case for case in cases if case.who.startswith(MAPPED)]
        outcomes = measure(theirs_alone, 1, tmp_path, lambda: None)
    assert [outcome.case.who for outcome in outcomes] == [f"{who}, 2 consumers" for who in (*THEIRS, *THEIRS)]
    assert [outcome.figure("messages") for outcome in outcomes] == [10, 10, CALLS, CALLS]
    assert all(outcome.figure("p50 ms") > 0 for outcome in outcomes[:2])
    assert all(outcome.figure("messages/s") > 0 for outcome in outcomes[2:])
