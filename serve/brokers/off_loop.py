"""Store calls that may wait for a disk, run by threads beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

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

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises. A cancelled caller ends its wait; the function goes on to its end."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._threads.submit(function, *args, **kwargs)

    def close(self) -> None:
        """Return once the last function has ended."""
        self._threads.shutdown()
