"""The read-only view: no lock, no write, and no thread but one that reads ahead of a long scan.

Records that are not in the queues on disk yet are dispatched in memory when the view is opened and refreshed: 20 bytes
per record. Beside a live flightlog writer the view ends at the *visible* word of the progress page; beside a live
RocketMQ, which has no such page, at the end of the highest queue entry whose record checks. Without a live writer it
ends where the log ends.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..index.dispatch.dispatch_rules import DispatchCount
from ..index.filter.sql_filter import SqlFilter
from ..index.filter.wanted import tags_or_filter
from ..index.queue.queue_table import QueueTable, find_file_entries, last_entry
from ..store.arguments import check_settings, checked_folder, checked_path
from ..store.disk.bad_sectors import BadSectors, is_bad_sector
from ..store.disk.clock import SystemClock
from ..store.disk.disk import Disk, RealDisk
from ..store.disk.lock import is_held, is_served
from ..store.errors import (
    ConfigFileError,
    CorruptRecordError,
    DiskError,
    StoreChangingError,
    StoreClosedError,
    StoreNotFoundError,
)
from ..store.get_result import GetResult
from ..store.log.log_reader import LogReader
from ..store.queue_offsets import QueueKey
from ..store.seal.block_checks import BlockChecks
from ..store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders, list_log_files
from ..store.segments.segment import Segment
from ..store.segments.segment_pins import SegmentPin, SegmentPins
from ..store.settings import DEFAULT_QUEUE_FILE_ENTRIES, StoreSettings
from ..store.state.deleted_topics import DeletedTopics, read_deleted
from ..store.state.format_version import warn_of_newer_format
from ..store.state.progress import STILL_OPEN, read_progress
from ..store.stored_message import StoredMessage
from ..store.topic import Topic
from .delay.delay_levels import waiting_levels
from .dispatch.dispatching import dispatch_range, dispatch_rules
from .documented import documented_by
from .open.missing_ranges import lost_places, missing_start, start_text
from .open.recovery import RecoveryReport, recover_queues
from .open.shutdown_state import (
    LastWriter,
    ShutdownState,
    note_foreign_deletions,
    read_abort,
    read_shutdown_state,
    refuse_links,
)
from .open.tail_scan import Damage, TailScan, scan_tail
from .open.view_keys import ViewKeys
from .read.finding import Boundary
from .read.get_limits import DEFAULT_MAX_COUNT, GetLimits
from .read.key_query import KeyQuery, QueryResult
from .read.reader import DEFAULT_BATCH_COUNT, DEFAULT_BATCH_SIZE, Reader
from .read.reading import OnCorrupt
from .statistics import StoreStatistics, view_statistics
from .topics.topics import add_found, read_topics
from .verify.findings import IN_ROCKSDB, VerifyReport
from .verify.verifying import verify_store

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("flightlog.read_only")

MORE_LOOKS = 20
"""How often opening a view starts again because a writer opened or closed the store meanwhile."""


class ReadOnlyStore:
    """A read-only view of a store. Use it as a context manager, or call `close`. Thread-safe.

    Every call raises StoreClosedError after `close`.
    """

    def __init__(self, path: Path, disk: Disk, settings: StoreSettings, *, shown_below: int = 0) -> None:
        self.path = path
        self._disk, self._settings = disk, settings
        self._shown_below = shown_below
        """Physical offset up to which the view that this one replaces has shown the log."""
        self._closed = False
        if not disk.exists(path):
            raise StoreNotFoundError(
                f"{path}: no such folder; expected the folder that holds a store's {COMMIT_LOG_FOLDER}/"
            )
        refuse_links(disk, path)
        warn_of_newer_format(disk, path)
        self._folders = LogFolders.of(path, settings)
        if not self._folders.one_exists(disk):
            raise StoreNotFoundError(f"{path}: no {COMMIT_LOG_FOLDER}/ in it; expected the folder of a store")
        self._pin = SegmentPin(SegmentPins.of(path / COMMIT_LOG_FOLDER), 0)
        for look in range(MORE_LOOKS, -1, -1):
            try:
                self._look()
                if not self._shutdown_state.is_stale(disk) and not self._has_deleted():
                    break
            except FileNotFoundError:
                # A writer removed an old file; RocketMQ also removes segments that it prepared and does not need.
                if not look:
                    raise
            self._log_reader.close()
        else:
            raise StoreChangingError(
                f"{path}: a writer opened or closed this store, or a topic was deleted, during each of "
                f"{MORE_LOOKS + 1} attempts to open a view. Try again while no writer opens or closes it"
            )
        self._pin.move(self._log_reader.min_offset)
        self.report.tell(path, log)

    def _look(self) -> None:
        """Read everything that a view depends on."""
        disk, path = self._disk, self.path
        self._shutdown_state: ShutdownState = read_shutdown_state(disk, path, tolerant=True, folders=self._folders)
        asks_seals = self._settings.check_blocks and self._shutdown_state.is_ours
        self._log_reader = LogReader(
            disk,
            self._shutdown_state.files,
            check_crc_property=self._settings.check_crc_property,
            first_broken=BlockChecks(disk, path).first_broken if asks_seals else None,
        )
        self._deleted, self._deleted_problem = _read_deleted(self._disk, self.path)
        self._deleted_as_read = self._deleted.to_json()
        if self._deleted_problem is None:
            self._deleted_problem = self._note_foreign_deletions()
        self._rules = dispatch_rules(self._settings, self._deleted)
        self._table = self._load_table()
        self._table.drop_deleted(self._deleted)
        self._tail_scan, self.report = self._recover()
        self._queues_begin_at = self._log_reader.min_offset
        found = self._tail_scan
        limits, known = GetLimits.of(self._settings), self._deleted

        def was_deleted(topic: str) -> bool:
            return _read_deleted(disk, path)[0].below(topic) > known.below(topic)

        self._view_keys = ViewKeys(
            disk, path, self._log_reader, self._shutdown_state, self.report.first_missed, lambda: found.end
        )
        self._reader = Reader(
            *(path, self._log_reader, self._table, limits),
            readable_end=lambda: found.end,
            keys=KeyQuery(self._log_reader, self._view_keys, self._deleted),
            topics=partial(_all_topics, disk, path, self._table, self._settings),
            was_deleted=was_deleted,
        )

    def _note_foreign_deletions(self) -> str | None:
        try:
            note_foreign_deletions(self._deleted, self._disk, self.path, self._shutdown_state)
        except ConfigFileError as e:
            return str(e)
        return None

    def _has_deleted(self) -> bool:
        """Whether a topic was deleted since the view was opened or refreshed."""
        return _read_deleted(self._disk, self.path)[0].to_json() != self._deleted_as_read

    def _load_table(self) -> QueueTable:
        entries = find_file_entries(self._disk, self.path) or DEFAULT_QUEUE_FILE_ENTRIES
        while True:
            table = QueueTable(self._disk, self.path, entries, in_memory=True)
            table.load(thorough=not (self._shutdown_state.is_ours and self._shutdown_state.is_clean))
            again = find_file_entries(self._disk, self.path)
            if not table.unreadable or again is None or again == entries:
                return table
            entries = again  # a live writer created the first queue file meanwhile

    def _recover(self) -> tuple[TailScan, RecoveryReport]:
        found, report = recover_queues(
            self._log_reader, self._table, self._shutdown_state, self._rules, self._limit(), for_writing=False
        )
        if self._table.is_in_rocksdb:
            report.damage.append(f"{self.path}: {IN_ROCKSDB}")
        report.damage += self._shutdown_state.files.notes + self._table.unreadable
        if self._deleted_problem is not None:
            report.damage.append(self._deleted_problem)
        lost_start = missing_start(self._disk, self.path, self._log_reader)
        if lost_start is not None:
            report.damage.append(start_text(lost_start, self._shutdown_state))
        if found.torn is not None:
            report.damage.append(
                f"{found.torn.path}: torn tail at physical offset {found.torn.physical_offset}: {found.torn.found}; "
                "not read"
            )
        return found, report

    def _limit(self) -> int | None:
        """Physical offset up to which a writer that may be alive lets this view read; None without one."""
        shutdown_state = self._shutdown_state
        if shutdown_state.is_served:
            return shutdown_state.readable_below
        if self._table.is_in_rocksdb:
            return None  # no queue says how far the broker has come: read every whole record of the log
        if shutdown_state.last_writer is LastWriter.ROCKETMQ_KILLED and is_held(self.path):
            # A writer that just opened it may be bringing lagging queues up to what this view showed before.
            return max(self._highest_proven_end(), self._shown_below)
        return None

    def _highest_proven_end(self) -> int:
        """End of the highest queue entry whose record checks: how far RocketMQ has dispatched."""
        last_entries = filter(None, (last_entry(queue) for _, queue in self._table.items()))
        for physical_offset, size, _ in sorted(last_entries, reverse=True):
            try:
                self._log_reader.message(physical_offset, size)
            except CorruptRecordError:
                continue
            return physical_offset + size
        return self._log_reader.min_offset

    def refresh(self) -> None:
        """Make new messages visible. The cost depends on what is new, unless the store was closed, recovered or
        replaced meanwhile: then the view is opened again."""
        self._check_usable()
        if self._is_same_session() and not self._has_deleted():
            # If a segment is removed meanwhile, open the view again.
            with suppress(FileNotFoundError):
                self._follow(self._shutdown_state.readable_below)
                self._release_what_is_due()
                return
        self._release_what_is_due()
        shutdown_state = read_shutdown_state(self._disk, self.path, tolerant=True, folders=self._folders)
        is_at_rest = shutdown_state.is_ours and not shutdown_state.is_served and not self._has_deleted()
        if shutdown_state == self._shutdown_state and is_at_rest:
            return  # no writer has opened the store since
        reopened = ReadOnlyStore(self.path, self._disk, self._settings, shown_below=self._tail_scan.end)
        self._table.close()
        self._shutdown_state, self._table = reopened._shutdown_state, reopened._table
        self._log_reader = reopened._log_reader
        self._tail_scan, self.report, self._rules = reopened._tail_scan, reopened.report, reopened._rules
        self._deleted, self._deleted_as_read = reopened._deleted, reopened._deleted_as_read
        reopened._reader.replaces(self._reader)
        self._reader, self._view_keys = reopened._reader, reopened._view_keys
        self._queues_begin_at = reopened._queues_begin_at
        self._pin.move(self._log_reader.min_offset)

    def _is_same_session(self) -> bool:
        """Whether the flightlog writer of the last refresh still has the store open; notes its progress."""
        known, progress = self._shutdown_state, read_progress(self._disk, self.path)
        if not known.is_served or known.progress is None or progress is None:
            return False
        is_same = (
            progress.epoch == known.progress.epoch
            and progress.clean_close == STILL_OPEN
            and read_abort(self._disk, self.path)
            == known.abort  # else RocketMQ has written, which our page does not show
            and is_served(self.path)
        )
        if is_same:
            self._shutdown_state = replace(known, progress=progress)
        return is_same

    def _release_what_is_due(self) -> None:
        """Release segments that are removed, or would be if this view did not pin them, but none that an iterator still
        has to read."""
        reader, due_below = self._log_reader, SegmentPins.of(self._log_reader.folder).due_below
        held = self._reader.queue_reader.lowest_held()
        if held is not None:
            due_below = min(due_below, held)
        segments = reader.segments
        first = 0
        while first + 1 < len(segments) and (
            segments[first].end <= due_below or not self._disk.exists(segments[first].path)
        ):
            first += 1
        if first:
            reader.segments = segments[first:]
        if reader.min_offset > self._queues_begin_at:  # also if `_follow` found that the log now begins later
            self._queues_begin_at = reader.min_offset
            for _, queue in self._table.items():
                queue.skip_removed()
                queue.set_min_offset(reader.min_offset)
        self._pin.move(reader.min_offset if held is None else min(held, reader.min_offset))

    def _follow(self, visible: int) -> None:
        start = self._tail_scan.end
        if visible <= start:
            return
        files = list_log_files(self._disk, self._folders, tolerant=True)
        known = {segment.base: segment for segment in self._log_reader.segments}
        self._log_reader.segment_size = files.segment_size or self._log_reader.segment_size
        self._log_reader.segments = [
            known.get(base) or Segment(self._disk, files.path(base), base, self._log_reader.segment_size)
            for base in files.bases
        ]
        found = scan_tail(self._log_reader, self._shutdown_state, start, visible, for_writing=False)
        count = DispatchCount(self._log_reader.min_offset)
        for extent_start, extent_stop in found.extents:
            dispatch_range(self._log_reader, self._table, self._rules, extent_start, extent_stop, count)
        if count.gaps:  # what lay between was removed before it was seen: these queues begin behind it
            self._queues_begin_at = -1
        self._tail_scan.end = found.end
        self._tail_scan.damage += found.damage
        self.report.end = found.end
        self.report.records_scanned += found.records

    # -- reading

    @documented_by(Reader.get)
    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        max_size: int | None = None,
    ) -> GetResult:
        self._check_usable()
        return self._reader.get(
            topic, queue_id, queue_offset, max_count, tags=tags_or_filter(tags, filter), max_size=max_size
        )

    @documented_by(Reader.read)
    def read(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        self._check_usable()
        return self._reader.read(
            *(topic, queue_id, queue_offset),
            tags=tags_or_filter(tags, filter),
            decompress=decompress,
            on_corrupt=on_corrupt,
            must_exist=must_exist,
            check=self._check_usable,
        )

    @documented_by(Reader.read_all)
    def read_all(
        self,
        topic: str,
        physical_offset: int | None = None,
        *,
        begin_ms: int | datetime | None = None,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        self._check_usable()
        return self._reader.read_all(
            *(topic, physical_offset, begin_ms, tags_or_filter(tags, filter), decompress, on_corrupt, must_exist),
            check=self._check_usable,
        )

    @documented_by(Reader.read_batch)
    def read_batch(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        max_count: int = DEFAULT_BATCH_COUNT,
        max_size: int = DEFAULT_BATCH_SIZE,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
    ) -> pa.RecordBatch:
        self._check_usable()
        return self._reader.read_batch(
            *(topic, queue_id, queue_offset),
            max_count=max_count,
            max_size=max_size,
            columns=columns,
            on_corrupt=on_corrupt,
        )

    @documented_by(Reader.body_view)
    def body_view(self, message: StoredMessage) -> memoryview:
        self._check_usable()
        return self._reader.body_view(message)

    @property
    def corrupt_skipped(self) -> int:
        """Messages that `on_corrupt="skip"` has skipped so far."""
        return self._reader.corrupt_skipped

    @documented_by(Reader.queues)
    def queues(self) -> dict[QueueKey, tuple[int, int]]:
        self._check_usable()
        return self._reader.queues()

    @documented_by(Reader.queue_bounds)
    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        self._check_usable()
        return self._reader.queue_bounds(topic, queue_id)

    @documented_by(Reader.offset_at)
    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int | datetime, boundary: Boundary = "lower") -> int:
        self._check_usable()
        return self._reader.offset_at(topic, queue_id, timestamp_ms, boundary)

    @documented_by(Reader.estimate_count)
    def estimate_count(self, topic: str, queue_id: int, start: int, stop: int, *, tags: str | None = None) -> int:
        self._check_usable()
        return self._reader.estimate_count(topic, queue_id, start, stop, tags=tags)

    @documented_by(Reader.message_at)
    def message_at(self, physical_offset: int, batch_index: int | None = None) -> StoredMessage | None:
        self._check_usable()
        return self._reader.message_at(physical_offset, batch_index)

    @documented_by(Reader.message_by_id)
    def message_by_id(self, message_id: str) -> StoredMessage | None:
        self._check_usable()
        return self._reader.message_by_id(message_id)

    @documented_by(Reader.query)
    def query(
        self,
        topic: str,
        key: str,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime | None = None,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        on_corrupt: OnCorrupt = "raise",
    ) -> QueryResult:
        self._check_usable()
        return self._reader.query(topic, key, begin_ms, end_ms, max_count, on_corrupt=on_corrupt)

    @documented_by(Reader.message_by_uniq_key)
    def message_by_uniq_key(self, topic: str, uniq_key: str) -> StoredMessage | None:
        self._check_usable()
        return self._reader.message_by_uniq_key(topic, uniq_key)

    @documented_by(Reader.was_stored)
    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool:
        self._check_usable()
        return self._reader.was_stored(uniq_key, topic)

    @documented_by(Reader.topics)
    def topics(self, *, include_system: bool = False) -> dict[str, Topic]:
        self._check_usable()
        return self._reader.topics(include_system=include_system)

    @documented_by(Reader.topic)
    def topic(self, name: str) -> Topic | None:
        self._check_usable()
        return self._reader.topic(name)

    # -- for readers of whole ranges

    @property
    def min_physical_offset(self) -> int:
        return self._log_reader.min_offset

    @property
    def end_physical_offset(self) -> int:
        """One past the last byte that this view may read."""
        return self._tail_scan.end

    @property
    def segments(self) -> list[Segment]:
        """The segments, for readers of whole ranges."""
        return list(self._log_reader.segments)

    @property
    def log_reader(self) -> LogReader:
        """The log itself, for readers of whole ranges."""
        return self._log_reader

    def lost_places(self) -> list[Damage]:
        """Parts of the log that no scan finds, for readers of whole ranges; see engine/open/missing_ranges.py."""
        self._check_usable()
        return lost_places(self._log_reader, self._shutdown_state, self._tail_scan)

    @property
    def queue_table(self) -> QueueTable:
        """The queues' entries, for readers of whole ranges."""
        return self._table

    @property
    def view_keys(self) -> ViewKeys:
        """Where keys are found, for readers of whole ranges."""
        return self._view_keys

    @property
    def deleted_topics(self) -> DeletedTopics:
        """Topics whose records are in the log but in no queue, for readers of whole ranges."""
        return self._deleted

    @property
    def shutdown_state(self) -> ShutdownState:
        """Who wrote last, and the state files."""
        return self._shutdown_state

    def verify(self) -> VerifyReport:
        """Check every byte that this view may read; see engine/verify/verifying.py. A bad sector is a finding, and the
        rest is checked. Raises DiskError if something cannot be read for another reason."""
        self._check_usable()
        try:
            return verify_store(
                self._disk, self.path, self._log_reader, self._table, self._shutdown_state, self._rules, self._tail_scan
            )
        except DiskError as e:
            if not is_bad_sector(e) or isinstance(self._disk, BadSectors):
                raise
        with ReadOnlyStore(
            self.path, BadSectors.around(self._disk), self._settings, shown_below=self._tail_scan.end
        ) as around:
            return around.verify()

    def statistics(self) -> StoreStatistics:
        """Sizes, topics, and the lag of each part as its writer last published it; see engine/statistics.py."""
        self._check_usable()
        reader, table = self._log_reader, self._table
        delays = waiting_levels(self._disk, self.path, self._settings, reader, table, SystemClock())
        return view_statistics(self._disk, self.path, reader, table, self._shutdown_state, self._tail_scan.end, delays)

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosedError(f"{self.path}: this view was closed; open it again")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}, {'closed' if self._closed else 'open for reading'}>"

    def close(self) -> None:
        """Release every file. Calling it twice is fine; messages read before stay valid."""
        self._closed = True
        self._log_reader.close()
        self._table.close()
        self._reader.release()
        self._pin.release()

    def __enter__(self) -> ReadOnlyStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _all_topics(disk: Disk, path: Path, table: QueueTable, settings: StoreSettings) -> dict[str, Topic]:
    """The topics of the file as it is now, and those that have queues. Raises ConfigFileError."""
    topics = read_topics(disk, path) or {}
    add_found(topics, (key for key, _ in table.items()), settings, grows=False)
    return topics


def _read_deleted(disk: Disk, root: Path) -> tuple[DeletedTopics, str | None]:
    """The deleted topics, or why they are unknown."""
    try:
        return read_deleted(disk, root), None
    except ConfigFileError as e:
        return DeletedTopics(), str(e)


def open_read_only(
    path: str | os.PathLike[str], settings: StoreSettings | None = None, *, disk: Disk | None = None
) -> ReadOnlyStore:
    """Open a store of flightlog or RocketMQ for reading, without changing it. It may be in use, at rest or damaged.

    Broker settings that promise safety which flightlog does not give are logged as a warning. Raises
    StoreNotFoundError if there is no store, InvalidArgumentError for a path that is not a folder.
    """
    found = checked_folder("path", path) if disk is None else checked_path("path", path)
    check_settings(settings)
    settings = settings or StoreSettings()
    if settings.unkept_promises:
        extra = {"path": str(path), "unkept_promises": settings.unkept_promises}
        log.warning(
            "%s: flightlog does not keep these promises of the settings: %s",
            path,
            "; ".join(settings.unkept_promises),
            extra=extra,
        )
    return ReadOnlyStore(found, disk or RealDisk(), settings)
