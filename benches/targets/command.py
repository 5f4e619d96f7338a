"""`make targets`: measure every performance target of this store in one run, and compare each with its value.

Ratios are of measurements in the same round, in which every case runs once. RocketMQ runs with its defaults, warmed up
with a million puts, on the same messages and in an equally full store; the better of its modes counts. Every writer
starts in a fresh, idle store with a few messages, and is done when everything is in queues and key index. Peers take
from microseconds to milliseconds for each message, so they run for a fixed time instead of a fixed size; their stores
are emptier, which is in their favor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from flightlog.benches import readers
from flightlog.benches.targets.figures import (
    AS_PLANNED,
    BY_TIME,
    GROUPS,
    KB,
    ON_REQUEST,
    Contest,
    contests,
)
from flightlog.benches.targets.lines import Line, show
from flightlog.benches.targets.measures import THREADS_MORE, Measures, Sizes
from flightlog.store import native
from flightlog.store.errors import UsageError
from flightlog.tools.bench.case import Case
from flightlog.tools.bench.harness import Options, begun, check_positive, choose, finish
from flightlog.tools.bench.machine.scratch import check_room
from flightlog.tools.bench.messages import record_size
from flightlog.tools.bench.report import say
from flightlog.tools.bench.rocketmq import QUICK_WARM_COUNT, WARM_COUNT, Rocketmq, check_jars
from flightlog.tools.bench.writers import peers_at_hand
from flightlog.tools.progress_bar import CLEAR_LINE, ProgressBar
from flightlog.tools.words import size_text

MB = 1_000_000
ROUNDS = 5
USUAL = Sizes(300 * MB, 20 * MB, 100 * MB, 300 * MB, 30 * MB, 3, 0.5, 1.0, ROUNDS, 1024)
FULL = Sizes(300 * MB, 300 * MB, 100 * MB, 2 << 30, 100 * MB, 9, 3.0, 5.0, ROUNDS, 1024)
QUICK = Sizes(1 * MB, MB // 4, MB // 2, MB, MB // 4, 2, 0.02, 0.1, 2, 4, readers=4)
PEER_RATE = 40e6
"""Approximate upper limit of the bytes that a peer writes per second."""
COPIES_MAX = 4
"""Number of stores, each of the size of a run, that may be on the disk at the same time."""
NOT_IN_MEMORY = ("sync", "sync-threads", "device", "peers", "cold")
"""Groups that need a disk."""


@dataclass(frozen=True, kw_only=True)
class TargetsOptions(Options):
    """The options of `make targets`; `size` is in MB written or read in a run."""

    rocketmq: Path | None = None
    """The folder with RocketMQ's jars."""
    sync_size: float | None = None
    """MB."""
    full: bool = False


def run_targets(options: TargetsOptions) -> int:
    """Measure and print. Returns the exit code. Raises UsageError for wrong options, before anything is written."""
    groups = choose(options.only or [name for name in GROUPS if name not in ON_REQUEST], GROUPS)
    sizes = sizes_of(options)
    if options.rocketmq is not None:
        check_jars(options.rocketmq)
    with begun(options) as (folder, machine):
        if machine.is_in_memory and set(groups) & set(NOT_IN_MEMORY):
            raise UsageError(
                f"{folder.parent} is on {machine.file_system}, where a sync syncs nothing: name a disk's folder with "
                f"--folder, or leave out {', '.join(NOT_IN_MEMORY)} with --only"
            )
        if "c" not in native.available():
            raise UsageError("the targets are those of the C kernel, which is not there; install with a C compiler")
        lines, measures = _measure(options, groups, sizes, folder)
    more = {"sizes": asdict(sizes), "lines": [line.as_object() for line in lines]}
    return finish(options, machine, measures.outcomes, lambda output: show(lines, output), more=more)


def sizes_of(options: TargetsOptions) -> Sizes:
    """The amounts to measure. Raises UsageError unless the size is above 0."""
    sizes = QUICK if options.quick else FULL if options.full else USUAL
    check_positive({"--size": options.size, "--sync-size": options.sync_size})
    if options.size is not None:
        sizes = replace(sizes, size=int(options.size * MB), recovery_size=int(options.size * MB))
    if options.sync_size is not None:
        sizes = replace(sizes, sync_size=int(options.sync_size * MB))
    return replace(sizes, rounds=options.rounds or sizes.rounds)


def contests_of(
    sizes: Sizes, groups: Sequence[str], rocketmq: Path | None
) -> tuple[list[Contest], list[Line], Rocketmq]:
    """The contests to measure, and a line for each figure whose requirements are missing."""
    theirs = Rocketmq((rocketmq or Path()).resolve())
    record = record_size(KB)
    counts = sizes.sync_fill_size // record, sizes.messages, sizes.recovery_size // record
    found, missing = contests(peers_at_hand(), theirs, groups, *counts), list[Line]()
    if rocketmq is None:
        figures = [figure for contest in found for figure in contest.figures if figure.needs_rocketmq]
        note = "needs --rocketmq FOLDER_OF_JARS"
        missing = [Line(figure.group, figure.text, figure.target, note=note) for figure in figures]
        found = [Contest(c.fill, tuple(f for f in c.figures if not f.needs_rocketmq)) for c in found]
    if not peers_at_hand() and "peers" in groups:
        missing.append(Line("peers", "peers", 1, note="none is installed; pip install 'flightlog[peers]'"))
    return [contest for contest in found if contest.figures], missing, theirs


def _measure(options: TargetsOptions, groups: Sequence[str], sizes: Sizes, folder: Path) -> tuple[list[Line], Measures]:
    plans, lines, rocketmq = contests_of(sizes, groups, options.rocketmq)
    _announce(plans, groups, sizes, folder)
    bar = ProgressBar("measuring", _runs(plans, groups, sizes))
    measures = Measures(folder, sizes, bar.advance)
    works: list[Callable[[], list[Line]]] = [lambda plan=plan: measures.contest(plan) for plan in plans]  # type: ignore[misc]
    named = {"paced": measures.paced, "device": measures.device, "readers": measures.readers}
    named |= {"query": measures.query, "scan": measures.scan}
    works += [work for group, work in named.items() if group in groups]
    with ExitStack() as running:
        if any(figure.needs_rocketmq for plan in plans for figure in plan.figures):
            with ProgressBar("warming RocketMQ up"):
                running.enter_context(rocketmq.running(folder, QUICK_WARM_COUNT if options.quick else WARM_COUNT))
        with bar:
            for work in works:
                found = work()
                for line in found:  # printed at once: if a long run ends early, its figures are kept
                    say(f"{CLEAR_LINE if sys.stderr.isatty() else ''}{line.brief}")
                lines += found
    return sorted(lines, key=lambda line: GROUPS.index(line.group)), measures


def _runs(plans: Sequence[Contest], groups: Sequence[str], sizes: Sizes) -> int:
    """The number of calls of `done`."""
    in_rounds = sum(len(plan.cases()) for plan in plans)
    in_rounds += 2 * ("paced" in groups) + ("query" in groups) + 2 * ("readers" in groups)
    return sizes.rounds * in_rounds + 2 * sizes.device_steps * ("device" in groups)


def _announce(plans: Sequence[Contest], groups: Sequence[str], sizes: Sizes, folder: Path) -> None:
    """Print how much the run writes. Raises UsageError if the disk has no room."""
    size = sizes.rounds * sum(_written_size(plan.fill, case, sizes) for plan in plans for case in plan.cases())
    room = COPIES_MAX * max(sizes.size, sizes.recovery_size) + (2 << 30)
    if "readers" in groups:
        needed = readers.room_needed(KB, sizes.messages, sizes.reader_s)
        size, room = size + len(readers.KINDS) * sizes.rounds * needed, max(room, needed)
    if "device" in groups:
        size += 2 * sizes.device_steps * sizes.device_step_size
    say(f"{', '.join(groups)}; {sizes.rounds} rounds, writing about {size_text(int(size))} below {folder.parent}")
    check_room(folder, room)


def _written_size(fill: str, case: Case, sizes: Sizes) -> float:
    """Approximate bytes that a round of a case writes."""
    if fill == AS_PLANNED:
        return case.size
    if fill == BY_TIME:
        return sizes.peer_s * PEER_RATE
    if not case.sync:
        return 2 * sizes.size  # the same amount is written before the clock starts
    return sizes.sync_size * (THREADS_MORE if case.threads > 1 else 1) + case.filled * case.record_size
