"""`flightlog bench`: how fast this store is here, beside the machine's limits, its peers, and RocketMQ itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..bench.run import SUBJECTS, Options, run
from ..bench.scan.scan import ScanOptions
from ..bench.scan.scan import run as run_scan
from ..bench.scan.scan_plan import BODY_SIZES as SCAN_BODY_SIZES
from ..bench.scan.scan_plan import NAMES as SCAN_NAMES
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
