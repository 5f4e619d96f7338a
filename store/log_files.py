"""Which segments a commit log has, and whether their names and lengths make sense.

RocketMQ's load rule: every file has the configured length; only an empty last one is forgiven. flightlog forgives any
number of empty last ones (a writer died between creating and sizing them, or their names reached the disk before their
lengths), and removes them when it opens the store for writing. RocketMQ only logs a gap between two segments; flightlog
refuses to write behind one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from .disk import Disk, FolderEntry
from .errors import DamagedStoreError, SegmentLengthError, StrayFileError
from .segment import segment_base, segment_name

COMMIT_LOG_FOLDER = "commitlog"


@dataclass
class LogFiles:
    """The segments found in one folder."""

    folder: Path
    bases: list[int]
    """Physical offset of each segment's first byte, ascending."""
    segment_size: int | None
    """Bytes of each; None where there is no segment."""
    notes: list[str] = field(default_factory=list)
    """What a tolerant reader went past."""
    empty: list[Path] = field(default_factory=list)
    """Files without a byte behind the last segment, oldest first."""

    def path(self, base: int) -> Path:
        return self.folder / segment_name(base)


def list_log_files(disk: Disk, folder: Path, *, tolerant: bool = False) -> LogFiles:
    """The segments in `folder`.

    Raises StrayFileError, SegmentLengthError, or DamagedStoreError for a gap; `tolerant` (for reading) notes a stray
    file and a gap instead and goes on, and leaves out a segment of the wrong length.
    """
    notes: list[str] = []
    entries: list[tuple[int, FolderEntry]] = []
    for entry in disk.list(folder):
        base = segment_base(entry.name)
        if entry.is_folder:
            continue
        if base is not None:
            entries.append((base, entry))
        elif tolerant:
            notes.append(str(StrayFileError(folder / entry.name)))
        else:
            raise StrayFileError(folder / entry.name)
    empty: list[Path] = []
    while entries and entries[-1][1].size == 0:
        empty.insert(0, folder / entries.pop()[1].name)
    segment_size = _segment_size(entries)
    bases: list[int] = []
    for base, entry in entries:
        assert segment_size is not None
        path = folder / entry.name
        wrong: DamagedStoreError | None = None
        if entry.size != segment_size or base % segment_size:
            wrong = SegmentLengthError(path, entry.size, segment_size)
        elif bases and base != bases[-1] + segment_size:
            wrong = DamagedStoreError(
                f"{path}: found this segment after {segment_name(bases[-1])}, expected "
                f"{segment_name(bases[-1] + segment_size)} between them. Restore the missing segment from a copy"
            )
        if wrong is None:
            bases.append(base)
        elif not tolerant:
            raise wrong
        else:
            notes.append(str(wrong))
            if entry.size == segment_size and base % segment_size == 0:
                bases.append(base)  # a gap alone: what lies behind it is read
    return LogFiles(folder, bases, segment_size, notes, empty)


def _segment_size(entries: list[tuple[int, FolderEntry]]) -> int | None:
    """The size that most files agree on: their lengths, and the distances between their names."""
    if not entries:
        return None
    votes = Counter(entry.size for _, entry in entries if entry.size)
    votes.update(after - before for (before, _), (after, _) in pairwise(entries))
    return max(votes, key=lambda size: (votes[size], size)) if votes else None
