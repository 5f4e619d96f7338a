"""A message of a remote subscription, in the hands of a worker."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...consume.deliver.received import MessageInHand
from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, PoppedMessage
from ...store.arguments import check_seconds

Ack = Callable[..., None]
ChangeInvisible = Callable[[PopHandle, int], PopHandle]


class RemoteMessage(MessageInHand):
    """A message to process and acknowledge. While it is neither, its subscription keeps it from others."""

    def __init__(self, popped: PoppedMessage, ack: Ack, change_invisible: ChangeInvisible) -> None:
        self.message = popped.message
        """Its topic is the one that it was first put to; `physical_offset` and `size` are -1."""
        self.attempt = popped.attempt
        """How many times it was delivered to the group, this one included."""
        self._handle, self._ack, self._change_invisible = popped.handle, ack, change_invisible
        self._lock = threading.Lock()
        """Held while the handle is used: each use of it may give another one."""
        self.is_done = False
        """Whether it was acknowledged or given back, or has gone to another member."""

    def ack(self) -> bool:
        """Acknowledge it: it is not delivered again. Durable on return as a put is. False if it is done already, or if
        its time was over: then it is delivered again. Raises as `RemoteStore.ack`."""
        with self._lock:
            if self.is_done:
                return False
            try:
                self._ack(self._handle)
            except ExpiredHandleError:
                return False
            finally:
                self.is_done = True
            return True

    def retry_later(self, delay_s: float) -> bool:
        """Have it delivered again, to any member of the group, a few seconds after `delay_s` seconds. The attempt
        counts. False as `ack`. Raises as `RemoteStore.change_invisible`."""
        check_seconds("delay_s", delay_s)
        return self._change(int(delay_s * 1000), is_last=True)

    def prolong(self, invisible_ms: int) -> bool:
        """Called by its subscription."""
        return self._change(invisible_ms, is_last=False)

    def _change(self, invisible_ms: int, *, is_last: bool) -> bool:
        with self._lock:
            if self.is_done:
                return False
            try:
                self._handle = self._change_invisible(self._handle, invisible_ms)
            except ExpiredHandleError:
                self.is_done = True
                return False
            self.is_done = is_last
            return True

    def __repr__(self) -> str:
        return f"RemoteMessage({self.message!r})"
