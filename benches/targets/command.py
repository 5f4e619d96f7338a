"""`make targets`: every figure that this store has to come to, in one run, each held against its target.

Ratios are taken within one round, in which everybody has a turn. RocketMQ runs at its defaults, warmed by a million
puts, on the same messages and as full; the better of its modes counts. Every writer begins in a fresh store with a few
messages in it and at rest, and is done when everything is in queue and key index. Peers, which take from microseconds
to milliseconds a message, run for a fixed time in place of a fixed size: they get the emptier stores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benches.readers import command as readers
from benches.targets.lines import Line, show
from benches.targets.measures import THREADS_MORE, Measures, Sizes
from benches.targets.plan import (
    BY_SIZE,
    BY_SYNC_SIZE,
    CASE_SUBJECTS,
    GROUPS,
    KB,
    CaseFigure,
    Contest,
    WriterFigure,
    writer_contests,
)
from flightlog.store import native
from flightlog.store.errors import UsageError
from flightlog.tools.bench import rocketmq
from flightlog.tools.bench.cases.workloads import record_size
from flightlog.tools.bench.machine.machine import Machine, this_machine
from flightlog.tools.bench.machine.scratch import check_room, scratch_folder
from flightlog.tools.bench.rocketmq import QUICK_WARM_COUNT, WARM_COUNT, RocketmqProcess, check_jars
from flightlog.tools.bench.telling import saving
from flightlog.tools.bench.writers import PURE, peers_at_hand
from flightlog.tools.output import Output
from flightlog.tools.progress_bar import CLEAR_LINE, ProgressBar
from flightlog.tools.words import seconds_text, size_text

MB = 1_000_000
ROUNDS = 5
USUAL = Sizes(300 * MB, 20 * MB, 100 * MB, 300 * MB, 30 * MB, 3, 0.5, 1.0, ROUNDS)
FULL = Sizes(300 * MB, 300 * MB, 100 * MB, 2 << 30, 100 * MB, 9, 3.0, 5.0, ROUNDS)
QUICK = Sizes(1 * MB, MB // 4, MB // 2, MB, MB // 4, 2, 0.02, 0.1, 2, readers=4)
OWN_RATE, PURE_RATE, ROCKETMQ_RATE = 400e6, 100e6, 200e6
"""Bytes a second, about, for the estimate of how long it takes; with syncs:"""
SYNC_RATE, ROCKETMQ_SYNC_RATE = 20e6, 1.5e6
FILL_RATE = 40e6
"""Bytes a second of many threads at once that wait for their syncs."""
COPIES_MAX = 4
"""So many stores of the size of a run may lie on the disk at once."""
NOT_IN_MEMORY = ("sync", "sync-threads", "device", "peers", "cold")
"""Groups that need a disk."""


@dataclass(frozen=True)
class TargetsOptions:
    """What the command line says."""

    only: Sequence[str] = ()
    """Groups; none: all."""
    rocketmq: Path | None = None
    """Its jars."""
    size_mb: float | None = None
    sync_size_mb: float | None = None
    rounds: int | None = None
    quick: bool = False
    full: bool = False
    folder: Path | None = None
    as_json: bool = False
    save: Path | None = None


def run(options: TargetsOptions) -> int:
    """Measure and print. Raises UsageError for wrong options, before anything is written."""
    groups, sizes = _groups(options), _sizes(options)
    if options.rocketmq is not None:
        check_jars(options.rocketmq)
    saving.check_folder(options.folder)
    saving.check_files({"--save": options.save})
    with scratch_folder(options.folder) as folder:
        machine = this_machine(folder)
        if machine.is_in_memory and set(groups) & set(NOT_IN_MEMORY):
            raise UsageError(
                f"{folder.parent} is on {machine.file_system}, where a sync syncs nothing: name a disk's folder with "
                f"--folder, or leave out {', '.join(NOT_IN_MEMORY)} with --only"
            )
        if "c" not in native.available():
            raise UsageError("the targets are those of the C kernel, which is not there; install with a C compiler")
        lines, measures = _measure(options, groups, sizes, machine, folder)
    found: dict[str, Any] = saving.as_object(measures.outcomes, machine)
    found = {"machine": found["machine"], "sizes": asdict(sizes), "lines": [line.as_object() for line in lines]} | {
        "outcomes": found["outcomes"]
    }
    if options.save:
        saving.save_json(options.save, found)
    if options.as_json:
        print(json.dumps(found, indent=2))
    else:
        show(lines, Output())
    return 0


def _groups(options: TargetsOptions) -> list[str]:
    words = [word for text in options.only for word in text.split(",")]
    for word in words:
        if word not in GROUPS:
            raise UsageError(f"--only {word}: no such group; there are {', '.join(GROUPS)}")
    return [group for group in GROUPS if not words or group in words]


def _sizes(options: TargetsOptions) -> Sizes:
    sizes = QUICK if options.quick else FULL if options.full else USUAL
    numbers = {"--size": options.size_mb, "--sync-size": options.sync_size_mb, "--rounds": options.rounds}
    for name, value in numbers.items():
        if value is not None and value <= 0:
            raise UsageError(f"{name} {value:g}: expected more than 0")
    if options.size_mb is not None:
        sizes = replace(sizes, size=int(options.size_mb * MB), recovery_size=int(options.size_mb * MB))
    if options.sync_size_mb is not None:
        sizes = replace(sizes, sync_size=int(options.sync_size_mb * MB))
    return replace(sizes, rounds=options.rounds or sizes.rounds)


def _measure(
    options: TargetsOptions, groups: Sequence[str], sizes: Sizes, machine: Machine, folder: Path
) -> tuple[list[Line], Measures]:
    contests = writer_contests(peers_at_hand(), groups, sizes.sync_fill_size // record_size(KB))
    cases = {name: [f for f in figures if f.group in groups] for name, figures in CASE_SUBJECTS.items()}
    missing: list[Line] = []
    if options.rocketmq is None:
        contests, cases, missing = _without_rocketmq(contests, cases)
    plans = [contest for contest in contests if contest.figures]
    if not peers_at_hand() and "peers" in groups:
        missing.append(Line("peers", "peers", 1, note="none is installed; pip install 'flightlog[peers]'"))
    _announce(plans, cases, groups, sizes, machine, folder)
    lines: list[Line] = []
    with ExitStack() as running:
        process = None
        if options.rocketmq is not None and _asks_rocketmq(plans, cases):
            with ProgressBar("warming RocketMQ up"):
                warm_count = QUICK_WARM_COUNT if options.quick else WARM_COUNT
                process = running.enter_context(RocketmqProcess(options.rocketmq.resolve(), folder, warm_count))
        bar = ProgressBar("measuring")

        def done() -> None:
            bar.done += 1

        measures = Measures(folder, process, sizes, done)
        bar = ProgressBar("measuring", measures.runs(plans, cases, groups))
        with bar:
            for plan in plans:
                lines += _told(measures.writers(plan))
            for group, measure in (
                ("paced", measures.paced),
                ("device", measures.device),
                ("readers", measures.readers),
                ("query", measures.query),
            ):
                if group in groups:
                    lines += _told(measure())
            for subject, figures in cases.items():
                if figures:
                    lines += _told(measures.cases(subject, figures))
    return sorted([*lines, *missing], key=lambda line: GROUPS.index(line.group)), measures


def _told(lines: list[Line]) -> list[Line]:
    """Tell them at once: the whole run takes long, and whatever ends it early is not to take them along."""
    for line in lines:
        _say(f"{CLEAR_LINE if sys.stderr.isatty() else ''}{line.brief}")
    return lines


def _without_rocketmq(
    contests: Sequence[Contest], cases: dict[str, list[CaseFigure]]
) -> tuple[list[Contest], dict[str, list[CaseFigure]], list[Line]]:
    """What is left, and a line for each that is not."""
    figures: list[WriterFigure | CaseFigure] = [f for contest in contests for f in contest.figures]
    figures += [f for each in cases.values() for f in each]
    note = "needs --rocketmq FOLDER_OF_JARS"
    missing = [Line(f.group, f.text, f.target, note=note) for f in figures if f.needs_rocketmq]
    left = [Contest(c.fill, tuple(f for f in c.figures if not f.needs_rocketmq)) for c in contests]
    return left, {name: [f for f in each if not f.needs_rocketmq] for name, each in cases.items()}, missing


def _asks_rocketmq(plans: Sequence[Contest], cases: dict[str, list[CaseFigure]]) -> bool:
    return any(f.needs_rocketmq for plan in plans for f in plan.figures) or any(
        f.needs_rocketmq for each in cases.values() for f in each
    )


def _announce(
    plans: Sequence[Contest],
    cases: dict[str, list[CaseFigure]],
    groups: Sequence[str],
    sizes: Sizes,
    machine: Machine,
    folder: Path,
) -> None:
    """Say how long it takes and how much is written. Raises UsageError where the disk has no room for it."""
    seconds, size = 0.0, 0.0
    for plan in plans:
        for load in plan.loads():
            if plan.fill not in (BY_SIZE, BY_SYNC_SIZE):
                seconds += sizes.peer_s + 0.3
                size += sizes.peer_s * OWN_RATE / 10
                continue
            is_theirs = rocketmq.is_rocketmq(load)
            written = float(sizes.size)
            rate = ROCKETMQ_RATE if is_theirs else PURE_RATE if load.writer == PURE else OWN_RATE
            if load.sync:
                more = THREADS_MORE if load.threads > 1 else 1
                written = float(sizes.sync_size * more)
                rate = (ROCKETMQ_SYNC_RATE * more**2 if is_theirs else SYNC_RATE) * more
            if plan.fill == BY_SIZE:
                written *= 2  # as much comes before the clock starts
            seconds += written / rate * (KB / load.body_size) ** 0.7 + (rocketmq.ROUND_OVERHEAD_S if is_theirs else 0.5)
            filled = load.filled * record_size(load.body_size)
            seconds, size = seconds + filled / FILL_RATE, size + written + filled
    for subject, figures in cases.items():
        for figure in figures:
            of_one = sizes.recovery_size if subject == "recover" else sizes.size
            seconds += of_one / PURE_RATE + 1
            size += of_one * (3 if figure.needs_rocketmq else 1)
    seconds += sizes.size / PURE_RATE * (("paced" in groups) + ("query" in groups))
    seconds, size = seconds * sizes.rounds, size * sizes.rounds
    if "readers" in groups:
        seconds += len(readers.KINDS) * readers.PARTS * 2 * sizes.reader_s * sizes.rounds
        size += sizes.rounds * readers.room_needed(KB, sizes.size // KB, sizes.reader_s)
    if "device" in groups:
        seconds += 2 * sizes.device_steps * sizes.device_step_size / SYNC_RATE
        size += 2 * sizes.device_steps * sizes.device_step_size
    _say(str(machine))
    for warning in machine.warnings:
        _say(f"warning: {warning}")
    time = seconds_text(seconds)
    _say(f"{', '.join(groups)}; {sizes.rounds} rounds")
    _say(f"about {time}, writing about {size_text(int(size))} below {folder.parent}")
    room = COPIES_MAX * max(sizes.size, sizes.recovery_size) + (2 << 30)
    if "readers" in groups:
        room = max(room, readers.room_needed(KB, sizes.size // KB, sizes.reader_s))
    check_room(folder, room)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
