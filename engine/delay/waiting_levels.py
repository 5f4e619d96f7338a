"""What waits for each delay level, as a read-only view tells it: from the file that says how far deliveries are, and
the queues. Nothing is delivered, and nothing written."""

from __future__ import annotations

import logging
from pathlib import Path

from ...index.queue.queue_table import QueueTable
from ...schedule.delay_level import LevelState
from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...schedule.delay_offsets import DelayOffsets
from ...store.disk.clock import Clock
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError, CorruptQueueError
from ...store.log.log_reader import LogReader
from ...store.settings import StoreSettings
from .level_queue import LevelQueue

log = logging.getLogger("flightlog.schedule")


def waiting_levels(
    disk: Disk, path: Path, settings: StoreSettings, reader: LogReader, table: QueueTable, clock: Clock
) -> tuple[LevelState, ...]:
    """The state of each level of the settings, in order; empty, with a warning, if their progress is unknown. Raises
    DiskError."""
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
