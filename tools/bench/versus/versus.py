"""One comparison of writers: says what it is about to do, does it, tells what came of it."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ....store.errors import UsageError
from ...output import Output
from ...progress_bar import ProgressBar
from ...words import seconds_text, size_text
from ..cases.plan import BODY_SIZES
from ..loads.load import Load, Outcome
from ..machine import device
from ..machine.machine import Machine, this_machine
from ..machine.scratch import scratch_folder
from ..rocketmq import QUICK_WARM_COUNT, ROUND_OVERHEAD_S, WARM_COUNT, RocketmqProcess, is_rocketmq
from ..telling import plots, saving, telling
from ..writers import OWN, PURE, REFERENCES
from .contest import Contest
from .load_plan import append_loads, flush_loads, read_versus
from .trial import CLOSE_ENOUGH, TRIALS, Plan, plan_of, plan_within

BUDGET_S, QUICK_BUDGET_S = 60.0, 10.0
ROUNDS, QUICK_ROUNDS = 5, 2
PEER_LOAD_S, QUICK_PEER_LOAD_S = 2.0, 0.8
"""What a load of a peer may take beside that."""
QUICK_BODY_SIZES = (1024,)
THREADS = (8, 64)
ROOM_MIN = 2 << 30
"""Bytes: a store at its defaults allocates a segment of 1 GiB, and each round is removed before the next."""


@dataclass(frozen=True)
class VersusOptions:
    """What the command line says."""

    body_sizes: Sequence[int] = ()
    """None: BODY_SIZES, or that of a quick run."""
    threads: Sequence[int] = THREADS
    versus: Sequence[str] = ()
    rate: int | None = None
    """Messages a second, all threads together; None: each puts as fast as it can."""
    quick: bool = False
    rounds: int | None = None
    budget_s: float | None = None
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None
    csv: Path | None = None
    plot: Path | None = None
    compare: Path | None = None
    flush: bool = field(default=True, kw_only=True)
    """Both flush modes, or the async one alone."""


def run(options: VersusOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    _check(options)
    peers, jars = read_versus(options.versus)
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        earlier = saving.load_earlier(options.compare, machine) if options.compare else None
        loads = _loads(options, peers, machine, folder)
        outcomes = _measure(options, loads, jars, machine, folder)
    found = saving.as_object(outcomes, machine)
    if options.save:
        saving.save_json(options.save, found)
    if options.csv:
        saving.save_csv(options.csv, found["outcomes"])
    if options.plot:
        plots.draw(outcomes, machine, options.plot)
    if options.as_json:
        print(json.dumps(found, indent=2))
        return 0
    output = Output()
    telling.show(outcomes, output)
    if earlier is not None:
        saving.show_change(outcomes, earlier, output)
    return 0


def _check(options: VersusOptions) -> None:
    numbers = {
        "--body-size": options.body_sizes,
        "--threads": options.threads,
        "--rounds": [] if options.rounds is None else [options.rounds],
        "--rate": [] if options.rate is None else [options.rate],
    }
    for name, values in numbers.items():
        for value in values:
            if value < 1:
                raise UsageError(f"{name} {value}: expected at least 1")
    if options.budget_s is not None and options.budget_s <= 0:
        raise UsageError(f"--seconds {options.budget_s:g}: expected more than 0")
    saving.check_folder(options.folder)
    saving.check_files({"--save": options.save, "--csv": options.csv})
    if options.plot is not None:
        plots.check_plot(options.plot)


def _loads(options: VersusOptions, peers: Sequence[str], machine: Machine, folder: Path) -> list[Load]:
    body_sizes = options.body_sizes or (QUICK_BODY_SIZES if options.quick else BODY_SIZES)
    _say(str(machine))
    for warning in machine.warnings:
        _say(f"warning: {warning}")
    if not options.flush:
        return append_loads(body_sizes, peers, options.rate)
    if machine.is_in_memory:
        raise UsageError(
            f"{folder.parent} is on {machine.file_system}, where a sync syncs nothing: "
            "name a disk's folder with --folder"
        )
    sync_s = device.sync_time_s(folder)
    if sync_s < device.IMPLAUSIBLE_SYNC_S:
        _say(
            f"warning: this device confirms a write in {sync_s * 1e6:.1f} µs, which no disk does: it keeps its cache "
            "over a power cut, or it does not sync at all"
        )
    return flush_loads(body_sizes, options.threads, peers, options.rate)


def _measure(
    options: VersusOptions, loads: Sequence[Load], jars: Path | None, machine: Machine, folder: Path
) -> list[Outcome]:
    free = shutil.disk_usage(folder).free
    if free < ROOM_MIN:
        raise UsageError(
            f"{folder.parent}: {size_text(free)} free, expected {size_text(ROOM_MIN)}. Name another --folder"
        )
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    budget_s = options.budget_s or _budget_s(loads, rounds, quick=options.quick)
    with ExitStack() as running:
        rocketmq = None
        if jars is not None:
            with ProgressBar("warming RocketMQ up"):
                warm_count = QUICK_WARM_COUNT if options.quick else WARM_COUNT
                rocketmq = running.enter_context(RocketmqProcess(jars, folder, warm_count))
        until_s = time.monotonic() + budget_s
        contest = Contest(folder, rocketmq)
        _say(f"{len(loads)} loads in about {seconds_text(budget_s)}, if they can; trying out how many messages that is")
        with ProgressBar("trying out", len(loads)) as bar:
            trials = []
            for load in loads:
                trials.append(contest.try_out(load))
                bar.done += 1
        choose = plan_within if options.rounds is None else plan_of
        left_s = until_s - time.monotonic()
        plan = choose(trials, rounds, left_s)
        if plan.seconds > max(left_s, 0) * CLOSE_ENOUGH:
            _say(_overrun(budget_s, budget_s - left_s + plan.seconds, options))
        _say(_announcement(plan, folder))
        with ProgressBar("measuring", len(loads) * (plan.rounds + 1)) as bar:

            def done() -> None:
                bar.done += 1

            outcomes = contest.measure(plan.entries, plan.rounds, done, until_s=math.inf if options.rounds else until_s)
    if len(outcomes[0].rounds) < plan.rounds:
        _say(f"{len(outcomes[0].rounds)} rounds in place of {plan.rounds}: they took longer than they did at first")
    return outcomes


def _budget_s(loads: Sequence[Load], rounds: int, *, quick: bool) -> float:
    """Seconds that all of it may take: more where peers are asked for, as their loads come on top."""
    peers = [load for load in loads if load.writer not in (OWN, PURE, *REFERENCES)]
    of_peers_s = len(peers) * (QUICK_PEER_LOAD_S if quick else PEER_LOAD_S)
    of_rocketmq_s = sum(map(is_rocketmq, peers)) * (rounds + 1 + TRIALS) * ROUND_OVERHEAD_S
    return (QUICK_BUDGET_S if quick else BUDGET_S) + of_peers_s + of_rocketmq_s


def _overrun(budget_s: float, whole_s: float, options: VersusOptions) -> str:
    """Why the run takes longer than its budget."""
    why = f"--rounds {options.rounds} asks for" if options.rounds else "even the shortest rounds of these loads take"
    return (
        f"{seconds_text(budget_s)} do not suffice: {why} about {seconds_text(whole_s)} in all; fewer sizes, threads or "
        "peers take less"
    )


def _announcement(plan: Plan, folder: Path) -> str:
    rounds = f"{plan.rounds} round{'s' * (plan.rounds > 1)} and one for latencies"
    return (
        f"{rounds}: about {seconds_text(max(plan.seconds, 1))} more, writing about {size_text(plan.size)} "
        f"below {folder.parent}"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
