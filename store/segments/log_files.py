"""Which segments a commit log has, and whether their names and lengths make sense.

RocketMQ's load rule: every file has the configured length; only an empty last one is forgiven. flightlog forgives any
number of empty last ones (a writer died between creating and sizing them, or their names reached the disk before their
lengths), and removes them when it opens the store for writing. RocketMQ only logs a gap between two segments; flightlog
refuses to write behind one.

A commit log may lie in several folders (RocketMQ's `MultiPathMappedFileQueue`): segment number k, counted from physical
offset 0, is made in the folder k modulo their number, and found wherever it is. Folders on disks too full are passed
over, as long as there are others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ..disk.disk import MAX_FILE_SIZE, Disk, FolderEntry
from ..errors import DamagedStoreError, FileTooLargeError, SegmentLengthError, StrayFileError
from ..settings import StoreSettings
from .segment import segment_base, segment_name

COMMIT_LOG_FOLDER = "commitlog"


@dataclass(frozen=True)
class LogFolders:
    """Where the segments of one store lie."""

    main: Path
    """`commitlog` in the store's folder, whether it is one of them or not: how the log is called."""
    writable: tuple[Path, ...]
    """Where new segments are made, in turn."""
    read_only: tuple[Path, ...] = ()
    """Where others are found, too."""

    @classmethod
    def of(cls, root: Path, settings: StoreSettings) -> LogFolders:
        main = root / COMMIT_LOG_FOLDER
        kept = tuple(root / name for name in settings.commit_log_read_only_folders)
        named = {root / name for name in settings.commit_log_folders} or {main}
        return cls(main, tuple(sorted(named - set(kept), key=str)), kept)

    @property
    def all(self) -> tuple[Path, ...]:
        return self.writable + self.read_only

    def one_exists(self, disk: Disk) -> bool:
        return any(disk.exists(folder) for folder in self.all)

    def hold_segments(self, disk: Disk) -> bool:
        return any(segment_base(entry.name) is not None for folder in self.all for entry in disk.list(folder))


@dataclass
class LogFiles:
    """The segments found in a log's folders."""

    folders: LogFolders
    bases: list[int]
    """Physical offset of each segment's first byte, ascending."""
    segment_size: int | None
    """Bytes of each; None where there is no segment."""
    notes: list[str] = field(default_factory=list)
    """What a tolerant reader went past."""
    left_out: dict[int, int] = field(default_factory=dict)
    """The lengths of segments among them whose file has a wrong one, by their first byte."""
    empty: list[Path] = field(default_factory=list)
    """Files without a byte behind the last segment, oldest first."""
    found_in: dict[int, Path] = field(default_factory=dict)
    """The folder of each segment."""

    def path(self, base: int) -> Path:
        """Where the segment is, or is to be made if no disk is too full."""
        folder = self.found_in.get(base)
        return self._made_in(base, self.folders.writable) if folder is None else folder / segment_name(base)

    def new_path(self, disk: Disk, base: int, full_ratio: int) -> Path:
        """Where the segment is to be made: not on a disk of which more than `full_ratio` per cent are in use."""
        writable = self.folders.writable
        if len(writable) > 1:
            writable = tuple(f for f in writable if disk.space(f).used_ratio <= full_ratio) or writable
        return self._made_in(base, writable)

    def _made_in(self, base: int, folders: tuple[Path, ...]) -> Path:
        return folders[base // (self.segment_size or 1) % len(folders)] / segment_name(base)


def list_log_files(disk: Disk, folders: LogFolders | Path, *, tolerant: bool = False) -> LogFiles:
    """The segments in these folders, or in this one.

    Raises StrayFileError, SegmentLengthError, FileTooLargeError, or DamagedStoreError for a gap; `tolerant` (for
    reading) notes a stray file and a gap instead and goes on, and leaves out a segment of the wrong length.
    """
    if isinstance(folders, Path):
        folders = LogFolders(folders, (folders,))
    notes: list[str] = []

    def refuse(problem: DamagedStoreError) -> None:
        if not tolerant:
            raise problem
        notes.append(str(problem))

    entries, found_in = _find_segments(disk, folders, refuse)
    empty: list[Path] = []
    while entries and entries[-1][1].size == 0:
        base, entry = entries.pop()
        empty.insert(0, found_in.pop(base) / entry.name)
    segment_size = _segment_size(entries)
    bases: list[int] = []
    left_out: dict[int, int] = {}
    for base, entry in entries:
        assert segment_size is not None
        path = found_in[base] / entry.name
        if entry.size != segment_size or base % segment_size:
            refuse(SegmentLengthError(path, entry.size, segment_size))
            left_out[base] = entry.size
            continue
        if bases and base != bases[-1] + segment_size:  # a gap: a tolerant reader continues behind it
            refuse(
                DamagedStoreError(
                    f"{path}: found this segment after {segment_name(bases[-1])}, expected "
                    f"{segment_name(bases[-1] + segment_size)} between them. Restore the missing segment from a copy"
                )
            )
        bases.append(base)
    return LogFiles(folders, bases, segment_size, notes, left_out, empty, found_in)


def _find_segments(
    disk: Disk, folders: LogFolders, refuse: Callable[[DamagedStoreError], None]
) -> tuple[list[tuple[int, FolderEntry]], dict[int, Path]]:
    """(base, entry) of each segment file, ascending, and the folder of each. `refuse` gets a problem for each file that
    is left out."""
    entries: list[tuple[int, FolderEntry]] = []
    found_in: dict[int, Path] = {}
    for folder in folders.all:
        for entry in disk.list(folder):
            if entry.is_folder:
                continue
            base, path = segment_base(entry.name), folder / entry.name
            if base is None:
                refuse(StrayFileError(path))
            elif entry.size > MAX_FILE_SIZE:
                refuse(FileTooLargeError(path, entry.size, MAX_FILE_SIZE))
            elif base in found_in:
                refuse(
                    DamagedStoreError(
                        f"{path}: found this segment in {found_in[base]} too, expected it once. Find out which one is "
                        "right, and move the other away"
                    )
                )
            else:
                entries.append((base, entry))
                found_in[base] = folder
    return sorted(entries, key=lambda found: found[0]), found_in


def _segment_size(entries: list[tuple[int, FolderEntry]]) -> int | None:
    """The size that most files agree on: their lengths, and the distances between their names."""
    if not entries:
        return None
    votes = Counter(entry.size for _, entry in entries if entry.size)
    votes.update(after - before for (before, _), (after, _) in pairwise(entries))
    return max(votes, key=lambda size: (votes[size], size)) if votes else None
