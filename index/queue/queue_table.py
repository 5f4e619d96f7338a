"""All consume queues of a store, by topic and queue id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...store.disk.disk import MAX_FILE_SIZE, Disk
from ...store.disk.parallel import each
from ...store.errors import SegmentLengthError
from ...store.format.light_queues import is_light
from ...store.format.record import INT32_MAX, is_safe_topic
from ...store.queue_offsets import QueueKey
from ...store.segments.segment import segment_base
from ...store.state.deleted_topics import DeletedTopics
from ...store.state.rocksdb import has_rocksdb_files
from .batch_queue import BatchQueue
from .batch_unit import BATCH_UNIT_SIZE
from .consume_queue import ConsumeQueue
from .memory_queue import MemoryQueue
from .queue_extension import EXTENSION_FOLDER, QueueExtension
from .queue_files import QueueFiles
from .queue_sync import Unsynced
from .queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_SIZE, QueueUnit, Units, decode_unit, same_message

CONSUME_QUEUE_FOLDER = "consumequeue"
QUEUE_ID = re.compile("0|[1-9][0-9]{0,9}")

ENOUGH_VOTES = 3
"""Files of one length after which no others are asked: a store may have very many."""


class Queue(Protocol):
    """Interface of a queue, on disk or in memory, for readers and the dispatcher."""

    min_index: int
    end: int
    seen_last: tuple[int, bytes] | None
    """The last entry, with its index, as it was seen when the queue was loaded; None once the queue has changed."""

    def units(self, index: int, count: int) -> Units: ...

    def resolved(self, units: Units) -> Units: ...

    @property
    def extension(self) -> QueueExtension | None: ...

    def put(self, index: int, units: Units, store_timestamps_ms: NDArray[np.int64] | None = None) -> None: ...

    def first_at_or_after(self, physical_offset: int) -> int: ...

    def next_file_index(self, index: int) -> int: ...

    def truncate(self, end: int) -> None: ...

    def set_min_offset(self, min_physical_offset: int) -> None: ...

    def skip_removed(self) -> None: ...

    def restart(self) -> None: ...


def last_entry(queue: Queue) -> QueueUnit | None:
    """The last entry of a queue; None for an empty one, and where its file has gone meanwhile."""
    if queue.end <= queue.min_index:
        return None
    seen = queue.seen_last
    if seen is not None and seen[0] == queue.end - 1:
        return decode_unit(seen[1])
    units = queue.units(queue.end - 1, 1)
    return QueueUnit(*units[0].item()) if len(units) else None


def _begins_before(queue: Queue, physical_offset: int) -> bool:
    """Whether a queue has no entries, or some of records before `physical_offset`, or is just being removed."""
    if queue.end == 0:
        return True
    ends = [queue.units(queue.end - 1, 1)]
    if queue.min_index < queue.end:
        ends.append(queue.units(queue.min_index, 1))
    return any(not len(units) or int(units["physical_offset"][0]) < physical_offset for units in ends)


BATCH_QUEUE_FOLDER = "batchconsumequeue"
DEFAULT_BATCH_FILE_ENTRIES = 300_000


class QueueTable:
    """The queues on disk, each one loaded when the table is.

    In memory mode (a read-only view, or a writer whose disk has failed) nothing is ever written: new entries go into a
    MemoryQueue over the one on disk.
    """

    def __init__(
        self, disk: Disk, root: Path, file_entries: int, *, in_memory: bool, extension_file_size: int | None = None
    ) -> None:
        self._disk, self._folder = disk, root / CONSUME_QUEUE_FOLDER
        self._file_entries, self.is_in_memory = file_entries, in_memory
        self._batch_folder = root / BATCH_QUEUE_FOLDER
        self._batch_entries = find_batch_file_entries(disk, root) or DEFAULT_BATCH_FILE_ENTRIES
        self._queues: dict[QueueKey, Queue] = {}
        self.unsynced = Unsynced()
        """Queue files that are written and not yet synced."""
        self.files = QueueFiles(disk)
        """The open queue files."""
        self._extension = extension_maker(disk, root, extension_file_size, self.unsynced)
        self.has_extensions = extension_file_size is not None or disk.exists(root / EXTENSION_FOLDER)
        self._file_system = None if in_memory else disk.open_file_system(root)
        """Opened before a queue is written: it tells of failed writes since then."""
        self.unreadable: list[str] = []
        """Queues that memory mode left out because their files have the wrong length."""
        self.is_in_rocksdb = False
        """Whether RocketMQ keeps the queues in RocksDB: none of them can be read, and all have to come from the log."""

    def load(self, *, thorough: bool) -> None:
        """Find every queue. Raises SegmentLengthError for a file of the wrong length, unless in memory mode."""

        def look(found: tuple[QueueKey, Path]) -> tuple[QueueKey, ConsumeQueue | SegmentLengthError]:
            key, queue = found[0], self._queue(*found)
            try:
                queue.load(thorough=thorough)
            except SegmentLengthError as e:
                if not self.is_in_memory:
                    raise
                return key, e
            return key, queue

        for key, queue in each(self._disk, look, list_queue_folders(self._disk, self._folder.parent)):
            if isinstance(queue, SegmentLengthError):
                self.unreadable.append(str(queue))
            else:
                self._queues[key] = MemoryQueue(queue) if self.is_in_memory else queue
        for key, folder in list_queue_folders(self._disk, self._folder.parent, BATCH_QUEUE_FOLDER):
            self._load_batch_queue(key, folder)
        self.is_in_rocksdb = not self._queues and has_rocksdb_files(self._disk, self._folder)

    def _load_batch_queue(self, key: QueueKey, folder: Path) -> None:
        queue = self._batch_queue(folder)
        try:
            queue.load()
        except SegmentLengthError as e:
            if not self.is_in_memory:
                raise
            self.unreadable.append(str(e))
            return
        known = self._queues.get(key)
        if known is None or known.end == 0:
            self._queues[key] = queue

    def _queue(self, key: QueueKey, folder: Path) -> ConsumeQueue:
        extension = self._extension(key)
        return ConsumeQueue(self._disk, folder, self._file_entries, extension, self.unsynced, self.files)

    def _batch_queue(self, folder: Path) -> BatchQueue:
        return BatchQueue(self._disk, folder, self._batch_entries, self.unsynced, in_memory=self.is_in_memory)

    def get_or_create_batch(self, key: QueueKey) -> BatchQueue | None:
        """The batch queue, new and without files if it was not known; None where messages stand in an ordinary one."""
        queue = self._queues.get(key)
        if isinstance(queue, BatchQueue):
            return queue
        if queue is not None and queue.end > 0:
            return None
        made = self._queues[key] = self._batch_queue(self._batch_folder / key[0] / str(key[1]))
        return made

    def get(self, key: QueueKey) -> Queue | None:
        return self._queues.get(key)

    def get_or_create(self, key: QueueKey) -> Queue:
        """The queue, new and without files if it was not known. The topic must be a safe folder name."""
        queue = self._queues.get(key)
        if queue is None:
            topic, queue_id = key
            assert is_safe_topic(topic), topic
            folder = self._folder / topic / str(queue_id)
            on_disk = self._queue(key, folder)
            queue = MemoryQueue(on_disk) if self.is_in_memory else on_disk
            self._queues[key] = queue
        return queue

    def continue_in_memory(self) -> None:
        """Write no queue from now on: what is on disk stays as it is, further entries are kept in memory."""
        self.is_in_memory = True
        for key, queue in self._queues.items():
            if isinstance(queue, ConsumeQueue):
                self._queues[key] = MemoryQueue(queue)
            elif isinstance(queue, BatchQueue):
                queue.continue_in_memory()

    def drop_topic(self, topic: str) -> None:
        """Forget the queues of a topic, and remove them from the disk, durably; not in memory mode. Raises
        DiskError."""
        self._drop(topic, [key for key in list(self._queues) if key[0] == topic])

    def drop_deleted(self, deleted: DeletedTopics) -> None:
        """Drop the remains of queues of deleted topics: the deletion was interrupted by a crash, or RocketMQ recreated
        the queues since. Called before the queues are brought up to the log."""
        stale: dict[str, list[QueueKey]] = {topic: [] for topic in deleted.marked()}
        for key, queue in self._queues.items():
            if key[0] in stale and _begins_before(queue, deleted.below(key[0])):
                stale[key[0]].append(key)
        for topic, keys in stale.items():
            self._drop(topic, keys)

    def _drop(self, topic: str, keys: list[QueueKey]) -> None:
        queues = [self._queues.pop(key) for key in keys]
        for folder in (self._folder / topic, self._batch_folder / topic):
            if not self.is_in_memory and self._disk.exists(folder):
                self._remove(folder, [q for q in queues if isinstance(q, ConsumeQueue | BatchQueue)])

    def _remove(self, folder: Path, queues: list[ConsumeQueue | BatchQueue]) -> None:
        queues = [queue for queue in queues if queue.folder.parent == folder]
        for queue in queues:
            queue.remove_all()
        if not self._disk.list(folder):
            self.unsynced.forget(folder)
            self._disk.sync_folder(folder)
            self._disk.remove_folder(folder)
            self._disk.sync_folder(folder.parent)
        elif queues:
            self._disk.sync_folder(folder)

    def topics(self) -> set[str]:
        """The topics that have queues; light queues are none."""
        return {topic for topic, _ in list(self._queues) if not is_light(topic)}

    def batch_topics(self) -> set[str]:
        """The topics whose queues are batch queues."""
        return {topic for (topic, _), queue in list(self._queues.items()) if isinstance(queue, BatchQueue)}

    def items(self) -> list[tuple[QueueKey, Queue]]:
        """A copy of the table, sorted by topic and queue id."""
        return sorted(self._queues.items())

    def values(self) -> list[Queue]:
        """The queues, in no order."""
        return list(self._queues.values())

    def sync(self, unsynced: Unsynced) -> None:
        """Make durable what was taken out of `unsynced`. Raises SyncFailedError, TooManyFilesError, DiskError."""
        unsynced.sync(self._disk, self._file_system)

    def close(self) -> None:
        """Sync nothing and keep no file open from now on. Calling it twice is fine."""
        self.files.close()
        if self._file_system is not None:
            self._file_system.close()

    def on_disk(self) -> Iterator[tuple[QueueKey, ConsumeQueue | BatchQueue]]:
        """The queues of a writable table; none once it goes on in memory."""
        for key, queue in () if self.is_in_memory else self.items():
            assert isinstance(queue, ConsumeQueue | BatchQueue)
            yield key, queue


def extension_maker(
    disk: Disk, root: Path, file_size: int | None = None, unsynced: Unsynced | None = None
) -> Callable[[QueueKey], QueueExtension | None]:
    """How the queues of a store come by their extensions: None for all where the store has none, unless `file_size`
    says that it is to have them. Light queues have none in RocketMQ."""
    base = root / EXTENSION_FOLDER
    size = file_size or (find_extension_file_size(disk, root) if disk.exists(base) else None)
    if size is None:
        return lambda key: None
    for _ in list_queue_folders(disk, root, EXTENSION_FOLDER):
        pass  # a link to elsewhere is found here, before anything is written
    return lambda key: None if is_light(key[0]) else QueueExtension(disk, base / key[0] / str(key[1]), size, unsynced)


def find_extension_file_size(disk: Disk, root: Path) -> int | None:
    """Bytes of a file of the extensions that exist: in what RocketMQ wrote all agree, so the first one's. None without
    one."""
    for _, folder in list_queue_folders(disk, root, EXTENSION_FOLDER):
        for entry in disk.list(folder):
            if segment_base(entry.name) is not None and 0 < entry.size <= MAX_FILE_SIZE:
                return entry.size
    return None


def same_entries(queue: Queue, there: Units, units: Units) -> NDArray[np.bool_]:
    """Which entries of a queue say what they should, in its extension too."""
    there = queue.resolved(there)
    same = same_message(there, units)
    if queue.extension is not None:  # an address that is left leads nowhere
        same &= there["tags_code"] == units["tags_code"]
    return same


def has_lost_unit(queue: Queue, index: int) -> bool:
    """Whether an entry holds an address where the extension has no unit."""
    return bool((queue.resolved(queue.units(index, 1))["tags_code"] <= HIGHEST_EXTENSION_ADDRESS).any())


def list_queue_folders(disk: Disk, root: Path, kind: str = CONSUME_QUEUE_FOLDER) -> Iterator[tuple[QueueKey, Path]]:
    """(topic, queue id) and folder of every queue on disk; folders that are no topic's or no queue id are skipped, as
    RocketMQ does."""
    base = root / kind
    for topic in disk.list(base):
        if not topic.is_folder or not is_safe_topic(topic.name):
            continue
        for queue in disk.list(base / topic.name):
            if queue.is_folder and QUEUE_ID.fullmatch(queue.name) and int(queue.name) <= INT32_MAX:
                yield (topic.name, int(queue.name)), base / topic.name / queue.name


def find_file_entries(disk: Disk, root: Path) -> int | None:
    """Entries a file of the queues that exist, by the length that the first few files agree on; None without one."""
    size = _find_file_size(disk, root, CONSUME_QUEUE_FOLDER)
    return None if size is None else size // UNIT_SIZE


def find_batch_file_entries(disk: Disk, root: Path) -> int | None:
    """Entries a file of the batch queues that exist; see the function above."""
    size = _find_file_size(disk, root, BATCH_QUEUE_FOLDER)
    return None if size is None else max(size // BATCH_UNIT_SIZE, 1)


def _find_file_size(disk: Disk, root: Path, kind: str) -> int | None:
    votes: Counter[int] = Counter()
    for _, folder in list_queue_folders(disk, root, kind):
        for entry in disk.list(folder):
            if segment_base(entry.name) is not None and 0 < entry.size <= MAX_FILE_SIZE:
                votes[entry.size] += 1
                if votes[entry.size] == ENOUGH_VOTES:
                    return entry.size
    # Where as many say the one as the other, the shorter files were cut.
    return max(votes, key=lambda size: (votes[size], size)) if votes else None
