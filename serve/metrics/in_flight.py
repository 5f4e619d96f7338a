"""How many messages clients have received by pop and not acknowledged, by group and topic.

A message counts until its client acknowledges, changes or gives it up, or until its invisible time is over. Messages
are counted by the second in which that is: so this costs no memory for each of them, and an acknowledgement that a
client repeats has its count wrong until that second at most. RocketMQ: `PopInflightMessageCounter`.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ...consume.pop.popped import PopHandle, PoppedMessage, words_of
from ...store.errors import InvalidArgumentError
from ...store.format.record import RETRY_TOPIC_PREFIX


class Place(NamedTuple):
    """Where a message was received."""

    group: str
    topic: str
    is_retry: bool


class InFlight:
    """Messages in flight of one broker, since the server started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_second: defaultdict[Place, Counter[int]] = defaultdict(Counter)
        self._kept: Counter[Place] = Counter()

    def received(self, popped: Iterable[PoppedMessage]) -> None:
        with self._lock:
            for each in popped:
                place = _place(each.handle, each.message.topic)
                self._by_second[place][each.invisible_until_ms // 1000] += 1

    def changed(self, handle: PopHandle) -> None:
        """A client has this handle from now on, for a message that it received before."""
        self._add(handle, 1)

    def done(self, handle: PopHandle) -> None:
        """The client has said what becomes of it. Handles that are none do not count."""
        with suppress(InvalidArgumentError):
            self._add(handle, -1)

    def _add(self, handle: PopHandle, count: int) -> None:
        words, _ = words_of(handle)
        place, second = _place(handle, words.key.topic), words.expires_ms // 1000
        with self._lock:
            left = self._by_second[place][second] + count
            if left > 0:
                self._by_second[place][second] = left
            else:
                del self._by_second[place][second]

    def note_kept(self, handle: PopHandle, count: int) -> None:
        """The store prolongs the time of this message from now on (1), or does so no more (-1)."""
        with suppress(InvalidArgumentError):
            words, _ = words_of(handle)
            with self._lock:
                self._kept[_place(handle, words.key.topic)] += count

    def counts(self, now_ms: int) -> dict[Place, int]:
        """Those of now; 0 where there were some before."""
        with self._lock:
            found = dict(self._kept)
            for place, by_second in self._by_second.items():
                for second in [each for each in by_second if each < now_ms // 1000]:
                    del by_second[second]
                found[place] = found.get(place, 0) + by_second.total()
        return found


def _place(handle: PopHandle, topic: str) -> Place:
    """`topic`: of the record."""
    return Place(handle.group, handle.topic, topic.startswith(RETRY_TOPIC_PREFIX))
