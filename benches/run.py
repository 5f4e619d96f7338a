"""The project's own benchmarks, on the harness of `flightlog bench`: `run.py targets|readers|delay|messaging|large`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from flightlog.benches import delay, readers
from flightlog.benches.large_store import MIB, ROOM, large_case
from flightlog.benches.loads import BenchOptions, run_loads
from flightlog.benches.messaging.flow import burst_case, latency_cases, throughput_cases
from flightlog.benches.messaging.groups import rebalance_cases
from flightlog.benches.messaging.pulls import PULLS, pulls_case
from flightlog.benches.messaging.rocketmq_broker import WARM_COUNT, RocketmqMessaging
from flightlog.benches.targets.command import run_targets
from flightlog.benches.targets.figures import GROUPS
from flightlog.store.settings import DEFAULT_SEGMENT_SIZE, FlushMode
from flightlog.tools.bench.case import Case
from flightlog.tools.bench.harness import check_numbers, check_positive
from flightlog.tools.bench.report import say
from flightlog.tools.commands.bench import OPTIONS, command, option
from flightlog.tools.program import run_program

bench = typer.Typer(help="Measure what flightlog promises to itself.", pretty_exceptions_enable=False)
LOOK = ("quick", "folder", "as_json", "save")
PARTS = option(list[str] | None, help="Names of parts; an unknown name lists them.")
READERS = {
    "readers": option(int, help="Readers at once."),
    "messages": option(int | None, help="Messages in the backlog.", show_default="200,000"),
    "seconds": option(float | None, help="Seconds of each part of a round.", show_default="1"),
    "body_sizes": option(list[int] | None, "--body-size", help="Bytes.", show_default="1024"),
}
DELAY = {
    "only": PARTS,
    "rates": option(
        list[int] | None,
        "--rate",
        help="Messages that become due per second; may be repeated.",
        show_default=" ".join(map(str, delay.RATES)),
    ),
    "seconds": option(float | None, help="Seconds during which they become due.", show_default="10; quick 0.5"),
    "pending": option(
        int | None, help="Also the time and memory of this many pending timers. Ten million: 15 minutes, 4 GB."
    ),
}
MESSAGING = {
    "only": PARTS,
    "rocketmq": option(Path | None, help="The folder of the jars of RocketMQ's broker and client."),
}
LARGE = {
    "size": option(float | None, help="GiB of the log.", show_default="10"),
    "body_sizes": option(list[int] | None, "--body-size", help="Bytes.", show_default="1024"),
}
TARGETS = {
    "only": option(list[str] | None, help="Groups of figures: " + ", ".join(GROUPS) + "."),
    "rocketmq": option(Path | None, help="The folder of RocketMQ's jars; without it, its lines are left out."),
    "size": option(float | None, help="MB that a run writes or reads.", show_default="300"),
    "sync_size": option(
        float | None, "--sync-size", help="MB of one thread whose puts wait for a sync.", show_default="20; full 300"
    ),
    "full": option(bool, "--full", help="Syncs to 300 MB, the device to 900 MB, a recovery of 2 GiB: an hour."),
}
SHARE_NOTE = (
    "its share: what one reads alone, divided by the readers that share a core; threads of one process share its "
    "interpreter, and so one core. of its share, of its pace: 1 is all of it"
)


def run_readers(options: BenchOptions) -> int:
    """Measure many readers with a concurrent writer, and print. Returns the exit code."""
    options.check()
    check_numbers({"--readers": options.readers})
    count = options.messages or (4_000 if options.quick else 200_000)
    seconds = options.seconds or (0.3 if options.quick else 1.0)
    sizes = options.body_sizes or [1024]
    parts = {f"{size} B": readers.cases(options.readers, size, count, seconds) for size in sizes}
    room = max(readers.room_needed(size, count, seconds) for size in sizes)
    return run_loads(parts, replace(options, rounds=options.rounds_of(5, 1)), room=room, notes=[SHARE_NOTE])


def run_delay(options: BenchOptions) -> int:
    """Measure lateness and idle stores, and print. Returns the exit code."""
    options.check()
    seconds, idle_s = options.seconds or (0.5 if options.quick else 10.0), 0.5 if options.quick else 5.0
    return run_loads(delay.cases(options.rates or delay.RATES, seconds, idle_s, options.pending), options)


def run_messaging(options: BenchOptions) -> int:
    """Measure the messaging loads, and print. Returns the exit code."""
    options.check()
    with ExitStack() as running:
        rocketmq = None
        if options.rocketmq is None:
            say("RocketMQ is left out: --rocketmq FOLDER names a folder with the jars of its broker and client")
        else:
            warm_count = 500 if options.quick else WARM_COUNT
            theirs = RocketmqMessaging(options.rocketmq, options.folder, warm_count=warm_count)
            rocketmq = running.enter_context(theirs)
        return run_loads(message_parts(quick=options.quick, rocketmq=rocketmq), options)


def run_large(options: BenchOptions) -> int:
    """Measure a large store, and print. Returns the exit code."""
    options.check()
    check_positive({"--size": options.size})
    size = int((options.size or 10) * 1024 * MIB)
    cases = [large_case(size, body_size) for body_size in options.body_sizes or [1024]]
    return run_loads({"large": cases}, options, room=ROOM * (size + DEFAULT_SEGMENT_SIZE))


def message_parts(*, quick: bool = False, rocketmq: RocketmqMessaging | None = None) -> dict[str, list[Case]]:
    """All parts: about five minutes, with RocketMQ twice that, or seconds if quick."""
    rate, latency_s, burst_s, change_s = (500, 0.1, 0.02, 0.1) if quick else (200, 3.0, 1.0, 1.5)
    members, backlog = ((1, 2), 500) if quick else ((1, 4, 16, 64), 40_000)
    latencies = partial(latency_cases, members=members, rate=rate, seconds=latency_s, rocketmq=rocketmq)
    return {
        "latency": latencies(FlushMode.ASYNC),
        "sync": latencies(FlushMode.SYNC),
        "throughput": throughput_cases(members, backlog, rocketmq),
        "burst": [burst_case(burst_s)],
        "rebalance": rebalance_cases(change_s),
        "pulls": [pulls_case(*((100, 0.2) if quick else (PULLS, 10.0)))],
    }


bench.command(
    "readers",
    help="Many readers of a backlog, as threads and as processes, beside a writer at half its speed.\n\n"
    "Shown is the slowest reader beside its solo share: what one reads alone, divided by the readers that share a "
    "core. Threads share the writer's interpreter, and so one core; processes share the machine's cores, and run at "
    "nice 10.",
)(command(run_readers, (*READERS, "rounds", *LOOK), OPTIONS | READERS, BenchOptions))
bench.command("delay", help="How late delayed messages and timers arrive, and what an idle store costs.")(
    command(run_delay, (*DELAY, *LOOK, "plot"), OPTIONS | DELAY, BenchOptions)
)
bench.command(
    "messaging",
    help="From put to listener: latency, throughput, a burst, a rebalance, and long polls; beside a SQLite queue "
    "and, if its jars are there, RocketMQ's broker and Java client.",
)(command(run_messaging, (*MESSAGING, "rounds", *LOOK, "plot"), OPTIONS | MESSAGING, BenchOptions))
bench.command("large", help="A store of many GiB: verify beside a plain read, and a backup of one more segment.")(
    command(run_large, (*LARGE, *LOOK), OPTIONS | LARGE, BenchOptions)
)
bench.command("targets", help="Measure every figure against its target. The group `scan` is measured on request only.")(
    command(run_targets, (*TARGETS, "rounds", *LOOK), OPTIONS | TARGETS, BenchOptions)
)


def main() -> int:
    """Run the command that the arguments name. Returns its exit code."""

    def program() -> int:
        try:
            bench(prog_name="benches/run.py")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    return run_program(program)


if __name__ == "__main__":
    sys.exit(main())
