"""What consumes one store or several together: the groups, their members, and the one thread that balances them and
saves how far they are.

Invariants:
- A group of a store is balanced in one place: by that store alone, or by one set of stores.
- A member that nobody holds is none any more, nor is one whose threads have ended: its queues go to the others.

Locks are taken in this order: here, a group's, a subscription's, an offset table's. Rounds take no lock of this class.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..engine.topics.offset_table import name_of
from ..index.filter.tag_filter import tag_filter
from ..store.disk.clock import Clock, SystemClock
from ..store.disk.disk import RealDisk
from ..store.errors import (
    DiskError,
    InconsistentGroupError,
    InvalidSettingsError,
    StoreClosedError,
    StorePoisonedError,
    TopicNotFoundError,
    UsageError,
)
from ..store.message_queue import MessageQueue
from .allocate.allocate import AllocationStrategy, Averagely
from .deliver.ordered_subscription import OrderedSubscription
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .group.consumed_store import ConsumedStore, ConsumeProgress, GroupProgress
from .group.group import Change, Group
from .group.initial_offset import StartFrom
from .group.local_progress import LocalProgress
from .group.queue_locks import RENEW_INTERVAL_S, QueueLocks
from .group.rebalance import RebalanceService

log = logging.getLogger("flightlog.consume")

SAVE_INTERVAL_S = 5.0
"""RocketMQ's `flushConsumerOffsetInterval`."""


class _MemberSlot:
    """A subscription's place in its group. It does not hold the subscription: who drops one leaves."""

    def __init__(self, subscription: Subscription, when_gone: Callable[[], None]) -> None:
        self.name, self.strategy, self.progress = subscription.name, subscription.strategy, subscription.progress
        # A garbage collection comes at any moment, in any thread: what it calls must take no lock.
        self.subscription = weakref.ref(subscription, lambda _: when_gone())

    @property
    def is_alive(self) -> bool:
        held = self.subscription()
        return held is not None and held.is_alive

    def assign(self, queue: MessageQueue) -> None:
        held = self.subscription()
        if held is not None:
            held.assign(queue)

    def revoke(self, queue: MessageQueue) -> bool:
        held = self.subscription()
        return held is None or held.revoke(queue)

    def tell(self, change: Change) -> None:
        held = self.subscription()
        if held is not None and held.on_change is not None:
            held.on_change(change)


class _Consumers(NamedTuple):
    """Of one group."""

    group: Group
    slots: list[_MemberSlot]

    def tell(self, change: Change) -> None:
        for slot in self.slots:
            if slot.name == change.member:
                slot.tell(change)


class GroupCoordinator:
    """Safe from many threads. Its thread runs while there are members: who lets go of them needs no `close`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._service = RebalanceService(self._clock)
        self._service.also_every(SAVE_INTERVAL_S, self._look_after)
        self._service.also_every(RENEW_INTERVAL_S, self._renew_locks)
        self._locks = QueueLocks(self._clock)
        self._lock = threading.RLock()
        self._stores: dict[str, ConsumedStore] = {}
        self._groups: dict[str, _Consumers] = {}
        self._numbers = itertools.count(1)
        self._unsaved: set[Path] = set()
        """Of stores, and of offsets on a member's side, that could not be written when it was last tried."""
        self._is_closed = False

    # -- stores

    @property
    def store_names(self) -> list[str]:
        return sorted(self._stores)

    def add_store(self, store: ConsumedStore) -> None:
        """Have all groups read it, too, in place of the one of that name."""
        with self._lock:
            self._check_open()
            before = self._stores.get(store.name)
            for group in self._groups:
                self._claim(store, group)
            if before is not None:
                self._take_out(before)
            self._stores = {**self._stores, store.name: store}
            store.poison_wake_ups.append(self._service.hint.give)
            for consumers in self._groups.values():
                consumers.group.add_source(store)
                consumers.group.rebalance()

    def remove_store(self, name: str) -> None:
        """See Stores.remove_store."""
        with self._lock:
            self._check_open()
            store = self._stores.get(name)
            if store is None:
                raise InvalidSettingsError(f"no store {name!r}: there are {', '.join(self.store_names) or 'none'}")
            self._take_out(store)

    def forget_store(self, store: ConsumedStore) -> None:
        """It is to be closed."""
        with self._lock:
            if self._stores.get(store.name) is store:
                self._take_out(store)

    def _take_out(self, store: ConsumedStore) -> None:
        for name, consumers in self._groups.items():
            consumers.group.remove_source(store)
            if store.owners.get(name) is self:
                del store.owners[name]
            for slot in consumers.slots:
                self._save_local(slot.progress)
        self._stores = {name: kept for name, kept in self._stores.items() if kept is not store}
        store.poison_wake_ups.remove(self._service.hint.give)
        self._unsaved.discard(store.store.path)
        _save(store)

    def _claim(self, store: ConsumedStore, group: str) -> None:
        owner = store.owners.get(group)
        if owner is not None and owner is not self and owner.is_balancing(group):
            raise InconsistentGroupError(
                group,
                f"members in the store {store.store.path} that others balance",
                "all of them to subscribe to this store alone, or to the same `Stores`",
            )
        store.owners[group] = self

    def is_balancing(self, group: str) -> bool:
        """Whether the group has a member here. Takes no lock: another GroupCoordinator asks."""
        consumers = self._groups.get(group)
        return consumers is not None and any(slot.is_alive for slot in tuple(consumers.slots))

    # -- members

    def subscribe(
        self,
        topics: Mapping[str, str],
        group: str,
        *,
        member: str | None,
        strategy: AllocationStrategy | None,
        start: StartFrom | int,
        limits: FlowLimits | None,
        ordered: bool,
        idle_s: float | None,
        broadcast_folder: str | os.PathLike[str] | None,
        on_change: Callable[[Change], None] | None,
        must_exist: bool,
    ) -> Subscription:
        """See Subscribing.subscribe."""
        if idle_s is not None and not idle_s >= 0:
            raise UsageError(f"idle_s={idle_s!r}: expected seconds, 0 or more, or None")
        for topic, tags in topics.items():
            name_of(topic, group)  # whether both are names that offsets can be kept under
            tag_filter(tags)  # and whether these are tags
            for store in self._stores.values():
                if store.is_usable:
                    store.check_routable(topic)
        self._check_topics(topics, group, must_exist)
        progress: ConsumeProgress = GroupProgress(lambda: self._stores, group)
        if broadcast_folder is not None:
            progress = LocalProgress(RealDisk(), Path(broadcast_folder), group, lambda: self._stores)
        # Who broadcasts shares its queues with nobody.
        locks = self._locks if broadcast_folder is None else QueueLocks(self._clock)
        kind = partial(OrderedSubscription, locks=locks, ask_for_round=self._ask_for_round)
        found = (kind if ordered else Subscription)(
            lambda: self._stores,
            progress,
            *(group, member or f"member-{next(self._numbers):06}", dict(topics)),
            strategy=strategy or Averagely(),
            start=start,
            limits=limits or FlowLimits(),
            idle_s=idle_s,
            clock=self._clock,
            leave=self._leave,
            come_back=self._join,
            before_wait=self._before_wait,
        )
        found.on_change = on_change
        self._join(found)
        return found

    def _check_topics(self, topics: Iterable[str], group: str, must_exist: bool) -> None:
        """Say which topics there are not, once for a group that has no members yet. Raises TopicNotFoundError."""
        stores = [store for store in self._stores.values() if store.is_usable]
        for topic in topics:
            if any(store.has_topic(topic) for store in stores):
                continue
            paths = ", ".join(str(store.store.path) for store in stores) or "no open store"
            if must_exist:
                raise TopicNotFoundError(
                    Path(paths), topic, "make it with create_topic, or subscribe without must_exist to wait for it"
                )
            if group not in self._groups:
                text = "group %s: there is no topic %r (%s): the group receives nothing from it until it is created"
                extra = {"group": group, "topic": topic, "stores": [store.name for store in stores]}
                log.warning(text, group, topic, paths, extra=extra)

    def _join(self, subscription: Subscription) -> None:
        """It has its queues, and has begun in them, when this returns."""
        with self._lock:
            self._check_open()
            self._service.start()
            name, topics = subscription.group, subscription.topics
            for store in self._stores.values():
                self._claim(store, name)
            for others, slot in self._slots():
                if not slot.is_alive:
                    self._evict(others, slot)
            is_broadcasting = isinstance(subscription.progress, LocalProgress)
            consumers = self._groups.get(name)
            if consumers is None:
                consumers = _Consumers(self._service.group(name, topics, is_broadcasting=is_broadcasting), [])
                consumers.group.listen(consumers.tell)
                for store in self._stores.values():
                    consumers.group.add_source(store)
            _check_order(consumers, subscription)
            _check_folder(consumers, subscription)
            slot = _MemberSlot(subscription, self._service.hint.give)
            consumers.group.join(slot, topics, is_broadcasting=is_broadcasting)
            consumers.slots.append(slot)
            self._groups[name] = consumers
            consumers.group.rebalance()

    def _leave(self, subscription: Subscription) -> None:
        with self._lock:
            for consumers, slot in self._slots():
                if slot.subscription() is subscription:
                    self._evict(consumers, slot)
        self._save_quietly()

    def _slots(self) -> Iterator[tuple[_Consumers, _MemberSlot]]:
        for consumers in list(self._groups.values()):
            for slot in list(consumers.slots):
                yield consumers, slot

    def _evict(self, consumers: _Consumers, slot: _MemberSlot) -> None:
        consumers.slots.remove(slot)
        consumers.group.leave(slot)
        consumers.group.rebalance()
        self._save_local(slot.progress)
        if not consumers.slots:
            name = consumers.group.name
            self._service.forget(consumers.group)
            del self._groups[name]
            for store in self._stores.values():
                if store.owners.get(name) is self:
                    del store.owners[name]

    def _before_wait(self, group: str) -> bool:
        """A member has found nothing. Returns whether topics have other queues now, so that it is to look again. Raises
        StorePoisonedError if it has found nothing because all stores are poisoned."""
        consumers, stores = self._groups.get(group), self._stores
        has_changed = False
        if consumers is not None:
            with suppress(StoreClosedError):  # by somebody, just now: then its queues are dropped, and all are rung
                has_changed = consumers.group.look_for_queues()
        causes = [(store, cause) for store in stores.values() if (cause := store.poison()) is not None]
        if causes and len(causes) == len(stores):
            raise StorePoisonedError(causes[0][0].store.path, causes[0][1])
        return has_changed

    def forget_topic(self, store: ConsumedStore, topic: str) -> None:
        """It was deleted: its queues leave their members at once, also members that are busy with other queues."""
        with self._lock:
            if self._stores.get(store.name) is not store:
                return
            for subscription in self._subscriptions():
                subscription.forget(store.name, topic)
            for consumers in self._groups.values():
                if topic in consumers.group.subscription:
                    consumers.group.rebalance()
                    self._service.notify(consumers.group)  # for what could not be dropped yet

    def _subscriptions(self) -> list[Subscription]:
        return [held for _, slot in self._slots() if (held := slot.subscription()) is not None]

    def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """See Stores.group_offsets."""
        self._check_open()
        return {
            MessageQueue(topic, name, queue_id): offset
            for name, store in self._stores.items()
            for queue_id, offset in store.offsets.of(group, topic).items()
        }

    # -- the thread

    def _ask_for_round(self, group: str) -> None:
        consumers = self._groups.get(group)
        if consumers is not None:
            self._service.notify(consumers.group)

    def _renew_locks(self) -> None:
        with self._lock:
            for subscription in self._subscriptions():
                if isinstance(subscription, OrderedSubscription) and subscription.is_alive:
                    subscription.renew_locks()

    def _look_after(self) -> None:
        with self._lock:
            for consumers, slot in self._slots():
                held = slot.subscription()
                if held is None:
                    self._evict(consumers, slot)
                elif held.is_abandoned:
                    held.leave_group()
                    self._evict(consumers, slot)
                    text = "group %s: the threads of %s have ended: it has left, until it is asked for a message"
                    log.warning(text, held.group, held.name, extra={"group": held.group, "member": held.name})
        self._save_quietly()
        with self._lock:
            if not self._groups and not any(store.store.path in self._unsaved for store in self._stores.values()):
                self._service.rest()

    def _save_quietly(self) -> None:
        """Write the offsets; what cannot be written now is tried again."""
        for store in self._stores.values():
            self._try_save(store.store.path, store.offsets.save)
        for _, slot in self._slots():
            self._save_local(slot.progress)

    def _save_local(self, progress: ConsumeProgress) -> None:
        if isinstance(progress, LocalProgress):
            self._try_save(progress.path, progress.save)

    def _try_save(self, path: Path, save: Callable[[], None]) -> None:
        try:
            save()
        except StoreClosedError:
            return  # who closes it writes them first
        except DiskError as e:
            if path not in self._unsaved:  # once, however often it is tried again
                text = "%s: offsets of consumers are not written yet: %s"
                log.warning(text, path, e, extra={"path": str(path)})
            self._unsaved.add(path)
        else:
            self._unsaved.discard(path)

    # -- the end

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError("Stores is closed, or is being closed: make another one")

    def close(self) -> None:
        """End every subscription, and write the offsets. Raises DiskError; of a poisoned store they are not written."""
        with self._lock:
            self._is_closed = True
            for subscription in self._subscriptions():
                subscription.close()
        self._service.stop()
        failures: list[DiskError] = []
        with self._lock:
            for store in self._stores.values():
                try:
                    self._take_out(store)
                except DiskError as e:
                    failures.append(e)
        if failures:
            raise failures[0]


def _save(store: ConsumedStore) -> None:
    try:
        store.offsets.save()
    except StorePoisonedError as e:
        text, path = "%s: offsets of consumers since the last save are lost, messages come again: %s", store.store.path
        log.warning(text, path, e, extra={"path": str(path)})


def _check_order(consumers: _Consumers, subscription: Subscription) -> None:
    for slot in consumers.slots:
        other = slot.subscription()
        if other is not None and other.is_ordered is not subscription.is_ordered:
            own, others = ("in order" if each.is_ordered else "in any order" for each in (subscription, other))
            raise InconsistentGroupError(subscription.group, f"{subscription.name!r} {own}", f"{others}, as all have")


def _check_folder(consumers: _Consumers, subscription: Subscription) -> None:
    own = subscription.progress
    for slot in consumers.slots:
        other = slot.progress
        if isinstance(own, LocalProgress) and isinstance(other, LocalProgress) and own.path == other.path:
            found = f"a second member, {subscription.name!r}, that keeps its offsets in {own.path}"
            raise InconsistentGroupError(subscription.group, found, "a folder for each member")
