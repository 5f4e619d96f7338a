"""A subscription in asyncio: `async for message in store.subscribe(...)`.

Who waits is a coroutine and a wake-up, no thread; a put wakes it. A coroutine that is cancelled while it waits has
taken no message, and leaves no wake-up behind.

asyncio is imported by who uses it: it takes longer to import than all of this package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .received import ReceivedMessage
from .waiters import Waiters

if TYPE_CHECKING:
    import asyncio


class LoopWakeUp:
    """Rung from any thread, it ends the wait of a coroutine of the loop that runs where it is made."""

    def __init__(self) -> None:
        import asyncio

        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._is_rung = asyncio.Event()

    def notify(self) -> None:
        if self._is_rung.is_set():  # who was woken looks only after it is cleared
            return
        try:
            self._loop.call_soon_threadsafe(self._is_rung.set)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    async def wait(self, timeout_s: float) -> None:
        """Return, and silence the wake-up, once it is notified, or after `timeout_s`."""
        import asyncio

        try:
            async with asyncio.timeout(timeout_s):
                await self._is_rung.wait()
        except TimeoutError:
            return
        self._is_rung.clear()


class AsyncSubscription(ABC):
    """What coroutines have of a Subscription: the same, awaited. Several may share one."""

    _waiters: Waiters
    _idle_s: float | None

    @property
    @abstractmethod
    def is_over(self) -> bool: ...

    @abstractmethod
    def poll(self, count: int = 1) -> list[ReceivedMessage]: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _deadline_s(self, wait_s: float | None) -> float | None: ...

    @abstractmethod
    def _wait_s(self, deadline_s: float | None) -> float | None: ...

    async def receive_async(self, wait_s: float | None = None) -> ReceivedMessage | None:
        """As Subscription.receive. It reads in the loop's thread, from memory as a rule."""
        import asyncio

        await asyncio.sleep(0)  # a backlog must not keep the loop from everybody else
        if found := self.poll():
            return found[0]
        deadline_s = self._deadline_s(wait_s)
        wake_up = LoopWakeUp()
        with self._waiters.with_wake_up(wake_up) as waiter:
            while not self.is_over:
                waiter.expect()
                if found := self.poll():
                    return found[0]
                left_s = self._wait_s(deadline_s)
                if left_s is None:
                    return None
                await wake_up.wait(left_s)
        return None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        message = await self.receive_async(self._idle_s)
        if message is None:
            raise StopAsyncIteration
        return message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        """Close it, which writes to the disk, in a thread of the loop's."""
        import asyncio

        await asyncio.to_thread(self.close)
