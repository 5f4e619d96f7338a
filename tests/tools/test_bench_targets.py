"""`make targets`: which figures there are, what they are held against, and a run as its user sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from flightlog.benches.loads import BenchOptions
from flightlog.benches.targets import command as targets
from flightlog.benches.targets.command import QUICK, contests_of, sizes_of
from flightlog.benches.targets.figures import GROUPS, SCAN_TARGETS, Contest, Figure, contests, returned
from flightlog.benches.targets.lines import Line, show
from flightlog.store import native
from flightlog.store.errors import UsageError
from flightlog.tools.bench.case import MAPPED, OWN, PLAIN, PLAIN_COLD, POOL, Case, Outcome, Sample
from flightlog.tools.bench.machine.machine import Machine
from flightlog.tools.bench.messages import record_size
from flightlog.tools.bench.reads.reads import READ_BATCH
from flightlog.tools.bench.rocketmq import Rocketmq
from flightlog.tools.bench.scan.queries import NAMES
from flightlog.tools.bench.scan_run import BODY_SIZES
from flightlog.tools.bench.writers import PEERS, put_case
from flightlog.tools.output import Output

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

BENCHES = str(Path(__file__).resolve().parents[2] / "benches" / "run.py")
BY_THEMSELVES = {"paced", "device", "readers", "query"}
"""Groups whose figures have no rival."""
SOME_BY_THEMSELVES = {"put", "batches", "recovery"}
"""Groups with a figure that has none: the spread of rounds, the seconds of a recovery."""
ROCKETMQ = Rocketmq(Path())


NEEDS_KERNEL = pytest.mark.skipif("c" not in native.available(), reason="the targets are those of the C kernel")


def plans(peers: Sequence[str] = tuple(PEERS), groups: Sequence[str] = GROUPS) -> list[Contest]:
    return contests(peers, ROCKETMQ, groups, QUICK)


@NEEDS_KERNEL
def test_every_group_has_figures() -> None:
    found = {figure.group for contest in plans() for figure in contest.figures}
    assert found | {"scan"} == set(GROUPS)
    alone = {f.group for contest in plans() for f in contest.figures if not f.rivals}
    assert alone == BY_THEMSELVES | SOME_BY_THEMSELVES
    beside = {f.group for contest in plans() for f in contest.figures if f.rivals}
    assert not beside & BY_THEMSELVES and beside >= SOME_BY_THEMSELVES


def test_one_group_alone_is_measured_alone() -> None:
    for group in GROUPS:
        for contest in plans(groups=[group]):
            assert {figure.group for figure in contest.figures} == {group}
            assert set(contest.cases()) == {x for f in contest.figures for x in (f.own, *f.rivals, *f.beside)}


def test_rivals_handle_the_same_messages_with_the_same_promise() -> None:
    for contest in plans():
        for figure in contest.figures:
            for rival in figure.rivals:
                assert (rival.body_size, rival.sync) == (figure.own.body_size, figure.own.sync), figure.text
                is_own_put = figure.text.endswith("returned, against put")
                assert (rival.batch > 1) == (figure.own.batch > 1) or is_own_put, figure.text
    found = {case for contest in plans(groups=["peers"]) for figure in contest.figures for case in figure.rivals}
    assert {case.who for case in found} == set(PEERS)
    assert {(case.sync, case.body_size, case.batch > 1) for case in found} == {
        (sync, size, batched) for sync in (False, True) for size in (100, 1024) for batched in (False, True)
    }


def test_rocketmq_is_a_rival_in_its_mapped_mode_with_its_pool_in_the_note() -> None:
    found = [f for contest in plans((), ("put", "batches")) for f in contest.figures if f.needs_rocketmq]
    assert len(found) == 4
    for figure in found:
        assert {case.who for case in figure.rivals} == {MAPPED} and {case.who for case in figure.beside} == {POOL}
        outcomes = {case: outcome(case, [1, 1], [2, 2]) for case in (*figure.rivals, *figure.beside)}
        outcomes[figure.own] = outcome(figure.own, [1, 1], [1, 1])
        assert figure.line(outcomes).note.startswith("2x its transient pool") and figure.line(outcomes).measured == 2


def test_a_batch_is_held_against_single_puts_and_rounds_against_each_other() -> None:
    figures = {f.text: f for contest in plans((), ("put", "batches")) for f in contest.figures}
    batch = figures["put_many(256), 100 B, returned, against put"]
    (put,) = batch.rivals
    assert (put.batch, put.who, batch.target) == (1, OWN, 1.3)
    found = {batch.own: outcome(batch.own, [1, 1], [9, 9]), put: outcome(put, [1.5, 1.5], [9, 9])}
    assert batch.line(found).measured == pytest.approx(1.5), "until the call returned, whatever is to be dispatched"
    spread = figures["put, 1,024 B, spread of its rounds"]
    line = spread.line({put: outcome(put, [1] * 3, [4, 5, 6]), spread.own: outcome(spread.own, [1] * 3, [4, 5, 6])})
    assert line.measured == pytest.approx(0.4) and not line.is_met and line.cells[1:3] == ["<= 0.35", "0.4"]


@NEEDS_KERNEL
def test_reads_have_their_rivals() -> None:
    found = [figure for contest in plans(groups=("read", "cold", "verify", "recovery")) for figure in contest.figures]
    assert [figure.own.task for figure in found if figure.own.task != READ_BATCH] == [
        *("read", "read_all", "read, all fields", "read, cold", "seals", "verify", "recover", "recover"),
    ]
    for figure in found[:-1]:
        rivals = {case.who for case in figure.rivals}
        assert rivals and figure.needs_rocketmq == (rivals == {MAPPED})
        assert figure.needs_rocketmq or rivals <= {PLAIN, PLAIN_COLD, OWN}
        assert figure.own.kernel == "c" and {case.count for case in figure.rivals} == {figure.own.count}


def test_every_query_of_a_scan_has_a_target_at_every_size() -> None:
    assert set(SCAN_TARGETS) == set(NAMES)
    assert all(len(found) in (1, len(BODY_SIZES)) for found in SCAN_TARGETS.values())
    assert [SCAN_TARGETS[name][-1] for name in NAMES[7:]] == [0.2, 0.35, 0.5, 0.2, 0.35, 0.5, 0.5]


@NEEDS_KERNEL
def test_every_group_is_measured_unless_some_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="free, expected"):
        targets.run_targets(BenchOptions(size=1 << 40))
    assert f"{', '.join(GROUPS)}; 5 rounds" in capsys.readouterr().err


def test_a_measurement_that_fails_is_a_line_and_the_exit_code_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(plan: Contest, *others: object) -> list[Outcome]:
        if plan.figures[0].group == "columns":
            raise RuntimeError("made up")
        return [
            Outcome(case, [Sample(1, 1.0, 1.0, calls_ns=np.ones(1), latencies_ns=np.ones(1))]) for case in plan.cases()
        ]

    monkeypatch.setattr(targets, "run_contest", fail)
    options = BenchOptions(quick=True, only=["columns,query"], folder=tmp_path)
    assert targets.run_targets(options) == 1
    said = capsys.readouterr()
    assert "RuntimeError: made up" in said.err and said.out.count("failed: RuntimeError") == 2
    assert "2 of 2 targets are met; 2 not measured." in said.out


@NEEDS_KERNEL
def test_without_rocketmq_its_lines_say_so() -> None:
    found, missing, _ = contests_of(sizes_of(BenchOptions(quick=True)), GROUPS, None)
    left = [figure for contest in found for figure in contest.figures]
    assert left and not any(figure.needs_rocketmq for figure in left)
    assert {line.group for line in missing} == {
        *("put", "batches", "sync-threads", "read", "recovery"),
    }
    assert all("--rocketmq" in line.note and line.is_met is None for line in missing)


def outcome(case: Case, put_s: list[float], drained_s: list[float]) -> Outcome:
    return Outcome(case, [Sample(10, d, p) for p, d in zip(put_s, drained_s, strict=True)])


def test_a_ratio_is_that_of_one_round_to_the_best_rival_of_it() -> None:
    own, one, other = put_case(OWN), ROCKETMQ.put_case(), ROCKETMQ.put_case(pool=True)
    outcomes = {
        own: outcome(own, [1, 2, 1], [2, 4, 2]),
        one: outcome(one, [9, 9, 9], [8, 20, 20]),
        other: outcome(other, [3, 3, 3], [9, 12, 6]),
    }
    drained = Figure("put", "put", 2.9, own, (one, other)).line(outcomes)
    assert drained.values == pytest.approx((4, 3, 3))
    assert drained.measured == pytest.approx(3) and drained.is_met
    assert drained.note == f"the fastest of 2 is {POOL}"
    at_once = Figure("put", "put", 3, own, (one,), returned).line(outcomes)
    assert at_once.values == pytest.approx((9, 4.5, 9)) and not at_once.note
    time = Figure("scan", "put", 1.3, own, (one,), at_most=True).line(outcomes)
    assert time.values == pytest.approx((0.25, 0.2, 0.1)) and time.is_met, "of a multiple of time, less is better"


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
    show(lines, Machine(2, "a CPU", "Linux 6", "3.11", "ext4"), 3, 3720.0, Output())
    out = capsys.readouterr().out
    assert out.startswith("2 x a CPU, Linux 6, Python 3.11, ext4; medians of 3 rounds")
    assert "within one round; 62 min 0 s." in out
    assert "- put: a note" in out and "2 of 4 targets are met; 1 not measured." in out
    rows = {line.split(" | ")[0]: line for line in out.splitlines()}
    assert rows["| query"] == "| query | <= 10 µs | 9 µs | 244% | yes | `make targets ONLY=query` |"
    assert " | NO | " in rows["| slow put"] and " | needs something | " in rows["| read"]


def test_syncs_are_measured_in_filled_stores() -> None:
    cases = [case for contest in plans((), ("sync", "sync-threads")) for case in contest.cases()]
    assert {case.threads for case in cases} == {1, 64}
    assert {case.filled for case in cases} == {QUICK.sync_fill_size // record_size(1024)}


def test_sizes_are_chosen() -> None:
    kinds = BenchOptions(), BenchOptions(full=True), BenchOptions(quick=True)
    usual, full, quick = map(sizes_of, kinds)
    assert usual.size >= 300_000_000 and usual.rounds == full.rounds == 5
    assert full.device_step_size * full.device_steps == 900_000_000
    assert usual.recovery_size == full.recovery_size == 2 << 30
    assert quick.size < usual.size / 100
    assert usual.sync_fill_size >= 100_000_000 and full.sync_fill_size >= 100_000_000, "RocketMQ's syncs are dear then"
    own = sizes_of(BenchOptions(size=2, sync_size=0.5, rounds=3))
    assert (own.size, own.recovery_size, own.sync_size, own.rounds) == (2_000_000, 2_000_000, 500_000, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (BenchOptions(only=["put,speed"]), "--only speed: expected some of put"),
        (BenchOptions(size=0), "--size 0"),
        (BenchOptions(rounds=-1), "--rounds -1"),
        (BenchOptions(rocketmq=Path("/proc")), "--rocketmq /proc: no rocketmq-store"),
        (BenchOptions(folder=Path("/no/folder")), "--folder /no/folder"),
        (BenchOptions(save=Path("/no/folder/targets.json")), "--save /no/folder/targets.json"),
    ],
)
def test_wrong_calls(options: BenchOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        targets.run_targets(options)


def test_a_file_system_in_memory_is_refused(in_memory: Path) -> None:
    with pytest.raises(UsageError, match="a sync syncs nothing"):
        targets.run_targets(BenchOptions(folder=in_memory))
    assert not list(in_memory.iterdir())


@pytest.mark.ci
@NEEDS_KERNEL
def test_a_run_as_its_user_sees_it(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "targets.json"
    only = ("--only", "columns,put", "--only", "paced,device,cold,verify,query")
    finished = cli("targets", "--quick", "--rounds", "1", *only, "--folder", tmp_path, "--save", kept, module=BENCHES)
    assert finished.code == 0, finished.err
    assert "writing about" in finished.err and "verify, seals alone, against reading" in finished.err
    assert "targets are met; 4 not measured" in finished.out and "needs --rocketmq" in finished.out
    assert finished.out.count("needs two rounds") == 2
    found = json.loads(kept.read_text())
    by_group: dict[str, int] = {}
    for line in found["lines"]:
        by_group[line["group"]] = by_group.get(line["group"], 0) + 1
        assert (line["measured"] is None) == ("RocketMQ" in line["figure"] or "spread" in line["figure"])
    assert by_group == {"put": 4, "columns": 2, "paced": 4, "device": 1, "cold": 1, "verify": 2, "query": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["targets.json"]
