"""The event loop of a listener that is a coroutine function.

A worker hands its messages to a coroutine in the loop and waits for that, so attempts, order, timeouts and
acknowledgements are those of any listener. All coroutines of a consumer run in one loop, as many at once as it has
threads: they may share what belongs to a loop, such as a connection pool.

asyncio is imported by who uses it: async_subscription.py says why.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...engine.services.service_thread import ServiceThread
from ...store.errors import StoreClosedError

if TYPE_CHECKING:
    import asyncio


def is_coroutine_function(listener: object) -> bool:
    """Whether a call returns a coroutine: also that of an object."""
    call = getattr(type(listener), "__call__", None)  # noqa: B004 (of an object, this may be the coroutine)
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(call)


class ListenerLoop:
    """The loop that is handed in, or one in a thread of its own, which ends after `stop` with the last call."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop, self._thread = loop, None if loop is not None else ServiceThread(name, self._run, self._wake)
        self._lock = threading.Lock()
        self._calls = 0
        self._stops = self._has_ended = False

    def start(self) -> None:
        """Raises ThreadStartError if the system refuses a thread."""
        if self._thread is None:
            return
        import asyncio

        self._loop = asyncio.new_event_loop()
        try:
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise

    def call(self, listener: Callable[[Any], Coroutine[Any, Any, object]], given: object) -> object:
        """What the coroutine returns or raises. Called by a worker. Raises StoreClosedError after `stop`."""
        import asyncio

        assert self._loop is not None
        with self._lock:
            if self._stops:  # no loop would run it
                raise StoreClosedError("the consumer was closed")
            self._calls += 1
        try:
            coroutine = listener(given)
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except BaseException:
                coroutine.close()
                raise
            return future.result()
        finally:
            with self._lock:
                self._calls -= 1
            self._wake()

    def is_current(self) -> bool:
        """Whether the caller runs in this loop."""
        import asyncio

        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def stop(self) -> None:
        """Take no more calls and end the thread; returns once it has ended, or at once if a call goes on, with which it
        will end."""
        with self._lock:
            self._stops = True
            is_idle = not self._calls
        if self._thread is None:
            return
        if is_idle:
            self._thread.stop()
        else:
            self._thread.request_stop()

    def _wake(self) -> None:
        with self._lock:
            ends = self._stops and not self._calls and not self._has_ended
            self._has_ended |= ends
        if ends and self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)  # once: a second one would end what Runner does after it

    def _run(self) -> None:
        import asyncio

        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # ends what the listener has left in the loop
            runner.get_loop().run_forever()
