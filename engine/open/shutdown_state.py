"""The last writer by the store's files: which program, whether it closed the store, and so which files can be trusted.

    who wrote last     how we know
    nobody             there is no segment, and no progress page that says there was one
    flightlog, closed  no `abort`; the progress page was closed, and `checkpoint` is as that close left it
    flightlog, killed  `abort` names the epoch of the progress page, or says that the page still had that one
    RocketMQ, closed   no `abort`, and the above does not hold
    RocketMQ, killed   any other `abort` (or it is running now)

RocketMQ only checks whether `abort` exists, and never reads it.

The marks of the progress page are exact only while the writer that created the page holds the store: mapped pages
outlive the process, but not the mount, and a page read from the disk is older than the log. The boot id does not help:
a disk may have been pulled, a volume attached again, a snapshot restored. So without a live writer the log itself is
scanned, and the page is only a lower bound of what was durable: where the scan begins, and what must be there.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path

from ...index.key.index_file import INDEX_FOLDER
from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.disk.config_file import CONFIG_FOLDER
from ...store.disk.disk import Disk
from ...store.disk.lock import is_served
from ...store.segments.log_files import COMMIT_LOG_FOLDER, LogFiles, LogFolders, list_log_files
from ...store.state.checkpoint import Checkpoint, read_checkpoint
from ...store.state.deleted_topics import DeletedTopics
from ...store.state.progress import FLIGHTLOG_FOLDER, Progress, read_progress
from ..topics.topics import read_topics

ABORT_FILE = "abort"
ABORT_SIZE = 96
"""Size of our `abort` file, padded with spaces: one write replaces the whole content."""
OUR_ABORT = re.compile(rb"([0-9]+) flightlog ([0-9]+)(?: after ([0-9]+))? *")


class LastWriter(enum.Enum):
    """The last writer, and how its session ended."""

    NOBODY = "nobody"
    FLIGHTLOG_CLOSED = "flightlog, closed"
    FLIGHTLOG_KILLED = "flightlog, killed or running"
    ROCKETMQ_CLOSED = "RocketMQ, closed"
    ROCKETMQ_KILLED = "RocketMQ, killed or running"


@dataclass(frozen=True)
class ShutdownState:
    """The facts that recovery and readers decide from, read once."""

    root: Path
    files: LogFiles
    checkpoint: Checkpoint | None
    progress: Progress | None
    abort: bytes | None
    last_writer: LastWriter
    is_served: bool
    """Whether a flightlog writer holds the store now: then the progress page is exact."""

    @property
    def is_ours(self) -> bool:
        """Whether the progress page applies to these files."""
        return self.last_writer in (LastWriter.FLIGHTLOG_CLOSED, LastWriter.FLIGHTLOG_KILLED)

    @property
    def durable_below(self) -> int:
        """Physical offset below which damage cannot be a torn tail; 0 if unknown."""
        return self.progress.flushed if self.is_ours and self.progress else 0

    @property
    def is_clean(self) -> bool:
        return self.abort is None

    @property
    def readable_below(self) -> int:
        """Physical offset up to which a live flightlog writer lets others read, at least the durable end."""
        return max(self.progress.visible, self.progress.flushed) if self.progress else 0

    def dispatched_below(self, end: int) -> int:
        """Physical offset below which every message must have its queue entry, in a log that ends at `end`. Later
        messages may lack it: not dispatched, or not durable, when the last writer was killed."""
        if self.is_clean or self.last_writer is LastWriter.NOBODY:
            return end
        if self.last_writer is LastWriter.FLIGHTLOG_KILLED and self.progress is not None:
            progress = self.progress
            return min(end, progress.dispatched if self.is_served else progress.queues_flushed)
        return 0  # RocketMQ does not record it

    def is_stale(self, disk: Disk) -> bool:
        """Whether a writer has opened or closed the store since this was read."""
        now = read_progress(disk, self.root), read_abort(disk, self.root)
        if _session(self.progress, self.abort) != _session(*now):
            return True
        return self.last_writer is LastWriter.FLIGHTLOG_KILLED and not self.is_served and is_served(self.root)


def _session(progress: Progress | None, abort: bytes | None) -> tuple[object, ...]:
    """Values that change whenever a writer opens or closes the store."""
    return (abort, progress.epoch, progress.clean_close) if progress else (abort,)


def abort_content(pid: int, epoch: int, after: int | None) -> bytes:
    """Content of `abort` while flightlog has the store open. The progress page gets this epoch next; until then a page
    of ours has the epoch `after`."""
    content = f"{pid} flightlog {epoch}" + ("" if after is None else f" after {after}")
    return content.encode().ljust(ABORT_SIZE)


def _is_our_abort(abort: bytes, progress: Progress | None) -> bool:
    """Whether flightlog wrote last, so that the progress page applies to these files."""
    found = OUR_ABORT.fullmatch(abort)
    if found is None or progress is None:
        return False
    pid, epoch, after = (None if each is None else int(each) for each in found.groups())
    return (pid, epoch) == (progress.pid, progress.epoch) or after == progress.epoch


def read_shutdown_state(disk: Disk, root: Path, *, tolerant: bool, folders: LogFolders | None = None) -> ShutdownState:
    """Read it; `tolerant` and `folders` as in `list_log_files`.

    The page is read before the files are listed, so that the list has every file that the page counts on. Beside a
    writer that opens or closes the store meanwhile, ask `is_stale` when everything else is read too.
    """
    progress = read_progress(disk, root)
    checkpoint = read_checkpoint(disk, root)
    abort = read_abort(disk, root)
    files = list_log_files(disk, folders or root / COMMIT_LOG_FOLDER, tolerant=tolerant)
    last_writer = _last_writer(files, progress, checkpoint, abort)
    # Checked last: a page that was read before is never ahead of a live writer's.
    served = last_writer is LastWriter.FLIGHTLOG_KILLED and is_served(root)
    return ShutdownState(root, files, checkpoint, progress, abort, last_writer, served)


def _last_writer(
    files: LogFiles, progress: Progress | None, checkpoint: Checkpoint | None, abort: bytes | None
) -> LastWriter:
    if not files.bases and (progress is None or progress.flushed == 0):
        return LastWriter.NOBODY
    if abort is not None:
        return LastWriter.FLIGHTLOG_KILLED if _is_our_abort(abort, progress) else LastWriter.ROCKETMQ_KILLED
    closed = progress is not None and progress.clean_close >= 0
    if closed and progress is not None and checkpoint is not None and progress.checkpoint == checkpoint.words:
        return LastWriter.FLIGHTLOG_CLOSED
    return LastWriter.ROCKETMQ_CLOSED


def read_abort(disk: Disk, root: Path) -> bytes | None:
    """The content of `abort`; None without the file: the last writer closed the store."""
    try:
        file = disk.open(root / ABORT_FILE)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, 256)
    finally:
        file.close()


def refuse_links(disk: Disk, root: Path) -> None:
    """Raise SymbolicLinkError for a link in a folder of the store that is not listed anyway when the store is opened:
    nothing that a store's files say leads out of its folder. (The path of the folder itself is the caller's.)"""
    for folder in (root, root / FLIGHTLOG_FOLDER, root / CONFIG_FOLDER, root / INDEX_FOLDER):
        disk.list(folder)


OTHER_QUEUE_FOLDERS = ("batchconsumequeue", "consumequeue_ext")


def note_foreign_deletions(deleted: DeletedTopics, disk: Disk, root: Path, shutdown_state: ShutdownState) -> None:
    """Note the topics that RocketMQ has deleted.

    A broker that deletes a topic takes it out of `config/topics.json` and removes its queues; a topic that is in
    neither place, in a store that a broker closed cleanly, was deleted. Not so where there are no queues at all (they
    were lost), where there is no topics.json (no broker served the store), and after a kill (a new topic may have been
    lost in both places).
    """
    if shutdown_state.last_writer is not LastWriter.ROCKETMQ_CLOSED:
        return
    topics = read_topics(disk, root)
    with_queues = {entry.name for entry in disk.list(root / CONSUME_QUEUE_FOLDER) if entry.is_folder}
    if topics and with_queues:
        for folder in OTHER_QUEUE_FOLDERS:
            with_queues |= {entry.name for entry in disk.list(root / folder) if entry.is_folder}
        deleted.only_known(set(topics) | with_queues)
