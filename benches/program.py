"""The commands of `benches/run.py`: what we measure for ourselves, on the harness of `flightlog bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benches.delay.command import RATES, DelayOptions
from benches.delay.command import run as run_delay
from benches.messaging.command import PARTS, MessagingOptions
from benches.messaging.command import run as run_messaging
from benches.readers.command import ReadersOptions
from benches.readers.command import run as run_readers
from benches.targets.command import TargetsOptions
from benches.targets.command import run as run_targets
from benches.targets.plan import GROUPS
from flightlog.tools.commands.bench import AsJson, Csv, Folder, Quick, Rounds
from flightlog.tools.program import run_program

bench = typer.Typer(help="Measure what flightlog promises to itself.", pretty_exceptions_enable=False)


@bench.command()
def readers(
    readers: Annotated[int, typer.Option(help="How many read at once.")] = 16,
    quick: Quick = False,
    rounds: Rounds = None,
    messages: Annotated[int | None, typer.Option(help="In the backlog.", show_default="200,000")] = None,
    seconds: Annotated[float | None, typer.Option(help="Of each part of a round.", show_default="1")] = None,
    body_size: Annotated[int, typer.Option("--body-size", help="Bytes.")] = 1024,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Many readers of a backlog, as threads and as processes, beside a writer at half its speed.

    Shown is the slowest reader beside its solo share: what one reads alone, divided by the readers that share a core.
    Threads share the writer's interpreter, and so one core; processes share the machine's cores, and run at nice 10.
    """
    raise typer.Exit(run_readers(ReadersOptions(readers, body_size, messages, seconds, rounds, quick, folder, as_json)))


@bench.command()
def delay(
    rate: Annotated[
        list[int] | None,
        typer.Option(help="Messages that fall due a second; may be repeated.", show_default=" ".join(map(str, RATES))),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="For how long they do.", show_default="10; quick 0.5")] = None,
    pending: Annotated[
        int | None,
        typer.Option(help="Also the time and memory of so many timers that wait. Ten million: 15 minutes, 4 GB."),
    ] = None,
    quick: Quick = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON.")] = None,
    csv: Csv = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the lateness into this file (.png, .svg, .pdf).")] = None,
) -> None:
    """How late messages with a delay level and timers come, and what a store costs that waits."""
    options = DelayOptions(rate or RATES, seconds, pending, quick, folder, as_json, save, csv, plot)
    raise typer.Exit(run_delay(options))


@bench.command()
def messaging(
    only: Annotated[list[str] | None, typer.Option(help="Parts: " + ", ".join(PARTS) + ".")] = None,
    quick: Quick = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON.")] = None,
    csv: Csv = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw latencies, throughput and the burst's backlog into this file.")
    ] = None,
) -> None:
    """From put to listener: latency, throughput, a burst, a rebalance, and pulls that wait; beside a SQLite queue."""
    raise typer.Exit(run_messaging(MessagingOptions(only or (), quick, folder, as_json, save, csv, plot)))


@bench.command()
def targets(
    only: Annotated[list[str] | None, typer.Option(help="Groups of figures: " + ", ".join(GROUPS) + ".")] = None,
    rocketmq: Annotated[
        Path | None, typer.Option(help="The folder of RocketMQ's jars; without it its lines are left out.")
    ] = None,
    size: Annotated[float | None, typer.Option(help="MB that a run writes or reads.", show_default="300")] = None,
    sync_size: Annotated[
        float | None, typer.Option(help="MB of one thread whose puts wait for their sync.", show_default="20; full 300")
    ] = None,
    rounds: Rounds = None,
    quick: Quick = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Syncs to 300 MB, the device to 900 MB, a recovery of 2 GiB: an hour."),
    ] = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON.")] = None,
) -> None:
    """Every figure that this store has to come to, each held against its target."""
    raise typer.Exit(
        run_targets(TargetsOptions(only or (), rocketmq, size, sync_size, rounds, quick, full, folder, as_json, save))
    )


def main() -> int:
    """Run the command that the arguments name; returns its exit code."""

    def program() -> int:
        try:
            bench(prog_name="benches/run.py")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    return run_program(program)
