"""Mutants of what keeps the log whole: see tests/crash/conftest.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from flightlog.engine.open import boot, truncation
from flightlog.engine.open.log_sync import LogSync
from flightlog.engine.open.shutdown_state import ShutdownState
from flightlog.engine.services.store_maintenance import StoreMaintenance
from flightlog.store.errors import SyncFailedError
from flightlog.store.log.commit_log import CommitLog
from flightlog.store.log.log_reader import LogReader
from flightlog.store.log.preparation import Preparation
from flightlog.store.segments.segment import AppendSegment
from flightlog.store.state.progress import CLEAN_CLOSE, FLUSHED, Progress, ProgressPage
from flightlog.tests.support import log_stories
from flightlog.tests.support.spoiling import Real, around

if TYPE_CHECKING:
    from flightlog.tests.crash.conftest import IsFoundOut, Spoil, Story, Tell


class Lax:
    """A disk, or a file, that passes over one kind of call, of its own or of the files that it opens."""

    def __init__(self, real: Any, *names: str) -> None:
        self.real, self._names = real, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name) if name not in self._names else lambda *arguments: None

    def open(self, *arguments: Any, **how: Any) -> Any:
        return Lax(self.real.open(*arguments, **how), *self._names)

    def open_unnamed(self, path: Path) -> Any:
        return Lax(self.real.open_unnamed(path), *self._names)

    def link(self, file: Any) -> None:
        self.real.link(file.real if isinstance(file, Lax) else file)


# -- the log


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AppendSegment, "sync", lambda self, *part: None)


def acknowledges_when_another_thread_syncs(patch: pytest.MonkeyPatch) -> None:
    flush, syncing = CommitLog.flush, set[CommitLog]()

    def noted(real: Real, self: CommitLog) -> None:
        syncing.add(self)
        try:
            real(self)
        finally:
            syncing.discard(self)

    def spoilt(self: CommitLog, *arguments: Any) -> bool:
        return self in syncing or flush(self, *arguments)

    around(patch, CommitLog, "_sync_all", noted)
    patch.setattr(CommitLog, "flush", spoilt)


def syncs_only_the_newest_segment(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: CommitLog, start: int, stop: int) -> None:
        real(self, max(start, (stop - 1) // self.segment_size * self.segment_size), stop)

    around(patch, CommitLog, "_sync_segments", spoilt)


def calls_durable_what_came_during_the_sync(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: CommitLog) -> None:
        real(self)
        self._group_commit.synced_to = self.end
        self._progress.publish(FLUSHED, self.flushed)

    around(patch, CommitLog, "_sync_all", spoilt)


def writes_the_durable_mark_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: CommitLog, start: int, stop: int) -> None:
        self._progress.publish(FLUSHED, stop)
        real(self, start, stop)

    around(patch, CommitLog, "_sync_segments", spoilt)


def _makes_segments(patch: pytest.MonkeyPatch, without: str) -> None:
    real = AppendSegment.create

    def spoilt(self: AppendSegment) -> None:
        disk, self.disk = self.disk, Lax(self.disk, without)
        real(self)
        self.disk = disk
        self.finish_appends()

    patch.setattr(AppendSegment, "create", spoilt)


def does_not_sync_the_folder_of_a_new_segment(patch: pytest.MonkeyPatch) -> None:
    _makes_segments(patch, "sync_folder")


def does_not_sync_the_length_of_a_new_segment(patch: pytest.MonkeyPatch) -> None:
    _makes_segments(patch, "sync")


def does_not_sync_the_name_of_a_prepared_segment(patch: pytest.MonkeyPatch) -> None:
    real = AppendSegment.sync

    def spoilt(self: AppendSegment, *part: int) -> None:
        self._has_unsynced_name = False
        real(self, *part)

    patch.setattr(AppendSegment, "sync", spoilt)


def does_not_sync_the_name_before_another_segment(patch: pytest.MonkeyPatch) -> None:
    real = Preparation.take

    def spoilt(self: Preparation, base: int, last: AppendSegment) -> AppendSegment:
        last._has_unsynced_name = False
        return real(self, base, last)

    patch.setattr(Preparation, "take", spoilt)


def does_not_sync_the_length_of_a_prepared_segment(patch: pytest.MonkeyPatch) -> None:
    real = AppendSegment.open_unnamed

    def spoilt(self: AppendSegment) -> bool:
        disk, self.disk = self.disk, Lax(self.disk, "sync")
        is_made = real(self)
        self.disk, self._write_file = disk, cast(Lax, self._write_file).real
        return is_made

    patch.setattr(AppendSegment, "open_unnamed", spoilt)


def notes_blocks_before_it_has_them(patch: pytest.MonkeyPatch) -> None:
    def spoilt(self: AppendSegment, position: int, undispatched_size: int) -> None:
        before, self.allocated = self.allocated, position
        self.write_file.allocate(before, position - before)

    patch.setattr(AppendSegment, "_allocate", spoilt)


def ignores_the_poison(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "poison", property(lambda self: None, lambda self, cause: None))


def tries_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    real = AppendSegment.sync

    def spoilt(self: AppendSegment, *part: int) -> None:
        try:
            real(self, *part)
        except SyncFailedError:
            real(self, *part)

    patch.setattr(AppendSegment, "sync", spoilt)


# -- what readers see


def shows_a_message_before_it_is_copied(patch: pytest.MonkeyPatch) -> None:
    real = vars(CommitLog)["visible"].fget

    def spoilt(self: CommitLog) -> Any:
        intent = self.conditions.intent
        return intent[1] if intent is not None else real(self)

    patch.setattr(CommitLog, "visible", property(spoilt))


def shows_a_message_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "visible", property(lambda self: self.end))


def lets_views_read_all_that_was_appended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShutdownState, "readable_below", property(lambda self: self.progress.appended))


# -- opening, recovery, and closing


def opens_without_noting_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(boot, "_write_abort", lambda *arguments: None)


def _notes_its_opening(patch: pytest.MonkeyPatch, without: str) -> None:
    around(patch, boot, "_write_abort", lambda real, disk, *arguments: real(Lax(disk, without), *arguments))


def does_not_sync_the_abort_file(patch: pytest.MonkeyPatch) -> None:
    _notes_its_opening(patch, "sync")


def does_not_sync_the_name_of_the_abort_file(patch: pytest.MonkeyPatch) -> None:
    _notes_its_opening(patch, "sync_folder")


def does_not_sync_the_name_of_the_progress_page(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: ProgressPage, disk: Any, root: Path, *, is_mapped: bool) -> None:
        real(self, Lax(disk, "sync_folder"), root, is_mapped=is_mapped)
        self._file = self._file.real  # type: ignore[attr-defined]

    around(patch, ProgressPage, "__init__", spoilt)


def begins_with_a_progress_page_that_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    real = ProgressPage.begin

    def spoilt(self: ProgressPage, words: Progress) -> None:
        file, self._file = self._file, Lax(self._file, "sync")
        real(self, words)
        self._file = file

    patch.setattr(ProgressPage, "begin", spoilt)


def says_that_it_closed_before_all_is_flushed(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: StoreMaintenance) -> None:
        self._progress.publish(FLUSHED, self._log.end)
        self._progress.publish(CLEAN_CLOSE, self._log.end)
        self._progress.sync()
        real(self)

    around(patch, StoreMaintenance, "_end_cleanly", spoilt)


def does_not_zero_the_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(truncation, "_zero", lambda *arguments: None)


def does_not_keep_what_it_cuts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(truncation, "_copy", lambda *arguments: None)


def does_not_sync_what_it_keeps_of_a_cut(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, disk: Any, *arguments: Any) -> None:
        real(Lax(disk, "sync"), *arguments)

    around(patch, truncation, "_copy", spoilt)


def does_not_sync_each_removal_behind_a_cut(patch: pytest.MonkeyPatch) -> None:
    real = truncation.cut_tail
    patch.setattr(boot, "cut_tail", lambda disk, *arguments: real(Lax(disk, "sync_folder"), *arguments))


def removes_the_oldest_segment_behind_a_cut_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(truncation, "reversed", iter, raising=False)


def takes_a_torn_record_for_whole(patch: pytest.MonkeyPatch) -> None:
    real = LogReader.scan

    def spoilt(self: LogReader, *arguments: Any, **named: Any) -> Any:
        return real(self, *arguments, **{**named, "check_crc": False})

    patch.setattr(LogReader, "scan", spoilt)


def cuts_below_the_durable_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShutdownState, "durable_below", property(lambda self: 0))


def does_not_sync_what_recovery_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogSync, "sync", lambda *arguments: None)


def does_not_sync_the_folder_of_segments_that_it_found(patch: pytest.MonkeyPatch) -> None:
    real = LogSync.sync

    def spoilt(self: LogSync, *arguments: Any) -> None:
        self._disk = Lax(self._disk, "sync_folder")
        real(self, *arguments)

    patch.setattr(LogSync, "sync", spoilt)


def does_not_write_again_what_a_failed_sync_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogSync, "write_again", lambda *arguments: None)


LOST = r"BrokenPromiseError: \d+ of \d+ messages that had to be there are lost"
CAME_BACK = r"BrokenPromiseError: \d+ messages that were gone are there again"
NOT_KEPT = r"BrokenPromiseError: \d of \d records that were cut are kept"
UNDURABLE_READ = "BrokenPromiseError: a {} has read what is not durable"
HOLE = "CorruptLogError: .*: the commit log is damaged at .*it was already synced to disk"
TAKEN_FOR_ROCKETMQS = "CorruptLogError: .*intact records lie behind it"
TOO_SHORT = "SegmentLengthError: .*: 0 bytes long, expected 4096"
GAP = r"DamagedStoreError: .*expected \d+ between them"
MUTANTS: tuple[tuple[Spoil, Story, str], ...] = (
    (acknowledges_before_the_sync, log_stories.acknowledged_puts, LOST),
    (acknowledges_when_another_thread_syncs, log_stories.a_put_that_waits_for_anothers_sync, LOST),
    (syncs_only_the_newest_segment, log_stories.acknowledged_puts, LOST),
    (calls_durable_what_came_during_the_sync, log_stories.a_put_during_a_sync, LOST),
    (writes_the_durable_mark_before_the_sync, log_stories.a_put_that_dies_anywhere, HOLE),
    (does_not_sync_the_folder_of_a_new_segment, log_stories.acknowledged_puts, LOST),
    (does_not_sync_the_length_of_a_new_segment, log_stories.segments_that_reach_the_disk_out_of_order, TOO_SHORT),
    (does_not_sync_the_name_of_a_prepared_segment, log_stories.puts_into_prepared_segments, LOST),
    (does_not_sync_the_name_before_another_segment, log_stories.puts_into_prepared_segments, GAP),
    (does_not_sync_the_length_of_a_prepared_segment, log_stories.puts_into_prepared_segments, TOO_SHORT),
    (notes_blocks_before_it_has_them, log_stories.a_disk_without_room, "a put went into blocks"),
    (ignores_the_poison, log_stories.a_sync_that_fails_once, LOST),
    (tries_a_failed_sync_again, log_stories.a_sync_that_fails_once, LOST),
    (shows_a_message_before_it_is_copied, log_stories.readers_beside_a_put, r"\d messages that were put"),
    (shows_a_message_before_it_is_durable, log_stories.readers_beside_a_put, UNDURABLE_READ.format("reader")),
    (lets_views_read_all_that_was_appended, log_stories.readers_beside_a_put, UNDURABLE_READ.format("view")),
    (opens_without_noting_it, log_stories.a_torn_tail, TAKEN_FOR_ROCKETMQS),
    (does_not_sync_the_abort_file, log_stories.a_torn_tail_of_a_store_just_opened, TAKEN_FOR_ROCKETMQS),
    (does_not_sync_the_name_of_the_abort_file, log_stories.a_torn_tail_of_a_store_just_opened, TAKEN_FOR_ROCKETMQS),
    (does_not_sync_the_name_of_the_progress_page, log_stories.a_torn_tail_of_a_store_just_opened, TAKEN_FOR_ROCKETMQS),
    (
        begins_with_a_progress_page_that_is_not_synced,
        log_stories.a_torn_tail_of_a_store_just_opened,
        TAKEN_FOR_ROCKETMQS,
    ),
    (says_that_it_closed_before_all_is_flushed, log_stories.a_close_that_dies_anywhere, HOLE),
    (does_not_zero_the_tail, log_stories.a_torn_tail, CAME_BACK),
    (does_not_keep_what_it_cuts, log_stories.a_torn_tail, NOT_KEPT),
    (does_not_sync_what_it_keeps_of_a_cut, log_stories.a_recovery_that_dies_anywhere, NOT_KEPT),
    (does_not_sync_each_removal_behind_a_cut, log_stories.a_recovery_of_two_log_folders_that_dies_anywhere, GAP),
    (removes_the_oldest_segment_behind_a_cut_first, log_stories.a_recovery_that_dies_anywhere, GAP),
    (takes_a_torn_record_for_whole, log_stories.a_torn_tail, "CorruptRecordError: .*differs from its CRC"),
    (cuts_below_the_durable_mark, log_stories.a_flipped_bit, LOST),
    (does_not_sync_what_recovery_found, log_stories.a_killed_writer_and_a_cut, HOLE),
    (does_not_sync_the_folder_of_segments_that_it_found, log_stories.a_writer_after_one_that_died_anywhere, LOST),
    (does_not_write_again_what_a_failed_sync_left, log_stories.a_failed_sync_a_restart_and_a_cut, "CorruptLogError"),
)
STORIES = sorted({story for _, story, _ in MUTANTS}, key=lambda story: story.__name__)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_sound_store_keeps_its_promises(story: Story, tell: Tell) -> None:
    tell(story)


@pytest.mark.parametrize(("spoil", "story", "noticed"), MUTANTS, ids=[spoil.__name__ for spoil, _, _ in MUTANTS])
def test_a_mutant_is_found_out(spoil: Spoil, story: Story, noticed: str, is_found_out: IsFoundOut) -> None:
    is_found_out(spoil, story, noticed)
