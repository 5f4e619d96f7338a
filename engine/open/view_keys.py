"""Key lookup of a read-only view: in the index files that can be trusted, and in memory for the rest.

Nothing is read before the first query: most views never look up a key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...index.key.index_folder import IndexFolder
from ...index.key.memory_keys import MemoryKeys
from ...index.queue.queue_files import look_again_where_files_go
from ...store.disk.disk import Disk
from ...store.disk.lock import is_held
from ...store.errors import SegmentGoneError
from ...store.log.log_reader import LogReader
from ..dispatch.key_scan import keys_between
from .key_recovery import KeyPlan, open_index_to_read, plan_keys
from .shutdown_state import ShutdownState


class _Known(NamedTuple):
    """Where keys are found. Replaced as a whole: a search needs no lock."""

    folder: IndexFolder
    memory: MemoryKeys
    resume: int
    """Physical offset: files have all keys of records below it, memory has those from there on."""
    position: int
    """Physical offset below which all keys are known."""


class ViewKeys:
    """Candidates for a query by key, see key_query.py. 16 bytes of memory for each key that no index file has."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        reader: LogReader,
        shutdown_state: ShutdownState,
        first_missed: int | None,
        readable_end: Callable[[], int],
    ) -> None:
        self._disk, self._root, self._reader, self._shutdown_state = disk, root, reader, shutdown_state
        self._first_missed, self._readable_end = first_missed, readable_end
        self._lock = threading.Lock()
        """Held while `_known` is replaced."""
        self._known: _Known | None = None

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Yield physical offsets, newest first; all of them again if the index was replaced meanwhile."""
        while True:
            known = self._known
            if known is None or known.position < self._readable_end():
                known = self._catch_up()
            folder = known.folder
            if len(known.memory):
                yield from known.memory.candidates(key_hash, begin_ms, end_ms)
            for physical_offset in folder.candidates(key_hash, begin_ms, end_ms, below=known.resume):
                if folder.gone_up_to >= 0 and self._has_lost_records(folder):
                    break  # before an older one than those that are missing
                yield physical_offset
            if folder.gone_up_to < 0 or not self._has_lost_records(folder):
                return
            with self._lock:
                if self._known is not None and self._known.folder is folder:
                    self._known = None

    def unread_size(self) -> int:
        """Approximate bytes of the log that the next query reads, because no index file has their keys."""
        end, known = self._readable_end(), self._known
        if known is not None:
            return end - known.position
        folder, shutdown_state = open_index_to_read(self._disk, self._root), self._shutdown_state
        if shutdown_state.is_ours and shutdown_state.progress is not None:
            return end - plan_keys(self._reader, folder, shutdown_state, end, self._first_missed, is_live=False).resume
        at, size = self._reader.min_offset, 0
        for file in folder.files:
            header = folder.headers[file.number]
            if header.has_entries:
                size += max(header.begin_physical_offset - at, 0)
                at = max(header.end_physical_offset, at)
        return size + max(end - at, 0)

    def release(self) -> None:
        """Close all files."""
        known = self._known
        if known is not None:
            known.folder.release()

    def _has_lost_records(self, folder: IndexFolder) -> bool:
        """Whether files were removed whose records the log still has: the writer rebuilt the index, or they were
        deleted. Files that retention removes have no records left."""
        bases = (segment.base for segment in self._reader.segments if self._disk.exists(segment.path))
        return folder.gone_up_to >= next(bases, folder.gone_up_to + 1)

    def _catch_up(self) -> _Known:
        """Collect the keys that the view can read and does not have yet."""
        with self._lock:
            end, known = self._readable_end(), self._known
            if known is None:
                folder, plan = self._look_at_files(end)
                self._known = known = _Known(folder, MemoryKeys(), plan.resume, plan.resume)
            if known.position < end:
                known.folder.release_removed()
                self._gather(known, end)
                self._known = known = known._replace(position=end)
            return known

    def _gather(self, known: _Known, end: int) -> None:
        start = known.position
        while True:
            try:
                for keys in keys_between(self._reader, start, end):
                    known.memory.put(keys)
                return
            except BaseException as e:
                known.memory.truncate(known.position)  # they are collected again
                kept = [s.base for s in self._reader.segments if s.base > start and self._disk.exists(s.path)]
                if not isinstance(e, SegmentGoneError) or not kept:
                    raise
                start = kept[0]  # earlier segments were removed, and their keys are obsolete

    def _look_at_files(self, end: int) -> tuple[IndexFolder, KeyPlan]:
        def look() -> tuple[IndexFolder, KeyPlan]:
            folder = open_index_to_read(self._disk, self._root)
            is_live = is_held(self._root)
            return folder, plan_keys(
                self._reader, folder, self._shutdown_state, end, self._first_missed, is_live=is_live
            )

        return look_again_where_files_go(look)
