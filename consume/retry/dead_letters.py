"""The dead letters of groups that pop: each message is put there once, also by the life after a crash.

The message that was given up is acknowledged behind its dead letter. A process that ends in between leaves a message
that would come again, so the log is asked: its dead letter names the record in ORIGIN_MESSAGE_ID, and was put after the
message was popped.

Invariants:
- What was put before a message was popped does not count: a group whose offset was set back may give it up once more.
- A message that cannot be told apart from others counts as not given up: it is rather a dead letter twice than lost.
"""

from __future__ import annotations

import threading
from functools import partial

from ...engine.message_store import MessageStore
from ...store.format import property_names as props
from ...store.format.sys_flag import INNER_BATCH
from ...store.stored_message import StoredMessage
from .put_since import PutSince
from .send_back import dead_letter_topic, send_to_dead_letters
from .sent_back import Origin, origin_of


class _DeadLetterGroup:
    def __init__(self, store: MessageStore, name: str) -> None:
        self.lock = threading.Lock()
        """Held during a put, too: of two calls that give up one message, the second finds what the first has put."""
        self.letters: PutSince[Origin] = PutSince(
            store, dead_letter_topic(name), partial(origin_of, name), is_growing=True
        )


class DeadLetters:
    """The dead letters of one store that is open for writing. Thread-safe."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._groups: dict[str, _DeadLetterGroup] = {}

    def has_any(self, group: str, since_ms: int) -> bool:
        """Whether the group put one at this time or later."""
        topic = dead_letter_topic(group)
        if self._store.topic(topic) is None:
            return False
        return self._store.offset_at(topic, 0, since_ms) < self._store.queue_bounds(topic, 0)[1]

    def has(self, group: str, message: StoredMessage, popped_ms: int) -> bool:
        """Whether the message, as it was read from the queue that it was popped from at this time, is one. Raises as
        `read`."""
        if self._store.topic(dead_letter_topic(group)) is None:
            return False
        of_group = self._group(group)
        with of_group.lock:
            return _has(of_group, message, popped_ms)

    def put(self, group: str, message: StoredMessage, attempt: int, popped_ms: int) -> None:
        """Put the message there unless it is one; its topic is the one that it was received from. Raises as `put`."""
        of_group = self._group(group)
        with of_group.lock:
            if not _has(of_group, message, popped_ms):
                send_to_dead_letters(self._store, group, message, attempt)

    def _group(self, name: str) -> _DeadLetterGroup:
        return self._groups.get(name) or self._groups.setdefault(name, _DeadLetterGroup(self._store, name))


def _has(of_group: _DeadLetterGroup, message: StoredMessage, popped_ms: int) -> bool:
    is_alike = bool(message.sys_flag & INNER_BATCH) and not message.uniq_key  # as the others of its batch
    if is_alike or props.ORIGIN_MESSAGE_ID in message.properties:  # which its dead letter names, and others may
        return False
    return of_group.letters.has((message.physical_offset, message.uniq_key or ""), popped_ms)
