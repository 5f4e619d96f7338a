"""Parts of a log that no scan finds: files of the wrong length, gaps between files, an end before what was synced.

A reader of whole ranges reads file by file up to the end of the view. Without this check it would take the remaining
files for the whole log.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from ...store.disk.disk import Disk
from ...store.log.log_reader import LogReader
from ...store.state.log_start import read_log_start
from .shutdown_state import ShutdownState
from .tail_scan import LOG_IS_SHORT, Damage, TailScan

NO_FILE = "no segment file"


def lost_places(reader: LogReader, shutdown_state: ShutdownState, found: TailScan) -> list[Damage]:
    """The missing ranges below the known durable end, in the order of the log."""
    files, segments = shutdown_state.files, reader.segments
    places = [
        Damage(files.path(base), base, f"a segment file of {size} bytes, not {files.segment_size}", None)
        for base, size in files.left_out.items()
        # files above it were created ahead of the log
        if not shutdown_state.is_ours or base < shutdown_state.durable_below
    ]
    for before, after in pairwise(segments):
        gap = range(before.end, after.base)
        if gap and before.end < found.end and not any(place.physical_offset in gap for place in places):
            places.append(Damage(files.path(before.end), before.end, NO_FILE, after.base))
    if found.end < shutdown_state.durable_below:
        path = segments[-1].path if segments else reader.folder
        places.append(Damage(path, found.end, LOG_IS_SHORT if found.torn is None else found.torn.found, None))
    return sorted(places, key=lambda place: place.physical_offset)


def missing_start(disk: Disk, root: Path, reader: LogReader) -> Damage | None:
    """The range of the oldest segments, if they are missing and retention did not remove them; see
    store/state/log_start.py. Whether that is a loss, or another program's retention, depends on who wrote last."""
    if not reader.segments:
        return None
    found, expected = reader.min_offset, read_log_start(disk, root)
    if expected is None or expected >= found:
        return None
    text = f"no segment file: the log begins at {found}, and retention has removed nothing from {expected} on"
    return Damage(reader.folder, expected, text, found)


def start_text(place: Damage, shutdown_state: ShutdownState) -> str:
    """The text of a report about a missing start."""
    by_others = (
        "" if shutdown_state.is_ours else "; another program has written the store since, and may have removed it"
    )
    return f"{place.path}: physical offset {place.physical_offset}: {place.found}{by_others}"
