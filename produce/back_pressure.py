"""Holds sends back while a consumer group lags too far behind.

The lag is that of `Store.lag`, over the queues of the topic in all stores that are open. Asking costs a look at every
queue of a store, so a topic with room for n messages is asked again after n sends of this producer, or after a second.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from ..store.disk.clock import Clock
from ..store.errors import StoreClosedError, WrongTypeError
from ..store.queue_offsets import QueueKey
from .route import SendStore
from .send_errors import GroupLagError

BELIEVED_S = 1.0


@runtime_checkable
class LagStore(Protocol):
    """A store that knows its consumer groups."""

    def lag(self, group: str) -> dict[QueueKey, int]: ...


class BackPressure:
    """Thread-safe."""

    def __init__(self, max_lag: Mapping[str, int], clock: Clock) -> None:
        self._max_lag, self._clock = dict(max_lag), clock
        self._lock = threading.Lock()
        self._room: dict[str, tuple[int, float]] = {}
        """Topic -> how many messages may be sent, and until when that is believed."""

    def take(self, topic: str, stores: Mapping[str, SendStore], count: int = 1) -> GroupLagError | None:
        """None, and `count` messages may be sent to the topic; else why not yet. More than there is room for may be
        sent together, if there is any."""
        if not self._max_lag:
            return None
        with self._lock:
            now_s = self._clock.monotonic_s()
            room, until_s = self._room.get(topic, (0, 0.0))
            if room <= 0 or now_s >= until_s:
                room, until_s = 1 << 63, now_s + BELIEVED_S
                for group, limit in self._max_lag.items():
                    lag = _lag(group, topic, stores)
                    if lag > limit:
                        return GroupLagError(topic, group, lag, limit)
                    room = min(room, limit - lag + 1)
            self._room[topic] = room - count, until_s
            return None


def _lag(group: str, topic: str, stores: Mapping[str, SendStore]) -> int:
    found = 0
    for store in stores.values():
        if not isinstance(store, LagStore):
            raise WrongTypeError("stores", store, "stores that know consumer groups (flightlog.Store), for max_lag")
        try:
            found += sum(count for (of, _), count in store.lag(group).items() if of == topic)
        except StoreClosedError:  # its messages are not consumed, and nothing is sent there
            continue
    return found
