"""What waits in a store: for consumer groups, for its time, for the end of a transaction, for an operator."""

from __future__ import annotations

from dataclasses import dataclass

from ..consume.group.group_state import GroupState
from ..consume.group.stored_groups import stored_groups
from ..engine.read_only import ReadOnlyStore
from ..produce.transaction.stored_halves import open_half_messages
from ..schedule.delay_level import LevelState
from ..schedule.stored_timers import stored_timers
from ..schedule.timer_request import TIMER_QUEUE_ID, TIMER_TOPIC
from ..store.disk.disk import Disk, RealDisk
from ..store.format.record import DEAD_LETTER_PREFIX


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits, as the writer saved it last, up to 5 s ago."""

    groups: dict[str, GroupState]
    """All but RocketMQ's own."""
    delays: tuple[LevelState, ...]
    """The delay levels, in order."""
    timers: int
    half_messages: int
    """Transactions that are neither committed nor rolled back."""
    dead_letters: dict[str, int]
    """Consumer group -> its dead letters, redriven ones included; groups without any are left out."""

    @property
    def delayed(self) -> int:
        """Messages that wait for a delay level."""
        return sum(state.pending for state in self.delays)


def backlog(view: ReadOnlyStore, delays: tuple[LevelState, ...], disk: Disk | None = None) -> Backlog:
    """`delays` are those of its statistics. Raises ConfigFileError, DiskError."""
    disk, queues = disk if disk is not None else RealDisk(), view.queues()
    dead_letters: dict[str, int] = {}
    for (topic, _), (first, end) in queues.items():
        if topic.startswith(DEAD_LETTER_PREFIX) and first < end:
            group = topic.removeprefix(DEAD_LETTER_PREFIX)
            dead_letters[group] = dead_letters.get(group, 0) + end - first
    return Backlog(
        stored_groups(disk, view.path, queues),
        delays,
        stored_timers(disk, view.path, *queues.get((TIMER_TOPIC, TIMER_QUEUE_ID), (0, 0))),
        open_half_messages(view),
        dead_letters,
    )
