"""`flightlog verify PATH`: check every byte of a store."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

import typer

from ....engine.read_only import ReadOnlyStore
from ....engine.verify.findings import Finding, VerifyReport
from ....store.disk import lock
from ....store.disk.bad_sectors import BadSectors
from ....store.disk.disk import RealDisk
from ....store.seal.seal import seal_path
from ...counting_disk import CountingDisk
from ...inspecting import open_to_inspect
from ...output import Output
from ...program import EXIT_FINDINGS
from ...progress_bar import ProgressBar
from ...words import count_text, printable, seconds_text, size_text
from ..arguments import AsJson, Settings, StorePath, settings_of


def verify(path: StorePath, settings: Settings = None, as_json: AsJson = False) -> None:
    """Check log, seals, queues, key index, checkpoint and progress page. Takes no lock and changes nothing.

    Exit code: 0 clean, 1 findings, 2 wrong call, 3 cannot be read. Messages that a killed writer stored and did not
    dispatch yet are a note, not a finding: none is lost, and the next open for writing adds their queue entries.
    """
    started_s = time.monotonic()
    disk = CountingDisk()
    with open_to_inspect(path, BadSectors.around(disk), settings_of(settings, path)) as view:
        disk.read_size = 0
        with ProgressBar("verifying", _size_to_read(view), lambda: disk.read_size):
            report = view.verify()
    is_held = lock.is_held(path)
    if as_json:
        print(json.dumps(as_object(report, is_held), indent=2))
    else:
        _show(report, is_held, time.monotonic() - started_s, Output())
    if not report.is_clean:
        raise typer.Exit(EXIT_FINDINGS)


def _size_to_read(view: ReadOnlyStore) -> int:
    """About how many bytes a verify reads: the log once after a clean close; otherwise twice, for records and then for
    queues and keys, and the sealed segments once more."""
    log_size = view.end_physical_offset - view.min_physical_offset
    if view.shutdown_state.is_clean:
        return log_size
    disk = RealDisk()
    sealed = sum(segment.size for segment in view.segments if disk.exists(seal_path(view.path, segment.base)))
    return 2 * log_size + sealed


def _show(report: VerifyReport, is_held: bool, passed_s: float, output: Output) -> None:
    path = printable(str(report.path))
    for number, finding in enumerate(report.findings, 1):
        output.line(f"{number}. {printable(str(finding.path))}, offset {finding.offset:,}")
        output.line(f"   found    {printable(finding.meaning)}")
        output.line(f"   to mend  {printable(finding.mend)}")
        if (command := _command(finding, report)) is not None:
            output.line(f"            {command}")
    for behind in report.lag:
        where = f"{printable(str(behind.path))}, offset {behind.offset:,}"
        output.line(f"note: {where}: {printable(behind.meaning)}: the last writer was killed before it added them")
    if report.lag:
        output.line(f"note: no message is lost; to add the entries, {report.lag[0].mend}")
    for oddity in report.oddities:
        output.line(f"note: {printable(oddity)}")
    if report.findings or report.lag or report.oddities:
        output.line()
    result = "clean" if report.is_clean else count_text(len(report.findings), "finding")
    segments = count_text(report.segments, "segment")
    sealed = f" ({report.sealed_segments:,} sealed)" if report.sealed_segments else ""
    output.line(
        f"{path}: {result}. Checked {count_text(report.records, 'record')} in {segments}{sealed}, "
        f"{count_text(report.queue_entries, 'queue entry', 'queue entries')}, "
        f"{count_text(report.index_entries, 'key')}, {size_text(report.bytes_checked)} of log "
        f"in {seconds_text(passed_s)}."
    )
    if is_held:
        output.line("It is open for writing now: checked is what its writer had published a moment ago.")


def _command(finding: Finding, report: VerifyReport) -> str | None:
    """The command that mends the finding, as it is typed."""
    if finding.command is None:
        return None
    return f"flightlog {finding.command.replace('PATH', shlex.quote(printable(str(report.path))))}"


def finding_object(finding: Finding, report: VerifyReport) -> dict[str, Any]:
    """A finding as `--json` prints it."""
    return {
        "path": str(finding.path),
        "offset": finding.offset,
        "meaning": finding.meaning,
        "mend": finding.mend,
        "command": _command(finding, report),
    }


def as_object(report: VerifyReport, is_held: bool) -> dict[str, Any]:
    """The object that `--json` prints. The offset of a finding is a physical offset in the log, a queue offset in a
    queue, and a position in other files."""
    return {
        "path": str(report.path),
        "last_writer": report.last_writer.name,
        "is_clean": report.is_clean,
        "is_open_for_writing": is_held,
        "findings": [finding_object(each, report) for each in report.findings],
        "lag": [finding_object(each, report) for each in report.lag],
        "records": report.records,
        "segments": report.segments,
        "sealed_segments": report.sealed_segments,
        "oddities": report.oddities,
        "queue_entries": report.queue_entries,
        "index_entries": report.index_entries,
        "bytes_checked": report.bytes_checked,
    }
