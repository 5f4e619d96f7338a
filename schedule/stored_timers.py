"""How many timers wait in a store, by what its writer saved last of its wheel: nothing is recovered or written."""

from __future__ import annotations

from pathlib import Path

from ..store.disk.disk import Disk
from .timer_checkpoint import TimerCheckpoint, read_timer_checkpoint
from .timer_wheel import TimerWheel


def stored_timers(disk: Disk, root: Path, first: int, end: int) -> int:
    """Timers that are not delivered, less cancellations; [first, end) are the queue offsets of the timer topic. Of what
    the wheel has not taken yet all counts, cancellations too. Raises DiskError."""
    if first >= end:
        return 0
    checkpoint = read_timer_checkpoint(disk, root) or TimerCheckpoint()
    wheel = TimerWheel(disk, root)
    wheel.load(for_writing=False)
    try:
        untaken = end - min(max(checkpoint.queue_offset, first), end)
        return max(wheel.pending(checkpoint.read_time_ms // 1000) + untaken, 0)
    finally:
        wheel.close()
