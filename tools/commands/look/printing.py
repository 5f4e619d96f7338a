"""Prints messages in the form that was asked for, and what was skipped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from ....engine.read_only import ReadOnlyStore
from ....store.errors import UsageError
from ....store.stored_message import StoredMessage
from ...program import EXIT_FINDINGS
from ...records.fields import BodyForm
from ...records.hex_dump import hex_lines
from ...records.output_file import opened_output
from ...records.parquet import ParquetFile
from ...records.text_forms import Bodies, CsvRows, Form, JsonLines, Lines
from ...words import count_text


class FormName(StrEnum):
    """What `--form` takes."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    RAW = "raw"
    HEX = "hex"


FormOption = Annotated[
    FormName,
    typer.Option(
        "--form",
        help="lines for people; json: an object a line; csv; parquet; raw: bodies alone; hex: each record, field by "
        "field.",
    ),
]
BodyOption = Annotated[
    BodyForm,
    typer.Option("--body-as", help="Bodies in lines, json, csv: text where they are UTF-8 (auto), or one way."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to this file, which must not be there.", show_default="stdout"),
]


class _Hex:
    def __init__(self, output: BinaryIO, view: ReadOnlyStore) -> None:
        self._output, self._view = output, view

    def write(self, message: StoredMessage) -> None:
        record = self._view.log_reader.record_bytes(message.physical_offset, message.size)
        title = f"{message.topic}/{message.queue_id}@{message.queue_offset}"
        self._output.write("\n".join([title, *hex_lines(record, message.physical_offset), "", ""]).encode())

    def end(self) -> None:
        """Nothing is left to write."""


def print_messages(
    view: ReadOnlyStore, messages: Iterable[StoredMessage], form: FormName, body_form: BodyForm, output: Path | None
) -> int:
    """Write them; returns how many. Raises UsageError, InvalidArgumentError, MissingExtraError, and as reads do."""
    if form is FormName.PARQUET and output is None and sys.stdout.isatty():
        raise UsageError("--form parquet on a terminal: expected --output FILE, or a pipe")
    count = 0
    with opened_output(output) as file:
        writer = _writer(form, file, body_form, view)
        for message in messages:
            writer.write(message)
            count += 1
        writer.end()
    return count


def _writer(form: FormName, file: BinaryIO, body_form: BodyForm, view: ReadOnlyStore) -> Form:
    match form:
        case FormName.JSON:
            return JsonLines(file, body_form)
        case FormName.CSV:
            return CsvRows(file, body_form)
        case FormName.PARQUET:
            return ParquetFile(file)
        case FormName.RAW:
            return Bodies(file)
        case FormName.HEX:
            return _Hex(file, view)
    return Lines(file, body_form)


def tell_skipped(view: ReadOnlyStore) -> None:
    """End with exit code 1 and a line on stderr if damaged messages were left out."""
    if view.corrupt_skipped:
        what = count_text(view.corrupt_skipped, "damaged message")
        print(f"flightlog: {view.path}: {what} left out; `flightlog verify` says where", file=sys.stderr)
        raise typer.Exit(EXIT_FINDINGS)
