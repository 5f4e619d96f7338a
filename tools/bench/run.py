"""One run over the store: append, flush, read, query, recover, verify, or some of each."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from ...store import native
from ...store.errors import UsageError
from ..output import Output
from ..progress_bar import ProgressBar
from ..words import seconds_text, size_text
from . import report, runner, scan_run
from .case import OWN, PURE, REFERENCES, Case, Outcome
from .harness import Options, begun, finish, measure_with_bar
from .machine import device
from .machine.machine import Machine
from .machine.scratch import check_room
from .plan import BODY_SIZES, ROCKETMQ, Peers, append_cases, flush_cases, read_versus, subject_cases, whole_cases
from .report import say
from .rocketmq import QUICK_WARM_COUNT, ROUND_OVERHEAD_S, WARM_COUNT
from .runner import CLOSE_ENOUGH
from .sentences import sentences

APPEND, FLUSH = "append", "flush"
ROUNDS, QUICK_ROUNDS = 5, 2
BUDGET_S, QUICK_BUDGET_S = 60.0, 10.0
PEER_CASE_S, QUICK_PEER_CASE_S = 2.0, 0.8
"""Additional time for each case of a peer."""
TRIALS = 2
"""Runs that are usually needed to estimate the time of a round."""
QUICK_BODY_SIZES = (1024,)
ROOM_MIN = 2 << 30
"""Bytes: a store at its defaults allocates a segment of 1 GiB, and each round is removed before the next."""
ROOM = 3
"""Runs that read stores need this many times the bytes of their largest round free."""
SPARK_SIZE_MIB, QUICK_SPARK_SIZE_MIB = 64, 8
"""Size of the stores that the run without a subject scans."""


def run(options: Options) -> int:
    """Measure and print; returns the exit code. Raises UsageError for wrong options, before anything is written, and
    every error of the store."""
    options.check()
    peers = _peers(options)
    with begun(options, f"; kernels: {', '.join(native.available())}") as (folder, machine), ExitStack() as running:
        earlier = report.load_earlier(options.compare, machine) if options.compare else None
        cases = _cases(options, peers, machine, folder)
        if peers.rocketmq is not None:
            with ProgressBar("warming RocketMQ up"):
                warm_count = QUICK_WARM_COUNT if options.quick or options.subject not in (APPEND, FLUSH) else WARM_COUNT
                running.enter_context(peers.rocketmq.running(folder, warm_count))
        in_time = options.subject in (APPEND, FLUSH)
        outcomes = (_measure_in_time if in_time else _measure_rounds)(options, cases, folder)
        if options.subject is None and not options.no_spark:
            outcomes += _scan(options, folder)

    def show(output: Output) -> None:
        report.show(outcomes, output)
        output.line()
        for sentence in sentences(outcomes) if in_time else ():
            output.line(sentence)
        if earlier is not None:
            report.show_change(outcomes, earlier, output)

    return finish(options, machine, outcomes, show)


def _scan(options: Options, folder: Path) -> list[Outcome]:
    if not all(find_spec(name) for name in ("pyspark", "pyarrow")):
        say("no Spark scan: pip install 'flightlog[spark]'")
        return []
    size = QUICK_SPARK_SIZE_MIB if options.quick else SPARK_SIZE_MIB
    small = Options(only=["all"], body_sizes=BODY_SIZES, size=size, rounds=options.rounds, quick=options.quick)
    return scan_run.measure(scan_run.make_plan(small), folder)


def _peers(options: Options) -> Peers:
    peers = read_versus(options.versus)
    if peers.names and options.subject not in (APPEND, FLUSH):
        raise UsageError(
            f"--versus {','.join(peers.names)}: expected {ROCKETMQ}=FOLDER_OF_JARS; others read no such files"
        )
    return peers


def _cases(options: Options, peers: Peers, machine: Machine, folder: Path) -> list[Case]:
    sizes = options.body_sizes or (QUICK_BODY_SIZES if options.quick else BODY_SIZES)
    if options.subject == APPEND:
        return append_cases(sizes, peers, options.rate)
    if options.subject == FLUSH:
        _check_syncs(machine, folder)
        return flush_cases(sizes, options.threads, peers, options.rate)
    if options.subject is None:
        cases = whole_cases(quick=options.quick)
    else:
        fields = {"messages": options.messages, "quick": options.quick}
        cases = subject_cases(options.subject, BODY_SIZES, peers.rocketmq, **fields)  # type: ignore[arg-type]
    if machine.is_in_memory:
        say(f"{folder} is on {machine.file_system}: no sync figures from there; name a disk's folder with --folder")
        cases = [case for case in cases if not case.needs_disk]
    return cases


def _check_syncs(machine: Machine, folder: Path) -> None:
    if machine.is_in_memory:
        raise UsageError(
            f"{folder.parent} is on {machine.file_system}, where a sync syncs nothing: "
            "name a disk's folder with --folder"
        )
    sync_s = device.sync_time_s(folder)
    if sync_s < device.IMPLAUSIBLE_SYNC_S:
        say(
            f"warning: this device confirms a write in {sync_s * 1e6:.1f} µs, which no disk does: it keeps its cache "
            "through a power cut, or it does not sync at all"
        )


def _measure_rounds(options: Options, cases: Sequence[Case], folder: Path) -> list[Outcome]:
    """Measure rounds of a fixed number of messages."""
    check_room(folder, max(ROOM_MIN, ROOM * max(case.size for case in cases)))
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = rounds * runner.warm(cases, folder)
    size = rounds * sum(case.size for case in cases)
    say(f"{rounds} rounds, about {seconds_text(max(seconds, 1))}, writing at most {size_text(size)} below {folder}")
    return measure_with_bar(cases, rounds, folder)


def _measure_in_time(options: Options, cases: Sequence[Case], folder: Path) -> list[Outcome]:
    """Measure rounds that are sized to fit the time budget."""
    check_room(folder, ROOM_MIN)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    budget_s = options.seconds or _budget_s(cases, rounds, quick=options.quick)
    until_s = time.monotonic() + budget_s
    say(f"{len(cases)} cases in about {seconds_text(budget_s)}, if possible; estimating how many messages fit")
    with ProgressBar("trying out", len(cases)) as bar:
        trials = []
        for case in cases:
            trials.append(runner.try_out(case, lambda case: runner.run(case, folder)))
            bar.advance()
    left_s = until_s - time.monotonic()
    plan = runner.plan(trials, rounds, left_s, all_rounds=options.rounds is not None)
    if plan.seconds > max(left_s, 0) * CLOSE_ENOUGH:
        whole = seconds_text(budget_s - left_s + plan.seconds)
        why = f"--rounds {options.rounds} asks for" if options.rounds else "even the shortest rounds take"
        say(
            f"{seconds_text(budget_s)} is too short: {why} about {whole} in all; fewer sizes, threads or peers take "
            "less"
        )
    say(
        f"{plan.rounds} round{'s' * (plan.rounds > 1)} and one for latencies: about "
        f"{seconds_text(max(plan.seconds, 1))} more, writing about {size_text(plan.size)} below {folder.parent}"
    )
    until_s = math.inf if options.rounds else until_s
    outcomes = measure_with_bar(plan.cases, plan.rounds, folder, stamped=True, until_s=until_s)
    if len(outcomes[0].rounds) < plan.rounds:
        say(f"stopped after {len(outcomes[0].rounds)} of {plan.rounds} rounds: they took longer than estimated")
    return outcomes


def _budget_s(cases: Sequence[Case], rounds: int, *, quick: bool) -> float:
    """The time budget in seconds. Cases of peers add to it."""
    peers = [case for case in cases if case.who not in (OWN, PURE, *REFERENCES)]
    of_peers_s = len(peers) * (QUICK_PEER_CASE_S if quick else PEER_CASE_S)
    of_rocketmq_s = sum(case.is_rocketmq for case in peers) * (rounds + 1 + TRIALS) * ROUND_OVERHEAD_S
    return (QUICK_BUDGET_S if quick else BUDGET_S) + of_peers_s + of_rocketmq_s
