"""Messages of one queue in process: delivered, not acknowledged yet.

RocketMQ: `ProcessQueue`. Not thread-safe: the caller holds the lock. It uses no clock, no thread and no disk.

Invariants:
- `commit_offset` is the lowest offset without an acknowledgement, or the start of the next pull if none is in process.
  It never decreases, and everything below it was acknowledged or filtered out.
- Once dropped it does not change: late acknowledgements are ignored, because the queue may have another owner.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ...store.arguments import check_whole
from ...store.errors import UsageError


@dataclass(frozen=True)
class FlowLimits:
    """Limits for the messages of one queue in process; RocketMQ's defaults."""

    max_count: int = 1_000
    """Messages."""
    max_size: int = 100 << 20
    """Bytes of bodies."""
    max_span: int = 2_000
    """Queue offsets between the first and the last message in process: a message that is stuck stops delivery there."""

    def __post_init__(self) -> None:
        for name in ("max_count", "max_size", "max_span"):
            check_whole(name, getattr(self, name), 1)


class ProcessQueue:
    """One queue in the hands of one member, from `position` on."""

    def __init__(self, position: int) -> None:
        self.position = position
        """The queue offset that the next pull begins at."""
        self.size = 0
        """Bytes of bodies at work."""
        self.is_dropped = False
        self.waits_for_room = False
        """Whether it was not read because the limits left no room. Set by the member that has it."""
        self._sizes: dict[int, int] = {}
        """Body size of each message at work, by queue offset."""
        self._order: deque[int] = deque()
        """The same offsets, ascending; those acknowledged go when they come first."""

    def __len__(self) -> int:
        """How many messages are at work."""
        return len(self._sizes)

    def __contains__(self, queue_offset: object) -> bool:
        """Whether this one is at work, and its acknowledgement would count."""
        return queue_offset in self._sizes and not self.is_dropped

    def deliver(self, queue_offset: int, size: int) -> None:
        """A message is at work from now on. Offsets ascend; those between were filtered, or are not there."""
        if self.is_dropped:
            raise UsageError(f"queue offset {queue_offset} was delivered after the queue was dropped")
        if queue_offset < self.position:
            raise UsageError(f"queue offset {queue_offset} was delivered after {self.position - 1}")
        self._order.append(queue_offset)
        self._sizes[queue_offset] = size
        self.size += size
        self.position = queue_offset + 1

    def pass_to(self, position: int) -> None:
        """Nothing below this offset is left to deliver."""
        if not self.is_dropped:
            self.position = max(self.position, position)

    def ack(self, queue_offset: int) -> bool:
        """Acknowledge the message. Returns False if it was acknowledged before, or the queue was dropped."""
        if self.is_dropped:
            return False
        size = self._sizes.pop(queue_offset, None)
        if size is None:
            return False
        self.size -= size
        while self._order and self._order[0] not in self._sizes:
            self._order.popleft()
        return True

    def drop(self) -> list[int]:
        """The queue moves to another member: return the messages in process, ascending, which are redelivered there."""
        self.is_dropped = True
        return self.at_work()

    def at_work(self) -> list[int]:
        """The offsets of the messages at work, ascending."""
        return list(self._sizes)

    @property
    def commit_offset(self) -> int:
        """Where a successor goes on."""
        return self._order[0] if self._order else self.position

    @property
    def has_holes(self) -> bool:
        """Whether messages behind the first that is at work were acknowledged: a successor receives them again."""
        return len(self._order) > len(self._sizes)

    @property
    def span(self) -> int:
        """From the first message at work to where the next pull begins."""
        return self.position - self.commit_offset

    def room(self, limits: FlowLimits) -> int:
        """How many messages may be pulled now. One that is larger than `max_size` passes when nothing else is at
        work."""
        if self.is_dropped or self.size >= limits.max_size:
            return 0
        return max(0, min(limits.max_count - len(self), limits.max_span - self.span))

    def has_room_again(self, limits: FlowLimits) -> bool:
        """Whether it waited for room, and has some now: True once."""
        has_room = self.waits_for_room and self.room(limits) > 0
        self.waits_for_room = self.waits_for_room and not has_room
        return has_room


Place = tuple[ProcessQueue, int]
"""A message: the assignment of its queue when it was read, and its queue offset."""
