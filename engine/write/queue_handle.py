"""One queue of a store that is open for writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...store.errors import InvalidMessageError
from ...store.format.record import INT32_MAX, check_integer_range, is_safe_topic
from ...store.message import Message
from ...store.results import PutResult


class QueueHandle:
    """Lowest-overhead API: append to one queue without building a `Message`, with one call into the kernel. Created by
    `MessageStore.queue`. Thread-safe. Keeps a reference to its store."""

    __slots__ = ("_append", "_put", "_queue_id", "_topic")

    def __init__(
        self,
        topic: str,
        queue_id: int,
        append: Callable[..., PutResult | None],
        put: Callable[[Message], PutResult],
    ) -> None:
        if not isinstance(topic, str) or not is_safe_topic(topic):
            raise InvalidMessageError(f"topic {topic!r}: expected text that can name a folder")
        check_integer_range("queue_id", queue_id, 0, INT32_MAX)
        self._topic, self._queue_id, self._append, self._put = topic, queue_id, append, put

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def queue_id(self) -> int:
        return self._queue_id

    def append(
        self,
        body: bytes,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        uniq_key: str | None = None,
        flag: int = 0,
        born_timestamp_ms: int | None = None,
    ) -> PutResult:
        """Append one message. The arguments are the fields of `Message` with the same names. Durability, waiting and
        errors are those of `MessageStore.put`."""
        ordinary = self._append(
            self._topic, self._queue_id, body, tags, keys, properties, uniq_key, flag, born_timestamp_ms
        )
        if ordinary is not None:
            return ordinary
        return self._put(
            Message(self._topic, body, tags, keys, properties, self._queue_id, flag, uniq_key, born_timestamp_ms)
        )

    def __repr__(self) -> str:
        return f"QueueHandle({self._topic!r}, {self._queue_id})"
