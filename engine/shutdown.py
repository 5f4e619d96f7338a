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
    """What runs beside the calls of an open store. It does not hold the store's handle."""

    @property
    def thread(self) -> ServiceThread: ...

    def stop(self) -> None:
        """Return once it does nothing any more. If a KeyboardInterrupt ends the wait, it is called again."""


def ending(
    services: Sequence[Service],
    pending: PendingPuts,
    close_delays: Callable[[], None],
    maintenance: StoreMaintenance,
) -> Callable[[], None]:
    """Returns what shuts a store down, without its handle. If a KeyboardInterrupt ends that, it can be called again."""

    def end() -> None:
        for service in services:
            service.stop()
        pending.finish()
        close_delays()
        maintenance.end()

    return end


class Closing(Protocol):
    """A store that can be closed."""

    @property
    def path(self) -> Path: ...

    def close(self) -> None: ...


def close_at_exit(store: Closing) -> Callable[[], None]:
    """Returns a function that closes the store and does not keep it alive."""
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


def end_dropped(path: Path, end: Callable[[], None], threads: Iterable[ServiceThread]) -> None:
    """Shut down a store whose handle is being collected. If that happens in a thread of this store, the thread does it
    after its work."""

    def end_quietly() -> None:
        try:
            end()
        except FlightlogError as e:
            log.error("%s: not closed cleanly, the next open recovers it: %s", path, e, extra={"path": str(path)})

    for thread in threads:
        if thread.is_current():
            thread.stop_then(end_quietly)
            return
    end_quietly()
