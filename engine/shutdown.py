"""How an open store ends, whoever ends it: nothing here keeps its handle alive."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ..store.errors import FlightlogError
from .delay.delay_service import DelayService
from .services.arrivals import Arrivals
from .services.flush_service import FlushService
from .services.long_polls import LongPolls
from .services.prepare_service import PrepareService
from .services.service_thread import ServiceThread
from .services.store_maintenance import StoreMaintenance
from .write.pending_puts import PendingPuts

Service = LongPolls | Arrivals | DelayService | FlushService | PrepareService

log = logging.getLogger("flightlog.store")


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
    """A store, as its end sees it."""

    @property
    def path(self) -> Path: ...

    def close(self) -> None: ...


def close_at_exit(store: Closing) -> Callable[[], None]:
    """A closer that does not keep the store alive."""
    reference = weakref.ref(store)

    def close() -> None:
        alive = reference()
        if alive is not None:
            try:
                alive.close()
            except FlightlogError as e:
                log.error("%s: closed as one that was killed: %s", alive.path, e, extra={"path": str(alive.path)})

    return close


def end_dropped(path: Path, end: Callable[[], None], threads: Iterable[ServiceThread]) -> None:
    """End a store whose handle is being collected. That may happen in any thread, in the middle of what that one does
    for this store: then it ends the store when it has done."""

    def end_quietly() -> None:
        try:
            end()
        except FlightlogError as e:
            log.error("%s: closed as one that was killed: %s", path, e, extra={"path": str(path)})

    for thread in threads:
        if thread.is_current():
            thread.stop_then(end_quietly)
            return
    end_quietly()
