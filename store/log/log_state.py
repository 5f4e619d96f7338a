"""What an append changes, and what keeps puts off the fast path: the part of a commit log that both ways of a put
share.

    the fast path        an ordinary put in one call, without a lock of ours; see native/fast_path_protocol.py
    the slow path    everything else, under the append lock

`blockers` says who or what keeps puts off the fast path, which looks at it in every call:

    append          somebody appends on the slow path, or an append was interrupted: the value is its intent, or None
    poison          what has ended puts and syncs for good
    an exception    it may have a failed sync behind it: with it, again, and what its caller was handling before
    closed          no append comes any more
    anything else   what others have noted there: see `engine/`

Invariants:
- `end`, the store time and the count of records are the fast path's, the queue offsets the dict's, as soon as the fast
  path has handed them over: `enter_slow_path` keeps the fast path away, then has it hand over; `leave_slow_path` lets
  it go on.
- `end` moves only under the append lock, or in the fast path, which never works beside somebody who holds that lock and
  has taken over. Whoever reads `end` without the lock gets the end of a whole record, and it may have moved since.
- An intent stays among the blockers until its append is finished or undone.
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
from ..format.properties import FAST_PATH_NEVER_TAKES
from ..message import Message
from ..native.fast_path_protocol import APPEND, FastPathProtocol
from ..queue_offsets import QueueKey, QueueOffsets
from ..results import PutResult, PutStatus
from ..segments.segment import AppendSegment
from ..settings import FlushMode, StoreSettings
from ..state.progress import APPENDED, VISIBLE, ProgressPage
from .log_events import tell_poison

POISON = "poison"
CLOSED = "closed"
SETTINGS = "settings"
"""Something in the settings gives every put a meaning that the fast path does not know."""

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
        self.blockers: dict[Any, Any] = {APPEND: None}
        """Who or what keeps puts off the fast path. Anybody may note something of his own there, and take it out
        again."""
        if settings.append_crc_property:
            self.blockers[SETTINGS] = "append_crc_property"
        self.fast_path: FastPathProtocol[Message, PutResult] = native.FastPath(
            self.blockers,
            queue_offsets,
            Message,
            PutResult,
            PutStatus.PUT_OK,
            encode_host(*settings.store_host),
            FAST_PATH_NEVER_TAKES,
            settings.max_message_size,
            None if type(clock) is SystemClock else clock.now_ms,
            self._append_lock,
            progress.mapping,
            APPENDED,
            VISIBLE if self._sees_unflushed else -1,
            progress.publisher(*((APPENDED, VISIBLE) if self._sees_unflushed else (APPENDED,))),
        )
        self.fast_path.end, self.fast_path.last_store_timestamp_ms = end, last_store_timestamp_ms
        self._is_poison_told = False
        self.poison_wake_ups: list[Callable[[], object]] = []
        """Called once something has ended puts and syncs, from wherever that was found: they must take no lock."""

    @property
    @abstractmethod
    def flushed(self) -> int:
        """Physical offset below which everything is durable."""

    @property
    def end(self) -> int:
        """Physical offset of the next append; the commit point."""
        return self.fast_path.end

    @end.setter
    def end(self, end: int) -> None:
        self.fast_path.end = end

    @property
    def last_store_timestamp_ms(self) -> int:
        return self.fast_path.last_store_timestamp_ms

    @property
    def appended_records(self) -> int:
        """Since the log was opened."""
        return self.fast_path.appended_records

    @property
    def queue_offsets(self) -> QueueOffsets:
        """The next offset of every queue, as it is now."""
        self.fast_path.write_back_offsets()
        return self._queue_offsets

    @property
    def _intent(self) -> Intent | None:
        """Of the append that is under way, or was interrupted."""
        found: Intent | None = self.blockers.get(APPEND)
        return found

    def _enter_slow_path(self) -> None:
        """Keep puts off the fast path, so that the caller alone appends. Called under the append lock."""
        self.blockers.setdefault(APPEND)  # which leaves an intent that is there
        self.fast_path.write_back_offsets()

    def _leave_slow_path(self) -> None:
        """Let the fast path go on where the caller has come to. Not called if an error or an interrupt ended the
        append: the next one that succeeds does it."""
        segment = self._active
        if self._intent is None and segment.calm_below > 0 and segment.maps_appends:
            self.fast_path.open(segment.append_mapping(), segment.base, segment.calm_below)
            self.blockers.pop(APPEND)

    def _publish_end(self) -> None:
        self._progress.publish(APPENDED, self.end)
        if self._sees_unflushed:
            self._progress.publish(VISIBLE, self.end)

    # -- what ends appends

    @property
    def poison(self) -> BaseException | None:
        """What has ended puts and syncs for good, if anything has."""
        blockers = self.blockers
        for error in [who for who in list(blockers) if isinstance(who, BaseException)]:
            doubt = blockers.get(error)
            if doubt is not None:
                cause = failed_sync_behind(*doubt)
                if cause is not None:
                    blockers.setdefault(POISON, cause)
                blockers.pop(error, None)  # this one alone: others may have come meanwhile
        found: BaseException | None = blockers.get(POISON)
        return found

    @poison.setter
    def poison(self, cause: BaseException) -> None:
        self.blockers[POISON] = cause

    def _judge(self, error: BaseException, outer: BaseException | None) -> None:
        """Poison the log if a failed sync is behind an error. The kernel reports a failed write only once, and an
        interrupt may come with every call: so note the error first, which keeps puts off the fast path. Until it is
        judged, `poison` judges it itself, for whoever looks; an interrupt alone refuses nobody's put."""
        self.blockers[error] = (error, outer)
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
            for notify in tuple(self.poison_wake_ups):
                notify()
            tell_poison(self._folder.parent, poison, self.flushed, self.end)

    def _check_appendable(self) -> None:
        if self.poison is not None:
            raise StorePoisonedError(self._folder.parent, self.poison)
        if CLOSED in self.blockers:
            raise self._closed_error()

    def _closed_error(self) -> StoreClosedError:
        return StoreClosedError(f"{self._folder.parent}: the store was closed; open it again")

    def settle(self) -> None:
        """Finish or undo the append that an exception interrupted. Called under the append lock, after
        `_enter_slow_path`."""
        intent = self._intent
        if intent is None:
            return
        start, stop, next_offsets = intent
        if self.end >= stop:
            self._queue_offsets.update(next_offsets)
        else:
            segment = self._active
            segment.wipe(start - segment.base, min(stop - segment.base, segment.allocated))
        self.blockers[APPEND] = None
