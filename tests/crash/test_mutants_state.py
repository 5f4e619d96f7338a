"""Mutants of what keeps all that lies beside the log whole: see tests/crash/conftest.py."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.engine.dispatch.dispatcher import Dispatcher
from flightlog.engine.services.retention import Retention
from flightlog.engine.services.store_maintenance import StoreMaintenance
from flightlog.index.key.index_writer import ActiveIndexFile
from flightlog.index.queue.consume_queue import ConsumeQueue
from flightlog.index.queue.queue_sync import Unsynced
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.config_file import Config, ConfigFile
from flightlog.store.seal.seal import make_seal, read_seal, write_seal
from flightlog.store.segments.segment_pins import SegmentPins
from flightlog.store.state.checkpoint import Checkpoint, write_checkpoint
from flightlog.store.state.deleted_topics import DeletedTopicsFile
from flightlog.store.state.progress import QUEUE_STARTS
from flightlog.tests.support import state_stories
from flightlog.tests.support.spoiling import Real, around

if TYPE_CHECKING:
    from flightlog.tests.crash.conftest import IsFoundOut, Spoil, Story, Tell

# -- what lies beside the log


def writes_the_checkpoint_before_what_it_speaks_of(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: StoreMaintenance) -> None:
        newest_ms = self._log.last_store_timestamp_ms
        write_checkpoint(self._disk, self._path, Checkpoint(newest_ms, newest_ms, 0))
        real(self)

    around(patch, StoreMaintenance, "_flush_queues", spoilt)


def notes_queues_as_flushed_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    real = QueueTable.sync

    def spoilt(self: QueueTable, unsynced: Unsynced) -> None:
        real(self, Unsynced(folders=unsynced.folders))

    patch.setattr(QueueTable, "sync", spoilt)


def does_not_write_again_the_entries_that_it_found(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumeQueue, "write_again", lambda self, start: None)


def notes_the_index_as_flushed_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    def spoilt(self: ActiveIndexFile, round_: Any) -> None:
        file = self._open_writable()
        for position, raw in (*round_.runs, (0, round_.header)):
            file.write(position, raw)
        self.flushed_next = round_.state.next_entry

    patch.setattr(ActiveIndexFile, "write_round", spoilt)


def seals_a_segment_before_it_is_synced(patch: pytest.MonkeyPatch) -> None:
    def spoilt(self: StoreMaintenance) -> None:
        for segment in self._log.reader.segments:
            if segment.end <= self._log.end and read_seal(self._disk, self._path, segment) is None:
                seal = make_seal(self._log.reader, segment)
                assert seal is not None
                write_seal(self._disk, self._path, seal)

    patch.setattr(StoreMaintenance, "_seal_full_segments", spoilt)


def deletes_a_topic_without_a_note(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeletedTopicsFile, "write", lambda self, deleted, **also: None)


def _writes_state(patch: pytest.MonkeyPatch, *, syncs_file: bool, syncs_folder: bool) -> None:
    def spoilt(self: ConfigFile, content: Config) -> None:
        folder, new = self.path.parent, self._sibling(".tmp")
        self._disk.make_folder(folder)
        file = self._disk.open(new, writable=True, create=True)
        file.resize(0)
        file.write(0, json.dumps(content).encode())
        if syncs_file:
            file.sync()
        file.close()
        if self._keeps_backup:
            self._disk.rename(self.path, self._sibling(".bak"))
        self._disk.rename(new, self.path)
        self._keeps_backup = True
        if syncs_folder:
            self._disk.sync_folder(folder)

    patch.setattr(ConfigFile, "write", spoilt)


def renames_a_state_file_that_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    _writes_state(patch, syncs_file=False, syncs_folder=True)


def does_not_sync_the_folder_of_a_state_file(patch: pytest.MonkeyPatch) -> None:
    _writes_state(patch, syncs_file=True, syncs_folder=False)


# -- retention


def removes_segments_and_does_not_trim_queues(patch: pytest.MonkeyPatch) -> None:
    def spoilt(self: Dispatcher, min_physical_offset: int) -> int:
        return sum(queue.min_index for _, queue in self._table.items())

    patch.setattr(Dispatcher, "advance_queues", spoilt)


def trims_queues_before_segments_go(patch: pytest.MonkeyPatch) -> None:
    def spoilt(real: Real, self: Retention, *arguments: Any) -> None:
        start = self._log.reader.segments[-1].base
        self._progress.publish(QUEUE_STARTS, self._dispatcher.advance_queues(start))
        self._progress.sync()
        self._dispatcher.expire_queues()
        real(self, *arguments)

    around(patch, Retention, "_remove_segments", spoilt)


def lets_retention_take_what_a_reader_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentPins, "lowest", lambda self, owner=None: None)


LOST = r"BrokenPromiseError: \d+ of \d+ messages that had to be there are lost"
CAME_BACK = r"BrokenPromiseError: \d+ messages that were gone are there again"
NOT_MADE = "topic .* is None after a cut"
WRONG_SEAL = "verify: .*a block that differs from its seal"
SHORT_QUEUE = r"queue .* has \d+ of the \d+ messages that it says it has"
TAKEN = r"retention took \d+ messages from a reader"
MUTANTS: tuple[tuple[Spoil, Story, str], ...] = (
    (writes_the_checkpoint_before_what_it_speaks_of, state_stories.a_flush_of_queues_that_dies_anywhere, LOST),
    (notes_queues_as_flushed_without_a_sync, state_stories.entries_of_a_quiet_queue, LOST),
    (does_not_write_again_the_entries_that_it_found, state_stories.entries_that_a_killed_writer_left, LOST),
    (notes_the_index_as_flushed_without_a_sync, state_stories.keys_of_an_index_file, "the key of .* finds 0 messages"),
    (
        seals_a_segment_before_it_is_synced,
        state_stories.a_segment_that_fills_up_during_a_flush,
        WRONG_SEAL,
    ),
    (deletes_a_topic_without_a_note, state_stories.a_deleted_topic, CAME_BACK),
    (renames_a_state_file_that_is_not_synced, state_stories.a_topic_that_was_made, NOT_MADE),
    (does_not_sync_the_folder_of_a_state_file, state_stories.a_topic_that_was_made, NOT_MADE),
    (
        removes_segments_and_does_not_trim_queues,
        state_stories.a_round_of_retention_that_dies_anywhere,
        SHORT_QUEUE,
    ),
    (trims_queues_before_segments_go, state_stories.a_round_of_retention_that_dies_anywhere, LOST),
    (
        lets_retention_take_what_a_reader_holds,
        state_stories.an_iterator_beside_retention,
        TAKEN,
    ),
)
STORIES = sorted({story for _, story, _ in MUTANTS}, key=lambda story: story.__name__)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_sound_store_keeps_its_promises(story: Story, tell: Tell) -> None:
    tell(story)


@pytest.mark.parametrize(("spoil", "story", "noticed"), MUTANTS, ids=[spoil.__name__ for spoil, _, _ in MUTANTS])
def test_a_mutant_is_found_out(spoil: Spoil, story: Story, noticed: str, is_found_out: IsFoundOut) -> None:
    is_found_out(spoil, story, noticed)
