"""Recovery of timers: they continue from a moment whose part of the commit log still exists.

    check file   the moment: seconds before `read_time` are delivered, messages before `queue_offset` are on the wheel.
                 Ours notes how long the commit log was then, and keeps older moments; RocketMQ's does not
    timer log    cut behind the last unit of a message before that queue offset: it is put on the wheel again
                 One that is missing or too short: the messages of the units that it lost are put on the wheel again
    wheel        rebuilt from the timer log: seconds from `read_time` on

Work done after the moment is repeated: its deliveries are duplicates, if the commit log kept them. No timer in the
timer topic's queue is lost, whatever was lost of the log or of these files.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from .timer_checkpoint import TimerCheckpoint
from .timer_host import TimerHost
from .timer_log import UNIT_SIZE, TimerLog
from .timer_request import PRECISION_MS
from .timer_wheel import TimerWheel

log = logging.getLogger("flightlog.timers")


class TimerStart(NamedTuple):
    """Where to continue."""

    read_second: int
    """Seconds before this one are delivered."""
    queue_offset: int
    delivered_below: int
    """Messages before this queue offset are delivered if they were due before `read_second`."""
    checkpoint: TimerCheckpoint


def recover_timers(
    checkpoint: TimerCheckpoint | None, timer_log: TimerLog, wheel: TimerWheel, store: TimerHost
) -> TimerStart:
    """Bring the timer log and the wheel to one moment. Call it after the timer log was opened and the wheel loaded."""
    found = checkpoint or TimerCheckpoint()
    _, log_end = store.log_range()
    min_queue_offset, end_queue_offset = store.queue_bounds()
    read_time_ms, queue_offset = found.read_time_ms, min(found.queue_offset, found.master_queue_offset)
    if found.moments:
        moment = found.moment_within(log_end)
        if moment is None:  # truncated to before every moment: read the whole queue again
            read_time_ms, queue_offset = 0, min_queue_offset
        else:
            _, read_time_ms, queue_offset = moment
    elif not store.ended_cleanly():
        # RocketMQ's words do not mention the log. Deliveries of later seconds than this one are no longer in it.
        read_time_ms = min(read_time_ms, max(store.last_store_timestamp_ms(), 0))
    if found.moments and (read_time_ms, queue_offset) != found.moments[0][1:]:
        log.warning(
            "timers go on from queue offset %d and time %d, not from %d and %d: the commit log ends at %d",
            *(queue_offset, read_time_ms, found.queue_offset, found.read_time_ms, log_end),
            extra={"queue_offset": queue_offset, "physical_offset": log_end},
        )
    queue_offset = min(max(queue_offset, min_queue_offset), end_queue_offset)
    first = store.read_queue(queue_offset, 1)
    known_end = first[0].physical_offset if first else log_end
    read_second = read_time_ms // PRECISION_MS
    if read_second == 0 and first:
        read_second = first[0].store_timestamp_ms // PRECISION_MS - 1  # none of them can have been due earlier
    last = _rebuild(timer_log, wheel, known_end, read_second)
    if last is None or timer_log.end >= found.timer_log_position:
        return TimerStart(read_second, queue_offset, 0, found)
    lost = queue_offset - (queue_offset := _first_behind(last, min_queue_offset, queue_offset, store))
    log.warning(
        "%s ends at %d, not at %d: its last %d timers are read from the commit log again",
        *(timer_log.folder, timer_log.end, found.timer_log_position, lost),
        extra={"queue_offset": queue_offset},
    )
    # What was on the wheel at a moment before this one was delivered since then, if it was due.
    earlier = (moment.queue_offset for moment in found.moments if moment.read_time_ms < read_time_ms)
    return TimerStart(read_second, queue_offset, max(earlier, default=0), found)


def _first_behind(physical_offset: int, low: int, high: int, store: TimerHost) -> int:
    """The queue offset in [low, high] of the first message behind this place in the log."""
    while low < high:
        middle = (low + high) // 2
        found = store.read_queue(middle, 1)
        if found and found[0].physical_offset <= physical_offset:
            low = found[0].queue_offset + 1
        else:
            high = middle
    return low


def _rebuild(timer_log: TimerLog, wheel: TimerWheel, known_end: int, read_second: int) -> int | None:
    """Truncate the units of records from `known_end` on: units are in the order of the queue. Returns the physical
    offset of the last one before; None if some were truncated, and so none before them is missing."""
    wheel.clear()
    end, last = timer_log.start, -1
    for position, units in timer_log.scan():
        is_known = units["physical_offset"] < known_end
        known = len(units) if is_known.all() else int(is_known.argmin())
        if known:
            wheel.add_all(position, units[:known], read_second)
            end, last = position + known * UNIT_SIZE, int(units["physical_offset"][known - 1])
        if known < len(units):
            timer_log.cut(end)
            return None
    timer_log.cut(end)
    return last
