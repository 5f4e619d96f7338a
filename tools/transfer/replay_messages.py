"""Put messages again, one after the other, as fast as they come or at a steady rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ...engine.repair.new_store import KeptMessage
from ...store.errors import InvalidMessageError, UsageError
from ...store.format import property_names as props
from ...store.message import Message

SENT = (props.TAGS, props.KEYS, props.UNIQ_KEY, props.SHARDING_KEY)
"""The names that RocketMQ reserves and that a client sets."""


def replay_messages(
    put: Callable[[Message], object],
    messages: Iterable[KeptMessage],
    rate: float | None = None,
    *,
    now_s: Callable[[], float] = time.monotonic,
    wait_s: Callable[[float], None] = time.sleep,
) -> int:
    """Put messages in their order, `rate` a second at most (None: without a pause). Returns how many were put.

    Raises UsageError for a message that is not taken, which names it and how many were put before; what `put` raises.
    """
    count, started_s = 0, now_s()
    for each in messages:
        if rate is not None:
            early_s = started_s + count / rate - now_s()
            if early_s > 0:
                wait_s(early_s)
        try:
            put(each.message)
        except InvalidMessageError as e:
            raise UsageError(f"{each.where}: {e}. {count:,} messages were put before it") from e
        count += 1
    return count


def for_server(message: Message) -> Message:
    """The message as a client sends it: with tags, keys, uniq key, message group and the application's properties. The
    server chooses its queue, and notes its own sender and times."""
    from ...serve.calls.checks import RESERVED  # needs the extra `serve`

    given = message.properties or {}
    kept = {name: value for name, value in given.items() if name in SENT or name not in RESERVED}
    return Message(message.topic, message.body, properties=kept)
