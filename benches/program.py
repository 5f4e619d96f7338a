"""The commands of `benches/run.py`: what we measure for ourselves, on the harness of `flightlog bench`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from flightlog.benches import delay as delays
from flightlog.benches import readers as reading
from flightlog.benches.loads import LoadOptions, run_loads
from flightlog.benches.messaging.parts import DRAWS as MESSAGING_DRAWS
from flightlog.benches.messaging.parts import message_parts
from flightlog.benches.targets.command import TargetsOptions, run_targets
from flightlog.benches.targets.figures import GROUPS
from flightlog.store.errors import UsageError
from flightlog.tools.bench.run import check_numbers
from flightlog.tools.commands.bench import AsJson, Folder, Quick, Rounds, Save
from flightlog.tools.program import run_program

bench = typer.Typer(help="Measure what flightlog promises to itself.", pretty_exceptions_enable=False)
Plot = Annotated[Path | None, typer.Option(help="Draw the figures into this file (.png, .svg, .pdf).")]
Only = Annotated[list[str] | None, typer.Option(help="Names of parts; an unknown one lists them.")]


@bench.command()
def readers(
    readers: Annotated[int, typer.Option(help="How many read at once.")] = 16,
    messages: Annotated[int | None, typer.Option(help="In the backlog.", show_default="200,000")] = None,
    seconds: Annotated[float | None, typer.Option(help="Of each part of a round.", show_default="1")] = None,
    body_size: Annotated[int, typer.Option("--body-size", help="Bytes.")] = 1024,
    quick: Quick = False,
    rounds: Rounds = None,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
) -> None:
    """Many readers of a backlog, as threads and as processes, beside a writer at half its speed.

    Shown is the slowest reader beside its solo share: what one reads alone, divided by the readers that share a core.
    Threads share the writer's interpreter, and so one core; processes share the machine's cores, and run at nice 10.
    """
    count, part_s = messages or (4_000 if quick else 200_000), _seconds(seconds, 0.3 if quick else 1.0)
    check_numbers({"--readers": readers, "--messages": messages, "--body-size": body_size})
    options = LoadOptions(quick=quick, rounds=rounds or (1 if quick else 5), folder=folder, as_json=as_json, save=save)
    note = (
        "its share: what one reads alone, divided by the readers that share a core; threads of one process share its "
        "interpreter, and so one core. of its share, of its pace: 1 is all of it"
    )
    room = reading.room_needed(body_size, count, part_s)
    parts = {"readers": reading.cases(readers, body_size, count, part_s)}
    raise typer.Exit(run_loads(parts, options, {}, room=room, notes=[note]))


@bench.command()
def delay(
    rate: Annotated[
        list[int] | None,
        typer.Option(
            help="Messages that fall due a second; may be repeated.", show_default=" ".join(map(str, delays.RATES))
        ),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="For how long they do.", show_default="10; quick 0.5")] = None,
    pending: Annotated[
        int | None,
        typer.Option(help="Also the time and memory of so many timers that wait. Ten million: 15 minutes, 4 GB."),
    ] = None,
    only: Only = None,
    quick: Quick = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """How late messages with a delay level and timers come, and what a store costs that waits."""
    options = LoadOptions(only=only or (), quick=quick, folder=folder, as_json=as_json, save=save, plot=plot)
    idle_s = 0.5 if quick else 5.0
    parts = delays.cases(rate or delays.RATES, _seconds(seconds, 0.5 if quick else 10.0), idle_s, pending)
    raise typer.Exit(run_loads(parts, options, delays.DRAWS))


@bench.command()
def messaging(
    only: Only = None,
    quick: Quick = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """From put to listener: latency, throughput, a burst, a rebalance, and pulls that wait; beside a SQLite queue."""
    options = LoadOptions(only=only or (), quick=quick, folder=folder, as_json=as_json, save=save, plot=plot)
    raise typer.Exit(run_loads(message_parts(quick=quick), options, MESSAGING_DRAWS))


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
    save: Save = None,
) -> None:
    """Every figure that this store has to come to, each held against its target. Those of `scan` on request alone."""
    raise typer.Exit(
        run_targets(TargetsOptions(only or (), rocketmq, size, sync_size, rounds, quick, full, folder, as_json, save))
    )


def _seconds(given: float | None, usual: float) -> float:
    if given is not None and not 0 < given < math.inf:
        raise UsageError(f"--seconds {given:g}: expected a number above 0")
    return usual if given is None else given


def main() -> int:
    """Run the command that the arguments name; returns its exit code."""

    def program() -> int:
        try:
            bench(prog_name="benches/run.py")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    return run_program(program)
