"""After a crash: which messages a group receives one by one, so that one that ends the process is known.

Shared by the members of a group in one process. A queue is a suspect from the moment that a member gets it until the
messages are done that were handed out of it, and not done, when a process died. Meanwhile the group receives nothing
but them, one at a time, and what was done before and comes again.

Members are referred to weakly: one without any other reference counts no more.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from ...store.message_queue import MessageQueue
from .waiters import Waiters


class OneByOne:
    """Thread-safe. It takes no lock of a member."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: WeakKeyDictionary[Any, set[MessageQueue]] = WeakKeyDictionary()
        """By member. A member without any has no entry."""
        self._taken: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()
        """The member that has the one message out, if any, and what it is known by there."""
        self._waiters: WeakSet[Waiters] = WeakSet()
        self._may_be_on = self._may_be_taken = False
        """False: the dictionaries are empty. A member that is gone leaves them True. Both are looked at once a message,
        and a weak dictionary takes longer to say that it is empty."""

    def add_waiters(self, waiters: Waiters) -> None:
        with self._lock:
            self._waiters.add(waiters)

    @property
    def is_on(self) -> bool:
        return self._may_be_on and bool(self._queues)

    def add(self, member: object, queue: MessageQueue) -> None:
        with self._lock:
            self._queues.setdefault(member, set()).add(queue)
            self._may_be_on = True

    def remove(self, member: object, queue: MessageQueue) -> None:
        """The queue is done, or this member hands out nothing of it."""
        with self._lock:
            queues = self._queues.get(member, set())
            if queue not in queues:
                return
            queues.remove(queue)
            if not queues:
                del self._queues[member]
                self._may_be_on = bool(self._queues)
        self._notify()

    def take(self, member: object, token: Hashable) -> bool:
        """Whether the member may hand out a message: no other member has one out."""
        with self._lock:
            if self._taken:
                return False
            self._taken[member] = token
            self._may_be_taken = True
            return True

    def release(self, member: object, token: Hashable) -> bool:
        """The message is done, or waits for its next attempt. False: it was not the one."""
        with self._lock:
            if not self._may_be_taken or self._taken.get(member) != token:
                return False
            del self._taken[member]
            self._may_be_taken = bool(self._taken)
        self._notify()
        return True

    def is_taken_by(self, member: object) -> bool:
        return self._may_be_taken and member in self._taken

    def let_go(self, member: object) -> None:
        """Whatever this member has out is no longer waited for."""
        with self._lock:
            self._taken.pop(member, None)
            self._may_be_taken = bool(self._taken)

    def _notify(self) -> None:
        with self._lock:
            waiters = list(self._waiters)
        for each in waiters:
            each.notify()
