"""`flightlog bench`: how fast this store is here, beside the machine's limits, its peers, and RocketMQ itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..bench.delay.delay import RATES, DelayOptions
from ..bench.delay.delay import run as run_delay
from ..bench.messaging.messaging import PARTS, MessagingOptions
from ..bench.messaging.messaging import run as run_messaging
from ..bench.readers.readers_run import ReadersOptions
from ..bench.readers.readers_run import run as run_readers
from ..bench.run import SUBJECTS, Options, run
from ..bench.scan.scan import ScanOptions
from ..bench.scan.scan import run as run_scan
from ..bench.scan.scan_plan import BODY_SIZES as SCAN_BODY_SIZES
from ..bench.scan.scan_plan import NAMES as SCAN_NAMES
from ..bench.targets.target_plan import GROUPS
from ..bench.targets.targets import TargetsOptions
from ..bench.targets.targets import run as run_targets
from ..bench.versus.versus import THREADS, VersusOptions
from ..bench.versus.versus import run as run_versus

bench = typer.Typer(
    name="bench",
    help="Measure this store beside what the machine can do at best, beside its peers, and beside RocketMQ itself.",
    no_args_is_help=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="A smoke test: seconds, and figures that mean little.")]
Rounds = Annotated[int | None, typer.Option(help="How often each is measured; the median counts.", show_default="5")]
Folder = Annotated[
    Path | None, typer.Option(help="Measure in this folder's file system.", show_default="temporary", readable=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of the table.")]
BodySizes = Annotated[
    list[int] | None, typer.Option("--body-size", help="Bytes; may be repeated.", show_default="100 1024; quick 1024")
]
Versus = Annotated[
    list[str] | None,
    typer.Option(
        help="Peers on the same messages: sqlite3, lmdb, rocksdict, diskcache, persist-queue, litequeue, all (that are "
        "installed), rocketmq=FOLDER_OF_JARS. Commas or repetitions."
    ),
]
RocketMq = Annotated[
    list[str] | None,
    typer.Option("--versus", help="rocketmq=FOLDER_OF_JARS: RocketMQ's own store does the same with the same files."),
]
Messages = Annotated[int | None, typer.Option(help="How many a round handles.", show_default="a short round's")]
Seconds = Annotated[float | None, typer.Option(help="About how long all of it may take.", show_default="60; quick 10")]
Rate = Annotated[
    int | None,
    typer.Option(help="Put so many messages a second, evenly spaced; a call's time counts from when it was due."),
]
Save = Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON, for --compare.")]
Csv = Annotated[Path | None, typer.Option(help="Write the figures to this file as CSV.")]
Plot = Annotated[Path | None, typer.Option(help="Draw throughput and latencies into this file (.png, .svg, .pdf).")]
Compare = Annotated[Path | None, typer.Option(help="Show the change since a run of this machine that --save kept.")]


@bench.callback(invoke_without_command=True)
def everything(
    context: typer.Context,
    quick: Quick = False,
    rounds: Rounds = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Leave the Spark scan out.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Measure this store beside what the machine can do at best, beside its peers, and beside RocketMQ itself.

    Without a subject: put, read, recovery, query and Spark scan in turn, each beside its limit.
    """
    if context.invoked_subcommand is None:
        raise typer.Exit(run(Options(quick, rounds, no_spark, folder, as_json)))


@bench.command()
def flush(
    quick: Quick = False,
    rounds: Rounds = None,
    body_size: BodySizes = None,
    threads: Annotated[
        list[int] | None, typer.Option(help="How many threads put at once, under sync flush.", show_default="8 64")
    ] = None,
    rate: Rate = None,
    versus: Versus = None,
    seconds: Seconds = None,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    csv: Csv = None,
    plot: Plot = None,
    compare: Compare = None,
) -> None:
    """What a sync costs, and what brings the cost down: threads, batches, columns."""
    raise typer.Exit(
        run_versus(
            VersusOptions(
                body_sizes=body_size or (),
                threads=THREADS if threads is None else threads,
                rate=rate,
                versus=versus or (),
                quick=quick,
                rounds=rounds,
                budget_s=seconds,
                folder=folder,
                as_json=as_json,
                save=save,
                csv=csv,
                plot=plot,
                compare=compare,
            )
        )
    )


@bench.command()
def append(
    quick: Quick = False,
    rounds: Rounds = None,
    body_size: BodySizes = None,
    rate: Rate = None,
    versus: Versus = None,
    seconds: Seconds = None,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    csv: Csv = None,
    plot: Plot = None,
    compare: Compare = None,
) -> None:
    """How fast messages are taken without a sync, with the C kernel and with the pure reference."""
    raise typer.Exit(
        run_versus(
            VersusOptions(
                body_sizes=body_size or (),
                rate=rate,
                versus=versus or (),
                quick=quick,
                rounds=rounds,
                budget_s=seconds,
                folder=folder,
                as_json=as_json,
                save=save,
                csv=csv,
                plot=plot,
                compare=compare,
                flush=False,
            )
        )
    )


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


@bench.command()
def scan(
    only: Annotated[list[str] | None, typer.Option(help="Queries: " + ", ".join(SCAN_NAMES) + ".")] = None,
    body_size: Annotated[
        list[int] | None,
        typer.Option("--body-size", help="Bytes; may be repeated.", show_default=" ".join(map(str, SCAN_BODY_SIZES))),
    ] = None,
    size: Annotated[float | None, typer.Option(help="MiB of a store's log.", show_default="1024")] = None,
    rounds: Rounds = None,
    quick: Quick = False,
    master: Annotated[str, typer.Option(help="Spark's cores: local[N].")] = "local[2]",
    folder: Folder = None,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON.")] = None,
) -> None:
    """Queries through Spark, warm, each beside Spark's own reading of the same rows from Parquet, or beside the same
    query with a filter that Spark keeps to itself; and how much of the log was read."""
    raise typer.Exit(
        run_scan(ScanOptions(only or (), body_size or (), size, rounds, quick, master, folder, as_json, save))
    )


def _subject(name: str, text: str) -> None:
    def one(
        quick: Quick = False,
        rounds: Rounds = None,
        messages: Messages = None,
        versus: RocketMq = None,
        folder: Folder = None,
        as_json: AsJson = False,
        save: Annotated[Path | None, typer.Option(help="Keep the figures in this file as JSON.")] = None,
        csv: Csv = None,
    ) -> None:
        options = Options(quick, rounds, True, folder, as_json, name, messages, versus or (), save, csv)
        raise typer.Exit(run(options))

    bench.command(name, help=text)(one)


for _name, _text in SUBJECTS.items():
    _subject(_name, _text)
