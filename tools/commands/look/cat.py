"""`flightlog cat PATH`, `head`, `query`: the messages of a store, selected, in one of several forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from ....engine.read.selection import Selection
from ....engine.read.sparse_reads import expect_sparse_reads
from ...program import EXIT_FINDINGS
from ...records.fields import BodyForm
from ..arguments import Settings, StorePath, open_view
from ..selecting import with_selection
from .printing import BodyOption, FormName, FormOption, OutputOption, print_messages, tell_skipped

HEAD = 10


@with_selection
def cat(
    path: StorePath,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="At most so many.", show_default="all")
    ] = None,
    form: FormOption = FormName.LINES,
    body_as: BodyOption = BodyForm.AUTO,
    output: OutputOption = None,
    settings: Settings = None,
    *,
    selection: Selection,
) -> None:
    """Print messages in the order of the log. Takes no lock and changes nothing."""
    _print(path, count, form, body_as, output, settings, selection)


@with_selection
def head(
    path: StorePath,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="At most so many.")] = HEAD,
    form: FormOption = FormName.LINES,
    body_as: BodyOption = BodyForm.AUTO,
    output: OutputOption = None,
    settings: Settings = None,
    *,
    selection: Selection,
) -> None:
    """Print the first messages in the order of the log. Takes no lock and changes nothing."""
    _print(path, count, form, body_as, output, settings, selection)


@with_selection
def query(
    path: StorePath,
    key: Annotated[str, typer.Argument(help="A key or uniq key.", show_default=False)],
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="At most so many.", show_default="all")
    ] = None,
    form: FormOption = FormName.LINES,
    body_as: BodyOption = BodyForm.AUTO,
    output: OutputOption = None,
    settings: Settings = None,
    *,
    selection: Selection,
) -> None:
    """Print the messages with a key or uniq key, by the key index, in the order of the log.

    Exit code 1: there is none.
    """
    if not _print(path, count, form, body_as, output, settings, replace(selection, key=key)):
        raise typer.Exit(EXIT_FINDINGS)


def _print(
    path: Path,
    count: int | None,
    form: FormName,
    body_as: BodyForm,
    output: Path | None,
    settings: Path | None,
    selection: Selection,
) -> int:
    """Returns how many were printed."""
    with open_view(path, settings) as view:
        if selection.key is None:
            bounds = selection.bounds(view)
            expect_sparse_reads(view, bounds)
            found = selection.within(view, bounds, on_corrupt="skip")
        else:
            found = selection.messages(view, on_corrupt="skip")
        selected = islice(found, count)
        printed = print_messages(view, selected, form, body_as, output)
        tell_skipped(view)
        return printed
