"""The messages of a served topic for one member of a consumer group."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from ...consume.pop.popped import PoppedMessage
from ...store.errors import FlightlogError, StoreClosedError
from .remote_message import Ack, ChangeInvisible, RemoteMessage

log = logging.getLogger("flightlog.client")

PROLONGED_PER_TIME = 3
"""How often a message is prolonged within its invisible time: two that fail do no harm."""


class RemoteSubscription:
    """Made by `RemoteStore.subscribe`; an iterator and a context manager. Thread-safe: each gets other
    messages. The end of its iteration does not close it."""

    def __init__(
        self,
        topic: str,
        group: str,
        receive: Callable[[], list[PoppedMessage]],
        ack: Ack,
        change_invisible: ChangeInvisible,
        invisible_ms: int,
        idle_s: float | None,
    ) -> None:
        self.topic, self.group = topic, group
        self._receive, self._ack, self._change_invisible = receive, ack, change_invisible
        self._invisible_ms, self._idle_s = invisible_ms, idle_s
        self._received: deque[RemoteMessage] = deque()
        self._held: set[RemoteMessage] = set()
        """Those that may not be done yet."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._prolonging = threading.Thread(target=self._prolong, name="flightlog-prolong", daemon=True)
        self._prolonging.start()

    def __repr__(self) -> str:
        state = "closed" if self._closing.is_set() else "open"
        return f"<RemoteSubscription of group {self.group!r} to {self.topic!r}, {state}>"

    def receive(self, timeout_s: float | None = None) -> RemoteMessage | None:
        """The next message; None if none comes within about `timeout_s` seconds (each look takes 5 s), or after
        `close`. Raises as `RemoteStore.receive`."""
        due_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._closing.is_set():
            with self._lock:
                while self._received:
                    found = self._received.popleft()
                    if not found.is_done:
                        return found
            made = [RemoteMessage(each, self._ack, self._change_invisible) for each in self._receive()]
            with self._lock:
                self._held.update(made)
                self._received.extend(made)
            if not made and due_s is not None and time.monotonic() >= due_s:
                return None
        return None

    def __iter__(self) -> Iterator[RemoteMessage]:
        while (found := self.receive(self._idle_s)) is not None:
            yield found

    def _prolong(self) -> None:
        """The work of the thread."""
        while not self._closing.wait(self._invisible_ms / 1000 / PROLONGED_PER_TIME):
            with self._lock:
                self._held = {each for each in self._held if not each.is_done}
                held = tuple(self._held)
            for each in held:
                try:
                    each.prolong(self._invisible_ms)
                except StoreClosedError:
                    return
                except FlightlogError as e:
                    log.warning("a message may come to another member: %s", e, extra={"cause": repr(e)})

    def close(self) -> None:
        """Prolong nothing any more, and give back at once what was received and not handed out. What was handed out and
        is not acknowledged comes again after its invisible time. Calling it twice is fine."""
        self._closing.set()
        with self._lock:
            given_back, self._received = tuple(self._received), deque()
        for each in given_back:
            try:
                each.retry_later(0)
            except FlightlogError as e:
                log.info("a message comes again when its time is over: %s", e, extra={"cause": repr(e)})
        if threading.current_thread() is not self._prolonging:
            self._prolonging.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
