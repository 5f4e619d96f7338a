"""`flightlog bench scan`: which queries there are, what they are held against, and a run as its user sees it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.store.errors import UsageError
from flightlog.tools.bench.machine.process_tree import Usage, usage_below
from flightlog.tools.bench.scan.scan import ScanLine, ScanOptions, _plan, run, show
from flightlog.tools.bench.scan.scan_plan import BODY_SIZES, PARQUET, SCANS, SELECTIONS, SHARES
from flightlog.tools.bench.scan.scan_spark import DifferentAnswersError, Scanner, ScanRound
from flightlog.tools.bench.scan.scan_stores import ScanStore, share_topic, write_plain, write_shares
from flightlog.tools.output import Output

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

MIB = 1 << 20


def test_every_query_has_a_bar_at_every_size() -> None:
    for query in SCANS:
        assert query.rival == PARQUET
        assert [query.target(body_size) > 0 for body_size in BODY_SIZES] == [True] * len(BODY_SIZES)
    assert [query.target(1024) for query in SELECTIONS] == [0.2, 0.35, 0.5, 0.2, 0.35, 0.5, 0.5]


def test_a_plan_names_its_stores_and_grows_with_them() -> None:
    plan = _plan(ScanOptions())
    assert [(is_mixed, size) for is_mixed, size, _ in plan.stores] == [*((False, s) for s in BODY_SIZES), (True, 1024)]
    assert (plan.size, plan.rounds) == (1 << 30, 5)
    assert _plan(ScanOptions(size_mib=2048)).seconds > 1.7 * plan.seconds
    assert [names(each) for each in _plan(ScanOptions(only=["sum,count"], body_sizes=[100])).stores] == [
        ["sum", "count"]
    ]
    assert [names(each) for each in _plan(ScanOptions(only=["pushed 10 %,window"])).stores] == [
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
    found = line(0, [1.0, 3.0], [1.0, 1.0])
    found.ours[0] = ScanRound(1.0, after - before)
    assert (found.read_part, found.cpu_ratio) == (1.0, 6.0)
    found.ours[1] = found.ours[0]
    assert found.as_object()["read_part"] is None


def test_a_daemon_that_was_there_before_and_is_found_now_brings_counts_of_long_ago() -> None:
    before = Usage(1.0, 10, frozenset({7}), 100.0, 500.0)
    assert math.isnan((Usage(60.0, 1 << 40, frozenset({7, 8}), 200.0, 501.0) - before).read_size)
    assert Usage(1.5, 14, frozenset({7, 8}), 500.5, 501.0) - before == Usage(0.5, 4)
    assert usage_below(os.getpid()).at_s > 0


def line(query: int, ours_s: list[float], rival_s: list[float]) -> ScanLine:
    store = ScanStore(Path("/store"), 1024, 1 << 30, 900_000, (0, 1))
    made = ScanLine(SCANS[query], store, SCANS[query].target(1024))
    made.ours = [ScanRound(seconds, Usage(2 * seconds, 1 << 30)) for seconds in ours_s]
    made.rival = [ScanRound(seconds, Usage(seconds, 0)) for seconds in rival_s]
    return made


def test_ratios_are_those_of_the_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    found = line(0, [1.0, 8.0, 3.0], [2.0, 10.0, 2.0])
    assert found.ratios == [0.5, 0.8, 1.5]
    assert (found.is_met, found.read_part, found.cpu_ratio) == (True, 1.0, 3.0)
    assert found.as_object()["ratio"] == 0.8
    assert not replace(found, target=0.79).is_met
    show([found, replace(found, target=0.5)], Output())
    out = capsys.readouterr().out
    assert "1 of 2 targets met" in out
    [row] = [row.split() for row in out.splitlines() if row.endswith("NO")]
    assert row[-8:-1] == ["3", "2", "0.8", "0.5", "125%", "3", "100.0%"]


def test_different_answers_are_no_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = iter([7, 8])
    rounds = ScanRound(1.0, Usage(0.0, 0))
    monkeypatch.setattr(Scanner, "_timed", lambda *_: (next(answers), rounds))
    scanner = Scanner(None, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(DifferentAnswersError, match=r"/store: count\(\): 7, Parquet says 8"):
        scanner.round(SCANS[3], line(3, [], []).store, tmp_path)


@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "scan.json"
    few = "sum,write,subscribe 10 %,window"
    small = ("--quick", "--size", "4", "--body-size", "1024", "--only", few, "--folder", tmp_path)
    finished = cli("bench", "scan", *small, "--json", "--save", kept)
    assert finished.code == 0, finished.err
    assert "1 rounds, about" in finished.err and "took" in finished.err
    found = json.loads(finished.out)
    assert found == json.loads(kept.read_text())
    lines = {each["query"]: each for each in found["lines"]}
    assert list(lines) == few.split(",")
    for each in lines.values():
        assert each["ratio"] > 0 and len(each["ours"]) == len(each["rival"]) == 1
    read_part = lines["sum"]["read_part"]
    assert read_part is None or read_part > 0.9, "all of the log, as far as it could be told"
    assert [path.name for path in tmp_path.iterdir()] == ["scan.json"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (ScanOptions(only=["sums"]), "--only sums: no such query; there are sum, all"),
        (ScanOptions(body_sizes=[512]), "--body-size 512: expected one of 100, 1024, 10240"),
        (ScanOptions(size_mib=1), "--size 1: expected at least 4 MiB"),
        (ScanOptions(rounds=0), "--rounds 0"),
        (ScanOptions(folder=Path("/no/folder")), "--folder /no/folder"),
        (ScanOptions(size_mib=1 << 40), "free, expected"),
        (ScanOptions(save=Path("/no/folder/scan.json")), "--save /no/folder/scan.json"),
    ],
)
def test_wrong_calls(options: ScanOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(options)
