"""`flightlog repair PATH`: mend a store in place, or carry its intact records into a new one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ....engine.repair.repairing import RepairReport
from ....engine.repair.repairing import repair as repair_store
from ....engine.repair.salvaging import SalvageReport
from ....engine.repair.salvaging import salvage as salvage_store
from ...output import Output
from ...program import EXIT_FINDINGS
from ...progress_bar import ProgressBar
from ...words import count_text, printable, size_text
from ..arguments import AsJson, Settings, StorePath, Write, settings_of
from .verify import as_object, finding_object

Out = Annotated[
    Path | None,
    typer.Option(
        "--salvage",
        metavar="OUT",
        help="Carry all intact records into a new store in this folder.",
        show_default=False,
    ),
]


def repair(
    path: StorePath, write: Write = False, salvage: Out = None, as_json: AsJson = False, settings: Settings = None
) -> None:
    """Mend what `verify` finds: queues, key index, checkpoint, seals, state files, damaged bodies, a torn tail.

    Without --write, nothing changes. Everything that a repair changes is kept in flightlog/repair-TIME/. Where bytes in
    the middle of the log are no records, only --salvage helps. Exit code: 0 clean, 1 something is left to mend, or
    --salvage found losses, 3 cannot be read, 4 a writer has the store open.
    """
    with ProgressBar("repairing" if salvage is None else "salvaging"):
        if salvage is None:
            done = repair_store(path, settings_of(settings, path), write=write)
        else:
            carried = salvage_store(path, salvage, settings_of(settings, path), write=write)
    if salvage is None:
        print(json.dumps(_repair_object(done), indent=2)) if as_json else _show_repair(done, Output())
        is_well = done.is_clean
    else:
        print(json.dumps(_salvage_object(carried), indent=2)) if as_json else _show_salvage(carried, Output())
        is_well = not (carried.lost or carried.state_files_lost) and (carried.after is None or carried.after.is_clean)
    if not is_well:
        raise typer.Exit(EXIT_FINDINGS)


def _show_repair(report: RepairReport, output: Output) -> None:
    path = printable(str(report.path))
    output.line(f"{path}: {count_text(len(report.before.findings), 'finding')} of verify")
    for number, step in enumerate(report.steps, 1):
        output.line(f"{number}. {'' if report.is_written else 'would '}{printable(step)}")
    for finding in report.left:
        output.line(f"left: {printable(str(finding))}")
    if report.lost:
        verb = "lost" if report.is_written else "would be lost"
        output.line(f"{count_text(len(report.lost), 'body', 'bodies')} {verb} (topic, queue, offset):")
        for lost in report.lost:
            output.line(f"   {printable(lost)}")
    for backup in report.backups:
        output.line(f"what was changed is kept in {printable(str(backup))}; its README.txt says how to put it back")
    if any(finding.command and "--salvage" in finding.command for finding in report.left):
        output.line("nothing was changed: --salvage OUT carries the intact records into a new store")
    elif report.after is None:
        output.line("nothing was changed. Do it with --write" if report.steps else "nothing to do")
    else:
        output.line("clean" if report.after.is_clean else f"{count_text(len(report.after.findings), 'finding')} left")


def _show_salvage(report: SalvageReport, output: Output) -> None:
    would = "" if report.is_written else "would be "
    output.line(
        f"{count_text(report.records, 'record')}, {size_text(report.size)}, {would}carried into "
        f"{printable(str(report.out))}"
    )
    if report.dropped_size:
        what = "rows of an append that was never committed, or what RocketMQ's recovery had dropped"
        output.line(f"{size_text(report.dropped_size)} at the end left behind: {what}")
    if report.placeholders:
        output.line(f"{count_text(report.placeholders, 'placeholder')} for lost messages, to keep queue offsets")
    if report.renumbered:
        output.line(f"{count_text(report.renumbered, 'record')} with an impossible queue offset, numbered again")
    if report.deleted:
        output.line(f"{count_text(report.deleted, 'record')} of deleted topics left behind")
    for lost in report.lost:
        output.line(
            f"lost: {printable(str(lost.path))}, offset {lost.physical_offset:,}: {lost.size:,} bytes: {lost.found}"
        )
    if report.state_files:
        output.line(f"from config/: {printable(', '.join(report.state_files))}")
    for name in report.state_files_lost:
        output.line(f"cannot be read: {printable(name)}")
    if report.after is None:
        output.line("nothing was written. Do it with --write")
    else:
        output.line("clean" if report.after.is_clean else f"{count_text(len(report.after.findings), 'finding')} left")


def _repair_object(report: RepairReport) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "path": str(report.path),
        "is_written": report.is_written,
        "is_clean": report.is_clean,
        "steps": report.steps,
        "left": [finding_object(each, report.before) for each in report.left],
        "lost": report.lost,
        "backups": list(map(str, report.backups)),
        "before": as_object(report.before, is_held=False),
        "after": None if report.after is None else as_object(report.after, is_held=False),
    }


def _salvage_object(report: SalvageReport) -> dict[str, Any]:
    """The object that `--json` prints with `--salvage`."""
    return {
        "path": str(report.path),
        "out": str(report.out),
        "is_written": report.is_written,
        "records": report.records,
        "size": report.size,
        "deleted": report.deleted,
        "dropped_size": report.dropped_size,
        "placeholders": report.placeholders,
        "renumbered": report.renumbered,
        "lost": [asdict(each) | {"path": str(each.path)} for each in report.lost],
        "state_files": report.state_files,
        "state_files_lost": report.state_files_lost,
        "after": None if report.after is None else as_object(report.after, is_held=False),
    }
