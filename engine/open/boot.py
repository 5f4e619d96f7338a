"""Opening a store for writing: the order of the steps, and why.

    1   lock             before anything is read: a second process that recovers a live store destroys it
    2   shutdown state   who wrote last. Refuses what flightlog cannot write beside, and what a newer flightlog wrote
    3   geometry         adopts the sizes of existing files, or those that the store was created with. A contradicting
                         setting is refused before anything is changed, unless the store is empty
    4   tail scan        finds the end of the log. A corrupt middle is refused before anything is changed
    5   queues, keys     are brought up to the log. They are derived, so an interruption here does no harm
    6   cut              copies the torn tail aside, removes later segments, zeroes the tail; queues are synced
    7   log sync         a killed writer's records may be in the page cache alone. They are written again unchanged,
                         from step 4 on and in parallel, and synced; then the queues are. Then the folders of state
                         files are synced, because a writer may have died before it did that; topics with more queues
                         than their file says, the geometry of an empty store and the format version are written. The
                         start of the log is noted before the progress page says that flightlog wrote last: from then
                         on the note binds
    8   abort            from here on a crash is detected. The file names the epoch that the progress page is about to
                         get, and the one that our page still has: a writer that dies between 8 and 9 is not taken for
                         RocketMQ
    9   progress page    a new epoch, all marks at the end; then the lock tells readers that the marks are exact
    10  service threads  last: they work on a store that is whole

Steps 5 to 9 can be interrupted anywhere: the next open finds the same end and repeats them.
"""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ...index.key.index_file import IndexState
from ...index.key.key_index import KeyIndex
from ...index.queue.queue_extension import DEFAULT_EXTENSION_FILE_SIZE, EXTENSION_FOLDER
from ...index.queue.queue_table import (
    BATCH_QUEUE_FOLDER,
    CONSUME_QUEUE_FOLDER,
    QueueTable,
    find_extension_file_size,
    find_file_entries,
)
from ...store.disk.clock import Clock
from ...store.disk.config_file import CONFIG_FOLDER
from ...store.disk.disk import Disk
from ...store.disk.lock import LOCK_FILE, StoreLock
from ...store.errors import (
    ClockBehindError,
    DamagedStoreError,
    FileSystemWarning,
    MissingSegmentsError,
    RocksDbConfigError,
    RocksDbQueuesError,
    StoreNotFoundError,
    UnkeptPromiseError,
    UnsupportedStoreError,
)
from ...store.log.commit_log import CommitLog, LogStart
from ...store.log.log_reader import LogReader
from ...store.seal.block_checks import BlockChecks
from ...store.seal.open_seal import drop_stale_open_seal
from ...store.seal.seal import drop_stale_seals
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFiles, LogFolders
from ...store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ...store.state.checkpoint import CHECKPOINT_FILE, Checkpoint, write_checkpoint
from ...store.state.deleted_topics import DeletedTopicsFile
from ...store.state.format_version import FormatVersion
from ...store.state.geometry import Geometry
from ...store.state.log_start import log_start_path, read_log_start, write_log_start
from ...store.state.progress import FLIGHTLOG_FOLDER, STILL_OPEN, Progress, ProgressPage, boot_number
from ...store.state.rocksdb import has_rocksdb_files, rocksdb_configs
from ..dispatch.dispatcher import Dispatcher
from ..dispatch.dispatching import dispatch_rules
from ..dispatch.key_scan import KeptKeys
from ..topics.topics import TopicTable
from .key_recovery import open_index, recover_keys
from .log_sync import LogSync
from .missing_ranges import missing_start, start_text
from .recovery import RecoveryReport, recover_queues
from .shutdown_state import (
    ABORT_FILE,
    LastWriter,
    ShutdownState,
    abort_content,
    note_foreign_deletions,
    read_shutdown_state,
    refuse_links,
)
from .truncation import cut_tail, remove_empty

log = logging.getLogger("flightlog.recovery")

MAX_CLOCK_LEAD_MS = 3_600_000
"""Store times may be ahead of the clock by this much. A larger lead means that one of them is wrong."""

KNOWN_NAMES = frozenset(
    {
        COMMIT_LOG_FOLDER,
        CONSUME_QUEUE_FOLDER,
        EXTENSION_FOLDER,
        BATCH_QUEUE_FOLDER,
        FLIGHTLOG_FOLDER,
        CHECKPOINT_FILE,
        LOCK_FILE,
        ABORT_FILE,
        "abort.bak",
    }
    | {"index", "config", "timerlog", "timerwheel", "lost+found"}
)


@dataclass(frozen=True)
class WriterSession:
    """The lock of a store that is open for writing, and the files that record its writer's progress."""

    lock: StoreLock
    progress: ProgressPage
    checkpoint: Checkpoint
    """The checkpoint on disk when the store was opened."""

    def release(self) -> None:
        """Release the lock last, so that no other writer opens the store before. Calling it twice is fine."""
        self.progress.close()
        self.lock.release()


@dataclass(frozen=True)
class RecoveredStore:
    """The result of steps 1 to 9: a recovered store, without threads yet."""

    session: WriterSession
    log: CommitLog
    dispatcher: Dispatcher
    """Owns the queues and the key index, and brings them up to the log."""
    topics: TopicTable
    deleted_file: DeletedTopicsFile
    report: RecoveryReport


def check_folder(path: Path, settings: StoreSettings, disk: Disk) -> None:
    """Raise if the folder holds something other than a store, or if files of the store are links."""
    refuse_links(disk, path)
    names = {entry.name for entry in disk.list(path)}
    names -= {Path(name).parts[0] for name in settings.commit_log_folders + settings.commit_log_read_only_folders}
    has_log = COMMIT_LOG_FOLDER in names or LogFolders.of(path, settings).hold_segments(disk)
    if names and not has_log and not names <= KNOWN_NAMES:
        strange = sorted(names - KNOWN_NAMES)[0]
        raise StoreNotFoundError(
            f"{path} is not a flightlog store: no {COMMIT_LOG_FOLDER}/ directory, but it contains {strange!r}. "
            "Pass an existing store or an empty directory"
        )


def recover_store(
    path: Path,
    settings: StoreSettings,
    disk: Disk,
    clock: Clock,
    undo: ExitStack,
    wake_preparing: Callable[[], object],
) -> RecoveredStore:
    """Run steps 1 to 9 above. Appends will call `wake_preparing` once they have used half of the prepared space.

    Raises the errors that `flightlog.open` documents; after any error `undo` releases the lock.
    """
    if settings.unkept_promises:
        raise UnkeptPromiseError(path, settings.unkept_promises)
    check_folder(path, settings, disk)
    disk.make_folder(path)
    # 1 lock
    lock = StoreLock.acquire(path)
    undo.callback(lock.release)
    folders = LogFolders.of(path, settings)
    for folder in folders.writable:
        disk.make_folder(folder)
    # 2 shutdown state
    shutdown_state = read_shutdown_state(disk, path, tolerant=False, folders=folders)
    format_version = FormatVersion(disk, path)
    format_version.refuse_newer()
    _refuse_unsupported(path, disk)
    maps_appends = _maps_appends(path, disk, folders)
    # 3 geometry
    geometry = Geometry(disk, path, is_empty=not shutdown_state.files.bases)
    files = _adopt_segments(shutdown_state.files, settings, geometry)
    sizes = _adopt_queue_entries(path, disk, settings, geometry), _adopt_extensions(path, disk, settings, geometry)
    table = QueueTable(disk, path, sizes[0], in_memory=False, extension_file_size=sizes[1])
    table.load(thorough=not (shutdown_state.is_ours and shutdown_state.is_clean))
    _refuse_a_lost_log(path, shutdown_state, table)
    deleted_file = DeletedTopicsFile(disk, path)
    deleted = deleted_file.read()
    note_foreign_deletions(deleted, disk, path, shutdown_state)
    table.drop_deleted(deleted)
    rules = dispatch_rules(settings, deleted)
    index = open_index(disk, path, settings, clock, geometry)
    topics = TopicTable(disk, path, settings, clock)
    reader = LogReader(disk, files, check_crc_property=settings.check_crc_property)
    log_sync = LogSync(disk, reader)
    try:
        lost_start = missing_start(disk, path, reader)
        if lost_start is not None and shutdown_state.is_ours:
            raise MissingSegmentsError(
                reader.folder, reader.min_offset, lost_start.physical_offset, log_start_path(path)
            )
        # 4 tail scan, 5 queues
        keys = KeptKeys()
        found, report = recover_queues(
            *(reader, table, shutdown_state, rules, None),
            for_writing=True,
            keys=None if index is None else keys,
            at_end=partial(log_sync.begin, shutdown_state.durable_below) if shutdown_state.is_ours else None,
        )
        if lost_start is not None:
            report.damage.append(start_text(lost_start, shutdown_state))
        deleted.settle(reader.min_offset, found.end)
        topics.load(
            (key for key, _ in table.items()),
            deleted.pending,
            batch_topics=table.batch_topics(),
            grows=shutdown_state.last_writer is LastWriter.FLIGHTLOG_KILLED,
        )
        deleted.pending = []
        deleted_file.write(deleted)  # before anything is appended that it could apply to
        newest_ms, now_ms = report.last_store_timestamp_ms, clock.now_ms()
        if newest_ms > now_ms + MAX_CLOCK_LEAD_MS and not settings.accept_future_store_time:
            raise ClockBehindError(path, newest_ms, now_ms)
        # 6 cut
        drop_stale_open_seal(disk, path, reader.segments, found.end, is_ours=shutdown_state.is_ours)
        if found.torn is not None or shutdown_state.last_writer is not LastWriter.FLIGHTLOG_CLOSED:
            report.cut = cut_tail(disk, path, reader, found.end)
        remove_empty(disk, shutdown_state.files)
        if not shutdown_state.is_ours:  # the last writer did not maintain seals
            report.cut += drop_stale_seals(disk, path, reader, found.end)
        if report.cut:
            extra = {"path": str(path), "physical_offset": found.end, "cut": report.cut}
            log.warning("%s: %s", path, "; ".join(report.cut), extra=extra)
        log_sync.follow(partial(table.sync, table.unsynced.take()))
        # 5 keys
        if index is not None:
            recover_keys(reader, index, shutdown_state, report, keys)
        # 7 log sync
        log_sync.sync(min(shutdown_state.durable_below, found.end), found.end, folders)
        if read_log_start(disk, path) != reader.min_offset:
            write_log_start(disk, path, reader.min_offset)
        kept = {segment.base: segment.path.parent for segment in reader.segments}
        files = replace(files, bases=list(kept), found_in=kept)
    finally:
        log_sync.close()
        reader.close()
    _sync_state_folders(path, disk)
    topics.save()
    geometry.save()
    format_version.save()
    report.tell(path, log)
    # 8 abort
    epoch = secrets.randbits(62)
    _write_abort(disk, path, epoch, shutdown_state)
    if shutdown_state.checkpoint is None:  # RocketMQ expects the file from its first second on
        write_checkpoint(disk, path, Checkpoint())
    checkpoint = shutdown_state.checkpoint or Checkpoint()
    # 9 progress page
    page = ProgressPage(disk, path, is_mapped=maps_appends)
    undo.callback(page.close)
    progress = _begin_progress(page, table, index, shutdown_state, files.segment_size or 0, found.end, newest_ms, epoch)
    lock.serve()
    queue_offsets = {key: queue.end for key, queue in table.items()}
    start = LogStart(found.end, found.end, newest_ms, queue_offsets)
    commit_log = CommitLog(
        *(disk, files, settings, clock, progress, start, wake_preparing),
        maps_appends=maps_appends,
        first_broken=BlockChecks(disk, path).first_broken if settings.check_blocks else None,  # stale seals are gone
    )
    undo.callback(commit_log.close)
    dispatcher = Dispatcher(disk, commit_log, table, index, rules, progress, found.end)
    undo.callback(dispatcher.close)
    return RecoveredStore(
        WriterSession(lock, progress, checkpoint), commit_log, dispatcher, topics, deleted_file, report
    )


def _refuse_unsupported(path: Path, disk: Disk) -> None:
    features = {
        "compaction/compactionLog": "it has compacted topics (compaction/)",
    }
    if has_rocksdb_files(disk, path / CONSUME_QUEUE_FOLDER):
        raise RocksDbQueuesError(path)
    if configs := rocksdb_configs(disk, path):
        raise RocksDbConfigError(path, configs)
    for name, feature in features.items():
        if disk.list(path / name):
            raise UnsupportedStoreError(path, feature)


def _refuse_a_lost_log(path: Path, shutdown_state: ShutdownState, table: QueueTable) -> None:
    """Refuse to start a new log over the remains of another one: its queues would continue as if nothing were missing.

    If the progress page says that no byte of the log was ever durable, the store is accepted: a power cut may have left
    queue entries alone.
    """
    progress = shutdown_state.progress
    # the tail scan checks our own logs against the progress page
    if shutdown_state.files.bases or shutdown_state.is_ours:
        return
    if progress is not None and progress.flushed > 0:
        left = f"a progress page that records {progress.flushed} bytes of log"
    elif progress is None and (there := [key for key, queue in table.items() if queue.end > 0]):
        left = f"{len(there)} queues that hold messages (topic {there[0][0]!r}, queue {there[0][1]})"
    else:
        return
    folders = ", ".join(map(str, shutdown_state.files.folders.all))
    raise DamagedStoreError(
        f"{path}: found {left}, but no segment of that log in {folders}. Restore the segments from a copy, or set "
        "commit_log_folders to the folders that hold them. To start an empty store, move everything but "
        f"{CONFIG_FOLDER}/ away"
    )


def _adopt_segments(files: LogFiles, settings: StoreSettings, geometry: Geometry) -> LogFiles:
    size = geometry.adopt("segment_size", settings.segment_size, files.segment_size, DEFAULT_SEGMENT_SIZE)
    return replace(files, segment_size=size)


def _adopt_queue_entries(path: Path, disk: Disk, settings: StoreSettings, geometry: Geometry) -> int:
    found, wanted = find_file_entries(disk, path), settings.queue_file_entries
    return geometry.adopt("queue_file_entries", wanted, found, DEFAULT_QUEUE_FILE_ENTRIES)


def _adopt_extensions(path: Path, disk: Disk, settings: StoreSettings, geometry: Geometry) -> int | None:
    """Bytes of a file of queue extensions; None if the store has none and the settings ask for none."""
    setting = "queue_extension_file_size"
    if not settings.queue_extension and setting not in geometry.noted and not disk.exists(path / EXTENSION_FOLDER):
        return None
    found, wanted = find_extension_file_size(disk, path), settings.queue_extension_file_size
    return geometry.adopt(setting, wanted, found, DEFAULT_EXTENSION_FILE_SIZE)


def _sync_state_folders(path: Path, disk: Disk) -> None:
    """Sync the folders of state files that were read: their writer may have died, or met a disk error, between the
    rename of a new file and the sync of its folder."""
    for folder in (path / CONFIG_FOLDER, path / FLIGHTLOG_FOLDER):
        if disk.exists(folder):
            disk.sync_folder(folder)


def _write_abort(disk: Disk, path: Path, epoch: int, shutdown_state: ShutdownState) -> None:
    known = shutdown_state.progress if shutdown_state.is_ours else None
    content = abort_content(os.getpid(), epoch, None if known is None else known.epoch)
    file = disk.open(path / ABORT_FILE, writable=True, create=True)
    try:
        file.write(0, content)  # in one write: a crash leaves the old content or the new one
        file.resize(len(content))
        file.sync()
    finally:
        file.close()
    disk.sync_folder(path)


def _maps_appends(path: Path, disk: Disk, folders: LogFolders) -> bool:
    """Whether appends through a mapping are safe on these file systems. Warns if they could end the process."""
    for folder in (path, *folders.writable):
        found = disk.find_unpromising(folder)
        if found is not None:
            text = (
                f"{found.folder} is on {found.name}, which {found.reason}: appends through a mapping could end the "
                "process by SIGBUS there. This store appends by write calls, which is slower; a full disk raises "
                "DiskFullError. For full speed, and for what docs/durability.md promises, keep the store on a local "
                "ext4 or XFS, in a container on a mounted volume"
            )
            warnings.warn(text, FileSystemWarning, stacklevel=2)
            return False
    return True


def _begin_progress(
    page: ProgressPage,
    table: QueueTable,
    index: KeyIndex | None,
    shutdown_state: ShutdownState,
    segment_size: int,
    end: int,
    newest_ms: int,
    epoch: int,
) -> ProgressPage:
    queues = table.items()
    indexed, state, count = (
        (end, index.state, len(index.files)) if index is not None else _indexed_before(shutdown_state)
    )
    page.begin(
        Progress(
            epoch=epoch,
            pid=os.getpid(),
            segment_size=segment_size,
            appended=end,
            visible=end,
            flushed=end,
            dispatched=end,
            queues_flushed=end,
            clean_close=STILL_OPEN,
            boot=boot_number(),
            store_timestamp_ms=newest_ms,
            queue_count=len(queues),
            queue_ends=sum(queue.end for _, queue in queues),
            queue_starts=sum(queue.min_index for _, queue in queues),
            checkpoint=Checkpoint().words,
            index_flushed=indexed,
            index_file=state.file,
            index_entries=state.next_entry,
            index_count=count,
        )
    )
    return page


def _indexed_before(shutdown_state: ShutdownState) -> tuple[int, IndexState, int]:
    """State of the key index, for a session that does not open it to pass on to the next one that does."""
    progress = shutdown_state.progress
    if progress is None or not shutdown_state.is_ours:
        return 0, IndexState(), 0
    return progress.index_flushed, IndexState(progress.index_file, progress.index_entries), progress.index_count
