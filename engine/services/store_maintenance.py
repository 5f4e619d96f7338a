"""Background maintenance of an open store: flush, dispatch, checkpoint, seal segments, shut down.

This is the store without its handle. The flush service refers to this object and not to the handle, so a handle that is
dropped without `close` can be collected, and the store is still closed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from ...index.key.key_index import KeyIndex
from ...index.queue.queue_unit import UNIT_SIZE
from ...store.arguments import check_flag, check_whole
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import (
    DiskError,
    DiskFullError,
    IndexFileGoneError,
    StoreClosedError,
    StorePoisonedError,
    SyncFailedError,
    TooManyFilesError,
)
from ...store.log.commit_log import CommitLog
from ...store.meters import RateMeter
from ...store.seal.open_seal import OpenSeal
from ...store.seal.seal import make_seal, read_seal, write_seal
from ...store.settings import PAGE_SIZE, StoreSettings
from ...store.state.checkpoint import Checkpoint, write_checkpoint
from ...store.state.deleted_topics import DeletedTopicsFile
from ...store.state.progress import CHECKPOINT as CHECKPOINT_WORD
from ...store.state.progress import (
    CLEAN_CLOSE,
    FLUSHED,
    INDEX_COUNT,
    INDEX_ENTRIES,
    INDEX_FILE,
    INDEX_FLUSHED,
    QUEUE_COUNT,
    QUEUE_ENDS,
    QUEUE_STARTS,
    QUEUES_FLUSHED,
    STORE_TIMESTAMP,
)
from ..dispatch.dispatcher import Dispatcher
from ..open.boot import WriterSession
from ..open.shutdown_state import ABORT_FILE
from ..topics.offset_table import OffsetTable
from ..topics.topics import TopicTable
from .retention import CleanUpReport, Retention

log = logging.getLogger("flightlog.store")


class StoreMaintenance:
    """Used by the flush service while it runs, then by the closer. Any thread may call `catch_up` and `poison`."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        commit_log: CommitLog,
        dispatcher: Dispatcher,
        topics: TopicTable,
        offsets: OffsetTable,
        session: WriterSession,
    ) -> None:
        self._disk, self._path, self._clock, self._settings = disk, path, clock, settings
        self._log, self._dispatcher, self._topics = commit_log, dispatcher, topics
        self._session, self._progress = session, session.progress
        self._queues_flushed = dispatcher.position
        """The value of QUEUES_FLUSHED in the progress page."""
        self._index_flushed = dispatcher.index_position
        """The value of INDEX_FLUSHED in the progress page."""
        self._checkpoint = session.checkpoint
        self._sealed_below = commit_log.reader.min_offset
        self._open_seal = OpenSeal(disk, path)
        self._is_uncovered = False
        """Whether writing the seal of the open segment failed, and that was logged."""
        self._begin = commit_log.end
        self._put_rate = RateMeter(clock.monotonic_s())
        self.retention = Retention(
            *(disk, path, settings, clock, commit_log, dispatcher, offsets, session.progress),
            *(self._flush_queues_to, self._flush_index),
        )
        self._one_at_a_time = threading.Lock()
        """Held while queues or index are flushed, segments are sealed, or old files are removed. Only the lock of the
        topics is acquired before it, to delete a topic."""
        self._was_ended = False
        self.is_over = False
        """Whether `end` has released everything."""

    def catch_up(self) -> None:
        """Dispatch everything visible: in memory if queues cannot be written. Then reads continue and puts are refused.

        If the disk has no room for queue entries, the next put is refused (see `Dispatcher.is_stalled`), and messages
        without an entry cannot be read yet. Raises DiskError if the log itself cannot be read: reads would miss
        messages.
        """
        try:
            self._dispatcher.catch_up()
        except (DiskFullError, TooManyFilesError):
            pass  # the dispatcher notes it; the next put raises it
        except DiskError:
            if self._dispatcher.position < self._log.visible:
                raise

    def poison(self, cause: BaseException) -> None:
        """Refuse puts from now on."""
        self._log.refuse_all(cause)

    def expect_puts(self, notify: Callable[[], object] | None) -> None:
        """Let the next put on the fast path call `notify`, once; None: the one of the last call."""
        fast_path = self._log.fast_path
        if notify is not None:
            fast_path.notify = notify
        fast_path.is_armed = True

    def log_is_dirty(self, least_pages: int) -> bool:
        """See CommitLog.is_dirty."""
        return self._log.is_dirty(least_pages)

    def queues_are_dirty(self, least_pages: int) -> bool:
        """Whether recovery would dispatch that many pages of entries again, or a segment; 0: a record."""
        if least_pages == 0:
            return self._log.visible > self._queues_flushed
        segment_size = self._log.segment_size
        has_rolled = self._log.visible // segment_size > self._queues_flushed // segment_size
        return has_rolled or self._dispatcher.unsynced_entries * UNIT_SIZE // PAGE_SIZE >= least_pages

    def flush_log(self) -> None:
        """Make the log durable."""
        self._log.flush()

    def dispatch(self) -> None:
        """Bring the queues up to the log. Raises DiskFullError and DiskError."""
        self._put_rate.note(self._clock.monotonic_s(), *self._put_totals())
        self._dispatcher.catch_up()

    def _put_totals(self) -> tuple[int, int]:
        return self._log.appended_records, self._log.end - self._begin

    def put_rates(self) -> tuple[int, int, float, float]:
        """Messages and bytes put since the store was opened, and both per second."""
        messages, size = self._put_totals()
        return messages, size, *self._put_rate.rates(self._clock.monotonic_s(), messages, size)

    @property
    def has_index(self) -> bool:
        return self._dispatcher.index is not None

    @property
    def queues_flushed(self) -> int:
        """Physical offset below which every queue entry is durable."""
        return self._queues_flushed

    def _catch_up_queues(self) -> None:
        """Dispatch everything visible; keys without room on the disk are put later."""
        try:
            self._dispatcher.catch_up()
        except DiskFullError:
            if self._dispatcher.position < self._log.visible:
                raise

    def delete_topic(self, topic: str, note: DeletedTopicsFile) -> None:
        """See Dispatcher.delete_topic. Then make the progress page agree with the queues: otherwise readers would look
        for deleted ones."""
        with self._one_at_a_time:
            self._dispatcher.delete_topic(topic, note)
            try:
                self._flush_queues()
            except DiskFullError as e:
                text = "%s: the next flush records that the queues of %r are deleted: %s"
                log.warning(text, self._path, topic, e, extra={"path": str(self._path), "topic": topic})

    def flush_queues(self) -> None:
        """Make queues durable, then record it: first in the checkpoint, then in the progress page."""
        self._topics.save()
        with self._one_at_a_time:
            self._flush_queues()

    def _flush_queues_to(self, physical_offset: int) -> None:
        if self._queues_flushed < physical_offset:
            self._flush_queues()

    def _flush_queues(self) -> None:
        store_timestamp_ms = self._log.last_store_timestamp_ms
        self._log.flush()
        self._catch_up_queues()
        self._log.flush()
        synced = self._dispatcher.sync_queues()
        index = self._dispatcher.index
        full_timestamp_ms = self._checkpoint.index_timestamp_ms
        if index is not None:
            full_timestamp_ms = self._dispatcher.index_full_timestamp_ms(index)
        self._checkpoint = Checkpoint(store_timestamp_ms, store_timestamp_ms, full_timestamp_ms)
        write_checkpoint(self._disk, self._path, self._checkpoint)
        self._progress.publish(QUEUE_COUNT, synced.queue_count)
        self._progress.publish(QUEUE_ENDS, synced.ends)
        self._progress.publish(QUEUE_STARTS, synced.starts)
        # Read again: no record below the next word may be younger than this one says.
        self._progress.publish(STORE_TIMESTAMP, self._log.last_store_timestamp_ms)
        # A reader may have dispatched records that no sync of the log covers yet. Recovery starts from this word, so
        # it must not be beyond the end of a log that lost its unsynced tail.
        self._queues_flushed = min(synced.position, self._log.flushed)
        self._progress.publish(QUEUES_FLUSHED, self._queues_flushed)
        self._progress.sync()
        self._seal_full_segments()
        self._cover_open_segment()

    def index_is_dirty(self, least_pages: int) -> bool:
        """Whether the index knows a key that is not durable in it, or has passed records without any."""
        return self._dispatcher.index is not None and self._dispatcher.index_position > self._index_flushed

    def flush_index(self) -> None:
        """Make the key index durable, then record it. Raises SyncFailedError, DiskFullError and DiskError."""
        index = self._dispatcher.index
        if index is not None:
            with self._one_at_a_time:
                self._flush_index(index)

    def _flush_index(self, index: KeyIndex) -> None:
        self._log.flush()
        try:
            index.check_files()
        except IndexFileGoneError:
            self._dispatcher.restart_index(index)
        flush_round, position, count = self._dispatcher.prepare_index_flush(index)
        flush_round.write()
        self._progress.publish(INDEX_FILE, flush_round.state.file)
        self._progress.publish(INDEX_ENTRIES, flush_round.state.next_entry)
        self._progress.publish(INDEX_COUNT, count)
        # As with the queues: not beyond the end of a log that lost its unsynced tail. Recovery drops the keys of
        # records from here on, and puts them again.
        self._index_flushed = min(position, self._log.flushed)
        self._progress.publish(INDEX_FLUSHED, self._index_flushed)
        self._progress.sync()

    def clean_up(
        self,
        hours: int | None = None,
        *,
        is_asked_for: bool = False,
        consumed_by_all: bool = False,
        dry_run: bool = False,
    ) -> CleanUpReport:
        """One round of retention, see Retention.round. Raises StoreClosedError after `end`."""
        with self._one_at_a_time:  # no other thread may be sealing what is removed
            if self.is_over or self._was_ended:
                raise StoreClosedError(f"{self._path}: the store was closed; open it again")
            if self._log.poison is not None:
                raise StorePoisonedError(self._path, self._log.poison)
            try:
                return self.retention.round(
                    hours, is_asked_for=is_asked_for, consumed_by_all=consumed_by_all, dry_run=dry_run
                )
            except SyncFailedError as e:
                self.poison(e)
                raise

    def clean_up_now(
        self, retention_hours: int | None, *, consumed_by_all: bool = False, dry_run: bool = False
    ) -> CleanUpReport:
        """Run one round of retention now and return what it removed.

        It removes the oldest full segments, `clean_batch_count` at most, that were last written to `retention_hours`
        ago or longer (None: the setting of that name), that exceed `retention_bytes`, or that the settings give up for
        lack of disk space; with `consumed_by_all` (and with the setting `retention="consumed"`) also those that every
        consumer group has consumed and whose delayed messages are delivered: `unread` of the report names what is
        not. Then their queue files, index files and seals go. It keeps the last segment, and those that an iterator or
        an open view of this process has to read. `get` answers OFFSET_TOO_SMALL for removed messages. With `dry_run`
        nothing is removed, and the report has the segments that would be.

        Raises DiskError if a file cannot be removed: files removed before stay removed, and the next round continues.
        Raises InvalidArgumentError, StorePoisonedError, StoreClosedError, ForkedStoreError.
        """
        check_flag("consumed_by_all", consumed_by_all)
        check_flag("dry_run", dry_run)
        hours = self._settings.retention_hours
        if retention_hours is not None:
            hours = check_whole("retention_hours", retention_hours)
        return self.clean_up(hours, is_asked_for=True, consumed_by_all=consumed_by_all, dry_run=dry_run)

    def _seal_full_segments(self) -> None:
        for segment in self._log.reader.segments:
            if segment.base < self._sealed_below or segment.end > self._log.flushed:
                continue
            if read_seal(self._disk, self._path, segment) is None:
                seal = make_seal(self._log.reader, segment, self._open_seal.crcs_of(segment))
                if seal is not None:
                    try:
                        write_seal(self._disk, self._path, seal)
                    except DiskFullError as e:
                        extra = {"path": str(self._path), "physical_offset": segment.base, "wanted": e.wanted}
                        log.warning("%s: no seal yet for %s: %s", self._path, segment.path.name, e, extra=extra)
                        return  # the seal is optional; the next round tries again
            self._sealed_below = segment.end

    def _cover_open_segment(self) -> None:
        flushed = self._log.flushed
        segment = self._log.reader.segment_at(flushed - 1)
        if segment is None or segment.end <= self._sealed_below:
            return
        try:
            self._open_seal.cover(segment, flushed - segment.base)
            self._is_uncovered = False
        except DiskError as e:  # uncovered bytes are read unchecked; the next round tries again
            if not self._is_uncovered:
                extra = {"path": str(self._path), "physical_offset": segment.base}
                log.warning("%s: %s is not sealed as it grows: %s", self._path, segment.path.name, e, extra=extra)
            self._is_uncovered = True

    def end(self) -> None:
        """Close cleanly, or as after a kill if the store is poisoned or something fails; release everything.

        Raises what the flush raises. If a KeyboardInterrupt ends it, another call does the rest.
        """
        try:
            if not self._was_ended:
                self._was_ended = True
                if self._log.poison is None:
                    self._end_cleanly()
                else:
                    self._tell(logging.WARNING, "closed after %s; the next open recovers it", self._log.poison)
        finally:
            with self._one_at_a_time:  # a running round would continue in the store of the next writer
                self._was_ended = True
                self.retention.stop()
            self._dispatcher.close()
            self._log.close()
            self._session.release()
            self.is_over = True

    def _end_cleanly(self) -> None:
        self._log.stop_appends()
        self._catch_up_queues()
        try:
            self.flush_index()
        except DiskFullError as e:
            self._tell(logging.WARNING, "the key index has no room on the disk; the next open completes it: %s", e)
        self.flush_queues()
        for number, word in enumerate(self._checkpoint.words):
            self._progress.publish(CHECKPOINT_WORD + number, word)
        self._progress.publish(FLUSHED, self._log.flushed)
        self._progress.publish(CLEAN_CLOSE, self._log.end)
        self._progress.sync()
        self._disk.remove(self._path / ABORT_FILE)
        self._disk.sync_folder(self._path)
        self._tell(logging.INFO, "closed cleanly at physical offset %d", self._log.end)

    def _tell(self, level: int, text: str, what: object) -> None:
        """One line in the log about the end of the store."""
        extra = {"path": str(self._path), "physical_offset": self._log.end, "flushed": self._log.flushed}
        log.log(level, f"%s: {text}", self._path, what, extra=extra | {"messages": self._log.appended_records})
