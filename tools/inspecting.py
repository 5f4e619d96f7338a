"""Collects the data of `flightlog info`, without taking a lock, writing, or scanning healthy parts of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..engine.open.shutdown_state import LastWriter, ShutdownState
from ..engine.read_only import ReadOnlyStore, open_read_only
from ..engine.statistics import StoreStatistics
from ..index.key.index_file import DEFAULT_INDEX_ENTRIES, DEFAULT_INDEX_SLOTS, FIRST_ENTRY, IndexGeometry
from ..index.key.index_folder import IndexFolder
from ..index.key.index_geometry import find_index_geometry
from ..index.queue.queue_table import find_file_entries
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import is_held
from ..store.errors import ConfigFileError, StoreNotFoundError
from ..store.seal.seal import read_seal
from ..store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..store.state.rocksdb import rocksdb_config_text
from .backlog import Backlog, backlog

OTHER_FILES = "(other files)"


@dataclass(frozen=True)
class SegmentInfo:
    """One file of the commit log."""

    name: str
    physical_offset: int
    size: int
    allocated_size: int
    """Bytes allocated on disk; holes are not counted."""
    used_size: int
    """Bytes from the start of the segment to the end of its last record, filler included."""
    records: int | None
    """Number of records from the seal; None without a seal (a segment that is not full, or was written by RocketMQ)."""


@dataclass(frozen=True)
class QueueInfo:
    """A queue and its bounds, in queue offsets."""

    topic: str
    queue_id: int
    first: int
    end: int
    """One past the last message."""

    @property
    def messages(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class IndexInfo:
    """The key index, from the headers of its files."""

    files: int
    keys: int
    known_below: int
    """Physical offset of the last indexed record; 0 if there is none."""
    unreadable: list[str]
    """Unusable files, each with the reason."""


@dataclass(frozen=True)
class FolderInfo:
    """Size of the files in one folder of the store, and their space on disk."""

    name: str
    files: int
    size: int
    allocated_size: int


@dataclass(frozen=True)
class StoreInfo:
    """A snapshot of a store's state."""

    path: Path
    shutdown_state: ShutdownState
    is_held: bool
    """Whether a process on this machine holds the store's lock."""
    min_physical_offset: int
    end_physical_offset: int
    segment_size: int
    segments: list[SegmentInfo]
    queues: list[QueueInfo]
    index: IndexInfo
    folders: list[FolderInfo]
    scanned_size: int
    """Bytes of the log that were read to find its end."""
    scan_reason: str
    undispatched: int
    """Messages with a missing or wrong queue entry on disk, in the part of the log that was read."""
    notes: list[str]
    """Damage and other problems that did not stop the inspection."""
    last_store_timestamp_ms: int
    statistics: StoreStatistics
    backlog: Backlog | None
    """None where a file that tells of it cannot be read: `notes` says which."""
    settings: dict[str, tuple[Any, Any]]
    """Settings that differ from their defaults, by the files of the store and by those it was opened with -> the value,
    and the default."""

    @property
    def messages(self) -> int:
        return sum(queue.messages for queue in self.queues)

    @property
    def writer_text(self) -> str:
        """A text about the last writer, and whether it closed the store, was killed, or is alive."""
        shutdown_state = self.shutdown_state
        match shutdown_state.last_writer:
            case LastWriter.FLIGHTLOG_KILLED if self.is_held:
                pid = shutdown_state.progress.pid if shutdown_state.progress else "?"
                return f"flightlog, process {pid}, open for writing now"
            case LastWriter.FLIGHTLOG_KILLED:
                return "flightlog, which did not close it (killed?); the next open for writing recovers it"
            case LastWriter.FLIGHTLOG_CLOSED:
                return "flightlog, closed cleanly"
            case LastWriter.ROCKETMQ_KILLED if self.is_held:
                return "RocketMQ, open for writing now"
            case LastWriter.ROCKETMQ_KILLED:
                return "RocketMQ, which did not shut down (killed, or running elsewhere)"
            case LastWriter.ROCKETMQ_CLOSED:
                return "RocketMQ, shut down cleanly"
            case LastWriter.NOBODY:
                return "none: there is no segment"


def open_to_inspect(path: Path, disk: Disk | None = None, settings: StoreSettings | None = None) -> ReadOnlyStore:
    """Open a store read-only. Raises StoreNotFoundError, which says what was found instead."""
    if path.exists() and not path.is_dir():
        raise StoreNotFoundError(f"{path}: a file; expected the folder that holds a store's commitlog/")
    return open_read_only(path, settings, disk=disk)


def inspect(path: Path, settings: StoreSettings | None = None, *, disk: Disk | None = None) -> StoreInfo:
    """Inspect the store at `path`. Raises StoreNotFoundError or DiskError."""
    disk = disk if disk is not None else RealDisk()
    with open_to_inspect(path, disk, settings) as view:
        statistics = view.statistics()
        waiting, unreadable = _backlog(view, statistics, disk)
        report, end = view.report, view.end_physical_offset
        segments = []
        for segment in view.segments:
            seal = read_seal(disk, path, segment)
            segments.append(
                SegmentInfo(
                    segment.path.name,
                    segment.base,
                    segment.size,
                    disk.allocated_size(segment.path),
                    min(max(end - segment.base, 0), segment.size),
                    seal.record_count if seal is not None else None,
                )
            )
        in_rocksdb = rocksdb_config_text(disk, path)
        return StoreInfo(
            path=path,
            shutdown_state=view.shutdown_state,
            is_held=is_held(path),
            min_physical_offset=view.min_physical_offset,
            end_physical_offset=end,
            segment_size=view.log_reader.segment_size,
            segments=segments,
            queues=[QueueInfo(*key, first, end) for key, (first, end) in view.queues().items()],
            index=_index(disk, path),
            folders=folders_of(disk, path),
            scanned_size=max(report.end - report.scanned_from, 0),
            scan_reason=report.reason,
            undispatched=report.entries_dispatched,
            notes=[*report.damage, *filter(None, (in_rocksdb, unreadable))],
            last_store_timestamp_ms=report.last_store_timestamp_ms,
            statistics=statistics,
            backlog=waiting,
            settings=_differing(disk, view, settings or StoreSettings()),
        )


def _backlog(view: ReadOnlyStore, statistics: StoreStatistics, disk: Disk) -> tuple[Backlog | None, str | None]:
    """What waits, or why it is not known."""
    try:
        return backlog(view, statistics.delays, disk), None
    except ConfigFileError as e:
        return None, str(e)


def _differing(disk: Disk, view: ReadOnlyStore, settings: StoreSettings) -> dict[str, tuple[Any, Any]]:
    default, path = StoreSettings(), view.path
    found: dict[str, tuple[Any, Any]] = {}
    for each in fields(StoreSettings):
        value, usual = getattr(settings, each.name), getattr(default, each.name)
        if value != usual:
            found[each.name] = value, usual
    index = find_index_geometry(disk, path)
    sizes = {
        "segment_size": (view.log_reader.segment_size, DEFAULT_SEGMENT_SIZE),
        "queue_file_entries": (find_file_entries(disk, path), DEFAULT_QUEUE_FILE_ENTRIES),
        "index_slots": (index and index.slots, DEFAULT_INDEX_SLOTS),
        "index_entries": (index and index.entries, DEFAULT_INDEX_ENTRIES),
    }
    found |= {name: (value, usual) for name, (value, usual) in sizes.items() if value and value != usual}
    return dict(sorted(found.items()))


def _index(disk: Disk, root: Path) -> IndexInfo:
    folder = IndexFolder(disk, root, find_index_geometry(disk, root) or IndexGeometry())
    folder.load()
    keys = sum(header.next_entry - FIRST_ENTRY for header in folder.headers.values())
    return IndexInfo(len(folder.files), keys, folder.last_physical_offset or 0, list(map(str, folder.unreadable)))


def folders_of(disk: Disk, root: Path) -> list[FolderInfo]:
    """The folders of a store. Raises DiskError."""
    found: list[FolderInfo] = []
    for entry in disk.list(root):
        if entry.is_folder:
            found.append(_folder(disk, entry.name, _files_below(disk, root / entry.name)))
    others = ((root / entry.name, entry.size) for entry in disk.list(root) if not entry.is_folder)
    found.append(_folder(disk, OTHER_FILES, others))
    return found


def _folder(disk: Disk, name: str, sizes: Iterator[tuple[Path, int]]) -> FolderInfo:
    files = size = allocated_size = 0
    for path, file_size in sizes:
        try:
            allocated_size += disk.allocated_size(path)
        except FileNotFoundError:
            continue  # a live writer has renamed or removed it
        size += file_size
        files += 1
    return FolderInfo(name, files, size, allocated_size)


def _files_below(disk: Disk, folder: Path) -> Iterator[tuple[Path, int]]:
    """Each with its size."""
    for entry in disk.list(folder):
        if entry.is_folder:
            yield from _files_below(disk, folder / entry.name)
        else:
            yield folder / entry.name, entry.size
