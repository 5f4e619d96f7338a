"""Which failed messages were sent back before a crash: their older copies are passed over, and no second copy is sent.

A crash repeats what was not yet written elsewhere: offsets of groups, and of delayed deliveries. So a group may receive
a message again that it has sent back. The log tells: its record in the retry topic, in SCHEDULE_TOPIC_XXXX or among the
dead letters names the message in ORIGIN_MESSAGE_ID, and the attempt in `reconsume_times`.

    oldest message that      end of the log at
    can come again           the crash
    v                        v
    |........ looked at .....|

Invariants:
- What is sent back comes behind the message in the log. So nothing before the oldest message that can come again is
  looked at, and nothing at all for a group whose offsets have passed the end of the log at the crash.
- The end at the crash is noted (`flightlog/starts`), until a later one takes its place: a group may join in a later
  process only. A queue that is given up while a message behind its offset was done counts as a crash.
- A delivery that a crash repeats is a copy behind that end, and behind what was sent back of the one before. So a group
  that may receive such copies notes how far back it has looked, and where it gives up a queue as the end.
- Per group and queue, the last 65,536 records are looked at.
- What was sent back before a group was told to go on elsewhere (`seek`, `reset_offset`, `delete_group`) does not count.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Iterator

from ...engine.message_store import MessageStore
from ...engine.open.shutdown_state import LastWriter
from ...schedule.delay_level_table import SCHEDULE_TOPIC
from ...store.arguments import INT64_MAX
from ...store.errors import FlightlogError, UsageError
from ...store.format import property_names as props
from ...store.format.message_id import decode_message_id
from ...store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ...store.format.sys_flag import INNER_BATCH
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from .send_back import dead_letter_topic, retry_topic
from .starts import Starts

log = logging.getLogger("flightlog.consume")

COPIES_COUNT = 65_536
NOT_NOTED = 0
KILLED = (LastWriter.FLIGHTLOG_KILLED, LastWriter.ROCKETMQ_KILLED)

Origin = tuple[int, str]
"""The message that was first put: its physical offset, and its uniq key, which messages of one batch differ in."""


class _SentBackGroup:
    def __init__(self, floor: int, end: int, noted_from: int = NOT_NOTED) -> None:
        self.floor, self.looked_from = floor, end
        """What was sent back before `floor` does not count; the log was looked at from `looked_from` on."""
        self.noted_from = noted_from or INT64_MAX
        """Where the log was looked at from, in this process before `looked_from`, or in one before it."""
        self.attempts: dict[Origin, int] = {}
        """The highest attempt that each was sent back after. The oldest are dropped beyond COPIES_COUNT."""
        self.is_active = False
        """Whether messages may come again."""

    def note(self, origin: Origin, attempt: int) -> None:
        self.attempts[origin] = max(attempt, self.attempts.get(origin, 0))
        if len(self.attempts) > COPIES_COUNT:
            del self.attempts[next(iter(self.attempts))]


class SentBack:
    """Sends messages back to the retry topics of one store that is open for writing. Thread-safe."""

    def __init__(self, store: MessageStore, starts: Starts) -> None:
        self._store, self._starts = store, starts
        self._lock = threading.Lock()
        self._groups: dict[str, _SentBackGroup] = {}
        self._end = starts.crash_end()
        """What lies before it may have been sent back, and come again."""
        report = store.recovery_report
        if report.last_writer in KILLED and any(map(_is_of_group, store.topics())):
            self._end = report.end
            starts.note_crash_end(self._end)

    def look(self, group: str, key: QueueKey, queue_offset: int) -> None:
        """The group goes on in this queue, at this offset."""
        if not self._end:
            return
        with self._lock:
            has = self._group(group)
            try:
                oldest = [self._position(key, queue_offset)]
                if not has.is_active and self._store.delay_levels is not None:
                    began_at = self._store.delay_levels.began_at.items()
                    oldest += [self._position((SCHEDULE_TOPIC, level - 1), offset) for level, offset in began_at]
                start = min(oldest)
                has.is_active |= start < self._end
                start = max(min(start, has.noted_from) if has.is_active else start, has.floor)
                if start < has.looked_from:
                    for copy in self._copies(group, start, has.looked_from):
                        origin = origin_of(group, copy)
                        if origin is not None:
                            has.note(origin, copy.reconsume_times)
                    has.looked_from = start
                if has.is_active:
                    self._note_looked_from(group, has)
            except FlightlogError as e:
                text = "group %s: what was sent back before a crash is not known, and may be sent back twice: %s"
                log.warning(text, group, e, extra={"group": group, "path": str(self._store.path)})

    def knows(self, group: str) -> bool:
        """Whether any message of the group may be over."""
        has = self._groups.get(group)
        return has is not None and bool(has.attempts)

    def is_over(self, group: str, topic: str, message: StoredMessage, attempt: int) -> bool:
        """Whether the message, read from this topic, was sent back after this attempt or a later one."""
        has = self._groups.get(group)
        if has is None or not has.attempts:
            return False
        origin = origin_of(group, message, topic)
        return origin is not None and has.attempts.get(origin, 0) >= attempt and self._is_certain(origin)

    def claim(self, group: str, topic: str, message: StoredMessage, attempt: int) -> bool:
        """Note that the message is being sent back after this attempt. False if it was: then it must not be."""
        has = self._groups.get(group)
        origin = None if has is None or not has.is_active else origin_of(group, message, topic)
        if has is None or origin is None:
            return True
        with self._lock:
            if has.attempts.get(origin, 0) >= attempt and self._is_certain(origin):
                return False
            has.note(origin, attempt)
        return True

    def unclaim(self, group: str, topic: str, message: StoredMessage, attempt: int) -> None:
        """It was not sent back: the store has refused it."""
        has, origin = self._groups.get(group), origin_of(group, message, topic)
        with self._lock:
            if has is not None and origin is not None and has.attempts.get(origin) == attempt:
                has.attempts[origin] = attempt - 1

    def watch(self) -> None:
        """A queue is given up, and messages may come again that were sent back. The note is not synced."""
        with self._lock:
            self._end = self._store.log_end()
            for group, has in self._groups.items():
                self._note_looked_from(group, has)
                has.looked_from = self._end
            self._starts.note_crash_end(self._end)

    def give_up(self, group: str) -> None:
        """The group gives up a queue: a later process is to know what this one knows. The notes are not synced."""
        with self._lock:
            has = self._groups.get(group)
            if has is not None:
                self._note_looked_from(group, has)
                if has.is_active:
                    self._starts.note_crash_end(self._store.log_end())

    def _note_looked_from(self, group: str, has: _SentBackGroup) -> None:
        if has.is_active:
            if has.looked_from < has.noted_from:
                has.noted_from = has.looked_from
                self._starts.note_looked_from(group, has.noted_from)
        elif has.noted_from != INT64_MAX:
            has.noted_from = INT64_MAX
            self._starts.note_looked_from(group, NOT_NOTED)

    def forget(self, group: str) -> None:
        """The group goes on elsewhere because it was told to: it is to receive all that is there, also in later
        processes. Durable; what the disk refuses is logged."""
        with self._lock:
            self._groups[group] = _SentBackGroup(end := self._store.log_end(), end)
            self._starts.forget_failed(group)
            self._starts.note_floor(group, end)

    def _group(self, group: str) -> _SentBackGroup:
        if group not in self._groups:
            self._groups[group] = _SentBackGroup(self._starts.floor(group), self._end, self._starts.looked_from(group))
        return self._groups[group]

    def _position(self, key: QueueKey, queue_offset: int) -> int:
        """Where the first message from there on is in the log; the end of the log if there is none."""
        message = next(self._store.read(*key, queue_offset, on_corrupt="skip"), None)
        return self._store.log_end() if message is None else message.physical_offset

    def _copies(self, group: str, start: int, end: int) -> Iterator[StoredMessage]:
        """What was sent back for this group, as a record from `start` on and below `end`."""
        own = retry_topic(group)
        for topic in (SCHEDULE_TOPIC, own, dead_letter_topic(group)):
            for queue_id in [queue_id for name, queue_id in self._store.queues() if name == topic]:
                key = topic, queue_id
                bounds = range(*self._store.queue_bounds(*key))
                first, stop = (
                    bounds.start + bisect_left(bounds, place, key=lambda offset: self._position(key, offset))
                    for place in (start, end)
                )
                for message in self._store.read(*key, max(first, stop - COPIES_COUNT), on_corrupt="skip"):
                    if message.queue_offset >= stop:
                        break
                    if topic != SCHEDULE_TOPIC or message.properties.get(props.REAL_TOPIC) == own:
                        yield message

    def _is_certain(self, origin: Origin) -> bool:
        """Whether no other message has this origin: those of a batch do, unless they have uniq keys."""
        if origin[1]:
            return True
        first = self._store.message_at(origin[0])
        return first is not None and not first.sys_flag & INNER_BATCH


def origin_of(group: str, message: StoredMessage, topic: str = "") -> Origin | None:
    """The message that was first put, of one that was read from this topic; "": of a copy. None: it does not say."""
    if topic and topic != retry_topic(group):
        return message.physical_offset, message.uniq_key or ""
    try:
        named = message.properties.get(props.ORIGIN_MESSAGE_ID, "")
        return decode_message_id(named)[1], message.uniq_key or ""
    except UsageError:
        return None


def _is_of_group(topic: str) -> bool:
    return topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX))
