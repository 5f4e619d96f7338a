"""What an append changes, and what keeps puts off the lane: the part of a commit log that both ways of a put share.

    the lane        an ordinary put in one call, without a lock of ours; see native/lane_protocol.py
    the long way    everything else, under the append lock

`obstacles` says who or what keeps puts off the lane, which looks at it in every call:

    append          somebody appends the long way, or an append was interrupted: the value is its intent, or None
    poison          what has ended puts and syncs for good
    an exception    it may have a failed sync behind it: with it, again, and what its caller was handling before
    closed          no append comes any more
    anything else   what others have noted there: see `engine/`

Invariants:
- `end`, the store time and the count of records are the lane's, the queue offsets the dict's, as soon as the lane has
  handed them over: `take_over` keeps the lane away, then has it hand over; `give_back` lets it go on.
- `end` moves only under the append lock, or in the lane, which never works beside somebody who holds that lock and has
  taken over. Whoever reads `end` without the lock gets the end of a whole record, and it may have moved since.
- An intent stays among the obstacles until its append is finished or undone.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import native
from ..disk.clock import Clock, SystemClock
from ..disk.failed_sync import failed_sync_behind
from ..errors import StoreClosedError, StorePoisonedError
from ..format.host import encode_host
from ..format.properties import LANE_NEVER_TAKES
from ..message import Message
from ..native.lane_protocol import APPEND, LaneProtocol
from ..queue_offsets import QueueKey, QueueOffsets
from ..results import PutResult, PutStatus
from ..segments.segment import AppendSegment
from ..settings import FlushMode, StoreSettings
from ..state.progress import APPENDED, VISIBLE, ProgressPage
from .incidents import tell_poison

POISON = "poison"
CLOSED = "closed"
SETTINGS = "settings"
"""Something in the settings gives every put a meaning that the lane does not know."""

Intent = tuple[int, int, dict[QueueKey, int] | tuple[tuple[QueueKey, int], ...]]
"""Start and stop of the bytes being written, and the queues that advance, with their next offsets: as a dict, or what
makes one."""


class LogState(ABC):
    """See above."""

    _active: AppendSegment
    _folder: Path

    def __init__(
        self,
        settings: StoreSettings,
        clock: Clock,
        progress: ProgressPage,
        end: int,
        last_store_timestamp_ms: int,
        queue_offsets: QueueOffsets,
    ) -> None:
        self._settings, self._clock, self._progress = settings, clock, progress
        self._sees_unflushed = settings.flush_mode is FlushMode.ASYNC
        self._append_lock = threading.Lock()
        self._queue_offsets = queue_offsets
        self.obstacles: dict[Any, Any] = {APPEND: None}
        """Who or what keeps puts off the lane. Anybody may note something of his own there, and take it out again."""
        if settings.append_crc_property:
            self.obstacles[SETTINGS] = "append_crc_property"
        self.lane: LaneProtocol[Message, PutResult] = native.Lane(
            self.obstacles,
            queue_offsets,
            Message,
            PutResult,
            PutStatus.PUT_OK,
            encode_host(*settings.store_host),
            LANE_NEVER_TAKES,
            settings.max_message_size,
            None if type(clock) is SystemClock else clock.now_ms,
            self._append_lock,
            progress.mapping,
            APPENDED,
            VISIBLE if self._sees_unflushed else -1,
            progress.publisher(*((APPENDED, VISIBLE) if self._sees_unflushed else (APPENDED,))),
        )
        self.lane.end, self.lane.last_store_timestamp_ms = end, last_store_timestamp_ms
        self._is_poison_told = False
        self.poison_bells: list[Callable[[], object]] = []
        """Called once something has ended puts and syncs, from wherever that was found: they must take no lock."""

    @property
    @abstractmethod
    def flushed(self) -> int:
        """Physical offset below which everything is durable."""

    @property
    def end(self) -> int:
        """Physical offset of the next append; the commit point."""
        return self.lane.end

    @end.setter
    def end(self, end: int) -> None:
        self.lane.end = end

    @property
    def last_store_timestamp_ms(self) -> int:
        return self.lane.last_store_timestamp_ms

    @property
    def appended_records(self) -> int:
        """Since the log was opened."""
        return self.lane.appended_records

    @property
    def queue_offsets(self) -> QueueOffsets:
        """The next offset of every queue, as it is now."""
        self.lane.hand_over()
        return self._queue_offsets

    @property
    def _intent(self) -> Intent | None:
        """Of the append that is under way, or was interrupted."""
        found: Intent | None = self.obstacles.get(APPEND)
        return found

    def _take_over(self) -> None:
        """Keep puts off the lane, so that the caller alone appends. Called under the append lock."""
        self.obstacles.setdefault(APPEND)  # which leaves an intent that is there
        self.lane.hand_over()

    def _give_back(self) -> None:
        """Let the lane go on where the caller has come to. Not called if an error or an interrupt ended the append: the
        next one that succeeds does it."""
        segment = self._active
        if self._intent is None and segment.calm_below > 0 and segment.maps_appends:
            self.lane.open(segment.append_mapping(), segment.base, segment.calm_below)
            self.obstacles.pop(APPEND)

    def _publish_end(self) -> None:
        self._progress.publish(APPENDED, self.end)
        if self._sees_unflushed:
            self._progress.publish(VISIBLE, self.end)

    # -- what ends appends

    @property
    def poison(self) -> BaseException | None:
        """What has ended puts and syncs for good, if anything has."""
        obstacles = self.obstacles
        for error in [who for who in list(obstacles) if isinstance(who, BaseException)]:
            doubt = obstacles.get(error)
            if doubt is not None:
                cause = failed_sync_behind(*doubt)
                if cause is not None:
                    obstacles.setdefault(POISON, cause)
                obstacles.pop(error, None)  # this one alone: others may have come meanwhile
        found: BaseException | None = obstacles.get(POISON)
        return found

    @poison.setter
    def poison(self, cause: BaseException) -> None:
        self.obstacles[POISON] = cause

    def _judge(self, error: BaseException, outer: BaseException | None) -> None:
        """Poison the log if a failed sync is behind an error. The kernel reports a failed write only once, and an
        interrupt may come with every call: so note the error first, which keeps puts off the lane. Until it is judged,
        `poison` judges it itself, for whoever looks; an interrupt alone refuses nobody's put."""
        self.obstacles[error] = (error, outer)
        self._tell_poison()

    def refuse_all(self, cause: BaseException) -> None:
        """Append, acknowledge and sync nothing any more. The first cause counts."""
        if self.poison is None:
            self.poison = cause
        self._tell_poison()

    def _tell_poison(self) -> None:
        """Tell the log of the application, once."""
        poison = self.poison
        if poison is not None and not self._is_poison_told:
            self._is_poison_told = True
            for ring in tuple(self.poison_bells):
                ring()
            tell_poison(self._folder.parent, poison, self.flushed, self.end)

    def _check_appendable(self) -> None:
        if self.poison is not None:
            raise StorePoisonedError(self._folder.parent, self.poison)
        if CLOSED in self.obstacles:
            raise self._closed_error()

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._folder.parent}: the store was closed; open it again")

    def settle(self) -> None:
        """Finish or undo the append that an exception interrupted. Called under the append lock, after `_take_over`."""
        intent = self._intent
        if intent is None:
            return
        start, stop, next_offsets = intent
        if self.end >= stop:
            self._queue_offsets.update(next_offsets)
        else:
            segment = self._active
            segment.wipe(start - segment.base, min(stop - segment.base, segment.allocated))
        self.obstacles[APPEND] = None
