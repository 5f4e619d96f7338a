"""The command line: assembles the commands, each a file in `commands/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from .commands.bench import bench
from .commands.change import config, dead_letters, delays, group
from .commands.change.topic import app as topic
from .commands.check.diff import diff
from .commands.check.repair import repair
from .commands.check.seal import seal
from .commands.check.verify import verify
from .commands.demo import demo
from .commands.examples import add_examples
from .commands.handover import handover
from .commands.look.cat import cat, head, query
from .commands.look.get import get
from .commands.look.groups import groups
from .commands.look.info import info
from .commands.look.stat import stat
from .commands.look.tail import tail
from .commands.look.topics import topics
from .commands.look.trace import trace
from .commands.move.backup import backup
from .commands.move.clean import clean
from .commands.move.copy import copy
from .commands.move.export import export
from .commands.move.importing import import_
from .commands.move.replay import replay
from .commands.move.trim import trim
from .commands.serve import serve
from .commands.watch.metrics import metrics
from .commands.watch.stats import stats
from .program import run_program
from .version import version_text

app = typer.Typer(
    name="flightlog",
    help="An embeddable message store whose files are Apache RocketMQ's files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look: no lock, nothing changes": (info, topics, groups, stat, cat, head, tail, get, query, trace),
    "Watch: beside a writer, too": (stats, metrics),
    "Check and mend": (verify, repair, diff, seal),
    "Move": (backup, copy, export, replay, trim, clean),
    "Run": (serve, demo),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("import", rich_help_panel="Move")(import_)
for changing in (topic, group, dead_letters, delays, config):
    app.add_typer(changing.app, rich_help_panel="Change: shown first, done with --write")
app.add_typer(handover, rich_help_panel="Move")
app.add_typer(bench, rich_help_panel="Run")
add_examples(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version_text())
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print version, kernel and location, and exit."
        ),
    ] = False,
) -> None:
    """An embeddable message store whose files are Apache RocketMQ's files."""


def run() -> int:
    """Run the command that the arguments name. Returns its exit code."""

    def program() -> int:
        try:
            app(prog_name="flightlog")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        return 0

    return run_program(program)
