"""Shutdown of a store, by `close`, at exit or when its handle is collected. Nothing here keeps the handle alive."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ..store.errors import FlightlogError
from .services.service_thread import ServiceThread
from .services.store_maintenance import StoreMaintenance
from .write.pending_puts import PendingPuts

log = logging.getLogger("flightlog.store")


class Service(Protocol):
    """A background service of an open store. It does not hold the store's handle."""

    @property
    def thread(self) -> ServiceThread: ...

    def stop(self) -> None:
        """Stop, and return once it has stopped. If a KeyboardInterrupt ends the wait, it is called again."""


def make_shutdown(
    services: Sequence[Service],
    pending: PendingPuts,
    close_delays: Callable[[], None],
    maintenance: StoreMaintenance,
) -> Callable[[], None]:
    """Return a function that shuts a store down without its handle. After a KeyboardInterrupt, call it again."""

    def shut_down() -> None:
        for service in services:
            service.stop()
        pending.finish()
        close_delays()
        maintenance.end()

    return shut_down


class Closing(Protocol):
    """A store that can be closed."""

    @property
    def path(self) -> Path: ...

    def close(self) -> None: ...


def close_at_exit(store: Closing) -> Callable[[], None]:
    """Return a function that closes the store and does not keep it alive."""
    reference = weakref.ref(store)

    def close() -> None:
        alive = reference()
        if alive is not None:
            try:
                alive.close()
            except FlightlogError as e:
                log.error(
                    "%s: not closed cleanly, the next open recovers it: %s",
                    alive.path,
                    e,
                    extra={"path": str(alive.path)},
                )

    return close


def shut_down_dropped(path: Path, shut_down: Callable[[], None], threads: Iterable[ServiceThread]) -> None:
    """Shut down a store whose handle is being collected. If that happens in a thread of this store, the thread does it
    after its work."""

    def shut_down_quietly() -> None:
        try:
            shut_down()
        except FlightlogError as e:
            log.error("%s: not closed cleanly, the next open recovers it: %s", path, e, extra={"path": str(path)})

    for thread in threads:
        if thread.is_current():
            thread.stop_then(shut_down_quietly)
            return
    shut_down_quietly()
