"""A small store, its death, and where its log ends."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..consume.store import Store
from ..engine.read_only import open_read_only
from ..store.disk.clock import Clock
from ..store.disk.disk import Disk
from ..store.settings import StoreSettings


def open_small(
    folder: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
) -> Store:
    """`flightlog.open` with `StoreSettings.small()`: files of some kilobytes, so that a test fills many of them.

    Raises what `flightlog.open` raises.
    """
    return Store.open(folder, settings or StoreSettings.small(), disk=disk, clock=clock)


def kill(store: Store) -> None:
    """End a store as `kill -9` would end its process: nothing more is flushed, and it is not marked as closed.

    What was written stays in its files, as the page cache keeps it. The next open recovers the store, in this process
    too. Calls of other threads that wait for a sync raise StorePoisonedError. Put futures end with an error.
    """
    store.message_store._maintenance.poison(InterruptedError("killed"))
    # A poisoned store whose log is flushed writes offsets, and how far its timers are.
    store.message_store.offsets.save = _save_nothing  # type: ignore[method-assign]
    store.message_store._delay_service.savers.clear()
    store.pop_service._save = _save_nothing  # type: ignore[method-assign]
    store.close()


def _save_nothing() -> None:
    """In place of what saves offsets."""


def verify_closed(
    folder: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
) -> None:
    """Open a closed store, which recovers one that was killed or poisoned, close it, and verify it. Raises
    AssertionError if it is not clean, and what `flightlog.open` raises."""
    with open_small(folder, settings, disk=disk, clock=clock):
        pass
    with open_read_only(folder) as view:
        report = view.verify()
    assert report.is_clean, "\n".join(map(str, report.findings))


class LogPositions(NamedTuple):
    """Where a store's log ends, as physical offsets: each is the first byte behind what it speaks of."""

    appended: int
    """The end of the last record."""
    visible: int
    """What readers see; with sync flush, not before it is flushed."""
    flushed: int
    """What is durable: a power cut leaves it."""
    dispatched: int
    """What consume queues have entries of. Readers of this process never notice that it is behind."""


def log_positions(store: Store) -> LogPositions:
    """Look at an open store. The values are read one after the other: they are exact while nothing puts or flushes."""
    commit_log, dispatcher = store.message_store._log, store.message_store._dispatcher
    return LogPositions(commit_log.end, commit_log.visible, commit_log.flushed, dispatcher.position)
