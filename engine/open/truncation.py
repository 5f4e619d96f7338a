"""Truncation of a torn tail: its bytes never become records again, and a copy of them is kept.

Order: copy the tail to `flightlog/cut-OFFSET` and sync it (unless a note says that it never was part of the log, see
store/log/atomic_append.py); remove later segments, newest first, and sync the folder; zero the tail and sync it. After
a crash in between, the next open finds the same end again and repeats the steps.

Empty later segments, such as those that a halted RocketMQ had prepared, are removed too: another RocketMQ that tries to
open the store deletes every segment behind the log's end before it fails on the lock, and an append could be in one of
them by then. Segments that flightlog creates itself are never behind the end that such a RocketMQ finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...store.disk.disk import Disk, DiskFile
from ...store.log.atomic_append import read_append_start
from ...store.log.log_reader import LogReader
from ...store.scan.salvage import last_data
from ...store.segments.log_files import LogFiles
from ...store.segments.segment import Segment, segment_name
from ...store.state.progress import FLIGHTLOG_FOLDER

PIECE_SIZE = 4 << 20
CUT_PREFIX = "cut-"


def cut_tail(disk: Disk, root: Path, reader: LogReader, end: int) -> list[str]:
    """Truncate the log at `end`. Returns a description of what was cut, empty if only zeros were behind it."""
    tails = [
        (segment, first, last_data(segment, first))
        for segment, first, _ in reader.segments_between(end, reader.files_end)
    ]
    dirty = [(segment, first, last) for segment, first, last in tails if last > first]
    lines: list[str] = []
    if dirty:
        last_segment, _, last = dirty[-1]
        size = last_segment.base + last - end
        if read_append_start(disk, root) == end:
            lines.append(f"removed {size} bytes at physical offset {end}: rows of an append that was never committed")
        else:
            kept = _free_name(disk, root / FLIGHTLOG_FOLDER, CUT_PREFIX + segment_name(end))
            _copy(disk, kept, dirty, end)
            lines.append(f"cut {size} bytes of torn tail at physical offset {end}; they are kept in {kept}")
    for segment, first, _ in reversed(tails):
        if first == 0 and segment.base > end:
            segment.close()
            disk.remove(segment.path)
            disk.sync_folder(segment.path.parent)  # each before the next: they may be in different folders
            reader.segments = [s for s in reader.segments if s is not segment]
            if dirty:
                lines.append(f"removed segment {segment.path.name}, which lay behind the cut")
    for segment, first, last in dirty:
        if segment in reader.segments:
            _zero(disk, segment, first, last)
    return lines


def remove_empty(disk: Disk, files: LogFiles) -> None:
    """Remove the empty files behind the last segment, newest first: RocketMQ tolerates only one."""
    for path in reversed(files.empty):
        disk.remove(path)
        disk.sync_folder(path.parent)


def _free_name(disk: Disk, folder: Path, name: str) -> Path:
    disk.make_folder(folder)
    path, number = folder / name, 0
    while disk.exists(path):
        number += 1
        path = folder / f"{name}.{number}"
    return path


def _copy(disk: Disk, kept: Path, dirty: list[tuple[Segment, int, int]], end: int) -> None:
    target = disk.open(kept, writable=True, create=True)
    try:
        for segment, first, last in dirty:
            for position, size in _written(segment.file, first, last):
                target.write(segment.base + position - end, segment.read(position, size))
        target.sync()
    finally:
        target.close()
    disk.sync_folder(kept.parent)


def _written(file: DiskFile, first: int, last: int) -> Iterator[tuple[int, int]]:
    """(position, size) of the written pieces of [first, last): a hole of gigabytes takes no disk, and must take none
    when it is copied or zeroed."""
    at: int | None = first
    while at is not None and at < last and (at := file.next_data(at)) is not None and at < last:
        stop = min(max(file.next_hole(at), at + 1), at + PIECE_SIZE, last)
        yield at, stop - at
        at = stop


def _zero(disk: Disk, segment: Segment, first: int, last: int) -> None:
    file: DiskFile = disk.open(segment.path, writable=True)
    try:
        for position, size in _written(file, first, last):
            file.write(position, bytes(size))
        file.sync()
    finally:
        file.close()
