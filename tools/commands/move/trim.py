"""`flightlog trim PATH`: remove the oldest segments of a store's log."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ....consume.store import open_store
from ....engine.services.retention import HOUR_MS, Unread
from ....store.disk.disk import RealDisk
from ....store.errors import UsageError
from ....store.settings import StoreSettings
from ...output import Column, Output
from ...records.fields import iso_time
from ...typed_values import parse_size, parse_time_ms
from ...words import count_text, printable, size_text, time_text
from ..arguments import AsJson, Settings, StorePath, Write, open_view, settings_of

Before = Annotated[
    str | None,
    typer.Option(help="Segments last written before: 2026-05-01T12:00:00Z, or 3d. In whole hours.", show_default=False),
]
KeepBytes = Annotated[
    str | None,
    typer.Option(help="Segments behind which so much of the log is: 10GiB, or a number of bytes.", show_default=False),
]
ConsumedByAll = Annotated[
    bool, typer.Option("--consumed-by-all", help="Segments that all groups have consumed. Needs the store's lock.")
]


MAX_BATCH = 1_000_000
"""Segments of a round."""


@dataclass(frozen=True, slots=True)
class _Old:
    """A segment that goes."""

    path: Path
    size: int
    written_ms: int


def trim(
    path: StorePath,
    before: Before = None,
    keep_bytes: KeepBytes = None,
    consumed_by_all: ConsumedByAll = False,
    settings: Settings = None,
    write: Write = False,
    as_json: AsJson = False,
) -> None:
    """Show which of the oldest segments would be removed, by one rule. Removes them only with --write.

    The last segment stays. Queues, key index and seals lose what is about the removed ones.
    """
    if (before is not None) + (keep_bytes is not None) + consumed_by_all != 1:
        raise UsageError("trim: expected one of --before, --keep-bytes and --consumed-by-all")
    kept_size = None if keep_bytes is None else parse_size("--keep-bytes", keep_bytes)
    hours = None if before is None else _hours_since(parse_time_ms("--before", before))
    with open_view(path, settings) as view:
        segments = [_old(segment.path, segment.size) for segment in view.segments]
        ends = [view.end_physical_offset - segment.end for segment in view.segments]
    unread: tuple[Unread, ...] = ()
    if write or consumed_by_all:
        # Without --write nothing but the dry run may remove anything: retention is off.
        opened = replace(settings_of(settings, path), deliver_delayed=False, retention_hours=None, retention=None)
        opened = replace(opened, clean_batch_count=MAX_BATCH)
        gone, unread = _clean_up(path, replace(opened, retention_bytes=kept_size), hours, consumed_by_all, write)
        due = [each for each in segments if each.path in gone]
    else:
        due = []
        now_ms = time.time_ns() // 1_000_000
        for each, size_behind in zip(segments[:-1], ends, strict=False):
            is_old = hours is not None and each.written_ms + hours * HOUR_MS <= now_ms
            if not is_old and not (kept_size is not None and size_behind >= kept_size):
                break
            due.append(each)
    if as_json:
        listed = [
            {"path": str(each.path), "size": each.size, "written_time": iso_time(each.written_ms)} for each in due
        ]
        found: dict[str, Any] = {"path": str(path), "is_written": write, "segments": listed}
        print(json.dumps({**found, "unread": [asdict(each) for each in unread]}, indent=2))
        return
    output = Output()
    rows = [[size_text(each.size), time_text(each.written_ms), printable(str(each.path))] for each in due]
    output.table("Segments", [Column("size", True), Column("last written"), Column("file")], rows)
    for left in unread:
        waits = f"group {printable(left.group)} has yet to consume" if left.group else "no group has consumed"
        output.line(f"the next one stays: {waits} {left.count:,} messages of topic {printable(left.topic)}")
    what = f"{count_text(len(due), 'segment')}, {size_text(sum(each.size for each in due))}"
    output.line(f"removed: {what}" if write else f"to be removed: {what}" + (". Remove with --write" if due else ""))


def _hours_since(timestamp_ms: int) -> int:
    """Rounded up: what is younger stays."""
    return max(-((timestamp_ms - time.time_ns() // 1_000_000) // HOUR_MS), 0)


def _old(path: Path, size: int) -> _Old:
    return _Old(path, size, RealDisk().modified_ms(path))


def _clean_up(
    path: Path, settings: StoreSettings, hours: int | None, consumed_by_all: bool, write: bool
) -> tuple[set[Path], tuple[Unread, ...]]:
    """Rounds of retention, until one finds nothing to remove; or one dry one. Returns the segments, and what is
    unread in the next."""
    gone: set[Path] = set()
    with open_store(path, settings) as store:
        while True:
            report = store.clean_up(hours, consumed_by_all=consumed_by_all, dry_run=not write)
            gone.update(report.segments)
            if not write or not report.segments:
                return gone, report.unread
