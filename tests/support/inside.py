"""What tests look at inside of an open store. This module alone knows where a store keeps its parts.

Tests that can be written against what users see are; see also flightlog.testing (`kill`, `log_positions`).
"""

from __future__ import annotations

from flightlog import MessageStore, Store
from flightlog.consume.group.offset_table import OffsetTable
from flightlog.consume.group_coordinator import GroupCoordinator
from flightlog.engine.delay.delay_levels import DelayLevels
from flightlog.engine.delay.store_timers import Timers
from flightlog.engine.dispatch.dispatcher import Dispatcher
from flightlog.engine.services.arrivals import Arrivals
from flightlog.engine.services.delay_service import DelayService
from flightlog.engine.services.flush_service import FlushService
from flightlog.engine.services.long_polls import LongPolls
from flightlog.engine.services.prepare_service import PrepareService
from flightlog.engine.services.store_maintenance import StoreMaintenance
from flightlog.engine.write.putting import Putter
from flightlog.index.queue.queue_table import QueueTable
from flightlog.store.disk.clock import Clock
from flightlog.store.log.commit_log import CommitLog
from flightlog.store.segments.segment import AppendSegment

AnyStore = MessageStore | Store


def log(store: AnyStore) -> CommitLog:
    return store._log


def active_segment(store: AnyStore) -> AppendSegment:
    """The segment that takes appends."""
    active = store._log._active
    assert active is not None
    return active


def dispatcher(store: AnyStore) -> Dispatcher:
    return store._dispatcher


def queue_table(store: AnyStore) -> QueueTable:
    return store._table


def maintenance(store: AnyStore) -> StoreMaintenance:
    return store._maintenance


def flush_service(store: AnyStore) -> FlushService:
    return store._service


def prepare_service(store: AnyStore) -> PrepareService:
    return store._preparing


def delay_service(store: AnyStore) -> DelayService:
    return store._delay_service


def timers(store: AnyStore) -> Timers:
    return store._timers


def delay_levels(store: AnyStore) -> DelayLevels:
    assert store._levels is not None
    return store._levels


def arrivals(store: AnyStore) -> Arrivals:
    return store._arrivals


def long_polls(store: AnyStore) -> LongPolls:
    return store._pulls


def putter(store: AnyStore) -> Putter:
    return store._putter


def clock(store: AnyStore) -> Clock:
    return store._clock


def coordinator(store: Store) -> GroupCoordinator:
    """There from the first subscription on."""
    assert store._coordinator is not None
    return store._coordinator


def group_offsets(store: Store) -> OffsetTable:
    return store._offsets
