"""The handles of the messages that a store's receivers have, so that a test can end their invisible time."""

from __future__ import annotations

import threading
from functools import wraps
from typing import Any

from ..consume.pop.popped import PopHandle, PoppedMessage
from ..consume.store import Store
from ..store.results import PutStatus


class PoppedHandles:
    """Looks on while a store's `receive`, `ack` and `change_invisible` are called, until it is closed."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.Lock()
        self._handles: set[PopHandle] = set()
        receive, ack, change_invisible = store.receive, store.ack, store.change_invisible

        @wraps(receive)
        def receive_noted(*args: Any, **kwargs: Any) -> list[PoppedMessage]:
            popped = receive(*args, **kwargs)
            with self._lock:
                self._handles.update(each.handle for each in popped)
            return popped

        @wraps(ack)
        def ack_noted(*handles: PopHandle) -> PutStatus:
            with self._lock:
                self._handles.difference_update(handles)
            return ack(*handles)

        @wraps(change_invisible)
        def change_noted(handle: PopHandle, *args: Any, **kwargs: Any) -> PopHandle:
            changed = change_invisible(handle, *args, **kwargs)
            with self._lock:
                self._handles.discard(handle)
                self._handles.add(changed)
            return changed

        vars(store).update(receive=receive_noted, ack=ack_noted, change_invisible=change_noted)

    def take_all(self) -> set[PopHandle]:
        """The handles of the messages that are not acknowledged; they are forgotten. Some may have expired."""
        with self._lock:
            found, self._handles = self._handles, set()
            return found

    def close(self) -> None:
        for name in ("receive", "ack", "change_invisible"):
            vars(self._store).pop(name, None)
