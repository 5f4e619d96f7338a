"""The keys that a read-only view finds: index files as far as they are to be trusted, and the rest in memory.

Nothing is read before the first query: most views never ask for a key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ..index.index_folder import IndexFolder
from ..index.memory_keys import MemoryKeys
from ..store.disk import Disk
from ..store.errors import FileGoneError, SegmentGoneError
from ..store.log_reader import LogReader
from .evidence import Evidence, someone_holds_the_lock
from .key_recovery import KeyPlan, open_index_to_read, plan_keys
from .key_scan import keys_between

MORE_LISTINGS = 20
"""How often the index files are listed anew because a writer has removed one before it was looked into."""


class ViewKeys:
    """Candidates for a query by key, see key_query.py. 16 bytes of memory for each key that no index file has."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        reader: LogReader,
        evidence: Evidence,
        first_missed: int | None,
        readable_end: Callable[[], int],
    ) -> None:
        self._disk, self._root, self._reader, self._evidence = disk, root, reader, evidence
        self._first_missed, self._readable_end = first_missed, readable_end
        self._lock = threading.Lock()
        self._folder: IndexFolder | None = None
        self._memory = MemoryKeys()
        self._resume = self._position = 0
        """Physical offset below which the files know all keys, and below which keys are known at all."""

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int | None) -> Iterator[int]:
        """Physical offsets, newest first; all of them again where the index turns out to be another one by now."""
        while True:
            folder, memory, resume = self._catch_up()
            if len(memory):
                yield from memory.candidates(key_hash, begin_ms, end_ms)
            for physical_offset in folder.candidates(key_hash, begin_ms, end_ms, below=resume):
                if self._has_lost_records(folder):
                    break  # before an older one than those that are missing
                yield physical_offset
            if not self._has_lost_records(folder):
                return
            with self._lock:
                if self._folder is folder:
                    self._folder, self._memory = None, MemoryKeys()

    def let_go(self) -> None:
        """Keep no file open."""
        if self._folder is not None:
            self._folder.let_go()

    def _has_lost_records(self, folder: IndexFolder) -> bool:
        """Whether files have gone whose records the log still has: its writer has made the index anew, or somebody has
        deleted them. What retention removes has no records left."""
        if folder.gone_up_to < 0:
            return False
        bases = (segment.base for segment in self._reader.segments if self._disk.exists(segment.path))
        return folder.gone_up_to >= next(bases, folder.gone_up_to + 1)

    def _catch_up(self) -> tuple[IndexFolder, MemoryKeys, int]:
        """Gather what the view can read and does not know yet. The files know the keys below the physical offset."""
        with self._lock:
            end, folder = self._readable_end(), self._folder
            if folder is None:
                folder, plan = self._look_at_files(end)
                self._resume = self._position = plan.resume
                self._folder = folder
            if self._position < end:
                folder.let_go_of_removed()
                start = self._position
                while True:
                    try:
                        for keys in keys_between(self._reader, start, end):
                            self._memory.put(keys)
                        break
                    except BaseException as e:
                        self._memory.truncate(self._position)  # they are gathered again, each once
                        kept = [s.base for s in self._reader.segments if s.base > start and self._disk.exists(s.path)]
                        if not isinstance(e, SegmentGoneError) or not kept:
                            raise
                        start = kept[0]  # what was before has gone, and its keys with it
                self._position = end
            return folder, self._memory, self._resume

    def _look_at_files(self, end: int) -> tuple[IndexFolder, KeyPlan]:
        for listing in range(MORE_LISTINGS, -1, -1):
            folder = open_index_to_read(self._disk, self._root)
            is_live = someone_holds_the_lock(self._root)
            try:
                plan = plan_keys(self._reader, folder, self._evidence, end, self._first_missed, is_live=is_live)
                break
            except FileGoneError as e:
                if isinstance(e, SegmentGoneError) or not listing:
                    raise
        return folder, plan
