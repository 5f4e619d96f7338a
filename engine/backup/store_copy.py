"""One pass over the files of a store, to a copy that opens as the store would after a power cut.

The order of a pass, and why a writer beside it does no harm:

    1  notes      the progress page first, `abort`, `checkpoint`, and the small state files, into memory. What they say
                  of the other files holds for these as they are later, too
    2  pointers   timer wheel, consume queues, key index, ...: what they point to is in the log by now
    3  the log    up to the end that the writer names now, so that it ends with a whole record
    4  notes      are written

So the copy is what a power cut would leave: everything that was synced before the pass, and a part of what was written
during it. Recovery brings queues, index and timers up to the log, as after a power cut. What takes something back (a
removed file, a deleted topic, a writer that opened or closed the store) makes the pass void: it is repeated, and copies
what differs.

A RocketMQ broker tells no end of its log: there the copy ends with the last record that is in a consume queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...index.key.index_file import INDEX_FOLDER
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.config_file import CONFIG_FOLDER
from ...store.disk.disk import Disk, FolderEntry
from ...store.disk.lock import LOCK_FILE, is_held, is_served
from ...store.disk.sparse_copy import copy_file
from ...store.errors import DamagedStoreError, FileGoneError, StoreChangingError
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFolders
from ...store.segments.segment import segment_base
from ...store.settings import StoreSettings
from ...store.state.checkpoint import CHECKPOINT_FILE
from ...store.state.deleted_topics import deleted_path
from ...store.state.log_start import read_log_start
from ...store.state.progress import FLIGHTLOG_FOLDER, Progress, progress_path, read_progress
from ..open.shutdown_state import ABORT_FILE, read_abort
from ..open.truncation import CUT_PREFIX
from ..read_only import open_read_only

INCOMPLETE_FILE = "copy-is-incomplete"
"""In the commit log's folder until a copy is complete: neither flightlog nor RocketMQ opens a log with a stray file for
writing."""
BACKUP_FILE = "backup.json"
STAGING_FOLDER = "staging"
TLS_FOLDER = "tls"
NOT_COPIED = frozenset({LOCK_FILE, "lost+found"})
NOT_COPIED_OF_OURS = frozenset({BACKUP_FILE, BACKUP_FILE + ".bak", BACKUP_FILE + ".tmp", STAGING_FOLDER, TLS_FOLDER})
"""In `flightlog/`: what tells of the copy itself, the rows of running Spark jobs, and the private keys of a server."""
FIRST = ("timerwheel", CONSUME_QUEUE_FOLDER, "batchconsumequeue", INDEX_FOLDER)
"""Before everything else: these point into other files than the log, too."""
MORE_PASSES = 20
"""How often a pass is repeated because a writer took something back meanwhile."""


def _is_apart(name: str) -> bool:
    """Whether a file of `flightlog/` or `config/` is not copied: NOT_COPIED_OF_OURS, torn tails, half-written files."""
    return name in NOT_COPIED_OF_OURS or name.startswith(CUT_PREFIX) or name.endswith(".tmp")


@dataclass(slots=True)
class StoreCopy:
    """Copies the files of the store at `root` to `target`, and counts. Not thread-safe."""

    disk: Disk
    root: Path
    target: Path
    settings: StoreSettings
    for_broker: bool = False
    """Whether a broker is to start from the copy: without `abort`, and of the folder `flightlog/` only what tells which
    records are those of deleted topics, for who reads the copy here. The caller holds the lock of the store."""
    is_unchanged: Callable[[Path, int], bool] = lambda _, size: False
    """Whether a full segment, of this path and size, is in the copy already."""
    segment_copied: Callable[[Path, int], None] = lambda _, size: None
    """Called with each full segment that was copied, once it is durable."""
    copied_size: int = 0
    """Bytes written, of all passes; holes and what was there already not counted."""
    segment_count: int = 0
    """How many segments something was written of."""
    end_physical_offset: int | None = None
    """Where the log of the copy ends; None if no writer had the store open: then it has all of every file."""
    _kept: set[Path] = field(default_factory=set)

    def run(self) -> None:
        """Copy until a pass is valid; durable when this returns. A file of the target that the store has no longer is
        removed. Raises StoreChangingError, DamagedStoreError, SymbolicLinkError, DiskFullError, SyncFailedError,
        DiskError."""
        for _ in range(MORE_PASSES + 1):
            before = self._state()
            try:
                self._pass()
            except FileGoneError:
                continue
            if self._state() == before:
                return
        raise StoreChangingError(
            f"{self.root}: a writer removed files, or opened or closed this store, during each of {MORE_PASSES + 1} "
            "attempts to copy it. Try again later: what was copied is not copied again"
        )

    def _state(self) -> tuple[object, ...]:
        """Values that change if something is taken back that a pass may have copied, or if another writer comes."""
        folders = LogFolders.of(self.root, self.settings)
        names = [entry.name for folder in folders.all for entry in self.disk.list(folder)]
        first = min((name for name in names if segment_base(name) is not None), default=None)
        progress = read_progress(self.disk, self.root)
        told = (progress.epoch, progress.clean_close, progress.queue_starts) if progress is not None else ()
        start = read_log_start(self.disk, self.root)
        deleted = self._content(deleted_path(self.root))
        return (first, told, start, deleted, read_abort(self.disk, self.root))

    def _pass(self) -> None:
        self._kept = set()
        notes = self._notes()
        folders = LogFolders.of(self.root, self.settings)
        of_log = {folder for folder in folders.all if folder.parent == self.root} | {self.root / COMMIT_LOG_FOLDER}
        apart = NOT_COPIED | {FLIGHTLOG_FOLDER, ABORT_FILE, CHECKPOINT_FILE}
        entries = [e for e in self.disk.list(self.root) if e.name not in apart and self.root / e.name not in of_log]
        entries.sort(key=lambda entry: FIRST.index(entry.name) if entry.name in FIRST else len(FIRST))
        self.disk.make_folder(self.target)
        self._copy_entries(entries, self.root, self.target)
        if not self.for_broker:
            ours = [e for e in self.disk.list(self.root / FLIGHTLOG_FOLDER) if not _is_apart(e.name)]
            self._copy_entries(ours, self.root / FLIGHTLOG_FOLDER, self.target / FLIGHTLOG_FOLDER)
        self._copy_log(folders)
        for source, content in notes.items():
            self._write_note(self.target / source.relative_to(self.root), content)
        self._remove_others()

    def _notes(self) -> dict[Path, bytes]:
        """The small files, the progress page first."""
        paths = [progress_path(self.root), self.root / ABORT_FILE] if not self.for_broker else []
        paths.append(self.root / CHECKPOINT_FILE)
        if self.for_broker:
            paths.append(deleted_path(self.root))
        for name in (CONFIG_FOLDER, FLIGHTLOG_FOLDER) if not self.for_broker else (CONFIG_FOLDER,):
            folder = self.root / name
            for entry in self.disk.list(folder):
                if not entry.is_folder and not _is_apart(entry.name) and folder / entry.name not in paths:
                    paths.append(folder / entry.name)
        notes = {}
        for path in paths:
            content = self._content(path)
            if content is not None:
                notes[path] = content
        return notes

    def _content(self, path: Path) -> bytes | None:
        try:
            file = self.disk.open(path)
        except FileNotFoundError:
            return None
        try:
            return file.read(0, file.size())
        finally:
            file.close()

    def _write_note(self, target: Path, content: bytes) -> None:
        self._kept.add(target)
        if self._content(target) == content:
            return
        self.disk.make_folder(target.parent)
        file = self.disk.open(target, writable=True, create=True)
        try:
            file.write(0, content)
            file.resize(len(content))
            file.sync()
        finally:
            file.close()
        self.disk.sync_folder(target.parent)
        self.copied_size += len(content)

    def _copy_entries(self, entries: list[FolderEntry], source: Path, target: Path) -> None:
        """Copy these entries of a folder with all that is below them, but no notes."""
        self.disk.make_folder(target)
        self._kept.add(target)
        for entry in entries:
            path = source / entry.name
            if entry.is_folder:
                self._copy_entries(self.disk.list(path), path, target / entry.name)
            elif source not in (self.root / CONFIG_FOLDER, self.root / FLIGHTLOG_FOLDER):  # these are notes
                self._copy_file(path, target / entry.name)
        self.disk.sync_folder(target)

    def _copy_file(self, source: Path, target: Path, stop: int | None = None) -> int:
        self._kept.add(target)
        copied = copy_file(self.disk, source, target, stop=stop)
        self.copied_size += copied
        return copied

    def _copy_log(self, folders: LogFolders) -> None:
        target = self.target / COMMIT_LOG_FOLDER
        self.disk.make_folder(target)
        self._kept.add(target)
        end = self.end_physical_offset = self._live_end()
        found: dict[str, tuple[Path, int]] = {}
        for folder in folders.all:
            for entry in self.disk.list(folder):
                path = folder / entry.name
                if entry.name in found:
                    raise DamagedStoreError(
                        f"{path}: found this segment in {found[entry.name][0].parent} too, expected it once. Find out "
                        "which one is right, and move the other away"
                    )
                if not entry.is_folder:
                    found[entry.name] = (path, entry.size)
        last = max((name for name in found if segment_base(name) is not None), default="")
        for name, (path, size) in sorted(found.items()):
            base = segment_base(name)
            if base is None or end is None:
                self._copy_segment(path, size, None, is_full=base is not None and name != last)
            elif base < end:
                self._copy_segment(path, size, end - base, is_full=base + size <= end)
        self.disk.sync_folder(target)

    def _copy_segment(self, path: Path, size: int, stop: int | None, *, is_full: bool) -> None:
        target = self.target / COMMIT_LOG_FOLDER / path.name
        if is_full and self.is_unchanged(path, size):
            self._kept.add(target)
            return
        if self._copy_file(path, target, stop):
            self.segment_count += 1
        if is_full:
            self.disk.sync_folder(target.parent)
            self.segment_copied(path, size)

    def _live_end(self) -> int | None:
        """Physical offset of the end of the last whole record, if a writer has the store open."""
        if self.for_broker:
            return None
        if is_served(self.root):
            progress: Progress | None = read_progress(self.disk, self.root)
            return None if progress is None else progress.appended
        if is_held(self.root):
            with open_read_only(self.root, self.settings, disk=self.disk) as view:
                return view.end_physical_offset
        return None

    def _remove_others(self) -> None:
        """Remove from the target what the store has no longer, segments oldest first."""
        ours = self.target / FLIGHTLOG_FOLDER
        self._kept |= {self.target / LOCK_FILE, self.target / COMMIT_LOG_FOLDER / INCOMPLETE_FILE}
        self._kept |= {ours, *(ours / name for name in NOT_COPIED_OF_OURS)}
        self._kept |= {folder for path in self._kept for folder in path.parents}
        self._remove_below(self.target)

    def _remove_below(self, folder: Path) -> None:
        is_changed = False
        for entry in self.disk.list(folder):
            path = folder / entry.name
            if entry.is_folder:
                self._remove_below(path)
            if path in self._kept:
                continue
            (self.disk.remove_folder if entry.is_folder else self.disk.remove)(path)
            is_changed = True
        if is_changed:
            self.disk.sync_folder(folder)
