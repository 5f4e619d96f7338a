"""Check of the index files: entries, chains, slots and headers against each other.

Entries and hashes are taken as they are; from them follow every `previous`, every slot and the counts of the header.
Whether the entries are those of the log is for those to say who have read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import DiskFile
from .index_file import FIRST_ENTRY, Entries, IndexHeader, time_difference_s
from .index_folder import IndexFolder
from .index_reader import IndexFile, read_header, read_pieces
from .index_slots import link, load_slots

MOST_OF_A_KIND = 3
"""Problems of one kind that are listed one by one, in a piece of a file; the others are counted."""


@dataclass
class IndexFileCheck:
    """Result of the check of one file."""

    path: Path
    header: IndexHeader
    problems: list[str] = field(default_factory=list)
    """Descriptions, with the numbers of entries and slots; empty for a sound file."""
    behind: list[str] = field(default_factory=list)
    """Descriptions of entries behind the log's end, which a recovery removes."""
    duplicates: int = 0
    """Entries that say what another one of the same record says. No damage: RocketMQ indexes the record at the border
    of two lives twice, and a record may carry a key twice."""
    last_record: Entries | None = None
    """The distinct entries of the last record; that record may continue in the next file."""


def check_file(
    file: IndexFile,
    log_end: int | None,
    *,
    before: IndexFileCheck | None = None,
    at_rest: bool = True,
) -> IndexFileCheck:
    """Check one file against itself, and against what a check of the file before it found.

    `log_end` is the physical offset that no record reaches, None where that is not to be asked. Looks at the entries
    that the header on disk knows, which for a live flightlog are those of its last flush. Not `at_rest` means that a
    writer is alive, or died within a flush: slots may then name later entries, and a RocketMQ may be between two fields
    of a header. Takes 8 bytes of memory a slot and a few MiB. Raises FileNotFoundError and DiskError.
    """
    with file.opened() as opened:
        check = _Check(file, opened, log_end, before, at_rest)
        check.run()
    return check.found


def check_index(index: IndexFolder, log_end: int | None, *, at_rest: bool = True) -> Iterator[IndexFileCheck]:
    """Check every usable file as `check_file` does, oldest first. Skips files that are removed meanwhile."""
    before: IndexFileCheck | None = None
    for file in index.files:
        try:
            before = check_file(file, log_end, before=before, at_rest=at_rest)
        except FileNotFoundError:
            continue
        yield before


class _Check:
    def __init__(
        self, known: IndexFile, file: DiskFile, log_end: int | None, before: IndexFileCheck | None, at_rest: bool
    ) -> None:
        self._file, self._geometry, self._log_end, self._at_rest = file, known.geometry, log_end, at_rest
        self._before = before
        self.found = IndexFileCheck(known.path, read_header(file))
        self.found.last_record = before.last_record if before else None
        self._heads = np.zeros(known.geometry.slots, np.int32)
        """Slots as they follow from the entries so far."""

    def run(self) -> None:
        found, geometry = self.found, self._geometry
        size = self._file.size()
        problem = f"it is {size} bytes long, expected {geometry.file_size}" if size != geometry.file_size else None
        problem = problem or found.header.problem(geometry)
        if problem:
            found.problems.append(problem)
            return
        first = FIRST_ENTRY
        for piece in read_pieces(self._file, geometry, FIRST_ENTRY, found.header.next_entry):
            self._check_entries(piece, first)
            self._check_chains(piece, first)
            first += len(piece)
        self._check_slots()

    def _check_entries(self, piece: Entries, first: int) -> None:
        header, offsets, times = self.found.header, piece["physical_offset"].astype(np.int64), piece["time_diff_s"]
        last = np.concatenate(([-1], offsets))
        if self.found.last_record is not None:
            last[0] = self.found.last_record["physical_offset"][0]
        self._tell(
            offsets < last[:-1],
            first,
            lambda i: f"physical offset {offsets[i]} after {last[i]}, expected ascending ones",
        )
        if self._log_end is not None:
            self._tell(
                offsets >= self._log_end,
                first,
                lambda i: f"physical offset {offsets[i]}, expected one before the log's end at {self._log_end}",
                into=self.found.behind,
            )
        self._tell(times < 0, first, lambda i: f"time difference {times[i]}, expected none below zero")
        self._count_duplicates(piece)
        if first == FIRST_ENTRY:
            self._check_end("first", int(offsets[0]), header.begin_physical_offset)
            if self._before is not None and self._before.header.next_entry >= self._geometry.entries:
                expected = time_difference_s(header.begin_timestamp_ms, self._before.header.end_timestamp_ms)
                if times[0] != expected:
                    self.found.problems.append(f"entry {first}: time difference {times[0]}, expected {expected}")
        if first + len(piece) == header.next_entry and self._at_rest:
            self._check_end("last", int(offsets[-1]), header.end_physical_offset)

    def _count_duplicates(self, piece: Entries) -> None:
        if self.found.last_record is not None:
            piece = np.concatenate((self.found.last_record, piece))
        hashes, offsets = piece["key_hash"].astype(np.int32), piece["physical_offset"].astype(np.int64)
        order = np.lexsort((hashes, offsets))
        is_same = (np.diff(offsets[order]) == 0) & (np.diff(hashes[order].astype(np.int64)) == 0)
        self.found.duplicates += int(np.count_nonzero(is_same))
        once = order[np.append(True, ~is_same)]
        self.found.last_record = piece[once[offsets[once] == offsets[-1]]]

    def _check_end(self, which: str, found: int, expected: int) -> None:
        if found != expected:
            self.found.problems.append(f"the {which} entry has physical offset {found}, the header says {expected}")

    def _check_chains(self, piece: Entries, first: int) -> None:
        hashes, previous = piece["key_hash"].astype(np.int32), piece["previous"]
        self._tell(hashes < 0, first, lambda i: f"hash {hashes[i]}, expected none below zero")
        numbers = np.arange(first, first + len(piece), dtype=np.int32)
        in_slot = hashes % np.int32(self._geometry.slots)
        expected, is_last = link(in_slot, numbers, self._heads)
        self._heads[in_slot[is_last]] = numbers[is_last]
        self._tell(previous != expected, first, lambda i: f"previous entry {previous[i]}, expected {expected[i]}")

    def _check_slots(self) -> None:
        slots, heads = load_slots(self._file, self._geometry), self._heads
        bad = slots != heads
        if not self._at_rest:
            bad &= (slots < self.found.header.next_entry) | (slots >= self._geometry.entries)
        self._tell(bad, 0, lambda i: f"newest entry {slots[i]}, expected {heads[i]}", "slot")
        used = int(np.count_nonzero(heads))
        if used != self.found.header.slot_count and self._at_rest:
            self.found.problems.append(f"the header counts {self.found.header.slot_count} used slots, expected {used}")

    def _tell(
        self,
        bad: NDArray[np.bool_],
        first: int,
        text: Callable[[int], str],
        what: str = "entry",
        into: list[str] | None = None,
    ) -> None:
        where, problems = np.flatnonzero(bad), self.found.problems if into is None else into
        if len(where):
            problems += [f"{what} {first + i}: {text(i)}" for i in where[:MOST_OF_A_KIND].tolist()]
            if len(where) > MOST_OF_A_KIND:
                problems.append(f"… and {len(where) - MOST_OF_A_KIND} more of that kind")
