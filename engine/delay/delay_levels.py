"""The delay levels of an open store: a scheduler for each, and the file that says how far they are.

What the file says is never ahead of the disk: the log is made durable before it is written, so that no power cut takes
a delivery that the file calls done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...index.queue.queue_table import QueueTable
from ...schedule.deadline_queue import DeadlineQueue
from ...schedule.delay_level import DelayLevel, Deliver, LevelState
from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...schedule.delay_offsets import DelayOffsets
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.log.commit_log import CommitLog
from ...store.results import PutResult
from ...store.settings import StoreSettings
from .level_queue import LevelQueue


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
