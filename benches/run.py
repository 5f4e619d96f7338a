"""The project's own benchmarks, on the harness of `flightlog bench`: `run.py targets|readers|delay|messaging`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from flightlog.benches import delay, readers
from flightlog.benches.loads import run_loads
from flightlog.benches.messaging.parts import DRAWS, message_parts
from flightlog.benches.messaging.rocketmq_broker import WARM_COUNT, RocketmqMessaging, why_not
from flightlog.benches.targets.command import TargetsOptions, run_targets
from flightlog.benches.targets.figures import GROUPS
from flightlog.tools.bench.harness import Options, check_numbers
from flightlog.tools.bench.report import say
from flightlog.tools.commands.bench import OPTIONS, command, option
from flightlog.tools.program import run_program

bench = typer.Typer(help="Measure what flightlog promises to itself.", pretty_exceptions_enable=False)
LOAD = {
    **OPTIONS,
    "only": option(list[str] | None, help="Names of parts; an unknown name lists them."),
    "plot": option(Path | None, help="Draw the figures into this file (.png, .svg, .pdf)."),
}
READERS = {
    **OPTIONS,
    "readers": option(int, help="Readers at once."),
    "messages": option(int | None, help="Messages in the backlog.", show_default="200,000"),
    "seconds": option(float | None, help="Seconds of each part of a round.", show_default="1"),
    "body_size": option(int, "--body-size", help="Bytes."),
}
DELAY = {
    **LOAD,
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
TARGETS = {
    **OPTIONS,
    "only": option(list[str] | None, help="Groups of figures: " + ", ".join(GROUPS) + "."),
    "rocketmq": option(Path | None, help="The folder of RocketMQ's jars; without it, its lines are left out."),
    "size": option(float | None, help="MB that a run writes or reads.", show_default="300"),
    "sync_size": option(
        float | None,
        "--sync-size",
        help="MB of one thread whose puts wait for a sync.",
        show_default="20; full 300",
    ),
    "full": option(bool, "--full", help="Syncs to 300 MB, the device to 900 MB, a recovery of 2 GiB: an hour."),
}
MESSAGING = {**LOAD, "rocketmq": option(Path | None, help="The folder of the jars of RocketMQ's broker and client.")}
LOOK = ("quick", "folder", "as_json", "save")
SHARE_NOTE = (
    "its share: what one reads alone, divided by the readers that share a core; threads of one process share its "
    "interpreter, and so one core. of its share, of its pace: 1 is all of it"
)


@dataclass(frozen=True, kw_only=True)
class ReaderOptions(Options):
    """The options of `make readers`; `seconds` is the duration of each part of a round."""

    readers: int = 16
    body_size: int = 1024
    """Bytes."""


@dataclass(frozen=True, kw_only=True)
class DelayOptions(Options):
    """The options of `make delay`."""

    rates: Sequence[int] = ()
    """Messages that become due per second."""
    pending: int | None = None
    """Timers."""


@dataclass(frozen=True, kw_only=True)
class MessagingOptions(Options):
    """The options of `make messaging`."""

    rocketmq: Path | None = None
    """The folder of RocketMQ's jars."""


def run_readers(options: ReaderOptions) -> int:
    """Measure many readers with a concurrent writer, and print. Returns the exit code."""
    options.check()
    check_numbers({"--readers": options.readers, "--body-size": options.body_size})
    count = options.messages or (4_000 if options.quick else 200_000)
    seconds = options.seconds or (0.3 if options.quick else 1.0)
    room = readers.room_needed(options.body_size, count, seconds)
    parts = {"readers": readers.cases(options.readers, options.body_size, count, seconds)}
    options = replace(options, rounds=options.rounds or (1 if options.quick else 5))
    return run_loads(parts, options, {}, room=room, notes=[SHARE_NOTE])


def run_delay(options: DelayOptions) -> int:
    """Measure lateness and idle stores, and print. Returns the exit code."""
    options.check()
    seconds, idle_s = options.seconds or (0.5 if options.quick else 10.0), 0.5 if options.quick else 5.0
    parts = delay.cases(options.rates or delay.RATES, seconds, idle_s, options.pending)
    return run_loads(parts, options, delay.DRAWS)


def run_messaging(options: MessagingOptions) -> int:
    """Measure the messaging loads, and print. Returns the exit code."""
    options.check()
    missing = why_not(options.rocketmq)
    with ExitStack() as running:
        rocketmq = None
        if missing is not None:
            say(missing)
        elif options.rocketmq is not None:
            warm_count = 500 if options.quick else WARM_COUNT
            theirs = RocketmqMessaging(options.rocketmq, options.folder, warm_count=warm_count)
            rocketmq = running.enter_context(theirs)
        return run_loads(message_parts(quick=options.quick, rocketmq=rocketmq), options, DRAWS)


bench.command(
    "readers",
    help="Many readers of a backlog, as threads and as processes, beside a writer at half its speed.\n\n"
    "Shown is the slowest reader beside its solo share: what one reads alone, divided by the readers that share a "
    "core. Threads share the writer's interpreter, and so one core; processes share the machine's cores, and run at "
    "nice 10.",
)(command(run_readers, ("readers", "messages", "seconds", "body_size", "rounds", *LOOK), READERS, ReaderOptions))
bench.command("delay", help="How late delayed messages and timers arrive, and what an idle store costs.")(
    command(run_delay, ("rates", "seconds", "pending", "only", *LOOK, "plot"), DELAY, DelayOptions)
)
bench.command(
    "messaging",
    help="From put to listener: latency, throughput, a burst, a rebalance, and long polls; beside a SQLite queue "
    "and, if its jars are there, RocketMQ's broker and Java client.",
)(command(run_messaging, ("only", "rocketmq", "rounds", *LOOK, "plot"), MESSAGING, MessagingOptions))
bench.command("targets", help="Measure every figure against its target. The group `scan` is measured on request only.")(
    command(run_targets, ("only", "rocketmq", "size", "sync_size", "rounds", "full", *LOOK), TARGETS, TargetsOptions)
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
