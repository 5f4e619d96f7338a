"""What tests look at inside of an open store. This module alone knows where a store keeps its parts.

Tests that can be written against what users see are; see also flightlog.testing (`kill`, `log_positions`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from flightlog import ReadOnlyStore, Store, Stores, Subscription
from flightlog.consume.group_coordinator import GroupCoordinator
from flightlog.consume.pop.revive.revive_queue import ReviveQueue
from flightlog.engine.delay.delay_levels import DelayLevels
from flightlog.engine.delay.delay_service import DelayService
from flightlog.engine.delay.store_timers import Timers
from flightlog.engine.dispatch.dispatcher import Dispatcher
from flightlog.engine.message_store import MessageStore
from flightlog.engine.open.shutdown_state import ShutdownState
from flightlog.engine.open.view_keys import ViewKeys
from flightlog.engine.services.arrivals import Arrivals
from flightlog.engine.services.flush_service import FlushService
from flightlog.engine.services.long_polls import LongPolls
from flightlog.engine.services.prepare_service import PrepareService
from flightlog.engine.services.retention import CleanUpReport
from flightlog.engine.services.store_maintenance import StoreMaintenance
from flightlog.engine.topics.offset_table import OffsetTable
from flightlog.engine.write.putting import Putter
from flightlog.index.queue.queue_table import QueueTable
from flightlog.produce.transaction.transactions import Transactions
from flightlog.schedule.timer_wheel_store import NOTHING_GIVEN
from flightlog.store.disk.clock import Clock
from flightlog.store.log.commit_log import CommitLog
from flightlog.store.log.log_reader import LogReader
from flightlog.store.log.poison import Poison
from flightlog.store.native.group_commit_protocol import GroupCommitProtocol
from flightlog.store.segments.segment import AppendSegment, Segment

if TYPE_CHECKING:  # it needs the extra `serve`
    from flightlog import RemoteStore

AnyStore = MessageStore | Store


def engine(store: AnyStore) -> MessageStore:
    """The store that a Store holds."""
    return store.message_store if isinstance(store, Store) else store


def log(store: AnyStore) -> CommitLog:
    return engine(store)._log


def log_reader(store: AnyStore | ReadOnlyStore) -> LogReader:
    return (store if isinstance(store, ReadOnlyStore) else engine(store))._reader._log_reader


def active_segment(store: AnyStore) -> AppendSegment:
    """The segment that takes appends."""
    active = log(store)._active
    assert active is not None
    return active


def dispatcher(store: AnyStore) -> Dispatcher:
    return engine(store)._dispatcher


def queue_table(store: AnyStore | ReadOnlyStore) -> QueueTable:
    return store._table if isinstance(store, ReadOnlyStore) else engine(store)._table


def maintenance(store: AnyStore) -> StoreMaintenance:
    return engine(store)._maintenance


def segments_removed(store: AnyStore) -> threading.Event:
    """Set once a round of the store's retention has removed a segment."""
    removed, clean_up = threading.Event(), maintenance(store).clean_up

    def watched(*args: Any, **named: Any) -> CleanUpReport:
        report = clean_up(*args, **named)
        if report.segments:
            removed.set()
        return report

    maintenance(store).clean_up = watched  # type: ignore[method-assign]
    return removed


def flush_service(store: AnyStore) -> FlushService:
    return engine(store)._service


def prepare_service(store: AnyStore) -> PrepareService:
    return engine(store)._preparing


def delay_service(store: AnyStore) -> DelayService:
    return engine(store)._delay_service


def timers(store: AnyStore) -> Timers:
    return delay_service(store).timers


def delay_levels(store: AnyStore) -> DelayLevels:
    levels = delay_service(store).levels
    assert levels is not None
    return levels


def arrivals(store: AnyStore) -> Arrivals:
    return engine(store).arrivals


def long_polls(store: AnyStore) -> LongPolls:
    return engine(store)._pulls


def putter(store: AnyStore) -> Putter:
    return engine(store).putter


def clock(store: AnyStore) -> Clock:
    return engine(store).clock


def coordinator(store: Store) -> GroupCoordinator:
    """There from the first subscription on."""
    assert store._readers.made is not None
    return store._readers.made


def group_offsets(store: Store) -> OffsetTable:
    return engine(store).offsets


def groups_without_thread(store: Store | Stores) -> None:
    """Rebalancing and saves come from the calls of members alone: a thread would outlive the death of a disk."""
    groups = store._coordinator if isinstance(store, Stores) else store._readers.own()
    groups._service.start = lambda: None  # type: ignore[method-assign]


# -- what services do, step by step


def flush_what_is_due(store: AnyStore) -> None:
    """One look of the flush service, in the caller's thread."""
    flush_service(store)._flush_what_is_due()


def next_round_s(store: AnyStore) -> float:
    """When the flush service looks again by itself, of the monotonic clock; infinite if nothing is due."""
    return flush_service(store)._next_round_s()


def does(store: AnyStore, work: Callable[[], None]) -> bool:
    """Whether the flush service got this done; what fails is judged as in its own thread."""
    return flush_service(store)._does(work)


def forget_to_end(store: AnyStore) -> None:
    """What `close` will do is let go of files and threads, and no more: an end like that of a killed process, which
    is told no cause, as `kill` tells one."""
    maintenance(store)._was_ended = True


def is_hurried(store: AnyStore) -> bool:
    """Whether a put that did not wait asked for a sync that has not begun."""
    return flush_service(store)._is_hurried


def flush_intervals_s(service: FlushService) -> tuple[float, float]:
    """Intervals of the service's looks, and of its rounds of retention."""
    return service._interval_s, service._clean_interval_s


def level_offsets(store: AnyStore) -> list[int]:
    """Queue offset that each delay level goes on at, lowest level first."""
    return [each.offset for each in delay_levels(store)._schedulers]


def is_giving_timers(store: AnyStore) -> bool:
    """Whether timers stopped in the middle of a second."""
    found = timers(store)._timers
    return found is not None and found._given != NOTHING_GIVEN


def has_delay_thread(store: AnyStore) -> bool:
    return delay_service(store).thread._thread is not None


def had_delay_thread(store: AnyStore) -> bool:
    """Whether delayed delivery ever had a thread."""
    return delay_service(store).thread._was_started


def timer_failure(store: AnyStore) -> str:
    """Why timers are not delivered, as they log it; empty if they are."""
    return timers(store)._failure


def timers_in_second(store: AnyStore, slot_s: int) -> int:
    return timers(store)._count_at(slot_s)


def lowest_pin(store: AnyStore) -> int | None:
    """Physical offset that the lowest of the readers still needs."""
    return maintenance(store).retention._pins.lowest()


# -- consumers


def waiting_for_arrivals(store: AnyStore) -> int:
    return len(arrivals(store)._waiting)


class _LockWithHook:
    """A lock that calls something each time that it was let go."""

    def __init__(self, lock: AbstractContextManager[object], released: Callable[[], None]) -> None:
        self._lock, self._released = lock, released

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__(None, None, None)
        self._released()


def on_lock_release(subscription: Subscription, do: Callable[[], None]) -> None:
    """Have this done, where another thread could do it, each time that the member lets go of its lock."""
    subscription._lock = _LockWithHook(subscription._lock, do)  # type: ignore[assignment]


def waiting_for_messages(subscription: Subscription) -> int:
    return len(subscription._waiters._wake_ups)


def rebalance_due(store: Store | Stores) -> int:
    """One round of the coordinator's service, and its chores as far as they are due, in the caller's thread. Returns of
    how many groups."""
    service = (store._coordinator if isinstance(store, Stores) else coordinator(store))._service
    rounds = service.run_due()
    service._do_chores()
    return len(rounds)


def rebalance(store: Store, group: str) -> None:
    coordinator(store)._groups[group].group.rebalance()


def look_after(stores: Stores) -> None:
    """What the coordinator's service does every few seconds, in the caller's thread."""
    stores._coordinator._look_after()


def between_rounds(stores: Stores, group: str) -> AbstractContextManager[object]:
    """No rebalance of this group while the block runs."""
    consumers = stores._coordinator._groups.get(group)
    return nullcontext() if consumers is None else consumers.group._lock


def release_queues(view: ReadOnlyStore) -> None:
    """Give up the pins of its iterators, as its close does."""
    view._reader.queue_reader.release()


# -- the life of a store


def is_released(store: AnyStore) -> bool:
    """Whether `close` has let go of everything."""
    return engine(store)._is_released


def take_back_fork(store: AnyStore) -> None:
    """After `mark_forked` in the process that did not fork: `close` closes again."""
    engine(store)._forked = False


# -- parts of the log


def prepared_segment(store: AnyStore) -> AppendSegment | None:
    """The segment that is prepared behind the active one."""
    return log(store).preparation._next


def allow_for_burst(store: AnyStore, size: int) -> None:
    """So many bytes are prepared at most for a burst, on a machine of any size."""
    log(store).preparation._most_for_burst = size


def group_commit(store: AnyStore) -> GroupCommitProtocol:
    return log(store)._group_commit


def poison(store: AnyStore) -> Poison:
    return log(store)._poison


def expects_bulk(store: AnyStore) -> bool:
    """Whether the active segment prepares large folios."""
    return active_segment(store)._expects_bulk


def is_open(segment: Segment) -> bool:
    return segment._file is not None


# -- of views


def unpin(view: ReadOnlyStore) -> None:
    """Have retention take what the view may still read."""
    view._pin.release()


def shutdown_state(view: ReadOnlyStore) -> ShutdownState:
    return view._shutdown_state


def view_keys(view: ReadOnlyStore) -> ViewKeys:
    assert view._reader._keys is not None
    source = view._reader._keys._source
    assert isinstance(source, ViewKeys)
    return source


def transactions_by_hand(store: AnyStore) -> Transactions:
    """The transactions of a store, before it has any: without their thread, so a test calls `run_due` itself."""
    found = Transactions.of(engine(store))
    found.thread.start = lambda: None  # type: ignore[method-assign]
    return found


def revive_queues(store: Store) -> list[ReviveQueue]:
    return store.pop_service._queues


def pop_by_hand(store: Store) -> None:
    """Leave to the caller what the thread of the pops does, and have the same queues looked at in each run."""
    store.pop_service._thread.request_stop()
    store.pop_service._random.seed(7)


def save_pops(store: Store) -> None:
    """What the thread of the pops does every few seconds."""
    store.pop_service._save()


def wake_services(store: Store) -> None:
    """Have what delivers timers and brings popped messages back look at the clock, which was advanced."""
    delay_service(store)._wake_up.notify()
    store.pop_service._wake_up.notify()


def pop_saves_nothing(store: Store) -> None:
    """As when the process is killed: closing writes no offsets and order infos of pops."""
    store.pop_service._save = lambda: None  # type: ignore[method-assign]


def break_calls(remote: RemoteStore) -> None:
    """Cut the cable of every call that is on its way."""
    for connection in tuple(remote._rpc._at_work):
        connection.abort()


def headers_of(remote: RemoteStore) -> dict[str, str]:
    """What the next call of a remote store would send."""
    return dict(remote._rpc._headers())
