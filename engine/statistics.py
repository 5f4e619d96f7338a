"""What a store says of itself: how much it holds, how far each part lags behind, how fast it is.

Asking costs a look at the table of queues and three listings of folders; nothing of the log or of a queue is read but
the fixed fields of one record, and by a view, where messages wait for delay levels, an entry of each and the file that
says how far they are. A store that is open for writing also tells what it has measured since it was opened. Of its
calls of `put` one in 16 is timed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..index.key.index_file import INDEX_FOLDER
from ..index.queue.queue_table import QueueTable
from ..schedule.delay_level import LevelState
from ..store.disk.clock import Clock
from ..store.disk.disk import Disk
from ..store.errors import CorruptRecordError
from ..store.log.commit_log import CommitLog
from ..store.log.log_reader import LogReader
from ..store.meters import Distribution
from ..store.seal.seal import SEALS_FOLDER
from ..store.state.progress import FLIGHTLOG_FOLDER
from .delay.store_timers import TimerState
from .dispatch.dispatcher import Dispatcher
from .open.shutdown_state import ShutdownState
from .open.truncation import CUT_PREFIX
from .read.reading import queue_bounds
from .services.store_maintenance import StoreMaintenance


@dataclass(frozen=True, slots=True)
class SizeStatistics:
    """How much there is. Sizes are bytes."""

    min_physical_offset: int
    end_physical_offset: int
    """One past the last byte that can be read."""
    segments: int
    sealed_segments: int
    topics: int
    queues: int
    messages: int
    """In all queues."""
    index_files: int
    cut_tails: int
    """Torn tails that recoveries have cut off the log; they are kept in `flightlog/cut-OFFSET`."""
    cut_size: int
    disk_free_size: int

    @property
    def log_size(self) -> int:
        return self.end_physical_offset - self.min_physical_offset


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """A topic, and how evenly its messages lie in its queues."""

    topic: str
    queues: int
    messages: int
    min_depth: int
    """Messages in the queue that has the fewest."""
    max_depth: int

    @property
    def mean_depth(self) -> float:
        return self.messages / self.queues

    @property
    def skew(self) -> float:
        """How many times the mean the fullest queue holds: 1.0 is even."""
        return self.max_depth / self.mean_depth if self.messages else 1.0


@dataclass(frozen=True, slots=True)
class LagStatistics:
    """How far each part is behind the log, in bytes of the log. None where nothing tells (a store of RocketMQ)."""

    dispatch_size: int | None
    """Readable, and not yet in queues."""
    index_size: int | None
    """Readable, and keys not yet in the index; None without an index. On disk: not yet durable there."""
    flush_size: int | None
    """Appended, and not known to be durable."""
    flush_age_ms: int
    """How long ago the oldest record of that was stored; 0 without one."""
    recovery_size: int | None
    """What the next opening would go through if the process were killed now."""


@dataclass(frozen=True, slots=True)
class PutStatistics:
    """What was put since the store was opened."""

    messages: int
    size: int
    """Bytes by which the log has grown, fillers of full segments included."""
    messages_per_s: float
    """Over the last 10 s, or since the store was opened."""
    size_per_s: float
    put_ms: Distribution
    """Duration of `put`, the wait for its sync included; one call in 16 is timed, `put_many` and `put_async` are
    not."""


@dataclass(frozen=True, slots=True)
class SyncStatistics:
    """Syncs of the log since the store was opened."""

    count: int
    sync_ms: Distribution
    group_messages: Distribution
    """How many messages one sync made durable."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """A store as it was when it was asked."""

    path: Path
    sizes: SizeStatistics
    topics: tuple[TopicStatistics, ...]
    lag: LagStatistics
    poison: str | None
    """Why the store takes no more puts; None if it does."""
    lacks_room: bool
    """Whether queue entries or keys wait for room on the disk, and puts are refused meanwhile."""
    puts: PutStatistics | None
    """None for a read-only view, as `syncs`."""
    syncs: SyncStatistics | None
    delays: tuple[LevelState, ...] = ()
    """The delay levels, in order; none for a store that does not deliver. A read-only view tells what waits by what the
    writer has saved of its deliveries last, and how long the first of that has been due by now."""
    timers: TimerState | None = None
    """None for a read-only view, for a store that does not deliver, and for one that never had a timer."""


def live_statistics(
    disk: Disk,
    path: Path,
    log: CommitLog,
    dispatcher: Dispatcher,
    table: QueueTable,
    maintenance: StoreMaintenance,
    clock: Clock,
    delays: tuple[LevelState, ...],
    timers: TimerState | None,
) -> StoreStatistics:
    """Return the statistics of a store that is open for writing. Raises DiskError."""
    position, index_position, flushed = dispatcher.position, dispatcher.index_position, log.flushed
    visible, end = log.visible, log.end
    lag = LagStatistics(
        max(visible - position, 0),
        max(visible - index_position, 0) if maintenance.has_index else None,
        max(end - flushed, 0),
        _age_ms(log.reader, flushed, end, clock),
        max(end - maintenance.queues_flushed, 0),
    )
    messages, size, messages_per_s, size_per_s = maintenance.put_rates()
    topics = _topics(table)
    return StoreStatistics(
        path=path,
        sizes=_sizes(disk, path, log.reader, visible, topics),
        topics=topics,
        lag=lag,
        poison=None if log.poison is None else str(log.poison) or repr(log.poison),
        lacks_room=dispatcher.is_stalled,
        puts=PutStatistics(messages, size, messages_per_s, size_per_s, log.put_ms.distribution()),
        syncs=SyncStatistics(log.sync_count, log.sync_ms.distribution(), log.group_messages.distribution()),
        delays=delays,
        timers=timers,
    )


def view_statistics(
    disk: Disk,
    path: Path,
    reader: LogReader,
    table: QueueTable,
    shutdown_state: ShutdownState,
    end: int,
    delays: tuple[LevelState, ...],
) -> StoreStatistics:
    """Return the statistics of a read-only view: lags as the progress page has them, if flightlog wrote last. Raises
    DiskError."""
    progress = shutdown_state.progress if shutdown_state.is_ours else None
    lag = LagStatistics(None, None, None, 0, None)
    if progress is not None:
        lag = LagStatistics(
            max(progress.visible - progress.dispatched, 0),
            max(progress.visible - progress.index_flushed, 0),
            max(progress.appended - progress.flushed, 0),
            0,
            max(progress.appended - progress.queues_flushed, 0),
        )
    topics = _topics(table)
    sizes = _sizes(disk, path, reader, end, topics)
    return StoreStatistics(path, sizes, topics, lag, None, False, None, None, delays)


def _sizes(disk: Disk, path: Path, reader: LogReader, end: int, topics: Iterable[TopicStatistics]) -> SizeStatistics:
    cuts = [entry for entry in disk.list(path / FLIGHTLOG_FOLDER) if entry.name.startswith(CUT_PREFIX)]
    index_files = [entry for entry in disk.list(path / INDEX_FOLDER) if entry.name.isdecimal()]
    seals = {entry.name for entry in disk.list(path / FLIGHTLOG_FOLDER / SEALS_FOLDER)}
    segments = reader.segments
    topics = list(topics)
    return SizeStatistics(
        min_physical_offset=reader.min_offset,
        end_physical_offset=end,
        segments=len(segments),
        sealed_segments=sum(segment.path.name in seals for segment in segments),
        topics=len(topics),
        queues=sum(topic.queues for topic in topics),
        messages=sum(topic.messages for topic in topics),
        index_files=len(index_files),
        cut_tails=len(cuts),
        cut_size=sum(entry.size for entry in cuts),
        disk_free_size=disk.free_size(path),
    )


def _topics(table: QueueTable) -> tuple[TopicStatistics, ...]:
    depths: dict[str, list[int]] = {}
    for (topic, _), queue in table.items():
        first, end = queue_bounds(queue)
        depths.setdefault(topic, []).append(end - first)
    return tuple(TopicStatistics(topic, len(d), sum(d), min(d), max(d)) for topic, d in depths.items())


def _age_ms(reader: LogReader, start: int, end: int, clock: Clock) -> int:
    """How long ago the first record of physical [start, end) was stored."""
    while start < end:
        try:
            return max(clock.now_ms() - reader.message_at(start).store_timestamp_ms, 0)
        except CorruptRecordError:
            start = reader.next_segment_offset(start)  # a filler
    return 0
