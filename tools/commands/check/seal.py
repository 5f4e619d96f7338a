"""`flightlog seal PATH`: note what the log holds now, so that any later change of a byte is found."""

from __future__ import annotations

import json
from typing import Any

import typer

from ....engine.repair.sealing import SealReport
from ....engine.repair.sealing import seal as seal_store
from ...output import Output
from ...program import EXIT_FINDINGS
from ...progress_bar import ProgressBar
from ...words import count_text, printable, size_text
from ..arguments import AsJson, Settings, StorePath, Write, settings_of


def seal(path: StorePath, write: Write = False, as_json: AsJson = False, settings: Settings = None) -> None:
    """Seal the segments that have no seal: CRCs over every byte, where RocketMQ's CRC covers bodies only.

    flightlog seals what it writes. Use this for a store that a broker wrote, or that was restored without seals:
    `verify` then finds any byte that changes, such as one of a property or a queue offset. The log does not change.
    Without --write, nothing is written. Exit code: 0 done, 1 a damaged segment was left out, 3 cannot be read, 4 a
    writer has the store open.
    """
    with ProgressBar("sealing"):
        report = seal_store(path, settings_of(settings, path), write=write)
    print(json.dumps(_object(report), indent=2)) if as_json else _show(report, Output())
    if report.left:
        raise typer.Exit(EXIT_FINDINGS)


def _show(report: SealReport, output: Output) -> None:
    verb = "sealed" if report.is_written else "would seal"
    for segment in report.sealed:
        output.line(f"{verb} {printable(str(segment))}")
    if report.covered_size:
        output.line(f"{verb} {size_text(report.covered_size)} of the segment that is not full")
    for segment, found in report.left.items():
        output.line(f"left: {printable(str(segment))}: {found}. `flightlog verify` says more")
    output.line(f"{count_text(report.kept, 'segment')} had a seal")
    if not report.is_written and (report.sealed or report.covered_size):
        output.line("nothing was written. Do it with --write")


def _object(report: SealReport) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "path": str(report.path),
        "is_written": report.is_written,
        "sealed": list(map(str, report.sealed)),
        "kept": report.kept,
        "covered_size": report.covered_size,
        "left": {str(segment): found for segment, found in report.left.items()},
    }
