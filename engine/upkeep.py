"""What keeps an open store whole: flush rounds, seals, and the orderly end.

This is the store without its handle: the flush service works on it, so a handle that is dropped without a close can be
collected, and the store is closed all the same.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ..store.checkpoint import Checkpoint, write_checkpoint
from ..store.disk import Disk
from ..store.errors import DiskError, DiskFullError
from ..store.progress import CHECKPOINT as CHECKPOINT_WORD
from ..store.progress import (
    CLEAN_CLOSE,
    FLUSHED,
    QUEUE_COUNT,
    QUEUE_ENDS,
    QUEUE_STARTS,
    QUEUES_FLUSHED,
    STORE_TIMESTAMP,
)
from ..store.seal import make_seal, read_seal, write_seal
from .boot import OpenParts
from .evidence import ABORT_FILE

log = logging.getLogger("flightlog.store")


class Upkeep:
    """Used by the flush service while it runs, and by the closer after it has ended; `catch_up` and `poison` by all."""

    def __init__(self, disk: Disk, path: Path, parts: OpenParts, *, syncs_log: bool) -> None:
        self._disk, self._path, self._parts = disk, path, parts
        self._log, self._dispatcher, self._progress = parts.log, parts.dispatcher, parts.progress
        self._syncs_log = syncs_log
        self._checkpoint = parts.checkpoint
        self._sealed_below = parts.log.reader.min_offset
        self._was_ended = False
        self.is_over = False
        """Whether `end` has let go of everything."""

    def catch_up(self) -> None:
        """Dispatch everything visible, as far as the disk lets us: what cannot be dispatched cannot be read yet.

        A disk without room for queue entries refuses the next put (see `Dispatcher.is_stalled`), any other failure all
        of them; reads go on.
        """
        try:
            self._dispatcher.catch_up()
        except DiskFullError:
            pass  # noted by the dispatcher; the next put says so
        except DiskError as e:
            log.error("%s: cannot write queue entries; the store takes no more puts: %s", self._path, e)
            self.poison(e)

    def poison(self, cause: BaseException) -> None:
        """Refuse puts from now on."""
        if self._log.poison is None:
            self._log.poison = cause

    def flush_log(self) -> None:
        """One short round: make the log durable, unless every put does that itself, and dispatch."""
        if self._syncs_log:
            self._log.flush()
        self._dispatcher.catch_up()

    def flush_queues(self) -> None:
        """One long round: make queues durable, then say so: first the checkpoint, then the progress page."""
        store_timestamp_ms = self._log.last_store_timestamp_ms
        self._log.flush()
        self._dispatcher.catch_up()
        self._log.flush()
        synced = self._dispatcher.sync_queues()
        self._checkpoint = Checkpoint(store_timestamp_ms, store_timestamp_ms, self._checkpoint.index_timestamp_ms)
        write_checkpoint(self._disk, self._path, self._checkpoint)
        self._progress.publish(QUEUE_COUNT, synced.queue_count)
        self._progress.publish(QUEUE_ENDS, synced.ends)
        self._progress.publish(QUEUE_STARTS, synced.starts)
        # Looked at anew: no record below the next word may be younger than this one says.
        self._progress.publish(STORE_TIMESTAMP, self._log.last_store_timestamp_ms)
        # A reader may have dispatched what no sync of the log covers yet. Recovery starts from this word, so it must
        # not lie behind the end of a log that lost its unsynced tail.
        self._progress.publish(QUEUES_FLUSHED, min(synced.position, self._log.flushed))
        self._progress.sync()
        self._seal_full_segments()

    def _seal_full_segments(self) -> None:
        for segment in self._log.reader.segments:
            if segment.base < self._sealed_below or segment.end > self._log.flushed:
                continue
            if read_seal(self._disk, self._path, segment) is None:
                seal = make_seal(self._log.reader, segment)
                if seal is not None:
                    try:
                        write_seal(self._disk, self._path, seal)
                    except DiskFullError as e:
                        log.warning("%s: no seal yet for %s: %s", self._path, segment.path.name, e)
                        return  # a missing seal is only a missed shortcut; the next round tries again
            self._sealed_below = segment.end

    def end(self) -> None:
        """Close cleanly, or as one that was killed if the store is poisoned or something fails; let go of everything.

        Raises what the flush raises. If a KeyboardInterrupt ends it, the rest is done when it is called again.
        """
        try:
            if not self._was_ended:
                self._was_ended = True
                if self._log.poison is None:
                    self._end_cleanly()
                else:
                    log.warning("%s: closed after %s; the next open recovers it", self._path, self._log.poison)
        finally:
            self._parts.let_go()
            self.is_over = True

    def _end_cleanly(self) -> None:
        self._log.stop_appends()
        self.flush_queues()
        for number, word in enumerate(self._checkpoint.words):
            self._progress.publish(CHECKPOINT_WORD + number, word)
        self._progress.publish(FLUSHED, self._log.flushed)
        self._progress.publish(CLEAN_CLOSE, self._log.end)
        self._progress.sync()
        self._disk.remove(self._path / ABORT_FILE)
        self._disk.sync_folder(self._path)
