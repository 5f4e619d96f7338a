"""What becomes of the messages that a group could not process: another attempt, or the dead letters.

Invariants:
- A message that is sent back is in the log before its old place counts as acknowledged, and goes to the store that it
  came from.
- The attempt that reaches the maximum is the last: the message goes to the dead letters, whatever failed.
- What a store refuses stays where it is. The caller keeps the message and tries again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...store.errors import StoreClosedError
from ..group.consumed_store import ConsumedStore, StoresNow
from ..retry.send_back import send_to_dead_letters, send_to_retry
from .received import ReceivedMessage

log = logging.getLogger("flightlog.consume")

REFUSED_BACK_OFF_S = 5.0
"""How long a message rests that could not be sent back. RocketMQ: `submitConsumeRequestLater`."""

OnDeadLetter = Callable[[ReceivedMessage], object]


class Failures:
    """Failure handling for the members of one group that does not broadcast. Thread-safe."""

    def __init__(
        self,
        stores: StoresNow,
        group: str,
        *,
        is_ordered: bool,
        max_attempts: int | None,
        on_dead_letter: OnDeadLetter | None,
    ) -> None:
        """`max_attempts`: None for what the group's settings in each store say; where `is_ordered`, for no end."""
        self._stores, self._group = stores, group
        self._is_ordered, self._max_attempts, self._on_dead_letter = is_ordered, max_attempts, on_dead_letter
        self._told: set[str] = set()
        """Refusals that were logged, until a message is taken again."""

    def is_last(self, message: ReceivedMessage) -> bool:
        """Whether this attempt was the message's last."""
        most, store = self._max_attempts, self._stores().get(message.queue.broker_name)
        if most is None and not self._is_ordered and store is not None:
            most = store.groups.settings(self._group).max_attempts
        return most is not None and message.attempt >= most

    def send_back(self, message: ReceivedMessage) -> bool:
        """Write the message to the retry topic, or to the dead letters after its last attempt. False: the store has
        refused it, and nothing was written."""
        store = self._stores().get(message.queue.broker_name)
        if store is None or not store.is_usable:
            return False  # the round that drops its queue is under way, and the next owner gets it
        is_last = self.is_last(message)
        try:
            if is_last:
                send_to_dead_letters(store.store, self._group, message.message, message.attempt)
            else:
                queue_count = store.groups.settings(self._group).retry_queue_count
                send_to_retry(store.store, self._group, message.message, message.attempt, queue_count=queue_count)
        except Exception as e:  # whatever it is: the message stays, and the thread goes on
            self._tell_refused(store, message, e)
            return False
        self._told.clear()
        if is_last:
            self._tell_dead(message)
        return True

    def _tell_refused(self, store: ConsumedStore, message: ReceivedMessage, why: Exception) -> None:
        cause = type(why).__name__
        if isinstance(why, StoreClosedError) or cause in self._told:
            return
        self._told.add(cause)
        text = "group %s: a failed message of %s could not be sent back, and is tried again here: %s"
        extra = {"group": self._group, "path": str(store.store.path), "cause": cause}
        log.warning(text, self._group, message.queue, why, extra=extra)

    def _tell_dead(self, message: ReceivedMessage) -> None:
        if self._on_dead_letter is None:
            text = "group %s: dead letter after %d attempts: %r"
            log.warning(text, self._group, message.attempt, message.message, extra={"group": self._group})
            return
        try:
            self._on_dead_letter(message)
        except Exception as e:  # the message is a dead letter all the same
            log.warning("group %s: on_dead_letter failed", self._group, exc_info=e, extra={"group": self._group})
