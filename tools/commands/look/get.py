"""`flightlog get PATH PLACE`: one message, by where it is."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from ....engine.read_only import ReadOnlyStore
from ....store.errors import InvalidArgumentError
from ....store.stored_message import StoredMessage
from ...program import EXIT_FINDINGS
from ...records.fields import BodyForm
from ..arguments import Settings, StorePath, open_view
from .printing import BodyOption, FormName, FormOption, OutputOption, print_messages

QUEUE_PLACE = re.compile(r"(.+)/(\d+)@(\d+)")
MESSAGE_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")
EXPECTED = "TOPIC/QUEUE@OFFSET, a physical offset, or a message id of 32 or 56 hexadecimal digits"


def get(
    path: StorePath,
    place: Annotated[str, typer.Argument(help=f"{EXPECTED}.", show_default=False)],
    form: FormOption = FormName.JSON,
    body_as: BodyOption = BodyForm.AUTO,
    output: OutputOption = None,
    settings: Settings = None,
) -> None:
    """Print one message, by queue offset, physical offset or message id. Exit code 1: there is none."""
    with open_view(path, settings) as view:
        found = _at(view, place)
        if found is None:
            print(f"flightlog: {path}: no message at {place}", file=sys.stderr)
            raise typer.Exit(EXIT_FINDINGS)
        print_messages(view, [found.decompressed()], form, body_as, output)


def _at(view: ReadOnlyStore, place: str) -> StoredMessage | None:
    if MESSAGE_ID.fullmatch(place):
        return view.message_by_id(place)
    if place.isascii() and place.isdigit():
        return view.message_at(int(place))
    named = QUEUE_PLACE.fullmatch(place)
    if named is None:
        raise InvalidArgumentError("place", place, EXPECTED)
    topic, queue_id, queue_offset = named[1], int(named[2]), int(named[3])
    found = next(view.read(topic, queue_id, queue_offset, must_exist=True), None)
    return found if found is not None and found.queue_offset == queue_offset else None
