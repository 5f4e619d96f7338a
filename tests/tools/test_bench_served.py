"""The bench of the server: its load program against a served store, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flightlog import StoreSettings
from flightlog.store.errors import UsageError
from flightlog.tests.support.rocketmq_server import ServedStore
from flightlog.tools.bench import served_run
from flightlog.tools.bench.case import Outcome
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.report import show
from flightlog.tools.bench.runner import run
from flightlog.tools.bench.served.cases import OWN_SERVER, ROCKETMQ_SERVER, load_cases
from flightlog.tools.bench.served.rocketmq_proxy import check_proxy_jars
from flightlog.tools.bench.served.servers import DRAINED, SENT, WATCHED, RunningServer
from flightlog.tools.output import Output


@pytest.mark.ci
def test_the_load_sends_receives_and_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = ServedStore(tmp_path / "store", StoreSettings.small())
    served.start()
    try:
        for topic in (SENT, DRAINED, WATCHED):
            served.store.create_topic(topic, 2)
        server = RunningServer(served.address, (), 1.0)
        cases = load_cases(OWN_SERVER, server, sync=False, quick=True)
        outcomes = [Outcome(case, [run(case, tmp_path)]) for case in cases]
        sent = sum(end for (topic, _), (_, end) in served.store.queues().items() if topic == SENT)
        assert sent >= sum(outcome.rounds[0].count for outcome in outcomes if outcome.case.task.startswith("send"))
        assert all(outcome.rounds[0].count > 0 and outcome.latency_ns(50) > 0 for outcome in outcomes)
    finally:
        served.stop()
    rivals = [Outcome(replace(o.case, who=ROCKETMQ_SERVER), o.rounds) for o in outcomes]
    show([*outcomes, *rivals], Output())
    found = capsys.readouterr().out
    assert "send, async, 64 clients" in found and "1x" in found


def test_a_folder_without_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--rocketmq .*: no rocketmq-proxy-\*\.jar there"):
        check_proxy_jars(tmp_path)
    with pytest.raises(UsageError, match="no rocketmq-proxy"):
        served_run.run(Options(rocketmq=tmp_path))
