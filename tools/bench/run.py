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
from .case import PUT, Case, Outcome
from .harness import Options, begun, finish, measure_with_bar
from .machine import device
from .machine.machine import Machine
from .machine.scratch import check_room
from .plan import BODY_SIZES, ROCKETMQ, Peers, append_cases, flush_cases, read_versus, subject_cases, whole_cases
from .report import say
from .rocketmq import QUICK_WARM_COUNT, ROUND_OVERHEAD_S, WARM_COUNT
from .sentences import sentences

APPEND, FLUSH = "append", "flush"
ROUNDS, QUICK_ROUNDS = 5, 2
ROUND_S, QUICK_ROUND_S = 0.4, 0.25
"""A round of puts, preparations included, where `--seconds` does not say how long all of them may take."""
TRIAL_PART = 0.25
"""Part of the seconds of a run that is spent on the rounds that measure how many messages fit."""
CLOSE_ENOUGH = 0.1
"""The part of its seconds by which a run may be late without a word."""
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
        outcomes = _measure(options, cases, folder)
        if options.subject is None and not options.no_spark:
            outcomes += _scan(options, folder)

    def show(output: Output) -> None:
        report.show(outcomes, output)
        output.line()
        for sentence in sentences(outcomes) if options.subject in (APPEND, FLUSH) else ():
            output.line(sentence)
        if earlier is not None:
            report.show_change(outcomes, earlier, output)

    return finish(options, machine, outcomes, show=show)


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
        cases = subject_cases(
            options.subject, BODY_SIZES, peers.rocketmq, messages=options.messages, quick=options.quick
        )
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


def _measure(options: Options, cases: Sequence[Case], folder: Path) -> list[Outcome]:
    """Try every case out once, which also sizes those that say no number of calls, and measure."""
    check_room(folder, max(ROOM_MIN, ROOM * max(case.size for case in cases)))
    rounds, until_s = options.rounds_of(ROUNDS, QUICK_ROUNDS), math.inf
    stamped = options.subject in (APPEND, FLUSH)
    round_s = QUICK_ROUND_S if options.quick else ROUND_S
    if options.seconds is not None:
        round_s = (1 - TRIAL_PART) * options.seconds / (len(cases) * (rounds + 1))
        until_s = time.monotonic() + options.seconds
    say(f"{len(cases)} cases; estimating how many messages fit")
    found: list[tuple[Case, float]] = []
    with ProgressBar("trying out", len(cases)) as bar:
        for case in cases:
            if case.task != PUT or case.calls > 1:
                found.append((case, runner.warm([case], folder)))
            else:
                overhead_s = ROUND_OVERHEAD_S if case.is_rocketmq else 0.0
                found.append(runner.sized(case, round_s + overhead_s, lambda case: runner.run(case, folder)))
            bar.advance()
    cases, seconds = [case for case, _ in found], (rounds + stamped) * sum(seconds for _, seconds in found)
    if options.seconds is not None and time.monotonic() + seconds > until_s + CLOSE_ENOUGH * options.seconds:
        say(
            f"{seconds_text(options.seconds)} is short: {rounds} of even the shortest rounds take about "
            f"{seconds_text(seconds)} more; fewer sizes, threads or peers take less"
        )
    size = (rounds + 1) * sum(case.size for case in cases)
    say(
        f"{rounds} round{'s' * (rounds > 1)}{' and one for latencies' * stamped}: about "
        f"{seconds_text(max(seconds, 1))} more, writing about {size_text(size)} below {folder.parent}"
    )
    until_s = math.inf if options.rounds else until_s
    outcomes = measure_with_bar(cases, rounds, folder, stamped=stamped, until_s=until_s)
    if len(outcomes[0].rounds) < rounds:
        say(f"stopped after {len(outcomes[0].rounds)} of {rounds} rounds: they took longer than estimated")
    return outcomes
