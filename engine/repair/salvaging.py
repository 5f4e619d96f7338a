"""Salvage: carry every intact record of a damaged log into a new store.

The log is read by itself: queues, key index, checkpoint and progress page may be missing or wrong. Behind a range that
holds no records the search continues at the next place that holds a whole one (store/scan/salvage.py). Records keep
their queue offset, times, hosts and properties, and get a new physical offset. A lost record leaves a placeholder if
later records of its queue show that it was there: see placeholder.py. Memory: some bytes a queue, a line a lost range,
and a piece of the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...index.dispatch.dispatch import MAX_QUEUE_OFFSET
from ...store.arguments import check_settings, checked_folder
from ...store.disk.bad_sectors import BadSectors
from ...store.disk.config_file import CONFIG_FOLDER, MAX_CONFIG_SIZE, parse_config
from ...store.disk.disk import MAX_FILE_SIZE, Disk, RealDisk
from ...store.disk.lock import is_held
from ...store.errors import (
    ConfigFileError,
    DiskError,
    StoreLockedError,
    StoreNotFoundError,
    TooManyFilesError,
    UsageError,
)
from ...store.format.frame import FIXED_V1_V4_SIZE, Rows
from ...store.format.inner_batch import inner_count
from ...store.format.properties import decode_properties
from ...store.format.record import INT64_MAX, is_safe_topic
from ...store.format.sys_flag import INNER_BATCH, has_queue_entry
from ...store.log.atomic_append import read_append_start
from ...store.log.log_reader import BAD_CRC, WALK_END_TEXT, LogReader
from ...store.scan.salvage import last_data, scans_past_damage
from ...store.scan.scan import SegmentScan
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders, list_log_files
from ...store.segments.segment import Segment, segment_base
from ...store.settings import DEFAULT_SEGMENT_SIZE, StoreSettings
from ...store.state.deleted_topics import DeletedTopics, read_deleted
from ...store.state.progress import read_progress
from ..message_store import MessageStore
from ..open.missing_ranges import NO_FILE
from ..open.shutdown_state import LastWriter, read_shutdown_state
from ..open.tail_scan import STALE, scan_tail
from ..read_only import ReadOnlyStore
from ..verify.findings import VerifyReport
from .new_log import NewLog
from .placeholder import moved, of_lost_record

QueueName = tuple[bytes, int]
PAGE_SIZE = 4096
"""A segment has whole pages."""
NOT_CARRIED = ("timer",)
"""Beginnings of names of state files that hold physical offsets, which no record keeps."""


@dataclass(frozen=True)
class LostRange:
    """Bytes of the damaged log that hold no intact record."""

    path: Path
    physical_offset: int
    size: int
    found: str


@dataclass
class SalvageReport:
    """What a salvage carried over, and what was lost."""

    path: Path
    out: Path
    is_written: bool
    """False for a dry run: nothing was written."""
    records: int = 0
    """Intact records that were carried over."""
    size: int = 0
    """Their bytes."""
    deleted: int = 0
    """Records of deleted topics, which were left behind."""
    dropped_size: int = 0
    """Bytes at the end of the log that were left behind: rows of an append that was never committed, or what RocketMQ's
    recovery had dropped."""
    placeholders: int = 0
    """Lost messages whose queue offsets are known; a placeholder took the place of each."""
    renumbered: int = 0
    """Records with a queue offset that no message there can have; they got the next one of their queue."""
    lost: list[LostRange] = field(default_factory=list)
    state_files: list[str] = field(default_factory=list)
    """Files of `config/` that were carried over."""
    state_files_lost: list[str] = field(default_factory=list)
    """Files of `config/` that cannot be read, nor their `.bak`; and what else could not be read, as text."""
    after: VerifyReport | None = None
    """What verify finds in the new store; None for a dry run."""


def salvage(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    write: bool = False,
) -> SalvageReport:
    """Carry every intact record of a damaged store into a new store at `out`, which must not exist or be empty. The
    damaged store is only read. Without `write`: count what would be carried over.

    Records keep queue offsets, times, hosts and properties; physical offsets and message ids that contain them change.
    Topics, groups and offsets come from `config/*.json` or its `.bak`. Delayed messages continue by their levels;
    timers are read from the log again, and one that was delivered before may be delivered once more.

    Durable when it returns. Raises StoreLockedError while a writer has the damaged store open, StoreNotFoundError,
    UsageError for an `out` that is not empty, CorruptRecordError for a log made to be unreadable, and DiskError.
    """
    root, target = checked_folder("path", path), checked_folder("out", out)
    check_settings(settings)
    settings, disk = settings or StoreSettings(), RealDisk()
    if not disk.exists(root):
        raise StoreNotFoundError(f"{root}: no such folder; expected the folder of a store")
    if disk.list(target) or target.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{target}: expected a folder that is empty or does not exist yet, outside of {root}")
    if is_held(root):
        raise StoreLockedError(root, "another process")
    report = SalvageReport(root, target, write)
    source = BadSectors.around(disk)
    segments, segment_size = _segments(source, root, settings)
    start = segments[0].base if segments and segments[0].base % segment_size == 0 else 0
    log = NewLog(disk, target / COMMIT_LOG_FOLDER, segment_size, start) if write else None
    try:
        carrier = _Carrier(report, log, _deleted(source, root, report))
        end = _limit(source, root, settings, report)
        report.dropped_size = sum(_size_behind(segment, end) for segment in segments)
        for segment, limit in _up_to(segments, end):
            carrier.carry(segment, limit, segment_size, settings)
            segment.close()
        if log is not None:
            log.finish()
    finally:
        if log is not None:
            log.close()
        for segment in segments:
            segment.close()
    _carry_state(source, root, target if write else None, report)
    if write:
        new = replace(settings, segment_size=segment_size, commit_log_folders=(), commit_log_read_only_folders=())
        _open_once(disk, target, replace(new, deliver_delayed=False, accept_future_store_time=True), report)
        with ReadOnlyStore(target, disk, new) as view:
            report.after = view.verify()
    return report


def _segments(disk: Disk, root: Path, settings: StoreSettings) -> tuple[list[Segment], int]:
    """Every file of the log by its name, whatever its length, and the length that they should have."""
    folders = LogFolders.of(root, settings)
    found: dict[int, Segment] = {}
    for folder in folders.all:
        for entry in disk.list(folder):
            base = segment_base(entry.name)
            if base is not None and not entry.is_folder and 0 < entry.size <= MAX_FILE_SIZE:
                found.setdefault(base, Segment(disk, folder / entry.name, base, entry.size))
    size = settings.segment_size or _noted_segment_size(disk, root)
    size = size or list_log_files(disk, folders, tolerant=True).segment_size or DEFAULT_SEGMENT_SIZE
    size = -(-size // PAGE_SIZE) * PAGE_SIZE  # the only file may have been cut
    return [found[base] for base in sorted(found)], size


def _noted_segment_size(disk: Disk, root: Path) -> int:
    """The segment size that the progress page has, which holds where files have wrong lengths; 0 without a page."""
    try:
        progress = read_progress(disk, root)
    except TooManyFilesError:
        raise
    except DiskError:
        return 0  # `_limit` reports it
    return 0 if progress is None else progress.segment_size


def _up_to(segments: list[Segment], limit: int) -> Iterator[tuple[Segment, int]]:
    for segment in segments:
        if segment.base < limit:
            yield segment, min(segment.size, limit - segment.base)


def _size_behind(segment: Segment, limit: int) -> int:
    """Bytes of a segment from this physical offset on, zeros at its end excepted."""
    start = max(limit - segment.base, 0)
    return last_data(segment, start) - start if start < segment.size else 0


def _limit(disk: Disk, root: Path, settings: StoreSettings, report: SalvageReport) -> int:
    """Physical offset from which on intact records are no messages: rows of an append that was never committed, and
    records that RocketMQ's recovery dropped. Without a limit where the files that tell it cannot be read."""
    try:
        uncommitted = read_append_start(disk, root)
        state = read_shutdown_state(disk, root, tolerant=True, folders=LogFolders.of(root, settings))
    except TooManyFilesError:
        raise  # not a property of the files
    except DiskError as e:
        report.state_files_lost.append(str(e))
        return INT64_MAX
    limit = INT64_MAX if uncommitted is None else uncommitted
    if state.last_writer is LastWriter.ROCKETMQ_CLOSED:
        reader = LogReader(disk, state.files, check_crc_property=settings.check_crc_property)
        try:
            found = scan_tail(reader, state, reader.min_offset, None, for_writing=False)
        finally:
            reader.close()
        if found.torn is not None and found.torn.found == STALE:
            limit = min(limit, found.end)
    return limit


def _deleted(disk: Disk, root: Path, report: SalvageReport) -> DeletedTopics:
    try:
        return read_deleted(disk, root)
    except TooManyFilesError:
        raise
    except (ConfigFileError, DiskError) as e:
        report.state_files_lost.append(str(e))
        return DeletedTopics()  # as every reader takes a damaged one


class _Carrier:
    """Copies records, in the order of the log. Holds per queue: the next queue offset, and how many bytes had been lost
    when its last record came."""

    def __init__(self, report: SalvageReport, log: NewLog | None, deleted: DeletedTopics) -> None:
        self._report, self._log, self._deleted = report, log, deleted
        self._next: dict[QueueName, tuple[int, int]] = {}
        self._lost_size = 0
        self._end: int | None = None

    def carry(self, segment: Segment, stop: int, segment_size: int, settings: StoreSettings) -> None:
        """Copy the intact records of [0, stop) of a segment."""
        if self._end is not None and segment.base > self._end:
            self._lose(segment, self._end - segment.base, 0, NO_FILE)
        begins: list[int] = []

        def scan_from(begin: int) -> SegmentScan:
            begins.append(begin)
            return SegmentScan(
                *(segment.read, segment.base, segment_size, begin, stop),
                check_crc=True,
                check_crc_property=settings.check_crc_property,
            )

        scan: SegmentScan | None = None
        for following in scans_past_damage(scan_from, segment, 0, stop):
            if scan is not None:
                self._lose(segment, scan.position, begins[-1], WALK_END_TEXT[scan.end])
            scan = following
            for piece, rows in scan:
                self._copy(segment, piece, rows)
        if scan is not None and not scan.is_whole:
            self._lose(segment, scan.position, last_data(segment, scan.position), WALK_END_TEXT[scan.end])
        self._end = segment.base + max(segment_size, segment.size)

    def _lose(self, segment: Segment, start: int, stop: int, found: str) -> None:
        if stop > start:
            self._lost_size += stop - start
            self._report.lost.append(LostRange(segment.path, segment.base + start, stop - start, found))

    def _copy(self, segment: Segment, piece: bytes | memoryview, rows: Rows) -> None:
        view = memoryview(piece)
        for row in rows.tolist():
            at, physical_offset, queue_offset, size, queue_id, sys_flag = (row[i] for i in (0, 1, 2, 9, 12, 14))
            if not row[19]:
                self._lose(segment, physical_offset - segment.base, physical_offset - segment.base + size, BAD_CRC)
                continue
            topic_raw = bytes(view[row[7] : row[7] + row[17]])
            topic = topic_raw.decode("utf-8", "replace")
            if self._deleted and is_safe_topic(topic) and physical_offset < self._deleted.below(topic):
                self._report.deleted += 1
                continue
            record = view[at : at + size]
            if has_queue_entry(sys_flag):
                key = topic_raw, queue_id
                queue_offset = self._settle(key, queue_offset, record)
                count = 1
                if sys_flag & INNER_BATCH:
                    count = max(inner_count(decode_properties(bytes(view[row[8] : row[8] + row[18]]))), 1)
                self._next[key] = queue_offset + count, self._lost_size
            if self._log is not None:
                self._log.append(moved(record, self._log.place(size), queue_offset, row[18]))
            self._report.records += 1
            self._report.size += size

    def _settle(self, key: QueueName, queue_offset: int, record: memoryview) -> int:
        """The queue offset that a record gets: its own, behind placeholders for the messages that were lost before
        it."""
        known = self._next.get(key)
        if known is None:
            if 0 <= queue_offset <= MAX_QUEUE_OFFSET:
                return queue_offset  # retention deleted what was before it, or it is the queue's first
            self._report.renumbered += 1
            return 0
        expected, lost_before = known
        missing = queue_offset - expected
        if missing == 0 or queue_offset == 0:
            return queue_offset  # 0 again: the topic was deleted and made again, without a note
        if missing < 0 or missing > (self._lost_size - lost_before) // FIXED_V1_V4_SIZE:
            self._report.renumbered += 1  # no CRC covers a queue offset
            return expected
        for lost in range(expected, queue_offset):
            self._report.placeholders += 1
            if self._log is not None:
                placeholder = of_lost_record(bytes(record), lost)
                self._log.append(moved(placeholder, self._log.place(len(placeholder)), lost, len(placeholder)))
        return queue_offset


def _carry_state(disk: Disk, root: Path, target: Path | None, report: SalvageReport) -> None:
    """Copy what `config/` says of topics, groups and offsets; of a file that cannot be read, its `.bak`."""
    for entry in disk.list(root / CONFIG_FOLDER):
        if entry.is_folder or not entry.name.endswith(".json") or entry.name.startswith(NOT_CARRIED):
            continue
        path = root / CONFIG_FOLDER / entry.name
        content = _content(disk, path) or _content(disk, path.with_name(entry.name + ".bak"))
        if content is None:
            report.state_files_lost.append(entry.name)
            continue
        report.state_files.append(entry.name)
        if target is None:
            continue
        disk.make_folder(target / CONFIG_FOLDER)
        file = disk.open(target / CONFIG_FOLDER / entry.name, writable=True, create=True)
        try:
            file.write(0, content)
            file.sync()
        finally:
            file.close()
    if target is not None and report.state_files:
        disk.sync_folder(target / CONFIG_FOLDER)


def _open_once(disk: Disk, target: Path, settings: StoreSettings, report: SalvageReport) -> None:
    """Have recovery build what is derived. A state file that is JSON and yet makes no sense is left out."""
    while True:
        try:
            MessageStore.open(target, settings).close()
            return
        except ConfigFileError as e:
            if e.path.name not in report.state_files:
                raise
            disk.remove(e.path)
            report.state_files.remove(e.path.name)
            report.state_files_lost.append(str(e))


def _content(disk: Disk, path: Path) -> bytes | None:
    """What a state file holds; None if it is not whole."""
    try:
        file = disk.open(path)
    except DiskError:
        return None
    try:
        if file.size() > MAX_CONFIG_SIZE:
            return None
        content = file.read(0, file.size())
        parse_config(content, path)
    except (DiskError, ConfigFileError):
        return None
    finally:
        file.close()
    return content
