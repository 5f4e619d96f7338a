"""What earlier lives of a store put to its retry topics: after a crash it does not come a second time."""

from __future__ import annotations

from ....engine.message_store import MessageStore
from ....store.format.record import RETRY_TOPIC_PREFIX
from ....store.stored_message import StoredMessage
from ...retry.put_since import PutSince
from ...retry.send_back import REVIVED
from ..check_point import CheckPointKey


class RevivedPops:
    """What earlier lives of one store revived, shared by the queues of its revive topic. Not thread-safe.

    A retry topic is to be asked about before this life puts anything there: what is there by then is what counts, and
    what it costs in memory.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._put_before: dict[str, PutSince[str]] = {}
        """By retry topic."""

    def has(self, retry: str, key: CheckPointKey, queue_offset: int, revive_ms: int) -> bool:
        """Whether the message at this queue offset was put to the retry topic for the check point with this key, which
        let it become visible at this time. Raises as `read`."""
        if retry not in self._put_before:
            self._put_before[retry] = PutSince(self._store, retry, _revived_pop, is_growing=False)
        return self._put_before[retry].has(pop_of(key, queue_offset), revive_ms)


def pop_of(key: CheckPointKey, queue_offset: int) -> str:
    """What names one pop of one message among all that come to a retry topic."""
    is_retry = key.topic.startswith(RETRY_TOPIC_PREFIX)
    return f"{key.pop_time_ms} {key.start_offset} {is_retry:d} {key.queue_id} {queue_offset}"


def _revived_pop(message: StoredMessage) -> str | None:
    return message.properties.get(REVIVED)
