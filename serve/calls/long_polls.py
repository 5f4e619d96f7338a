"""Receives that wait for messages. A waiting one is a coroutine: it has no thread.

What wakes it is the store's own notice that a message can be read, so a delayed message and one that comes again wake
it as well as one that was just sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from contextlib import suppress

from ...engine.services.arrivals import Arrivals
from ...store.queue_offsets import QueueKey

Watched = tuple[Arrivals, Container[QueueKey]]
"""Some queues of a store."""


class Arrival:
    """A notice of new messages in some queues, of one store or of several. A context manager: the notice is forgotten
    at its end."""

    def __init__(self, polls: ServedLongPolls, watched: Sequence[Watched]) -> None:
        self._polls, self._watched = polls, watched
        self._loop, self._arrived = asyncio.get_running_loop(), asyncio.Event()

    def expect(self) -> None:
        """After this, look for messages; if there are none, wait."""
        self._arrived.clear()
        for arrivals, queues in self._watched:
            arrivals.expect(self, queues)

    def notify(self) -> None:
        """By any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def wait(self, timeout_s: float) -> None:
        """Return when there may be something new, when the time is over, or when the server closes."""
        if self._polls.is_closed:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()

    def __enter__(self) -> Arrival:
        self._polls.waiting.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._polls.waiting.discard(self)
        for arrivals, _queues in self._watched:
            arrivals.forget(self)


class ServedLongPolls:
    """All that wait, in one event loop."""

    def __init__(self) -> None:
        self.waiting: set[Arrival] = set()
        self.is_closed = False

    def on(self, watched: Sequence[Watched]) -> Arrival:
        return Arrival(self, watched)

    def close(self) -> None:
        """Answer those that wait; nobody waits from now on."""
        self.is_closed = True
        for arrival in tuple(self.waiting):
            arrival.notify()
