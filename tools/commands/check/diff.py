"""`flightlog diff A B`: what differs between two stores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from ....engine.compare.comparing import diff as differences_of
from ....engine.compare.difference import Difference
from ....store.conf.broker_conf import read_broker_conf
from ....store.errors import InvalidSettingsError
from ....store.settings import StoreSettings
from ...output import Output
from ...program import EXIT_FINDINGS
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, settings_of

Other = Annotated[
    Path, typer.Argument(help="The folder of the store to compare it with.", show_default=False, readable=False)
]


def diff(
    a: StorePath,
    b: Other,
    places: Annotated[
        bool, typer.Option("--places", help="Also physical offsets, which message ids contain: copies keep them.")
    ] = False,
    as_json: AsJson = False,
    settings: Settings = None,
    settings_b: Annotated[
        Path | None,
        typer.Option(
            "--settings-b", help="A broker.conf to open B with, instead of that of --settings.", show_default=False
        ),
    ] = None,
) -> None:
    """Show what differs between two stores: topics, queue bounds, messages at the same queue offset, group offsets,
    and config. Takes no lock and changes nothing; either store may have a live writer.

    A line a difference, with the value in A, then the one in B. Messages are compared field by field; of what only one
    store has, the bounds of the queue tell. Exit code: 0 the same, 1 they differ, 2 wrong call, 3 cannot be read.
    """
    found = differences_of(a, b, *_settings(settings, settings_b, a, b), places=places)
    count = _print_object(a, b, found) if as_json else _print_lines(found, Output())
    if count:
        raise typer.Exit(EXIT_FINDINGS)


def _settings(conf: Path | None, conf_b: Path | None, a: Path, b: Path) -> tuple[StoreSettings, StoreSettings]:
    """Return the settings of both stores. Raises InvalidSettingsError for a conf with folders of another log, and for
    one that has the folders of a log and is to count for two stores."""
    if conf is None or conf_b is not None:
        return settings_of(conf, a), settings_of(conf_b, b)
    shared = read_broker_conf(conf)
    found = shared.settings_for(a), shared.settings_for(b)
    if shared.log_folders and a.resolve() != b.resolve():
        raise InvalidSettingsError(f"{conf}: it has the folders of one log, expected one for {b}: add --settings-b")
    return found


def _print_lines(found: Iterable[Difference], output: Output) -> int:
    """Print each as it is found: two stores may differ in every message."""
    counts: Counter[str] = Counter()
    for each in found:
        counts[each.kind] += 1
        output.line(printable(str(each)))
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.items())
    output.line(f"{count_text(counts.total(), 'difference')}: {kinds}" if counts else "no difference")
    return counts.total()


def _print_object(a: Path, b: Path, found: Iterable[Difference]) -> int:
    """Print one object, piece by piece."""
    count, found = 0, iter(found)
    first = list(islice(found, 1))  # opens the stores: an error is no beginning of an object
    print(f'{{"a": {json.dumps(str(a))}, "b": {json.dumps(str(b))}, "differences": [', end="")
    for each in chain(first, found):
        print(",\n" if count else "\n", json.dumps(asdict(each)), sep="", end="")
        count += 1
    print(f'\n], "count": {count}}}')
    return count
