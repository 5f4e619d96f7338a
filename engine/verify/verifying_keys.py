"""Verify the key index: each file for consistency, and all of them against the keys in the log.

Harmless differences that RocketMQ leaves are reported as oddities, not as findings: a record at the
border of two of its sessions is indexed twice, and keys missing from all files are read from the log. Entries of tags,
as RocketMQ 5.5 adds them, are neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...index.key.index_check import check_index
from ...index.key.index_file import INDEX_FOLDER, Entries, key_hash
from ...index.key.key_entries import KeyEntries
from ...store.disk.disk import Disk
from ...store.errors import CorruptRecordError
from ...store.log.log_reader import LogReader
from ..open.key_recovery import open_index_to_read
from ..open.shutdown_state import LastWriter, ShutdownState
from ..open.tail_scan import TailScan
from .findings import Finding, Remedy, VerifyReport

REMAKE = f"remove the folder {INDEX_FOLDER} and open the store for writing once: it is rebuilt from the log"
COMPLETE = "open the store for writing once: it is completed from the log"
TAKE_BACK = "open the store for writing once: what the index knows of a tail that is cut is taken back"


HASH_MASK = 0xFFFFFFFF
MOST_KEYS_A_RECORD = 16
"""With more keys in a record, duplicates are found by sorting."""


class _Keys(NamedTuple):
    physical_offset: NDArray[np.int64]
    key_hash: NDArray[np.int32]


NO_KEYS = _Keys(np.empty(0, np.int64), np.empty(0, np.int32))


class KeyCheck:
    """Compares the key index with the log: pass it the log's keys, one extent of the tail scan after the other; then
    call `tell`."""

    def __init__(
        self, disk: Disk, reader: LogReader, shutdown_state: ShutdownState, report: VerifyReport, whole: TailScan
    ) -> None:
        self._reader = reader
        self._shutdown_state, self._report, self._whole = shutdown_state, report, whole
        index = self._index = open_index_to_read(disk, shutdown_state.root)
        self._judged = self._judged_below(whole)
        self._feed = _Feed(index.entries(whole.start)) if index.files and not index.unreadable else None
        """None if there is no readable index."""
        self._below = 0
        """Physical offset below which all records of this extent have been compared."""
        self._missing = self._stale = 0
        self._first_missing = self._first_stale = -1
        self._repeated = 0
        """Duplicate entries of records that have the same key more than once."""

    def begin_extent(self, start: int) -> None:
        """Begin an extent: the next keys are those of records from physical offset `start` on."""
        if self._feed is not None:
            self._feed.take_below(start)  # entries of damaged or removed records cannot be compared
        self._below = start

    def compare(self, keys: KeyEntries) -> None:
        """Compare the next keys of the log with the index."""
        if self._feed is not None and len(keys):
            self._below = int(keys.physical_offset[-1]) + 1
            self._match(_Keys(keys.physical_offset, keys.key_hash), self._feed.take_below(self._below))

    def end_extent(self, stop: int) -> None:
        """End an extent: there are no further keys before physical offset `stop`."""
        if self._feed is not None and self._below < stop:
            self._match(NO_KEYS, self._feed.take_below(stop))

    def tell(self, *, is_live: bool) -> None:
        """Check each file for consistency, and add all findings to the report."""
        index, report, whole = self._index, self._report, self._whole
        for unreadable in index.unreadable:
            self._add(unreadable.path, 0, unreadable.problem, REMAKE)
        at_rest = self._shutdown_state.is_clean and not is_live
        duplicates = 0
        # A live writer may have flushed keys of records past the end of this view.
        for check in check_index(index, None if is_live else whole.end, at_rest=at_rest):
            report.index_entries += check.header.next_entry - 1
            duplicates += check.duplicates
            for problem in check.problems:
                self._add(check.path, 0, problem, REMAKE)
            # After a clean close there is no recovery, which would remove entries past the end of the log.
            mend = REMAKE if self._shutdown_state.is_clean else TAKE_BACK
            for problem in check.behind:
                self._add(check.path, 0, problem, mend)
        if index.unreadable:
            return
        progress = self._shutdown_state.progress
        if not index.files and self._shutdown_state.is_ours and progress is not None and progress.index_count:
            meaning = f"index files are missing: there were {progress.index_count}"
            self._add(index.folder, 0, meaning, COMPLETE)
            return
        if not index.files:
            if self._judged > whole.start:
                report.oddities.append(f"{index.folder}: no index file; keys are found by reading the log")
            return
        self._tell_duplicates(duplicates)
        if self._stale:
            meaning = f"{self._stale} entries that no record stands for: stale, or of a tail that was cut"
            self._add(index.folder, self._first_stale, meaning, REMAKE)
        if self._missing:
            meaning, mend = f"{self._missing} keys of the log are in no index file", REMAKE
            if not self._shutdown_state.is_ours:
                mend = COMPLETE
                meaning += ": RocketMQ deletes index files after an unclean exit, and does not rebuild all of them"
            self._add(index.folder, self._first_missing, meaning, mend)

    def _add(self, path: Path, offset: int, meaning: str, mend: str) -> None:
        remedy = Remedy.SET_ASIDE if mend == REMAKE else Remedy.REOPEN
        self._report.findings.append(Finding(path, offset, meaning, mend, remedy, (self._index.folder,)))

    def _tell_duplicates(self, duplicates: int) -> None:
        at_border, folder = duplicates - self._repeated, self._index.folder
        if self._repeated:
            self._report.oddities.append(
                f"{folder}: {self._repeated} keys stand more than once for a record that has them more than once"
            )
        if at_border > 0:
            self._report.oddities.append(
                f"{folder}: {at_border} keys stand twice for one record, as RocketMQ leaves the one at the border of "
                "two of its lives"
            )

    def _judged_below(self, whole: TailScan) -> int:
        """Physical offset below which every key should be in an index file."""
        shutdown_state, progress = self._shutdown_state, self._shutdown_state.progress
        if shutdown_state.is_ours and progress is not None:
            return min(progress.index_flushed, whole.end)
        # it may be alive, or may have died before it indexed the rest
        if shutdown_state.last_writer is LastWriter.ROCKETMQ_KILLED:
            last = self._index.last_physical_offset
            return 0 if last is None else min(last, whole.end)
        return whole.end

    def _match(self, expected: _Keys, there: _Keys) -> None:
        if _say_the_same(expected, there):
            return
        offsets = np.concatenate((expected.physical_offset, there.physical_offset))
        places, rank = np.unique(offsets, return_inverse=True)
        count = len(expected.physical_offset)
        of_log, in_record = np.unique(rank[:count].astype(np.int64) << 32 | expected.key_hash, return_counts=True)
        of_index, in_index = np.unique(rank[count:].astype(np.int64) << 32 | there.key_hash, return_counts=True)
        _, log_at, index_at = np.intersect1d(of_log, of_index, assume_unique=True, return_indices=True)
        self._repeated += int(np.sum(np.minimum(in_record[log_at], in_index[index_at]) - 1))
        missing, stale = (
            keys[places[keys >> 32] < self._judged]
            for keys in (np.setdiff1d(of_log, of_index), np.setdiff1d(of_index, of_log))
        )
        stale = np.array(
            [key for key in stale.tolist() if not self._is_tag(int(places[key >> 32]), key & HASH_MASK)], np.int64
        )
        if len(missing) and not self._missing:
            self._first_missing = int(places[missing[0] >> 32])
        if len(stale) and not self._stale:
            self._first_stale = int(places[stale[0] >> 32])
        self._missing += len(missing)
        self._stale += len(stale)

    def _is_tag(self, physical_offset: int, hashed: int) -> bool:
        """Whether an entry is that of a record's tag: from 5.5 on, RocketMQ's IndexService.buildIndex puts TOPIC#T#TAG
        after the keys."""
        try:
            message = self._reader.message_at(physical_offset)
        except CorruptRecordError:
            return False
        return bool(message.tags) and key_hash(message.topic, f"T#{message.tags}") == hashed


def _say_the_same(expected: _Keys, there: _Keys) -> bool:
    """Whether the index has the same keys in the same order, without duplicates in a record: the usual case, found
    without sorting."""
    offsets, hashes = expected
    if not np.array_equal(offsets, there.physical_offset) or not np.array_equal(hashes, there.key_hash):
        return False
    for apart in range(1, MOST_KEYS_A_RECORD):
        is_one_record = offsets[apart:] == offsets[:-apart]
        if not is_one_record.any():
            return True  # keys of a record are adjacent
        if (is_one_record & (hashes[apart:] == hashes[:-apart])).any():
            return False
    return False


class _Feed:
    """Reads the entries of an index in order of their physical offsets."""

    def __init__(self, pieces: Iterator[Entries]) -> None:
        self._pieces = pieces
        self._rest = NO_KEYS

    def take_below(self, physical_offset: int) -> _Keys:
        """The remaining entries of records before `physical_offset`."""
        taken = [self._split(physical_offset)]
        while not len(self._rest.physical_offset):
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest = _Keys(piece["physical_offset"].astype(np.int64), piece["key_hash"].astype(np.int32))
            taken.append(self._split(physical_offset))
        return _Keys(*(np.concatenate(columns) for columns in zip(*taken, strict=True)))

    def _split(self, physical_offset: int) -> _Keys:
        # Stop at the first entry that is not below: a damaged file may be out of order.
        not_below = np.flatnonzero(self._rest.physical_offset >= physical_offset)
        at = int(not_below[0]) if len(not_below) else len(self._rest.physical_offset)
        before = _Keys(self._rest.physical_offset[:at], self._rest.key_hash[:at])
        self._rest = _Keys(self._rest.physical_offset[at:], self._rest.key_hash[at:])
        return before
