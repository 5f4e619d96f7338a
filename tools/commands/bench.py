"""`flightlog bench`: how fast this store is here, beside the machine's limits, its peers, and RocketMQ itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..bench import scan_run as scans
from ..bench.case import Outcome
from ..bench.plan import BODY_SIZES
from ..bench.report import say
from ..bench.run import APPEND, FLUSH, THREADS, Options, run
from ..bench.scan.queries import NAMES

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
Plot = Annotated[Path | None, typer.Option(help="Draw throughput and latencies into this file (.png, .svg, .pdf).")]
Compare = Annotated[Path | None, typer.Option(help="Show the change since a run of this machine that --save kept.")]
SPARK_SIZE_MIB, QUICK_SPARK_SIZE_MIB = 64, 8
"""Of the stores that the whole run scans."""


@bench.callback(invoke_without_command=True)
def everything(
    context: typer.Context,
    quick: Quick = False,
    rounds: Rounds = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Leave the Spark scan out.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
    compare: Compare = None,
) -> None:
    """Measure this store beside what the machine can do at best, beside its peers, and beside RocketMQ itself.

    Without a subject: put, read, recovery, query and Spark scan in turn, each beside its limit.
    """
    if context.invoked_subcommand is not None:
        return

    def spark_scan(folder: Path) -> list[Outcome]:
        if not all(find_spec(name) for name in ("pyspark", "pyarrow")):
            say("no Spark scan: pip install 'flightlog[spark]'")
            return []
        size = QUICK_SPARK_SIZE_MIB if quick else SPARK_SIZE_MIB
        return scans.measure(scans.make_plan(scans.ScanOptions(["all"], BODY_SIZES, size, rounds, quick)), folder)

    options = Options(quick=quick, rounds=rounds, folder=folder, as_json=as_json, save=save, plot=plot, compare=compare)
    raise typer.Exit(run(options, None if no_spark else spark_scan))


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
    plot: Plot = None,
    compare: Compare = None,
) -> None:
    """What a sync costs, and what brings the cost down: threads, batches, columns."""
    options = Options(
        subject=FLUSH,
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
        plot=plot,
        compare=compare,
    )
    raise typer.Exit(run(options))


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
    plot: Plot = None,
    compare: Compare = None,
) -> None:
    """How fast messages are taken without a sync, with the C kernel and with the pure reference."""
    options = Options(
        subject=APPEND,
        body_sizes=body_size or (),
        rate=rate,
        versus=versus or (),
        quick=quick,
        rounds=rounds,
        budget_s=seconds,
        folder=folder,
        as_json=as_json,
        save=save,
        plot=plot,
        compare=compare,
    )
    raise typer.Exit(run(options))


def _subject(name: str, text: str) -> None:
    def one(
        quick: Quick = False,
        rounds: Rounds = None,
        messages: Messages = None,
        versus: RocketMq = None,
        folder: Folder = None,
        as_json: AsJson = False,
        save: Save = None,
        plot: Plot = None,
        compare: Compare = None,
    ) -> None:
        options = Options(
            subject=name,
            messages=messages,
            versus=versus or (),
            quick=quick,
            rounds=rounds,
            folder=folder,
            as_json=as_json,
            save=save,
            plot=plot,
            compare=compare,
        )
        raise typer.Exit(run(options))

    bench.command(name, help=text)(one)


for _name, _text in {
    "read": "Every message of a store, one by one and as Arrow batches.",
    "query": "Messages by their key, one at a time.",
    "recover": "Opening a store whose writer was killed right after its last put.",
    "verify": "Every byte of a store against itself, and against the seals of full segments.",
}.items():
    _subject(_name, _text)


@bench.command()
def scan(
    only: Annotated[list[str] | None, typer.Option(help="Queries: " + ", ".join(NAMES) + ".")] = None,
    body_size: Annotated[
        list[int] | None,
        typer.Option("--body-size", help="Bytes; may be repeated.", show_default=" ".join(map(str, scans.BODY_SIZES))),
    ] = None,
    size: Annotated[float | None, typer.Option(help="MiB of a store's log.", show_default="1024")] = None,
    rounds: Rounds = None,
    quick: Quick = False,
    master: Annotated[str, typer.Option(help="Spark's cores: local[N].")] = scans.MASTER,
    folder: Folder = None,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
) -> None:
    """Queries through Spark, warm, each beside Spark's own reading of the same rows from Parquet, or beside the same
    query with a filter that Spark keeps to itself; and how much of the log was read."""
    options = scans.ScanOptions(only or (), body_size or (), size, rounds, quick, master, folder, as_json, save, plot)
    raise typer.Exit(scans.run(options))
