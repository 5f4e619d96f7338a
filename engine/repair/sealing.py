"""Seal a store at rest: note what its log holds now, so that any later change of a byte is found.

flightlog seals a segment itself once it is full and flushed, and covers the open segment as it grows. A store that a
broker wrote, that was restored without `flightlog/seals/`, or whose seals a repair dropped has none: RocketMQ's CRC
covers bodies only, so a changed property, time or queue offset would go unnoticed.

A segment is sealed only if all its records check: a seal must not vouch for damage. Of a store that flightlog wrote
last, only what it made durable is sealed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from ...store.arguments import check_flag, check_settings, checked_folder
from ...store.disk.disk import Disk, RealDisk
from ...store.disk.lock import StoreLock
from ...store.log.log_reader import BAD_CRC, WALK_END_TEXT, LogReader
from ...store.seal.open_seal import OpenSeal
from ...store.seal.seal import Seal, make_seal, read_seal, seal_fits, write_seal
from ...store.segments.segment import Segment
from ...store.settings import StoreSettings
from ...store.state.format_version import FormatVersion
from ..open.shutdown_state import ShutdownState
from ..read_only import ReadOnlyStore


@dataclass
class SealReport:
    """What was sealed, or would be."""

    path: Path
    is_written: bool
    """False for a dry run: nothing was written."""
    sealed: list[Path] = field(default_factory=list)
    """Full segments that had no seal."""
    kept: int = 0
    """Full segments that had one."""
    covered_size: int = 0
    """Bytes of the segment that is not full that are sealed now and were not."""
    left: dict[Path, str] = field(default_factory=dict)
    """Full segments that were not sealed, because of damage, and what was found in them."""


def seal(path: str | os.PathLike[str], settings: StoreSettings | None = None, *, write: bool = False) -> SealReport:
    """Seal every full segment that has no seal, and of a store that flightlog wrote last also the open segment. Without
    `write`: report what would be sealed. The log itself is not changed, and recovery does not run.

    `verify` then finds any byte of the log that changes, and `StoreSettings(check_blocks=True)` has reads find it. The
    seals hold until another program writes the store; those of full segments also after that.

    Durable when it returns; what is sealed is synced first. Raises, with `write`, StoreLockedError while a writer has
    the store open and NewerFormatError for the store of a newer flightlog; StoreNotFoundError, ConfigFileError for a
    format version that makes no sense, and DiskError.
    """
    root = checked_folder("path", path)
    check_settings(settings)
    check_flag("write", write)
    disk = RealDisk()
    if not write:
        with ReadOnlyStore(root, disk, settings or StoreSettings()) as view:
            return _seal(disk, view, SealReport(root, False))
    ReadOnlyStore(root, disk, settings or StoreSettings()).close()  # before the lock makes a file in what is no store
    lock = StoreLock.acquire(root)
    try:
        FormatVersion(disk, root).refuse_newer()
        with ReadOnlyStore(root, disk, settings or StoreSettings()) as view:
            return _seal(disk, view, SealReport(root, True))
    finally:
        lock.release()


def _seal(disk: Disk, view: ReadOnlyStore, report: SealReport) -> SealReport:
    state, reader = view.shutdown_state, view.log_reader
    end = view.end_physical_offset if not state.is_ours else min(view.end_physical_offset, state.durable_below)
    covering = OpenSeal(disk, report.path)
    for segment in reader.segments:
        if segment.end > end:
            if state.is_ours and segment.base < end:
                _cover(disk, covering, segment, end - segment.base, report)
            continue
        if _is_sealed(disk, report.path, reader, segment, state):
            report.kept += 1
            continue
        found = _checked(reader, segment)
        if isinstance(found, str):
            report.left[segment.path] = found
            continue
        if report.is_written:
            _sync(disk, segment)
            write_seal(disk, report.path, found)
        report.sealed.append(segment.path)
    return report


def _is_sealed(disk: Disk, root: Path, reader: LogReader, segment: Segment, state: ShutdownState) -> bool:
    there = read_seal(disk, root, segment)
    return there is not None and (state.is_ours or seal_fits(reader, segment, there))


def _checked(reader: LogReader, segment: Segment) -> Seal | str:
    """The seal of a full segment whose records all check; else what was found in it."""
    scan = reader.scan(segment, 0, segment.size, check_crc=True, mapped=False)
    for _, rows in scan:
        broken = rows["physical_offset"][rows["crc_ok"] == 0]
        if len(broken):
            return f"offset {broken[0]}: {BAD_CRC}"
    made = make_seal(reader, segment)
    return made if made is not None else f"offset {segment.base + scan.position}: {WALK_END_TEXT[scan.end]}"


def _cover(disk: Disk, covering: OpenSeal, segment: Segment, stop: int, report: SealReport) -> None:
    known = covering.crcs_of(segment).position
    report.covered_size += max(stop - known, 0)
    if report.is_written and known < stop:
        _sync(disk, segment)
        while covering.crcs_of(segment).position < stop:
            covering.cover(segment, stop)


def _sync(disk: Disk, segment: Segment) -> None:
    file = disk.open(segment.path, writable=True)
    try:
        file.sync()
    finally:
        file.close()
