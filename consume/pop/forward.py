"""Give up a popped message at once: it goes to the dead letters of its group, whatever attempts it has left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...engine.message_store import MessageStore
from ...store.errors import InvalidArgumentError
from ...store.results import PutStatus
from ..retry.send_back import send_to_dead_letters
from .pop_errors import ExpiredHandleError
from .pop_request import checked_handle
from .popped import PopHandle, words_of


def forward_to_dead_letters(
    store: MessageStore, ack: Callable[[PopHandle], PutStatus], handle: PopHandle, attempt: int
) -> PutStatus:
    """Put the message to `%DLQ%GROUP` and acknowledge it, in this order: a crash in between delivers it again.
    `attempt` counts its deliveries. Durable on return as an acknowledgement is.

    Raises ExpiredHandleError, InvalidArgumentError for a handle of a message that is not there, and as `ack`.
    """
    (words, queue_offset), now_ms = words_of(checked_handle(handle)), store.clock.now_ms()
    if words.expires_ms <= now_ms:
        raise ExpiredHandleError([handle], words.expires_ms, now_ms)
    found = store.get(words.key.topic, words.key.queue_id, queue_offset, 1).messages
    if not found or found[0].queue_offset != queue_offset:
        raise InvalidArgumentError("handle", handle.extra_info, "the handle of a message that is still there")
    send_to_dead_letters(store, handle.group, replace(found[0], topic=handle.topic), attempt)
    return ack(handle)
