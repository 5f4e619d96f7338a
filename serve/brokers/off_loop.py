"""Store calls that may wait for a disk, run by threads beside the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ...consume.store import Store
from ...store.message import Message
from ...store.settings import FlushMode

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
"""Under sync flush, so many calls can wait for one sync together."""


MAX_IN_LOOP = 256 << 10
"""Bytes of a batch that are appended between other calls: what takes longer is a thread's."""


def is_quick(messages: Sequence[Message], stores: Iterable[Store]) -> bool:
    """Whether a batch waits for nothing: a hop to a thread costs more than a small append."""
    is_async = all(each.settings.flush_mode is FlushMode.ASYNC for each in stores)
    return is_async and sum(len(each.body) for each in messages) <= MAX_IN_LOOP


class OffLoop:
    """Used in one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "flightlog-serve")
        self._ended: deque[asyncio.Future[None]] = deque()
        """What waits in the loop for futures that other threads have completed."""
        self._is_woken = False
        """Whether the loop will look at them."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises. A cancelled caller ends its wait; a function that
        has begun goes on to its end."""
        return await self.outcome(self.submit(function, *args, **kwargs))

    async def outcome(self, future: Future[T]) -> T:
        """The result or the error of a future that another thread completes. A caller that is cancelled cancels it.

        Like `asyncio.wrap_future`, which wakes the loop for every one, with a system call for which the other thread
        releases the GIL. A sync completes many at once: here they share a wake.
        """
        if not future.done():
            loop = asyncio.get_running_loop()
            waiting = loop.create_future()
            future.add_done_callback(partial(self._note_ended, loop, waiting))
            try:
                await waiting
            except asyncio.CancelledError:
                future.cancel()
                raise
        try:
            return future.result()
        finally:
            del future  # a circle with its error's traceback, which has the frames with the request

    def _note_ended(self, loop: asyncio.AbstractEventLoop, waiting: asyncio.Future[None], future: Future[Any]) -> None:
        """In any thread."""
        self._ended.append(waiting)
        if not self._is_woken:
            self._is_woken = True
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # the loop is closed, so what waited was cancelled
                self._is_woken = False

    def _wake(self) -> None:
        self._is_woken = False  # before the look: what ends from now on wakes the loop again
        while self._ended:
            waiting = self._ended.popleft()
            if not waiting.done():
                waiting.set_result(None)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._threads.submit(function, *args, **kwargs)

    def close(self) -> None:
        """Return once the last function has ended."""
        self._threads.shutdown()
