"""Recovery of the key index: which files are kept, and from which record on keys are put again.

    last writer          kept
    flightlog            what the progress page says was synced
    RocketMQ, closed     every file up to the first key that is missing between two files, or before the first one
    RocketMQ, killed     the same, but a file that RocketMQ itself would not trust is checked entry by entry before

RocketMQ loses keys after an unclean exit: it deletes files that its checkpoint does not cover and begins a new one
further on. Such a hole is between two files or before the first one, where this finds it. And if a queue lacked an
entry for a record before the index's end, RocketMQ dispatched neither: then the whole index is rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...index.key.index_check import check_index
from ...index.key.index_file import (
    DEFAULT_INDEX_ENTRIES,
    DEFAULT_INDEX_SLOTS,
    INDEX_FOLDER,
    IndexGeometry,
    IndexHeader,
    IndexState,
    key_hash,
    parse_name,
)
from ...index.key.index_folder import IndexFolder
from ...index.key.index_geometry import find_index_geometry, usual_geometry
from ...index.key.index_reader import IndexFile, read_header
from ...index.key.key_index import KeyIndex
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import CorruptRecordError
from ...store.format.record import INT64_MAX
from ...store.log.log_reader import LogReader
from ...store.settings import StoreSettings
from ...store.state.geometry import Geometry
from ...store.state.progress import Progress
from ..dispatch.key_scan import KeptKeys, first_keyed
from ..read.finding import message_at
from .recovery import RecoveryReport
from .shutdown_state import ShutdownState


@dataclass(frozen=True)
class KeyPlan:
    """The part of the index that is kept."""

    state: IndexState
    """The newest kept file, and its next entry."""
    resume: int
    """Physical offset: kept files have all keys of the records before it; their entries for later records are
    dropped."""
    reason: str


def plan_keys(
    reader: LogReader,
    index: IndexFolder,
    shutdown_state: ShutdownState,
    end: int,
    first_missed: int | None,
    *,
    is_live: bool,
) -> KeyPlan:
    """Decide what to keep; changes nothing. The log ends at `end`. `first_missed` is the physical offset of the first
    record whose queue entry was missing or wrong. `is_live`: another program may be writing right now.
    """
    rebuilt = reader.min_offset
    progress = shutdown_state.progress
    if index.unreadable:
        return KeyPlan(IndexState(), rebuilt, str(index.unreadable[0]))
    if shutdown_state.is_ours and progress is not None:
        return _plan_ours(reader, index, progress)
    known_below = index.last_physical_offset
    if first_missed is not None and known_below is not None and first_missed < known_below:
        return KeyPlan(IndexState(), rebuilt, f"a queue missed the record at {first_missed}, and so may the index")
    return _plan_foreign(reader, index, shutdown_state, end, is_live=is_live)


def _plan_ours(reader: LogReader, index: IndexFolder, progress: Progress) -> KeyPlan:
    state = IndexState(progress.index_file, progress.index_entries)
    files = [file for file in index.files if file.number <= state.file]
    if len(files) < progress.index_count or (state.file and (not files or files[-1].number != state.file)):
        return KeyPlan(IndexState(), reader.min_offset, "index files are missing")
    known_below = 0
    for file in files:
        header = index.headers[file.number]
        synced = state.next_entry if file.number == state.file else index.geometry.entries
        if header.next_entry < synced:
            return KeyPlan(IndexState(), reader.min_offset, f"{file.path} has fewer entries than were synced")
        if header.begin_physical_offset < known_below:
            return KeyPlan(IndexState(), reader.min_offset, f"{file.path} is older than the file before it")
        known_below = header.end_physical_offset
    return KeyPlan(state, max(progress.index_flushed, reader.min_offset), "everything before was in synced index files")


def _plan_foreign(
    reader: LogReader, index: IndexFolder, shutdown_state: ShutdownState, end: int, *, is_live: bool
) -> KeyPlan:
    state, resume, searched, known_below = IndexState(), reader.min_offset, -1, 0
    reason = "everything before is in the index files" if index.files else "there is no index file"
    broken = {} if is_live or shutdown_state.is_clean else _broken_files(index, shutdown_state)
    for file in index.files:
        header = file.header()
        if not header.has_entries:
            break  # RocketMQ makes a file with the first message, whether that has keys or not
        if header.begin_physical_offset < known_below:
            reason = f"{file.path} is older than the file before it"
            break
        missing = first_keyed(reader, resume, min(header.begin_physical_offset, end), after=searched)
        if missing is not None:
            reason = f"no index file has the keys of the record at {missing}"
            break
        problem = broken.get(file.path) or (None if is_live else _problem(reader, file, header, end))
        if problem is not None:
            reason = f"{file.path}: {problem}"
            break
        state, known_below = IndexState(file.number, header.next_entry), header.end_physical_offset
        # The keys of its last record may go on in the next file. If none follows, they are put again.
        resume = searched = max(min(header.end_physical_offset, end), reader.min_offset)
        if header.end_physical_offset >= end:
            reason = f"{file.path} knows records behind the log's end"
            break
    return KeyPlan(state, resume, reason)


def _broken_files(index: IndexFolder, shutdown_state: ShutdownState) -> dict[Path, str]:
    """Damaged files that RocketMQ had not flushed when it died, each with a problem."""
    flushed_ms = shutdown_state.checkpoint.index_timestamp_ms if shutdown_state.checkpoint is not None else 0
    return {
        check.path: check.problems[0]
        for check in check_index(index, INT64_MAX)
        if check.problems and check.header.end_timestamp_ms > flushed_ms
    }


def _problem(reader: LogReader, file: IndexFile, header: IndexHeader, end: int) -> str | None:
    """Why a file that RocketMQ wrote does not belong to this log; None if its first and last entry match the log."""
    borders = ((1, header.begin_physical_offset), (header.next_entry - 1, header.end_physical_offset))
    for number, physical_offset in borders:
        entry = next(file.pieces(number, number + 1), None)
        if entry is None or int(entry["physical_offset"][0]) != physical_offset:
            return f"its header says that entry {number} is of the record at {physical_offset}; it is not"
        if reader.min_offset <= physical_offset < end:
            hashes = _hashes(reader, physical_offset, end)
            if hashes is not None and int(entry["key_hash"][0]) not in hashes:
                return f"its entry {number} has a key that the record at {physical_offset} does not have"
    return None


def _hashes(reader: LogReader, physical_offset: int, end: int) -> set[int] | None:
    """The hashes of a record's keys: empty if no record is there; None, unknown, if it is damaged."""
    try:
        message = message_at(reader, physical_offset, end)
    except CorruptRecordError:
        return None
    if message is None:
        return set()
    return {key_hash(message.topic, key) for key in (message.uniq_key, *message.keys) if key}


def recover_keys(
    reader: LogReader, index: KeyIndex, shutdown_state: ShutdownState, report: RecoveryReport, known: KeptKeys
) -> None:
    """Bring the index on disk up to the log's end, durably, and fill in the report. `known` has the keys that the
    recovery of the queues has read. Raises DiskError."""
    plan = plan_keys(reader, index, shutdown_state, report.end, report.first_missed, is_live=False)
    resume, reason = plan.resume, plan.reason
    if not _take_back(reader, index, shutdown_state, plan, report.end):
        resume, reason = reader.min_offset, "an index file could not be brought back to what was synced"
        index.clear()
    put = 0
    for keys in known.between(reader, resume, report.end):
        index.put(keys)
        put += len(keys)
    index.expire(reader.min_offset)
    index.flush()
    report.keys_scanned_from, report.keys_put, report.keys_reason = resume, put, reason


def _take_back(reader: LogReader, index: KeyIndex, shutdown_state: ShutdownState, plan: KeyPlan, end: int) -> bool:
    """Reduce the index to what the plan keeps. Returns False if that is impossible."""
    if shutdown_state.is_ours and shutdown_state.is_clean and plan.resume >= end and index.state == plan.state:
        return True  # unchanged since a clean close: no slot needs a check
    return index.rewind(plan.state, _last_timestamp_ms(reader, index, plan.state)) and index.truncate(plan.resume)


def _last_timestamp_ms(reader: LogReader, index: KeyIndex, state: IndexState) -> int | None:
    """Store time (ms) of the last record in an index of this state; None if that record cannot be read."""
    for file in index.files:
        if file.number == state.file:
            last = next(file.pieces(state.next_entry - 1, state.next_entry), None)
            if last is not None:
                try:
                    return reader.message_at(int(last["physical_offset"][0])).store_timestamp_ms
                except CorruptRecordError:
                    return None
    return None


def open_index(disk: Disk, root: Path, settings: StoreSettings, clock: Clock, geometry: Geometry) -> KeyIndex | None:
    """Open and list the index of a store that is opened for writing; None if the settings turn it off. Raises
    GeometryMismatchError for settings that contradict the files, or the sizes that the store was created with.
    """
    if not settings.key_index:
        return None
    index = KeyIndex(disk, root, adopt_index(disk, root, settings, geometry), clock)
    index.load()
    return index


def open_index_to_read(disk: Disk, root: Path) -> IndexFolder:
    """Open and list the index of a store that another process may be writing."""
    geometry = find_index_geometry(disk, root)
    index = IndexFolder(disk, root, geometry or IndexGeometry())
    index.load()
    if geometry is None:
        # A file that its writer has not flushed holds nothing yet, and only the writer knows the right length.
        index.files = ()
        index.unreadable = [file for file in index.unreadable if not _is_begun(disk, file.path)]
    return index


def _is_begun(disk: Disk, path: Path) -> bool:
    """Whether the header of this index file was never written."""
    if parse_name(path.name) is None:
        return False
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return True
    try:
        return not read_header(file).has_entries
    finally:
        file.close()


def adopt_index(disk: Disk, root: Path, settings: StoreSettings, geometry: Geometry) -> IndexGeometry:
    """The geometry of existing index files; without any, that of the note or the settings."""
    found = find_index_geometry(disk, root)
    slots, entries = settings.index_slots, settings.index_entries
    if found is None and slots is None and entries is None:
        found = _from_length(disk, root, geometry)
    return IndexGeometry(
        geometry.adopt("index_slots", slots, found.slots if found else None, DEFAULT_INDEX_SLOTS),
        geometry.adopt("index_entries", entries, found.entries if found else None, DEFAULT_INDEX_ENTRIES),
    )


def _from_length(disk: Disk, root: Path, geometry: Geometry) -> IndexGeometry | None:
    """A file that was never flushed has only its length."""
    sizes = [entry.size for entry in disk.list(root / INDEX_FOLDER) if parse_name(entry.name) is not None]
    noted = geometry.noted.get("index_slots"), geometry.noted.get("index_entries")
    if noted[0] and noted[1] and IndexGeometry(noted[0], noted[1]).file_size in sizes:
        return None
    return next(filter(None, map(usual_geometry, sizes)), None)
