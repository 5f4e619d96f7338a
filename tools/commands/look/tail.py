"""`flightlog tail PATH`: the newest messages of a store, and with `-f` those that come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Annotated

import typer

from ....engine.read.selection import Selection
from ....engine.read_only import ReadOnlyStore
from ....store.stored_message import StoredMessage
from ...records.fields import BodyForm
from ..arguments import Settings, StorePath, open_view
from ..selecting import with_selection
from .printing import BodyOption, FormName, FormOption, OutputOption, print_messages, tell_skipped

INTERVAL_S = 0.2
"""How often a followed store is looked at."""


@with_selection
def tail(
    path: StorePath,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="So many of the newest.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with messages as they are put, until Ctrl-C.")
    ] = False,
    form: FormOption = FormName.LINES,
    body_as: BodyOption = BodyForm.AUTO,
    output: OutputOption = None,
    settings: Settings = None,
    *,
    selection: Selection,
) -> None:
    """Print the newest messages in the order of the log. Takes no lock and changes nothing."""
    with open_view(path, settings) as view:
        ends = {key: end for key, (_, end) in view.queues().items()}
        found: Iterator[StoredMessage] = iter(selection.newest(view, count, on_corrupt="skip") if count else ())
        if follow:
            found = chain(found, coming(view, selection, ends))
        print_messages(view, found, form, body_as, output)
        tell_skipped(view)


def coming(view: ReadOnlyStore, selection: Selection, ends: dict[tuple[str, int], int]) -> Iterator[StoredMessage]:
    """What is put from now on; `ends`: one past the last message of each queue that was seen."""
    of_any_time = replace(selection, begin_ms=None, end_ms=None)  # what comes is checked, not searched for at each look
    while True:
        sys.stdout.flush()
        time.sleep(INTERVAL_S)
        view.refresh()
        bounds = {key: (max(first, ends.get(key, 0)), end) for key, (first, end) in of_any_time.bounds(view).items()}
        grown = {key: (first, end) for key, (first, end) in bounds.items() if first < end}
        yield from selection.within(view, grown, on_corrupt="skip")
        ends.update({key: end for key, (_, end) in view.queues().items()})
