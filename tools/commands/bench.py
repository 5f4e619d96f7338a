"""`flightlog bench`: measure this store here, and compare it with the machine's limits, its peers, and RocketMQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ...store.errors import MissingExtraError
from ..bench import run, scan_run
from ..bench.harness import Options
from ..bench.scan.queries import NAMES

TEXT = "Measure this store beside what the machine can do at best, beside its peers, and beside RocketMQ itself."
bench = typer.Typer(name="bench", help=TEXT, no_args_is_help=False)


def option(kind: Any, *names: str, **details: Any) -> Any:
    """The annotated type of a parameter that is an option of the command line."""
    return Annotated[kind, typer.Option(*names, **details)]


OPTIONS: dict[str, Any] = {
    "quick": option(bool, "--quick", help="A smoke test: takes seconds, and its figures mean little."),
    "rounds": option(int | None, help="Rounds per case; the median counts.", show_default="5"),
    "body_sizes": option(
        list[int] | None, "--body-size", help="Bytes; may be repeated.", show_default="100 1024; quick 1024"
    ),
    "threads": option(list[int] | None, help="Threads that put at once, under sync flush.", show_default="8 64"),
    "rate": option(
        int | None,
        help="Put this many messages per second, evenly spaced; latency counts from when a call was due.",
    ),
    "messages": option(int | None, help="Messages per round.", show_default="a short round's"),
    "versus": option(
        list[str] | None,
        help="Peers on the same messages: sqlite3, lmdb, rocksdict, diskcache, persist-queue, litequeue, all (that are "
        "installed), rocketmq=FOLDER_OF_JARS. Commas or repetitions.",
    ),
    "seconds": option(
        float | None, help="About how long the run may take.", show_default="0.4 a case and round, and its set-up"
    ),
    "no_spark": option(bool, "--no-spark", help="Leave the Spark scan out."),
    "only": option(list[str] | None, help="Queries: " + ", ".join(NAMES) + "."),
    "size": option(float | None, help="MiB of a store's log.", show_default="1024"),
    "master": option(str, help="Spark's cores: local[N]."),
    "folder": option(
        Path | None, help="Measure in the file system of this folder.", show_default="temporary", readable=False
    ),
    "as_json": option(bool, "--json", help="Print one JSON object instead of the table."),
    "save": option(Path | None, help="Write the figures to this file as JSON, for --compare."),
    "plot": option(Path | None, help="Draw throughput and latencies into this file (.png, .svg, .pdf)."),
    "compare": option(
        Path | None,
        help="Also print how fast each case is beside an earlier run on this machine: a file that --save wrote.",
    ),
    "rocketmq": option(
        Path | None, help="A folder with the jars of rocketmq-proxy and rocketmq-namesrv, as Maven copies them."
    ),
}
"""The option of each field of Options."""
ROCKETMQ_ALONE = {
    "versus": option(list[str] | None, help="rocketmq=FOLDER_OF_JARS: RocketMQ's own store on the same files.")
}
SCAN_SIZES = " ".join(map(str, scan_run.BODY_SIZES))
LOOK = ("quick", "rounds", "folder", "as_json", "save", "plot")
OF_PUTS = (*LOOK, "body_sizes", "rate", "versus", "seconds", "compare")
OF_SUBJECTS = (*LOOK, "messages", "versus", "compare")


def command(
    work: Callable[[Any], int],
    names: Sequence[str],
    options: Mapping[str, Any] = OPTIONS,
    kind: type[Any] = Options,
    **fixed: Any,
) -> Callable[..., None]:
    """A function for typer whose parameters are the fields `names` of the dataclass `kind`. It calls `work` with an
    instance, which returns the exit code. `fixed` sets further fields."""

    def call(context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is None:
            wanted = {name: value for name, value in given.items() if value is not None}
            raise typer.Exit(work(kind(**wanted, **fixed)))

    defaults = {each.name: None if each.default == () else each.default for each in fields(kind)}
    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=options[name]) for name in names
    ]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _serve(given: Any) -> int:
    try:
        from ..bench.served_run import run as run_served  # gRPC and protobuf, which other runs do without
    except ImportError as e:
        raise MissingExtraError("serve", f"the bench of the server (no module {e.name} here)") from e
    return run_served(given)


bench.callback(
    invoke_without_command=True,
    help=f"{TEXT}\n\nWithout a subject: put, read, recovery, query and Spark scan in turn, each beside its limit.",
)(command(run.run, (*LOOK, "no_spark", "compare")))
bench.command("flush", help="What a sync costs, and what lowers the cost: threads, batches, columns.")(
    command(run.run, (*OF_PUTS, "threads"), subject=run.FLUSH)
)
bench.command("append", help="Puts without a sync, with the C kernel and with the pure reference.")(
    command(run.run, OF_PUTS, subject=run.APPEND)
)
for _name, _text in {
    "read": "Read every message of a store, one by one and as Arrow batches.",
    "query": "Query messages by key, one at a time.",
    "recover": "Open a store whose writer was killed right after its last put.",
    "verify": "Check every byte of a store against itself, and against the seals of full segments.",
}.items():
    bench.command(_name, help=_text)(command(run.run, OF_SUBJECTS, OPTIONS | ROCKETMQ_ALONE, subject=_name))
bench.command(
    "serve",
    help="`flightlog serve`, its clients in another process: sends, receives, latency from end to end, start, memory. "
    "With --rocketmq, RocketMQ's own broker and proxy beside it, under the same load in turns.",
)(command(_serve, (*LOOK, "rocketmq")))
bench.command(
    "scan",
    help="Queries through Spark, warm, each beside Spark's own reading of the same rows from Parquet, or beside the "
    f"same query with a filter that Spark keeps to itself; and how much of the log was read. Body sizes: {SCAN_SIZES}.",
)(command(scan_run.run, (*LOOK, "only", "body_sizes", "size", "master")))
