"""`make targets`: which figures there are, what they are held against, and a run as its user sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benches.targets import command as targets
from benches.targets.command import TargetsOptions, _sizes, _without_rocketmq
from benches.targets.lines import Line, show
from benches.targets.measures import _writer_line
from benches.targets.plan import CASE_SUBJECTS, GROUPS, WriterFigure, writer_contests
from flightlog.store.errors import UsageError
from flightlog.tools.bench.cases.file_workloads import PLAIN, PLAIN_COLD
from flightlog.tools.bench.cases.plan import make_cases
from flightlog.tools.bench.cases.rocketmq_cases import RIVALS
from flightlog.tools.bench.loads.load import Load, Outcome, Round
from flightlog.tools.bench.rocketmq import MAPPED, POOL
from flightlog.tools.bench.writers import OWN, PEERS
from flightlog.tools.output import Output

BENCHES = str(Path(__file__).resolve().parents[2] / "benches" / "run.py")

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

OF_THEIR_OWN = {"paced", "device", "readers", "query"}
"""Groups that are neither a contest of writers nor cases."""


def test_every_group_has_figures() -> None:
    found = {figure.group for contest in writer_contests(list(PEERS), GROUPS, 1000) for figure in contest.figures}
    found |= {figure.group for figures in CASE_SUBJECTS.values() for figure in figures}
    assert found | OF_THEIR_OWN == set(GROUPS) and not found & OF_THEIR_OWN


def test_one_group_alone_is_measured_alone() -> None:
    for group in set(GROUPS) - OF_THEIR_OWN:
        for contest in writer_contests(list(PEERS), [group], 1000):
            assert {figure.group for figure in contest.figures} == {group}
            assert set(contest.loads()) == {x for f in contest.figures for x in (f.own, *f.rivals)}


def test_rivals_write_the_same_messages_with_the_same_promise() -> None:
    for contest in writer_contests(list(PEERS), GROUPS, 1000):
        for figure in contest.figures:
            for rival in figure.rivals:
                assert (rival.body_size, rival.sync) == (figure.own.body_size, figure.own.sync), figure.text
                assert (rival.batch > 1) == (figure.own.batch > 1), figure.text
    asked = {load for c in writer_contests(list(PEERS), ["peers"], 1000) for f in c.figures for load in f.rivals}
    assert {load.writer for load in asked} == set(PEERS)
    assert {(load.sync, load.body_size, load.batch > 1) for load in asked} == {
        (sync, size, batched) for sync in (False, True) for size in (100, 1024) for batched in (False, True)
    }


def test_rocketmq_takes_part_in_both_of_its_modes() -> None:
    for contest in writer_contests([], ("put", "batches", "pure"), 1000):
        for figure in contest.figures:
            assert {load.writer for load in figure.rivals} == {MAPPED, POOL}


def test_cases_have_their_rivals() -> None:
    for subject, figures in CASE_SUBJECTS.items():
        names = {case.name for case in make_cases(body_sizes=[1024], kernels=["c"], subject=subject, messages=100)}
        for figure in figures:
            assert figure.own in names | {"read_batch"}, "read_batch needs pyarrow"
            assert set(figure.rivals) <= names | set(RIVALS.values())
            assert figure.needs_rocketmq == (not set(figure.rivals) & {PLAIN, PLAIN_COLD})


def test_without_rocketmq_its_lines_say_so() -> None:
    contests, cases, missing = _without_rocketmq(
        writer_contests(["lmdb"], GROUPS, 1000), {name: list(figures) for name, figures in CASE_SUBJECTS.items()}
    )
    left = [f for contest in contests for f in contest.figures] + [f for each in cases.values() for f in each]
    assert left and not any(figure.needs_rocketmq for figure in left)
    assert {line.group for line in missing} == {
        *("put", "batches", "pure", "sync", "sync-threads", "read", "recovery"),
    }
    assert all("--rocketmq" in line.note and line.is_met is None for line in missing)


def outcome(load: Load, put_s: list[float], drained_s: list[float]) -> Outcome:
    none = np.empty(0, np.int64)
    return Outcome(load, 1000, [Round(10, d, p, none) for p, d in zip(put_s, drained_s, strict=True)])


def test_a_ratio_is_that_of_one_round_to_the_best_rival_of_it() -> None:
    own, one, other = Load(OWN, False, 100), Load(MAPPED, False, 100), Load(POOL, False, 100)
    outcomes = {
        own: outcome(own, [1, 2, 1], [2, 4, 2]),
        one: outcome(one, [9, 9, 9], [8, 20, 20]),
        other: outcome(other, [3, 3, 3], [9, 12, 6]),
    }
    drained = _writer_line(WriterFigure("put", "put", 2.9, own, (one, other)), outcomes)
    assert drained.values == pytest.approx((4, 3, 3))
    assert drained.measured == pytest.approx(3) and drained.is_met
    assert drained.note == f"the fastest of 2 is {POOL}"
    returned = _writer_line(WriterFigure("put", "put", 3, own, (one,), returned=True), outcomes)
    assert returned.values == pytest.approx((9, 4.5, 9)) and not returned.note


def test_what_a_line_says(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        Line("put", "put", 4, (4.0, 5.0, 3.0), note="a note"),
        Line("put", "slow put", 4, (3.0, 3.9, 9.0)),
        Line("query", "query", 10, (8.0, 9.0, 30.0), "µs", at_most=True),
        Line("device", "device", 1.1, (1.0, 1.0, 1.2), at_most=True, every=True),
        Line("read", "read", 1, note="needs something"),
    ]
    assert [line.is_met for line in lines] == [True, False, True, False, None]
    assert [line.measured for line in lines] == [4.0, 3.9, 9.0, 1.2, None]
    assert lines[0].spread == pytest.approx(0.5)
    assert lines[2].brief == "query  <= 10 µs  9 µs  244%  yes"
    show(lines, Output())
    out = capsys.readouterr().out
    assert "put: a note" in out and "2 of 4 targets are met; 1 not measured." in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines() if line}
    assert rows["query"][1:] == ["<=", "10", "µs", "9", "µs", "244%", "yes"]
    assert rows["slow put"][-1] == "NO" and rows["read"][-2:] == ["needs", "something"]


def test_syncs_are_measured_in_filled_stores() -> None:
    contests = writer_contests([], ("sync", "sync-threads"), 88_000)
    loads = [load for contest in contests for load in contest.loads()]
    assert {load.threads for load in loads} == {1, 64}
    assert {load.filled for load in loads} == {88_000}


def test_sizes_are_chosen() -> None:
    kinds = TargetsOptions(), TargetsOptions(full=True), TargetsOptions(quick=True)
    usual, full, quick = map(_sizes, kinds)
    assert usual.size >= 300_000_000 and usual.rounds == full.rounds == 5
    assert full.device_step_size * full.device_steps == 900_000_000 and full.recovery_size == 2 << 30
    assert quick.size < usual.size / 100
    assert usual.sync_fill_size >= 100_000_000 and full.sync_fill_size >= 100_000_000, "RocketMQ's syncs are dear then"
    own = _sizes(TargetsOptions(size_mb=2, sync_size_mb=0.5, rounds=3))
    assert (own.size, own.recovery_size, own.sync_size, own.rounds) == (2_000_000, 2_000_000, 500_000, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (TargetsOptions(only=["put,speed"]), "--only speed: no such group; there are put"),
        (TargetsOptions(size_mb=0), "--size 0"),
        (TargetsOptions(rounds=-1), "--rounds -1"),
        (TargetsOptions(rocketmq=Path("/proc")), "rocketmq=/proc: no rocketmq-store"),
        (TargetsOptions(folder=Path("/no/folder")), "--folder /no/folder"),
        (TargetsOptions(save=Path("/no/folder/targets.json")), "--save /no/folder/targets.json"),
        (TargetsOptions(folder=Path("/dev/shm")), "a sync syncs nothing"),
    ],
)
def test_wrong_calls(options: TargetsOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        targets.run(options)


@pytest.mark.ci
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "targets.json"
    only = ("--only", "columns,put", "--only", "paced,device,cold,verify,query")
    finished = cli("targets", "--quick", "--rounds", "1", *only, "--folder", tmp_path, "--save", kept, module=BENCHES)
    assert finished.code == 0, finished.err
    assert "writing about" in finished.err and "verify, seals alone, against reading" in finished.err
    assert "targets are met; 2 not measured" in finished.out and "needs --rocketmq" in finished.out
    found = json.loads(kept.read_text())
    by_group: dict[str, int] = {}
    for line in found["lines"]:
        by_group[line["group"]] = by_group.get(line["group"], 0) + 1
        assert (line["measured"] is None) == (line["group"] == "put")
    assert by_group == {"put": 2, "columns": 3, "paced": 4, "device": 1, "cold": 1, "verify": 2, "query": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["targets.json"]
