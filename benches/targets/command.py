"""`make targets`: measure every performance target of this store in one run, and compare each with its value.

Ratios are of measurements in the same round, in which every case runs once. RocketMQ runs with its defaults, warmed up
with a million puts, on the same messages and in an equally full store; its mapped mode counts. Every writer
starts in a fresh, idle store with a few messages, and is done when everything is in queues and key index. Peers take
from microseconds to milliseconds for each message, so they run for a fixed time instead of a fixed size; their stores
are emptier, which is in their favor.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from flightlog.benches import readers
from flightlog.benches.loads import BenchOptions
from flightlog.benches.targets.figures import (
    AS_PLANNED,
    BY_SIZE,
    BY_SYNC_SIZE,
    BY_TIME,
    GROUPS,
    KB,
    Contest,
    Sizes,
    contests,
    scan_figures,
)
from flightlog.benches.targets.lines import Line, show
from flightlog.store import native
from flightlog.store.errors import UsageError
from flightlog.tools.bench import runner, scan_run
from flightlog.tools.bench.case import Case, Outcome
from flightlog.tools.bench.harness import begun, check_positive, choose, finish
from flightlog.tools.bench.machine.scratch import check_room
from flightlog.tools.bench.report import say
from flightlog.tools.bench.rocketmq import QUICK_WARM_COUNT, WARM_COUNT, Rocketmq, check_store_jars
from flightlog.tools.bench.writers import peers_at_hand
from flightlog.tools.progress_bar import CLEAR_LINE, ProgressBar
from flightlog.tools.words import size_text

MB = 1_000_000
ROUNDS = 5
USUAL = Sizes(300 * MB, 20 * MB, 100 * MB, 2 << 30, 30 * MB, 3, 0.5, 1.0, ROUNDS, 1024)
FULL = Sizes(300 * MB, 300 * MB, 100 * MB, 2 << 30, 100 * MB, 9, 3.0, 5.0, ROUNDS, 1024)
QUICK = Sizes(1 * MB, MB // 4, MB // 2, MB, MB // 4, 2, 0.02, 0.1, 2, 4, readers=4)
THREADS_MORE = 4
"""Concurrent sync puts write this many times the bytes of a single thread's; they are faster by more than that."""
PEER_RATE = 40e6
"""Approximate upper limit of the bytes that a peer writes per second."""
COPIES_MAX = 4
"""Number of stores, each of the size of a run, that may be on the disk at the same time."""
SPARK = "Spark beside Parquet"
NOT_IN_MEMORY = ("sync", "sync-threads", "device", "peers", "cold")
"""Groups that need a disk."""


def run_targets(options: BenchOptions) -> int:
    """Measure and print. Returns the exit code, 1 if a measurement failed. Raises UsageError for wrong options, before
    anything is written."""
    groups, started_s = choose(options.only, GROUPS), time.monotonic()
    sizes = sizes_of(options)
    if options.rocketmq is not None:
        check_store_jars(f"--rocketmq {options.rocketmq}", options.rocketmq)
    with begun(options) as (folder, machine):
        if machine.is_in_memory and set(groups) & set(NOT_IN_MEMORY):
            raise UsageError(
                f"{folder.parent} is on {machine.file_system}, where a sync syncs nothing: name a disk's folder with "
                f"--folder, or leave out {', '.join(NOT_IN_MEMORY)} with --only"
            )
        if "c" not in native.available():
            raise UsageError("the targets are those of the C kernel, which is not there; install with a C compiler")
        lines, outcomes, has_failed = _measure(options, groups, sizes, folder)
    seconds = time.monotonic() - started_s
    more = {"sizes": asdict(sizes), "seconds": seconds, "lines": [line.as_object() for line in lines]}
    finish(
        *(options, machine, outcomes),
        show=lambda output: show(lines, machine, sizes.rounds, seconds, output),
        more=more,
    )
    return int(has_failed)


def sizes_of(options: BenchOptions) -> Sizes:
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
    found, missing = contests(peers_at_hand(), theirs, groups, sizes), list[Line]()
    if rocketmq is None:
        figures = [figure for contest in found for figure in contest.figures if figure.needs_rocketmq]
        note = "needs --rocketmq FOLDER_OF_JARS"
        missing = [figure.missing(note) for figure in figures]
        found = [replace(c, figures=tuple(f for f in c.figures if not f.needs_rocketmq)) for c in found]
    if not peers_at_hand() and "peers" in groups:
        missing.append(Line("peers", "peers", 1, note="none is installed; pip install 'flightlog[peers]'"))
    if not _has_spark() and "scan" in groups:
        missing.append(Line("scan", SPARK, 1, at_most=True, note="not installed; pip install 'flightlog[spark]'"))
    return [contest for contest in found if contest.figures], missing, theirs


def _has_spark() -> bool:
    return find_spec("pyspark") is not None


def _measure(
    options: BenchOptions, groups: Sequence[str], sizes: Sizes, folder: Path
) -> tuple[list[Line], list[Outcome], bool]:
    """The lines, the outcomes, and whether a measurement failed: the others go on, because a run takes long."""
    plans, lines, rocketmq = contests_of(sizes, groups, options.rocketmq)
    scan_plan = _scan_plan(sizes) if "scan" in groups and _has_spark() else None
    _announce(plans, scan_plan, groups, sizes, folder)
    outcomes: list[Outcome] = []
    has_failed = False

    def tell(found: Sequence[Line]) -> None:
        for line in found:  # printed at once: if a long run ends early, its figures are kept
            say(f"{CLEAR_LINE if sys.stderr.isatty() else ''}{line.brief}")
        lines.extend(found)

    def failed(why: Exception) -> str:
        nonlocal has_failed
        has_failed = True
        traceback.print_exception(why)
        return f"failed: {type(why).__name__}"

    with ExitStack() as running:
        if any(case.is_rocketmq for plan in plans for case in plan.cases()):
            with ProgressBar("warming RocketMQ up"):
                running.enter_context(rocketmq.running(folder, QUICK_WARM_COUNT if options.quick else WARM_COUNT))
        runs = sum((plan.rounds or sizes.rounds) * len(plan.cases()) for plan in plans)
        with ProgressBar("measuring", runs) as bar:
            for plan in plans:
                try:
                    found = run_contest(plan, sizes, folder, bar.advance)
                    tell([figure.line({outcome.case: outcome for outcome in found}) for figure in plan.figures])
                    outcomes += found
                except Exception as e:
                    note = failed(e)
                    tell([figure.missing(note) for figure in plan.figures])
    if scan_plan is not None:
        names = {query.text: query.name for _, _, queries in scan_plan.stores for query in queries}
        try:
            found = scan_run.measure(scan_plan, folder)
            figures = scan_figures(names, [outcome.case for outcome in found])
            tell([figure.line({outcome.case: outcome for outcome in found}) for figure in figures])
            outcomes += found
        except Exception as e:
            tell([Line("scan", SPARK, 1, at_most=True, note=failed(e))])
    return sorted(lines, key=lambda line: GROUPS.index(line.group)), outcomes, has_failed


def run_contest(contest: Contest, sizes: Sizes, folder: Path, done: Callable[[], None]) -> list[Outcome]:
    """The outcomes of a contest's cases. A warm-up round of a twentieth of the size is not counted."""
    with TemporaryDirectory(dir=folder) as place:
        cases = [_sized(contest, case, sizes, Path(place)) for case in contest.cases()]
        runner.warm([case for case in cases if not case.has_figures], Path(place))
        return runner.measure(cases, contest.rounds or sizes.rounds, Path(place), done)


def _sized(contest: Contest, case: Case, sizes: Sizes, folder: Path) -> Case:
    if contest.fill == AS_PLANNED:
        return case
    if contest.fill == BY_TIME:
        return runner.sized(case, sizes.peer_s, lambda case: runner.run(case, folder), timed=True)[0]
    size = sizes.size
    if contest.fill == BY_SYNC_SIZE:
        size = sizes.sync_size * (THREADS_MORE if case.threads > 1 else 1)
    calls = max(size // (case.record_size * case.batch), case.threads)
    # The same amount before the clock starts: all stores are equally full, and have preallocated for this load.
    return replace(case, calls=calls, first_calls=calls if contest.fill == BY_SIZE else None)


def _announce(
    plans: Sequence[Contest], scan_plan: scan_run.ScanPlan | None, groups: Sequence[str], sizes: Sizes, folder: Path
) -> None:
    """Print how much the run writes. Raises UsageError if the disk has no room."""
    size = sizes.rounds * sum(_written_size(plan.fill, case, sizes) for plan in plans for case in plan.cases())
    room = COPIES_MAX * max(sizes.size, sizes.recovery_size) + (2 << 30)
    if "readers" in groups:
        needed = readers.room_needed(KB, sizes.messages, sizes.reader_s)
        size, room = size + len(readers.KINDS) * sizes.rounds * needed, max(room, needed)
    if "device" in groups:
        size += 2 * sizes.device_steps * sizes.device_step_size
    if scan_plan is not None:
        size, room = size + len(scan_plan.stores) * scan_plan.room, max(room, scan_plan.room)
    say(f"{', '.join(groups)}; {sizes.rounds} rounds, writing about {size_text(int(size))} below {folder.parent}")
    check_room(folder, room)


def _scan_plan(sizes: Sizes) -> scan_run.ScanPlan:
    return scan_run.make_plan(BenchOptions(size=sizes.scan_mib, rounds=sizes.rounds))


def _written_size(fill: str, case: Case, sizes: Sizes) -> float:
    """Approximate bytes that a round of a case writes."""
    if fill == AS_PLANNED:
        return case.size
    if fill == BY_TIME:
        return sizes.peer_s * PEER_RATE
    if not case.sync:
        return 2 * sizes.size  # the same amount is written before the clock starts
    return sizes.sync_size * (THREADS_MORE if case.threads > 1 else 1) + case.filled * case.record_size
