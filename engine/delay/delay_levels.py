"""The delay levels of a store: their queues, a scheduler for each, and the file that says how far deliveries are.

The file is never ahead of the disk: the log is made durable before the file is written, so that no power cut takes a
delivery that the file calls done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...index.queue.queue_table import QueueTable
from ...index.queue.queue_unit import QueueUnit
from ...schedule.deadline_queue import DeadlineQueue
from ...schedule.delay_level import DelayLevel, Deliver, LevelState
from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...schedule.delay_offsets import DelayOffsets
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError, CorruptQueueError, CorruptRecordError
from ...store.log.commit_log import CommitLog
from ...store.log.log_reader import LogReader
from ...store.queue_offsets import QueueKey
from ...store.results import PutResult
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ..read.entries import Fetcher, QueueEntries, message_of, missing_file
from ..read.reading import queue_bounds


class LevelQueue:
    """The queue of one level, as its scheduler reads it. It may not exist yet."""

    def __init__(self, reader: LogReader, table: QueueTable, key: QueueKey, catch_up: Callable[[], None]) -> None:
        self._reader, self._table, self._key = reader, table, key
        self.catch_up = catch_up
        """Dispatches what can be read and is not in its queue yet."""

    def bounds(self) -> tuple[int, int]:
        """Queue offsets of the first message, and one past the last; (0, 0) without a queue."""
        return queue_bounds(self._table.get(self._key))

    def times(self, queue_offset: int, count: int) -> Sequence[int]:
        """What stands in the entries from `queue_offset` on where other queues have the hash of the tag; fewer than
        `count` at the end of a queue file. Raises CorruptQueueError if there is no entry."""
        queue = self._table.get(self._key)
        if queue is not None:
            units = queue.resolved(queue.units(queue_offset, count))
            if len(units):
                times: list[int] = units["tags_code"].tolist()
                return times
            queue.skip_removed()
        raise missing_file(self._reader, self._key, queue_offset, self.bounds()[1])

    def messages(self, queue_offset: int, count: int) -> list[StoredMessage | None]:
        """The messages of so many entries that `times` has told of; None for one that is damaged, or gone from the
        log. Raises DiskError."""
        queue = self._table.get(self._key)
        if queue is None:
            return []
        units = queue.units(queue_offset, count)
        offsets = np.arange(queue_offset, queue_offset + len(units), dtype=np.int64)
        entries, fetcher = QueueEntries(units, offsets, self._key[1]), Fetcher(self._reader, self._key[0], [queue])
        found: list[StoredMessage | None] = []
        while len(found) < len(units):
            some = fetcher.some(entries, len(found))
            found += some or [self._one(QueueUnit(*units[len(found)].item()), queue_offset + len(found))]
        return found

    def _one(self, unit: QueueUnit, queue_offset: int) -> StoredMessage | None:
        try:
            return message_of(self._reader, self._key, queue_offset, unit)
        except (CorruptRecordError, CorruptQueueError):
            return None


class DelayLevels:
    """Made at the opening; `parked` and `states` from any thread, `save` when nothing else saves."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        commit_log: CommitLog,
        table: QueueTable,
        catch_up: Callable[[], None],
        deliver: Deliver,
        deadlines: DeadlineQueue,
    ) -> None:
        """Raises ConfigFileError where neither the file nor its `.bak` can be read, DiskError."""
        self._log, self._clock, self._deadlines = commit_log, clock, deadlines
        self._levels = DelayLevelTable.parse(settings.delay_levels)
        self._file = DelayOffsets(disk, path, clock)
        reader, saved = commit_log.reader, self._file.load()
        self.began_at = {level: saved.get(level, 0) for level in range(1, len(self._levels.delays_ms) + 1)}
        """Level -> where deliveries went on at the opening: those from there on may be made a second time."""
        self._saved = dict(saved)
        self._schedulers: list[DelayLevel] = []
        for level, delay_ms in enumerate(self._levels.delays_ms, 1):
            queue = LevelQueue(reader, table, (SCHEDULE_TOPIC, level - 1), catch_up)
            scheduler = DelayLevel(
                *(level, delay_ms, saved.get(level, 0), queue, deliver, lambda: commit_log.last_store_timestamp_ms)
            )
            self._schedulers.append(scheduler)
            deadlines.add(scheduler)

    def parked(self, result: PutResult) -> None:
        """A message was appended to one of the queues."""
        scheduler = self._schedulers[result.queue_id]
        scheduler.parked(result.queue_offset)
        due_ms = self._levels.delivery_time_ms(scheduler.level, result.store_timestamp_ms)
        self._deadlines.expect(scheduler, due_ms)

    def states(self) -> tuple[LevelState, ...]:
        now_ms = self._clock.now_ms()
        return tuple(scheduler.state(now_ms) for scheduler in self._schedulers)

    @property
    def has_pending(self) -> bool:
        return any(state.pending for state in self.states())

    @property
    def is_unsaved(self) -> bool:
        return any(self._saved.get(each.level, 0) != each.offset for each in self._schedulers)

    def save(self) -> None:
        """Write the offsets as they are now, if they have moved. Raises DiskError."""
        offsets = {each.level: each.offset for each in self._schedulers if each.offset or each.level in self._saved}
        if offsets != {level: self._saved.get(level) for level in offsets}:
            self._log.flush()
            self._file.save(offsets)
            self._saved |= offsets


log = logging.getLogger("flightlog.schedule")


def waiting_levels(
    disk: Disk, path: Path, settings: StoreSettings, reader: LogReader, table: QueueTable, clock: Clock
) -> tuple[LevelState, ...]:
    """What waits for each level of the settings, in order, as a read-only view finds it; empty, with a warning, if the
    progress of deliveries is unknown. Raises DiskError."""
    delays_ms = DelayLevelTable.parse(settings.delay_levels).delays_ms
    queues = [LevelQueue(reader, table, (SCHEDULE_TOPIC, place), lambda: None) for place in range(len(delays_ms))]
    saved: dict[int, int] = {}
    if any(queue.bounds()[1] for queue in queues):  # else nothing ever waited
        try:
            saved = DelayOffsets(disk, path, clock).load()
        except ConfigFileError as e:
            log.warning("%s: how much waits for delay levels is not known: %s", path, e, extra={"path": str(path)})
            return ()
    states = []
    for level, (delay_ms, queue) in enumerate(zip(delays_ms, queues, strict=True), 1):
        first, end = queue.bounds()
        offset = min(max(saved.get(level, 0), first), end)
        lag_ms = _lag_ms(queue, offset, clock) if offset < end else 0
        states.append(LevelState(level, delay_ms, end - offset, lag_ms, 0, 0))
    return tuple(states)


def _lag_ms(queue: LevelQueue, offset: int, clock: Clock) -> int:
    try:
        return max(clock.now_ms() - queue.times(offset, 1)[0], 0)
    except CorruptQueueError:
        return 0  # `verify` tells of it, and the next opening mends it
