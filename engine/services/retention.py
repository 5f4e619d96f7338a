"""One round of retention: old segments go, then what queues, key index and seals hold of them.

The order, and what a cut in between leaves:

    0  queue entries of what is to go become durable: without its records nothing else tells how far a queue had come,
                     and its next message would get an offset that it has given before
    1  segments      oldest first, the folder synced after each, so that no gap can come up: the log begins further on
    2  queues        begin behind the entries of what is gone, in memory. An entry that points before the log's start
                     is harmless: every open corrects the start of its queue
    3  progress page says so, synced: else recovery would miss what goes next, and read all of the log for it
    4  queue files   that hold only such entries, but never a queue's last one, whose name is all that tells its offset
    5  index files   that hold only keys of such records, but never the newest
    6  seals         of segments that are gone

Whatever is left over is taken up by the next round, also of a later session: 2 to 6 look at all that lies before the
log's start, whoever removed it.

(RocketMQ's `CleanCommitLogService`, `MappedFileQueue#deleteExpiredFileByTime`, `CleanConsumeQueueService`,
`ConsumeQueue#correctMinOffset`, `IndexService#deleteExpiredFile`.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ...index.key.key_index import KeyIndex
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk, DiskSpace
from ...store.errors import DiskFullError
from ...store.log.commit_log import CommitLog
from ...store.seal.seal import drop_seals_below
from ...store.segments.segment import Segment
from ...store.segments.segment_pins import SegmentPins
from ...store.settings import StoreSettings
from ...store.state.log_start import write_log_start
from ...store.state.progress import INDEX_COUNT, QUEUE_STARTS, ProgressPage
from ..dispatch.dispatcher import Dispatcher

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Due:
    """What a look at clock and disk says is to go."""

    by_age: bool
    """Segments that are old enough."""
    at_once: bool
    """The oldest ones, whatever their age."""


class RetentionRule:
    """When segments go, by RocketMQ's rule (`DefaultMessageStore.CleanCommitLogService`):

        per cent of the disk in use          puts                segments
        above disk_warning_percent           refused from now on the oldest go, whatever their age
        above disk_clean_forcibly_percent    unchanged           the same
        above disk_max_used_percent          accepted again      those that are old enough go
        below                                the same            those that are old enough go, in the hours of
                                                                 delete_when

    A segment is old enough if its file was last written to `retention_hours` ago or longer. If several disks hold the
    log, the emptiest one decides, unless the disk of the queues is fuller. With `clean_forcibly=False` the first two
    rows remove what the third does. Without `retention_hours` none of this applies.

    The caller passes the time and the space. The rule remembers whether the disk was full.
    """

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._hours = {int(hour) for hour in settings.delete_when.split(";") if hour}
        self.is_disk_full = False
        """Whether puts are refused: from above the warning ratio until the disk is at the forcible one again."""
        self.used_ratio = 0
        """Per cent of the disk in use at the last look."""

    def look(self, log_spaces: Iterable[DiskSpace], queue_space: DiskSpace) -> None:
        """Take note of how full the disks are."""
        self.used_ratio = max(min(space.used_ratio for space in log_spaces), queue_space.used_ratio)
        if self.used_ratio > self._settings.disk_warning_percent:
            self.is_disk_full = True
        elif self.used_ratio <= self._settings.disk_clean_forcibly_percent:
            self.is_disk_full = False

    def due(self, now_ms: int) -> Due:
        """What is to go now, by the last look."""
        settings = self._settings
        must_make_room = self.used_ratio > min(settings.disk_clean_forcibly_percent, settings.disk_warning_percent)
        is_time = time.localtime(now_ms / 1000).tm_hour in self._hours
        by_age = is_time or must_make_room or self.used_ratio > settings.disk_max_used_percent
        return Due(by_age, must_make_room and settings.clean_forcibly)


log = logging.getLogger("flightlog.retention")


@dataclass(slots=True)
class CleanUpReport:
    """What one round removed."""

    segments: list[Path] = field(default_factory=list)
    queue_files: list[Path] = field(default_factory=list)
    index_files: list[Path] = field(default_factory=list)
    seals: list[Path] = field(default_factory=list)
    held: Path | None = None
    """The oldest segment that was to go and stays, because a reader of this process holds it."""
    min_physical_offset: int = 0
    """Where the log begins now."""
    used_ratio: int | None = None
    """Per cent of the disk in use when the round began; None without `retention_hours`."""


class Retention:
    """The rounds of one open store. One thread at a time."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
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

    @property
    def is_disk_full(self) -> bool:
        """Whether puts are to be refused for the sake of the disk."""
        return self._rule.is_disk_full

    def stop(self) -> None:
        """No round will follow."""
        self._pins.due_below = 0

    def look(self) -> None:
        """See how full the disks are. Raises DiskError."""
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
        """Raise DiskFullError unless there is room again."""
        self.look()
        if self._rule.is_disk_full:
            settings = self._settings
            detail = (
                f"{self._rule.used_ratio} per cent of the disk are in use; above {settings.disk_warning_percent} puts "
                f"are refused until it is {settings.disk_clean_forcibly_percent}"
            )
            raise DiskFullError(self._log.reader.folder, 0, detail)

    def round(self, hours: int | None, *, is_asked_for: bool) -> CleanUpReport:
        """Remove what is to go. One that is asked for takes what is old enough at any hour. Raises DiskError, with
        what was removed before gone; the next round goes on."""
        report = CleanUpReport()
        at_once = False
        if self._settings.retention_hours is not None:
            self.look()
            due = self._rule.due(self._clock.now_ms())
            report.used_ratio, at_once = self._rule.used_ratio, due.at_once
            if not (is_asked_for or due.by_age):
                hours = None
        if hours is not None:
            self._remove_segments(hours, at_once, report)
        self._trim(report)
        report.min_physical_offset = self._log.reader.min_offset
        if report.segments or report.queue_files or report.index_files:
            log.info(
                "%s: the log begins at %d; removed %d segments, %d queue files, %d index files",
                *(self._path, report.min_physical_offset, len(report.segments)),
                *(len(report.queue_files), len(report.index_files)),
                extra={"path": str(self._path), "physical_offset": report.min_physical_offset},
            )
        return report

    def _remove_segments(self, hours: int, at_once: bool, report: CleanUpReport) -> None:
        lowest, now_ms = self._pins.lowest(), self._clock.now_ms()
        # What is not flushed, or in queues and index, is none of retention's.
        done = min(self._log.flushed, self._dispatcher.position)
        if self._index is not None:
            done = min(done, self._dispatcher.index_position)
        for segment in self._log.reader.segments[:-1][: self._settings.clean_batch_count]:
            if segment.end > done or not (at_once or self._is_old(segment, hours, now_ms)):
                return
            self._pins.due_below = segment.end
            if lowest is not None and lowest < segment.end:
                report.held = segment.path
                if self._noted_pin != segment.path:
                    extra = {"path": str(self._path), "physical_offset": segment.base}
                    text = "%s is to go, and an iterator or a view of this process holds it: end it, or refresh it"
                    log.warning(text, segment.path, extra=extra)
                self._noted_pin = segment.path
                return
            try:
                self._flush_queues_to(segment.end)
                write_log_start(self._disk, self._path, segment.end)
            except DiskFullError as e:
                text = "%s is to go once there is room for what queues say of it: %s"
                extra = {"path": str(self._path), "physical_offset": segment.base, "wanted": e.wanted}
                log.warning(text, segment.path, e, extra=extra)
                return
            if report.segments and report.segments[-1].parent != segment.path.parent:
                self._disk.sync_folder(report.segments[-1].parent)  # nobody may find a younger one gone, and this not
            self._log.remove_oldest(segment)
            report.segments.append(segment.path)

    def _is_old(self, segment: Segment, hours: int, now_ms: int) -> bool:
        try:
            return self._disk.modified_ms(segment.path) + hours * HOUR_MS <= now_ms
        except FileNotFoundError:
            return True  # somebody was faster

    def _trim(self, report: CleanUpReport) -> None:
        start = self._log.reader.min_offset
        if start <= self._trimmed_below:
            return
        starts = self._dispatcher.advance_queues(start)
        index = self._index
        if index is not None and (kept := self._dispatcher.index_count_from(index, start)) < len(index.files):
            self._flush_index(index)  # else the newest file, which stays, may not be one yet
            self._progress.publish(INDEX_COUNT, kept)
        self._progress.publish(QUEUE_STARTS, starts)
        self._progress.sync()
        report.queue_files = self._dispatcher.expire_queues()
        if index is not None:
            report.index_files = self._dispatcher.expire_index(index, start)
        report.seals = drop_seals_below(self._disk, self._path, start)
        self._trimmed_below = start
