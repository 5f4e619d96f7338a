"""Retention: delete old segments, then the queue files, index files and seals that refer to them.

The order of one round, and why a crash after any step is safe:

    0  queue entries of the records to be deleted are synced. Without the records, only these entries tell the end of a
                     queue; if they were lost, its next message would get an offset that was used before
    1  segments      are deleted, oldest first; the folder is synced after each, so that the log never has a gap
    2  queues        start after the entries of deleted records, in memory. An entry that points before the start of
                     the log is harmless: every open corrects the start of its queue
    3  progress page records the new starts and is synced; otherwise recovery would miss the files that are deleted
                     next, and read the whole log to rebuild them
    4  queue files   with only such entries are deleted, but never the last file of a queue: its name holds the queue's
                     offset
    5  index files   with only keys of deleted records are deleted, but never the newest
    6  seals         of deleted segments are deleted

The next round, also of a later session, completes an interrupted one: steps 2 to 6 look at everything before the start
of the log, no matter which program deleted it.

RocketMQ: `CleanCommitLogService`, `MappedFileQueue#deleteExpiredFileByTime`, `CleanConsumeQueueService`,
`ConsumeQueue#correctMinOffset`, `IndexService#deleteExpiredFile`.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ...index.key.key_index import KeyIndex
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk, DiskSpace
from ...store.errors import DiskFullError, StoreClosedError
from ...store.log.commit_log import CommitLog
from ...store.queue_offsets import QueueKey
from ...store.seal.seal import drop_seals_below
from ...store.segments.segment import Segment
from ...store.segments.segment_pins import SegmentPins
from ...store.settings import StoreSettings
from ...store.state.log_start import write_log_start
from ...store.state.progress import INDEX_COUNT, QUEUE_STARTS, ProgressPage
from ..dispatch.dispatcher import Dispatcher
from ..topics.offset_table import OffsetTable

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Due:
    """Which segments to delete, by the clock and the disk usage."""

    by_age: bool
    """Delete segments older than the retention time."""
    at_once: bool
    """Delete the oldest segments regardless of their age."""


class RetentionRule:
    """When segments are deleted, by RocketMQ's rule (`DefaultMessageStore.CleanCommitLogService`):

        per cent of the disk in use          puts                segments
        above disk_warning_percent           refused             the oldest are deleted, regardless of age
        above disk_clean_forcibly_percent    as before           the oldest are deleted, regardless of age
        above disk_max_used_percent          accepted            old ones are deleted
        below                                accepted            old ones are deleted, in the hours of `delete_when`

    A segment is old if its file was last modified at least `retention_hours` ago. If several disks hold the log, the
    one with the lowest usage counts, unless usage is higher on the disk of the queues. With `clean_forcibly=False`, the
    first two rows delete only old segments. Without `retention_hours` nothing is deleted by this rule.

    Apart from this rule, `retention_bytes` deletes the oldest segments while at least so many bytes remain behind them,
    and `retention="consumed"` those that Consumption finds nothing unread in.

    The caller passes the time and the disk space. The rule remembers whether the disk was full.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._hours = {int(hour) for hour in settings.delete_when.split(";") if hour}
        self.is_disk_full = False
        """Whether puts are refused: from above `disk_warning_percent` until at most `disk_clean_forcibly_percent`."""
        self.used_ratio = 0
        """Per cent of the disk in use at the last check."""

    def look(self, log_spaces: Iterable[DiskSpace], queue_space: DiskSpace) -> None:
        """Update the disk usage."""
        self.used_ratio = max(min(space.used_ratio for space in log_spaces), queue_space.used_ratio)
        if self.used_ratio > self._settings.disk_warning_percent:
            self.is_disk_full = True
        elif self.used_ratio <= self._settings.disk_clean_forcibly_percent:
            self.is_disk_full = False

    def due(self, now_ms: int) -> Due:
        """Which segments to delete now, by the last known disk usage."""
        settings = self._settings
        must_make_room = self.used_ratio > min(settings.disk_clean_forcibly_percent, settings.disk_warning_percent)
        is_time = time.localtime(now_ms / 1000).tm_hour in self._hours
        by_age = is_time or must_make_room or self.used_ratio > settings.disk_max_used_percent
        return Due(by_age, must_make_room and settings.clean_forcibly)


log = logging.getLogger("flightlog.retention")


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages that keep a segment from retention by consumption."""

    topic: str
    group: str | None
    """The consumer group that has yet to consume them; None: no group has begun in the topic, or they wait for their
    delivery."""
    count: int
    """How many of the topic are not behind the segment's end, at most."""


class Consumption(Protocol):
    """Knows what was consumed: of consumer groups, the engine knows their offsets alone."""

    def unread_below(self, end: int, entries_below: Callable[[QueueKey, int, int], int]) -> list[Unread]:
        """What is yet to be read or delivered of the log below this physical offset. `entries_below` is that of the
        dispatcher. What it answers from is in the log when it returns. Raises StoreClosedError, DiskError."""
        ...


@dataclass(slots=True)
class CleanUpReport:
    """What one round removed; with `dry_run` what it would have removed of the segments."""

    segments: list[Path] = field(default_factory=list)
    queue_files: list[Path] = field(default_factory=list)
    index_files: list[Path] = field(default_factory=list)
    seals: list[Path] = field(default_factory=list)
    held: Path | None = None
    """The oldest segment that was due and was kept, because a reader of this process has pinned it."""
    unread: tuple[Unread, ...] = ()
    """What kept the oldest segment that stays from going as consumed; empty if that was not asked for."""
    min_physical_offset: int = 0
    """Where the log starts now."""
    used_ratio: int | None = None
    """Per cent of the disk in use when the round began; None without `retention_hours`."""


class Retention:
    """Runs the retention rounds of an open store. Not thread-safe: one thread at a time."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        offsets: OffsetTable,
        progress: ProgressPage,
        flush_queues_to: Callable[[int], None],
        flush_index: Callable[[KeyIndex], None],
    ) -> None:
        self._disk, self._path, self._settings, self._clock = disk, path, settings, clock
        self._log, self._dispatcher, self._progress = commit_log, dispatcher, progress
        self._index, self._flush_index, self._flush_queues_to = dispatcher.index, flush_index, flush_queues_to
        self._rule = RetentionRule(settings)
        self._pins = SegmentPins.of(commit_log.reader.folder)
        self._pins.due_below = 0
        self._trimmed_below = 0
        self._noted_pin: Path | None = None
        self._offsets = offsets
        self.consumption: Consumption | None = None
        """Set once, when the consumer groups of the store are there; before, nothing counts as consumed."""
        self._noted_unread = -1
        """The base of the last segment that was logged as unread."""

    @property
    def is_disk_full(self) -> bool:
        """Whether puts are refused because the disk is full."""
        return self._rule.is_disk_full

    def stop(self) -> None:
        """End retention: there are no further rounds."""
        self._pins.due_below = 0

    def look(self) -> None:
        """Check the disk usage. Raises DiskError."""
        reader = self._log.reader
        folders = {segment.path.parent for segment in reader.segments} or {self._path}
        queues = self._path / CONSUME_QUEUE_FOLDER
        self._rule.look(
            [self._disk.space(folder) for folder in folders],
            self._disk.space(queues if self._disk.exists(queues) else self._path),
        )
        if self._rule.is_disk_full:
            self._log.conditions.disk_is_full = self._rule.used_ratio
        else:
            self._log.conditions.disk_is_full = None

    def refuse_puts(self) -> None:
        """Check the disk usage, and raise DiskFullError if the disk is still full."""
        self.look()
        if self._rule.is_disk_full:
            settings = self._settings
            detail = (
                f"{self._rule.used_ratio} per cent of the disk are in use; above {settings.disk_warning_percent} puts "
                f"are refused until it is {settings.disk_clean_forcibly_percent}"
            )
            raise DiskFullError(self._log.reader.folder, 0, detail)

    def round(
        self, hours: int | None, *, is_asked_for: bool, consumed_by_all: bool = False, dry_run: bool = False
    ) -> CleanUpReport:
        """Run one round. With `is_asked_for`, old segments are deleted at any hour, not only in those of `delete_when`.
        Raises DiskError; what was deleted before it stays deleted, and the next round continues."""
        report = CleanUpReport()
        at_once = False
        if self._settings.retention_hours is not None:
            self.look()
            due = self._rule.due(self._clock.now_ms())
            report.used_ratio, at_once = self._rule.used_ratio, due.at_once
            if not (is_asked_for or due.by_age):
                hours = None
        by_consumption = consumed_by_all or self._settings.retention is not None
        if hours is not None or self._settings.retention_bytes is not None or by_consumption:
            self._remove_segments(hours, at_once, by_consumption, dry_run, report)
        report.min_physical_offset = self._log.reader.min_offset
        if dry_run:
            return report
        self._trim(report)
        if report.segments or report.queue_files or report.index_files:
            log.info(
                "%s: the log begins at %d; removed %d segments, %d queue files, %d index files",
                *(self._path, report.min_physical_offset, len(report.segments)),
                *(len(report.queue_files), len(report.index_files)),
                extra={"path": str(self._path), "physical_offset": report.min_physical_offset},
            )
        return report

    def _remove_segments(
        self, hours: int | None, at_once: bool, by_consumption: bool, dry_run: bool, report: CleanUpReport
    ) -> None:
        lowest, now_ms = self._pins.lowest(), self._clock.now_ms()
        # Segments that are not flushed and dispatched, to queues and index, are not deleted.
        done = min(self._log.flushed, self._dispatcher.position)
        if self._index is not None:
            done = min(done, self._dispatcher.index_position)
        for segment in self._log.reader.segments[:-1][: self._settings.clean_batch_count]:
            if segment.end > done:
                return
            is_due = at_once or self._is_surplus(segment) or self._is_old(segment, hours, now_ms)
            if not is_due and not (by_consumption and self._is_consumed(segment, done, report)):
                return
            if dry_run:
                if lowest is not None and lowest < segment.end:
                    report.held = segment.path
                    return
                report.segments.append(segment.path)
                continue
            self._pins.due_below = segment.end
            if lowest is not None and lowest < segment.end:
                report.held = segment.path
                if self._noted_pin != segment.path:
                    extra = {"path": str(self._path), "physical_offset": segment.base}
                    text = "%s is to go, and an iterator or a view of this process holds it: end it, or refresh it"
                    log.warning(text, segment.path, extra=extra)
                self._noted_pin = segment.path
                return
            if is_due:
                self._warn_of_lag(segment)
            try:
                self._flush_queues_to(segment.end)
                write_log_start(self._disk, self._path, segment.end)
            except DiskFullError as e:
                text = "%s is to go once there is room for what queues say of it: %s"
                extra = {"path": str(self._path), "physical_offset": segment.base, "wanted": e.wanted}
                log.warning(text, segment.path, e, extra=extra)
                return
            if report.segments and report.segments[-1].parent != segment.path.parent:
                # After a crash, no older segment may be back while a younger one is gone.
                self._disk.sync_folder(report.segments[-1].parent)
            self._log.remove_oldest(segment)
            report.segments.append(segment.path)

    def _is_consumed(self, segment: Segment, done: int, report: CleanUpReport) -> bool:
        """Whether nothing of it is to be read any more. If it is not while a later full segment waits behind it, log
        for whom, once a segment."""
        if self.consumption is None:
            return False
        try:
            found = self.consumption.unread_below(segment.end, self._dispatcher.entries_below)
        except StoreClosedError:
            return False
        report.unread = tuple(found)
        if not found:
            self._log.flush()  # what was put in place of consumed messages: retries, dead letters, deliveries
            return True
        if segment.base != self._noted_unread and segment.end + self._log.segment_size <= done:
            self._noted_unread = segment.base
            for each in found:
                extra = {"path": str(self._path), "physical_offset": segment.base, "topic": each.topic}
                waits = f"group {each.group} has yet to consume" if each.group else "no group consumes"
                text = "%s stays, and so do all behind it: %s %d messages of topic %s up to its end"
                extra |= {"group": each.group or "", "unread": str(each.count)}
                log.warning(text, segment.path, waits, each.count, each.topic, extra=extra)
        return False

    def _warn_of_lag(self, segment: Segment) -> None:
        """Log which groups have yet to consume messages of a segment that is to go. A group that has begun in a topic
        and not in one of its queues has read nothing of that."""
        ids: defaultdict[str, list[int]] = defaultdict(list)
        for (topic, queue_id), _ in self._dispatcher.table.items():
            ids[topic].append(queue_id)
        entries_below = self._dispatcher.entries_below
        for group, topics in self._offsets.by_group().items():
            for topic, offsets in topics.items():
                count = sum(entries_below((topic, i), offsets.get(i, 0), segment.end) for i in ids[topic])
                if count:
                    extra = {"path": str(self._path), "physical_offset": segment.base, "group": group, "topic": topic}
                    text = "%s is to go, and group %s has yet to consume %d messages of topic %s up to its end"
                    log.warning(text, segment.path, group, count, topic, extra=extra | {"unread": count})

    def _is_surplus(self, segment: Segment) -> bool:
        kept_size = self._settings.retention_bytes
        return kept_size is not None and self._log.end - segment.end >= kept_size

    def _is_old(self, segment: Segment, hours: int | None, now_ms: int) -> bool:
        if hours is None:
            return False
        try:
            return self._disk.modified_ms(segment.path) + hours * HOUR_MS <= now_ms
        except FileNotFoundError:
            return True  # another program has deleted it

    def _trim(self, report: CleanUpReport) -> None:
        start = self._log.reader.min_offset
        if start <= self._trimmed_below:
            return
        starts = self._dispatcher.advance_queues(start)
        index = self._index
        if index is not None and (kept := self._dispatcher.index_count_from(index, start)) < len(index.files):
            self._flush_index(index)  # otherwise the newest file, which is kept, may not exist on disk yet
            self._progress.publish(INDEX_COUNT, kept)
        self._progress.publish(QUEUE_STARTS, starts)
        self._progress.sync()
        report.queue_files = self._dispatcher.expire_queues()
        if index is not None:
            report.index_files = self._dispatcher.expire_index(index, start)
        report.seals = drop_seals_below(self._disk, self._path, start)
        self._trimmed_below = start
