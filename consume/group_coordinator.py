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
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..index.filter.sql_filter import SqlFilter
from ..index.filter.wanted import Wanted
from ..store.arguments import (
    check_flag,
    check_seconds,
    checked_folder,
)
from ..store.disk.clock import Clock, SystemClock
from ..store.disk.disk import RealDisk
from ..store.errors import (
    DiskError,
    InconsistentGroupError,
    InvalidSettingsError,
    StoreClosedError,
    StorePoisonedError,
    UsageError,
    shown,
)
from ..store.message_queue import MessageQueue
from .allocate.allocate import AllocationStrategy, Averagely
from .deliver.failures import Failures, OnDeadLetter
from .deliver.one_by_one import OneByOne
from .deliver.ordered_subscription import OrderedSubscription
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .group.consumed_store import ConsumedStore, ConsumeProgress, GroupProgress
from .group.group import Change, Group
from .group.initial_offset import StartFrom, check_start
from .group.local_progress import LocalProgress
from .group.queue_locks import RENEW_INTERVAL_S, QueueLocks
from .group.rebalance import INTERVAL_S, RebalanceService
from .group.store_checks import check_group_settings, check_names, check_topics
from .pop.debts import warn_of_pop_debts
from .subscription_arguments import check_attempts, checked_subscription

log = logging.getLogger("flightlog.consume")

SAVE_INTERVAL_S = 5.0
"""RocketMQ's `flushConsumerOffsetInterval`."""
LATE_INTERVAL_S = 5.0
"""How often members are asked for messages beyond their consume timeout."""


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
    """One group and the slots of its members."""

    group: Group
    slots: list[_MemberSlot]

    def tell(self, change: Change) -> None:
        for slot in self.slots:
            if slot.name == change.member:
                slot.tell(change)


class GroupCoordinator:
    """Thread-safe. Its thread runs while there are members: who lets go of them needs no `close`."""

    def __init__(
        self,
        clock: Clock | None = None,
        save_interval_s: float = SAVE_INTERVAL_S,
        rebalance_interval_s: float = INTERVAL_S,
    ) -> None:
        self._clock = clock or SystemClock()
        self._service = RebalanceService(self._clock, rebalance_interval_s)
        self._service.also_every(save_interval_s, self._look_after)
        self._service.also_every(RENEW_INTERVAL_S, self._renew_locks)
        self._service.also_every(LATE_INTERVAL_S, self._fail_late)
        self._locks = QueueLocks(self._clock)
        self._lock = threading.RLock()
        self._stores: dict[str, ConsumedStore] = {}
        self._groups: dict[str, _Consumers] = {}
        self._one_by_one: weakref.WeakValueDictionary[str, OneByOne] = weakref.WeakValueDictionary()
        """By group; its members hold it."""
        self._numbers = itertools.count(1)
        self._unsaved: set[Path] = set()
        """Paths of stores, and of offsets on a member's side, that could not be written at the last attempt."""
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
            store.store.poison_wake_ups.append(self._service.hint.give)
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
        store.store.poison_wake_ups.remove(self._service.hint.give)
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

    def has_group(self, group: str) -> bool:
        """Whether the group has a member here, or one that has ended and was not taken out yet: then a round may still
        begin in a queue for it. Takes no lock, as `is_balancing`."""
        return group in self._groups

    # -- members

    def subscribe(
        self,
        topics: str | Mapping[str, Wanted],
        group: str | int,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        start: StartFrom | int | datetime = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        ordered: bool = False,
        idle_s: float | None = None,
        broadcast_folder: str | os.PathLike[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        must_exist: bool = False,
        max_attempts: int | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        consume_timeout_s: float | None = None,
    ) -> Subscription:
        """Join a consumer group as a new member: an iterator over the messages of its queues, each to be acknowledged.

            for message in store.subscribe("orders", group="billing"):
                ...
                message.ack()

        The members of a group share the queues of a topic (or of several: `{"orders": "paid || sent", "bills": "*"}`,
        with the tags of each); every group has all messages. `filter` takes the place of tags: `flightlog.sql(...)`,
        also beside a topic of several. `start` says where a group begins in a queue it has never been in:
        StartFrom.FIRST, LAST, or a store time (ms, or a datetime with a time zone). `strategy` shares the queues
        (Averagely), `limits` say how much may be handed out without an acknowledgement. The iterator waits for
        messages; after `idle_s` seconds without one it ends (None: when it or the store is closed).

        A message that is not acknowledged comes again: to another member once this one is closed, or after the next
        open. Acknowledgements are written to the disk every five seconds and at close, never ahead of the messages.

        A message whose processing failed is sent back (`message.send_back()`): it is stored in the group's retry topic
        and delivered again after 10 s, 30 s, 1 min and so on, `max_attempts` times in all (None: as the settings of the
        group say, 17 without any; 1: never again). After the last attempt it is stored among the group's dead letters
        (`store.dead_letters`), and `on_dead_letter` is called with it; by default that is logged. A message that was
        not acknowledged `consume_timeout_s` seconds after it was handed out is sent back, too (None: never; not for
        `ordered`).

        `ordered`: a queue's next message comes once the one before was acknowledged (or given back, then it comes again
        first), also after a seek, and also if another member has the queue by then. A message that fails is redelivered
        without end, unless `max_attempts` says otherwise.

        `broadcast_folder`: every member has all queues, and keeps how far it is on its own side, in
        `BROADCAST_FOLDER/GROUP/offsets.json`; the folder is that member's alone. All members of a group broadcast, or
        none does.

        `on_change` is called with a `flightlog.consume.group.group.Change` (queues kept, added, dropped) after each
        round of sharing out that has given this member queues or taken some, the first one too; by the thread of the
        round, which waits for it: it must not call the store, only take note.

        A topic that no store has is waited for, and the group's first member logs a warning that names it; with
        `must_exist` that is a TopicNotFoundError.

        A member that is no longer referenced leaves the group, and so does one whose thread (that which received last,
        and that which acknowledged last) has ended; the latter comes back when it is asked for a message.

        Raises InconsistentGroupError if the group has members with other topics, tags, filters or another strategy, or
        one of this name, or is balanced elsewhere (by one store alone, or by others together); TopicNotFoundError,
        UsageError, InvalidArgumentError, StoreClosedError, ForkedStoreError; TooManyQueuesError for a topic with more
        than 65,536 queues to read in one store. A group whose settings (`update_group`) forbid broadcasting is a
        UsageError, too; one that is not enabled is joined with a warning, and receives nothing until it is.
        """
        wanted, group = checked_subscription(topics, group, tags, filter, member, strategy, limits, on_change)
        start = check_start(start)
        for name, flag in (("ordered", ordered), ("must_exist", must_exist)):
            check_flag(name, flag)
        for name, seconds in (("idle_s", idle_s), ("consume_timeout_s", consume_timeout_s)):
            if seconds is not None:
                check_seconds(name, seconds)
        check_attempts(max_attempts, on_dead_letter, is_broadcasting=broadcast_folder is not None)
        failures = None
        if broadcast_folder is not None:
            broadcast_folder = checked_folder("broadcast_folder", broadcast_folder)
        else:
            failures = Failures(
                *(lambda: self._stores, group),
                is_ordered=ordered,
                max_attempts=max_attempts,
                on_dead_letter=on_dead_letter,
            )
        is_new, is_broadcasting = group not in self._groups, broadcast_folder is not None
        check_names(self._stores, wanted, group)
        check_topics(self._stores, wanted, group, must_exist=must_exist, is_new=is_new)
        check_group_settings(self._stores, group, is_broadcasting=is_broadcasting, is_new=is_new)
        if is_new and not is_broadcasting:
            usable = [store.store for store in self._stores.values() if store.is_usable]
            warn_of_pop_debts(usable, group, wanted.keys())
        progress: ConsumeProgress = GroupProgress(lambda: self._stores, group)
        if broadcast_folder is not None:
            progress = LocalProgress(RealDisk(), Path(broadcast_folder), group, lambda: self._stores)
        # Who broadcasts shares its queues with nobody.
        locks = self._locks if broadcast_folder is None else QueueLocks(self._clock)
        kind = partial(OrderedSubscription, locks=locks, ask_for_round=self._ask_for_round)
        found = (kind if ordered else Subscription)(
            lambda: self._stores,
            progress,
            *(group, member or f"member-{next(self._numbers):06}", wanted),
            strategy=strategy or Averagely(),
            start=start,
            limits=limits or FlowLimits(),
            idle_s=idle_s,
            clock=self._clock,
            leave=self._leave,
            come_back=self._join,
            before_wait=self._before_wait,
            failures=failures,
            consume_timeout_s=None if ordered or failures is None else consume_timeout_s,
            one_by_one=self._one_by_one.setdefault(group, OneByOne()),
        )
        found.on_change, found.is_broadcasting = on_change, broadcast_folder is not None
        self._join(found)
        return found

    def change_subscription(
        self,
        group: str | int,
        topics: str | Mapping[str, Wanted] | None = None,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        strategy: AllocationStrategy | None = None,
    ) -> None:
        """Change what the members of a group in this process read, or how they share the queues, while they run.

        `topics`, `tags` and `filter` are those of `subscribe`, and replace the ones that there are; None leaves them.
        `strategy` replaces the strategy; None leaves it. It holds for all members at once. Queues of topics that are
        left out are dropped, with the messages that are in process; new topics begin as each member's `start` says.
        Other tags or filters hold for messages that are read from now on: those that a member has read before are still
        delivered, and those that were filtered before do not come again. The queues are reallocated when this returns,
        unless an ordered member has a message in process.

        A member that joins later must agree with the change. It is kept by no file.

        Raises UsageError if the group has no members, or nothing to change was given; TooManyQueuesError,
        InvalidArgumentError, StoreClosedError, ForkedStoreError.
        """
        wanted = None
        if topics is None and (tags != "*" or filter is not None):
            raise UsageError("change_subscription: tags and filter need topics: those that they are for")
        if topics is None and strategy is None:
            raise UsageError(f"change_subscription({shown(group)}): nothing to change was given")
        checked, group = checked_subscription(
            "any" if topics is None else topics, group, tags, filter, None, strategy, None, None
        )
        if topics is not None:
            wanted = checked
            check_names(self._stores, wanted, group)
        with self._lock:
            self._check_open()
            consumers = self._groups.get(group)
            members = [member for member in self._subscriptions() if member.group == group and member.is_alive]
            if consumers is None or not members:
                raise UsageError(f"group {group!r} has no members here: subscribe with what it is to read")
            if wanted is not None:
                added = wanted.keys() - members[0].topics.keys()
                check_topics(self._stores, added, group, must_exist=False, is_new=True)
            with consumers.group.between_rounds():
                for slot in consumers.slots:
                    slot.strategy = strategy or slot.strategy
                for member in members:
                    member.change(wanted, strategy)
                consumers.group.change_subscription(members[0].read_topics)
                consumers.group.rebalance()

    def _join(self, subscription: Subscription) -> None:
        """It has its queues, and has begun in them, when this returns."""
        with self._lock:
            self._check_open()
            self._service.start()
            name, topics = subscription.group, subscription.read_topics
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
        causes = [(store, cause) for store in stores.values() if (cause := store.poison) is not None]
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

    def without_joins(self) -> AbstractContextManager[object]:
        """No member joins or leaves during the block, unless it has died."""
        return self._lock

    def between_rounds(self, group: str) -> AbstractContextManager[object]:
        """No round of the group is under way during the block, for members that have ended either. Inside of
        `without_joins`."""
        consumers = self._groups.get(group)
        return nullcontext() if consumers is None else consumers.group.between_rounds()

    def members(self) -> list[Subscription]:
        """The members of all groups."""
        with self._lock:
            return [member for member in self._subscriptions() if member.is_alive]

    def reset_offsets(self, store: ConsumedStore, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Have the group go on at these offsets, by queue id; what its members have in process there is dropped. Inside
        of `without_joins` and `between_rounds`."""
        members = [member for member in self._subscriptions() if member.group == group]
        for queue_id, queue_offset in offsets.items():
            queue = MessageQueue(topic, store.name, queue_id)
            has_moved = [member.reset(queue, queue_offset) for member in members]  # all of them: broadcasting
            if not any(has_moved):
                store.offsets.set(group, topic, queue_id, queue_offset)
        for slot in self._groups[group].slots:
            self._save_local(slot.progress)

    def wake(self, group: str) -> None:
        """Have the group's members see its settings, which have changed."""
        with self._lock:
            for subscription in self._subscriptions():
                if subscription.group == group:
                    subscription.wake()

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

    def _fail_late(self) -> None:
        with self._lock:
            subscriptions = self._subscriptions()
        for subscription in subscriptions:  # a put may wait: not under the lock
            subscription.fail_late()

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
