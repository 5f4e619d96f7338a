"""The command line: assembles the commands, each a file in `commands/`."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from .commands.bench import bench
from .commands.clean import clean
from .commands.delete_group import delete_group
from .commands.demo import demo
from .commands.groups import groups
from .commands.handover import handover
from .commands.info import info
from .commands.redrive import redrive
from .commands.reset_offset import reset_offset
from .commands.serve import serve
from .commands.verify import verify
from .program import run_program

app = typer.Typer(
    name="flightlog",
    help="An embeddable message store whose files are Apache RocketMQ's files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (clean, delete_group, demo, groups, info, redrive, reset_offset, serve, verify):
    app.command()(command)
app.add_typer(bench)
app.add_typer(handover)


def _print_version(wanted: bool) -> None:
    if wanted:
        package = import_module("..", __package__)
        kernel = {"c": "C kernel", "pure": "pure Python kernel"}[package.kernel]
        print(f"flightlog {package.__version__} ({kernel}) from {package.__path__[0]}")
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
