"""`flightlog bench scan`: which queries there are, what they are held against, and a run as its user sees it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.store.errors import UsageError
from flightlog.tools.bench.case import OWN
from flightlog.tools.bench.harness import Options
from flightlog.tools.bench.machine.process_tree import Usage, usage_below
from flightlog.tools.bench.report import show
from flightlog.tools.bench.runner import measure
from flightlog.tools.bench.scan.queries import (
    CPU,
    NOT_PUSHED,
    PARQUET,
    READ_PART,
    SCANS,
    SELECTIONS,
    DifferentAnswersError,
    Scanner,
    ScanQuery,
)
from flightlog.tools.bench.scan.stores import SHARES, ScanStore, share_topic, write_plain, write_shares
from flightlog.tools.bench.scan_run import BODY_SIZES, make_plan, run
from flightlog.tools.output import Output

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

MIB = 1 << 20


def test_every_query_has_a_rival_and_its_own_way_to_leave_things_out() -> None:
    assert {query.rival for query in SCANS} == {PARQUET}
    assert {query.name: query.narrowing for query in SCANS if query.narrowing} == {"queues": {"table": "queues"}}
    assert {query.rival for query in SELECTIONS} == {NOT_PUSHED}
    assert [next(iter(query.narrowing.items())) for query in SELECTIONS] == [
        *(("subscribe", share_topic(share)) for share in SHARES),
        *[("pushDownPredicate", "true")] * (len(SHARES) + 1),
    ]


def test_a_plan_names_its_stores_and_grows_with_them() -> None:
    plan = make_plan(Options())
    assert [(is_mixed, size) for is_mixed, size, _ in plan.stores] == [*((False, s) for s in BODY_SIZES), (True, 1024)]
    assert (plan.size, plan.rounds) == (1 << 30, 5)
    assert make_plan(Options(size=2048)).room == 2 * plan.room
    assert [names(each) for each in make_plan(Options(only=["sum,count"], body_sizes=[100])).stores] == [
        ["sum", "count"]
    ]
    assert [names(each) for each in make_plan(Options(only=["pushed 10 %,window"])).stores] == [
        ["pushed 10 %", "window"]
    ]


def names(store: Any) -> list[str]:
    return [query.name for query in store[2]]


def test_the_stores_are_what_their_queries_expect(tmp_path: Path) -> None:
    plain = write_plain(tmp_path / "plain", 100, 4 * MIB)
    mixed = write_shares(tmp_path / "mixed", 1024, 8 * MIB)
    for store in (plain, mixed):
        assert len(set(bodies(store.path))) == store.count
        with flightlog.open_read_only(store.path) as view:
            assert view.verify().is_clean
            assert 0.85 < store.size / (view.end_physical_offset - view.min_physical_offset) <= 1
    assert len(list((plain.path / "commitlog").iterdir())) == 1
    assert len(list((mixed.path / "commitlog").iterdir())) == 2
    with flightlog.open_read_only(mixed.path) as view:
        found = {topic: 0 for topic, _ in view.queues()}
        for (topic, _), (first, end) in view.queues().items():
            found[topic] += end - first
        times = sorted(message.store_timestamp_ms for queue in view.queues() for message in view.read(*queue))
    for share in SHARES:
        assert found[share_topic(share)] == pytest.approx(mixed.count * share / 100, rel=0.1, abs=2)
    begin, end = mixed.window_ms
    assert sum(begin <= time < end for time in times) == pytest.approx(mixed.count * 0.1, rel=0.2)


def bodies(path: Path) -> list[bytes]:
    with flightlog.open_read_only(path) as view:
        return [message.body for queue in view.queues() for message in view.read(*queue)]


READ = """
import os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(64):
    os.pread(descriptor, 1 << 20, 0)
"""
WAIT_FOR_READ = """
import subprocess, sys
subprocess.run([sys.executable, "-P", "-c", *sys.argv[1:]], check=True)
print("done", flush=True)
sys.stdin.read()
"""


def test_what_a_process_that_has_ended_did_is_still_counted(tmp_path: Path) -> None:
    read_me = tmp_path / "file"
    read_me.write_bytes(bytes(MIB))
    before = usage_below(os.getpid())
    command = [sys.executable, "-P", "-c", WAIT_FOR_READ, READ, str(read_me)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "done\n"
        used = usage_below(os.getpid()) - before
        child.communicate()
    assert 64 * MIB <= used.read_size < 128 * MIB
    assert used.cpu_s > 0


def test_a_daemon_that_has_gone_took_its_counts_along() -> None:
    before, after = Usage(1.0, 10, frozenset({7})), Usage(1.5, 4, frozenset({8}))
    assert math.isnan((after - before).read_size) and math.isnan((after - before).cpu_s)
    assert Usage(1.5, 14, frozenset({7, 8})) - before == Usage(0.5, 4)
    assert math.isnan((Usage(1.5, 9, frozenset({7})) - before).read_size)


def test_a_daemon_that_was_there_before_and_is_found_now_brings_counts_of_long_ago() -> None:
    before = Usage(1.0, 10, frozenset({7}), 100.0, 500.0)
    assert math.isnan((Usage(60.0, 1 << 40, frozenset({7, 8}), 200.0, 501.0) - before).read_size)
    assert Usage(1.5, 14, frozenset({7, 8}), 500.5, 501.0) - before == Usage(0.5, 4)
    assert usage_below(os.getpid()).at_s > 0


class Asked(Scanner):
    """Answers at once, as it was told to."""

    def __init__(self, folder: Path, answers: Iterable[tuple[Any, Usage]]) -> None:
        super().__init__(None, folder, ScanStore(Path("/store"), 1024, 1 << 20, 900, (0, 1)))  # type: ignore[arg-type]
        self._told = iter(answers)

    def _timed(self, query: ScanQuery, who: str) -> tuple[Any, float, Usage]:
        answer, usage = next(self._told)
        return answer, 2.0, usage


def test_a_case_tells_what_was_read_where_that_can_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, lost = Usage(3.0, 1 << 19), Usage(math.nan, math.nan)
    scanner = Asked(tmp_path, [(7, known), (7, known), (7, lost), (7, lost)])
    own, rival = scanner.cases(SCANS[0])
    outcomes = measure([own, rival], 2, tmp_path, lambda: None)
    assert (own.who, rival.who, own.against) == (OWN, PARQUET, PARQUET)
    assert [sample.figures for sample in outcomes[0].rounds] == [{CPU: 3.0, READ_PART: 50.0}, {}]
    assert [sample.figures for sample in outcomes[1].rounds] == [{CPU: 3.0}, {}]
    assert outcomes[0].figure(READ_PART) == 50.0 and outcomes[0].part_of(outcomes[1]) == 1.0
    show(outcomes, Output())
    [row] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("flightlog  ")]
    assert row.split()[-4:] == ["100", "%", "3", "50"]


def test_different_answers_are_no_measurement(tmp_path: Path) -> None:
    used = Usage(0.0, 0)
    scanner = Asked(tmp_path, [(7, used), (8, used)])
    scanner.measure(SCANS[3], OWN)
    with pytest.raises(DifferentAnswersError, match=r"/store: count\(\): 7, now Parquet says 8"):
        scanner.measure(SCANS[3], PARQUET)


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "scan.json"
    few = "sum,write,subscribe 10 %,window"
    small = ("--quick", "--size", "4", "--body-size", "1024", "--only", few, "--folder", tmp_path)
    finished = cli("bench", "scan", *small, "--json", "--save", kept)
    assert finished.code == 0, finished.err
    assert "1 rounds, up to" in finished.err
    found = json.loads(finished.out)
    assert found == json.loads(kept.read_text())
    outcomes = found["outcomes"]
    own = {each["task"]: each for each in outcomes if each["who"] == OWN}
    assert list(own) == [query.text for query in (*SCANS, *SELECTIONS) if query.name in few.split(",")]
    assert len(outcomes) == 2 * len(own) and all(len(each["drained_s"]) == 1 for each in outcomes)
    assert all(each["part_of_reference"] > 0 for each in own.values())
    read_part = own[SCANS[0].text]["figures"].get(READ_PART)
    assert read_part is None or read_part > 90, "all of the log, as far as it could be told"
    assert [path.name for path in tmp_path.iterdir()] == ["scan.json"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(only=["sums"]), "--only sums: no such query; there are sum, all"),
        (Options(body_sizes=[512]), "--body-size 512: expected one of 100, 1024, 10240"),
        (Options(size=1), "--size 1: expected at least 4 MiB"),
        (Options(rounds=0), "--rounds 0"),
        (Options(folder=Path("/no/folder")), "--folder /no/folder"),
        (Options(size=1 << 40), "free, expected"),
        (Options(save=Path("/no/folder/scan.json")), "--save /no/folder/scan.json"),
        (Options(plot=Path("scan.txt")), "--plot scan.txt"),
    ],
)
def test_wrong_calls(options: Options, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(options)
