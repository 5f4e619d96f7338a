"""`flightlog bench --versus rocketmq=FOLDER`: RocketMQ's own store writes the messages of the bench in every way, and
reads, asks and recovers the files that this store's cases are measured with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benches.targets.command import TargetsOptions
from benches.targets.command import run as run_targets
from flightlog.tests.interop import harness
from flightlog.tests.interop.harness import RocketMq
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.cases.rocketmq_cases import RIVALS, rocketmq_cases
from flightlog.tools.bench.cases.runner import Result
from flightlog.tools.bench.loads.load import Load
from flightlog.tools.bench.rocketmq import MAPPED, POOL, RocketmqEndedError, RocketmqProcess, check_jars
from flightlog.tools.bench.telling.report import find_rival
from flightlog.tools.bench.versus.contest import Contest

LOADS = (
    Load(MAPPED, False, 100),
    Load(MAPPED, False, 100, batch=8),
    Load(MAPPED, False, 100, rate=2_000),
    Load(MAPPED, True, 100),
    Load(MAPPED, True, 100, threads=4),
    Load(MAPPED, True, 100, filled=1_000),
    Load(POOL, False, 100),
)
CALLS = 40


@pytest.mark.ci
def test_every_load_is_put(rocketmq: RocketMq, tmp_path: Path) -> None:
    jars = harness.JAVA_FOLDER / "target" / "dependency"
    check_jars(jars)
    with RocketmqProcess(jars, tmp_path, warm_count=1_000) as process:
        contest = Contest(tmp_path, process)
        for load in LOADS:
            found = contest.run(load, CALLS, stamps=True)
            assert found.count == CALLS * load.batch, load
            assert 0 < found.put_s <= found.drained_s, load
            assert found.latencies_ns.shape == (CALLS,) and (found.latencies_ns > 0).all(), load
        (tmp_path / "in-the-way").touch()
        with pytest.raises(RocketmqEndedError, match="in-the-way"):
            process.run(tmp_path / "in-the-way", LOADS[0], 1, 1, 1, stamps=False)


@pytest.mark.ci
def test_a_bar_is_held_against_it(rocketmq: RocketMq, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jars = harness.JAVA_FOLDER / "target" / "dependency"
    options = TargetsOptions(only=("recovery",), rocketmq=jars, rounds=1, quick=True, folder=tmp_path, as_json=True)
    assert run_targets(options) == 0
    [line] = json.loads(capsys.readouterr().out)["lines"]
    assert line["group"] == "recovery" and line["measured"] > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_the_same_files_are_read_asked_and_recovered(rocketmq: RocketMq, tmp_path: Path) -> None:
    with RocketmqProcess(harness.JAVA_FOLDER / "target" / "dependency", tmp_path, warm_count=1_000) as process:
        results = []
        for case in rocketmq_cases(process, RIVALS, 100, CALLS):
            measured = case.measure(tmp_path)
            assert measured.seconds > 0, case
            assert (measured.latencies_ns is None) == (case.name != RIVALS["query"]), case
            assert measured.latencies_ns is None or (measured.latencies_ns > 0).all()
            results.append(Result(case, [measured.seconds]))
        assert not (tmp_path / "copy").exists(), "it never writes to what is kept"
        own = [case for case in make_cases(body_sizes=[100], kernels=["pure"]) if case.name in RIVALS]
        for case in own:
            rival = find_rival(Result(replace(case, rival=RIVALS[case.name]), [1.0]), results)
            assert rival is not None and rival.case.name == RIVALS[case.name]
