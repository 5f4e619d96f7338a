"""All that consumes one store: its groups, their offsets, and the one thread that balances and saves them."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..engine.arrivals import Arrivals
from ..engine.message_store import MessageStore
from ..store.clock import Clock
from ..store.errors import DiskError, StorePoisonedError, UsageError
from ..store.light_queues import is_light
from ..store.topic import TopicPermission
from .allocate import AllocationStrategy, Averagely
from .group import Group
from .offset_table import OffsetTable
from .process_queue import FlowLimits
from .rebalance import RebalanceService
from .starting import StartFrom
from .subscription import Subscription

log = logging.getLogger("flightlog.consume")

STORE_NAME = "store"
SAVE_INTERVAL_S = 5.0
"""RocketMQ's `flushConsumerOffsetInterval`."""


class StoreSource:
    """One store as its groups see it."""

    name = STORE_NAME

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @property
    def is_usable(self) -> bool:
        return not self._store.is_closed

    def queue_ids(self, topic: str) -> Sequence[int]:
        if is_light(topic):
            return range(1)
        found = self._store.topic(topic)
        return range(found.read_queue_count) if found is not None and TopicPermission.READ in found.perm else ()


class _Consumers(NamedTuple):
    """Of one group."""

    group: Group
    subscriptions: list[Subscription]


class Consumption:
    """Safe from many threads."""

    def __init__(self, store: MessageStore, arrivals: Arrivals, offsets: OffsetTable, clock: Clock) -> None:
        self._store, self._arrivals, self._offsets, self._clock = store, arrivals, offsets, clock
        self._source = StoreSource(store)
        self._service = RebalanceService(clock)
        self._service.also_every(SAVE_INTERVAL_S, self._save_quietly)
        self._lock = threading.RLock()
        self._groups: dict[str, _Consumers] = {}
        self._numbers = itertools.count(1)
        self._save_failed = False

    def subscribe(
        self,
        topics: Mapping[str, str],
        group: str,
        *,
        member: str | None,
        strategy: AllocationStrategy | None,
        start: StartFrom | int,
        limits: FlowLimits | None,
        idle_s: float | None,
    ) -> Subscription:
        """See Store.subscribe."""
        if idle_s is not None and not idle_s >= 0:
            raise UsageError(f"idle_s={idle_s!r}: expected seconds, 0 or more, or None")
        for topic, tags in topics.items():
            self._offsets.get(group, topic, 0)  # whether both are names that offsets can be kept under
            self._store.get(topic, 0, 0, 1, tags=tags)  # and whether these are tags
        with self._lock:
            self._service.start()
            consumers = self._groups.get(group)
            if consumers is None:
                made = self._service.group(group, topics)
                made.add_source(self._source)
                consumers = self._groups[group] = _Consumers(made, [])
            found = Subscription(
                *(self._store, self._arrivals, self._offsets, group, member or f"member-{next(self._numbers):06}"),
                dict(topics),
                strategy=strategy or Averagely(),
                start=start,
                limits=limits or FlowLimits(),
                idle_s=idle_s,
                clock=self._clock,
                leave=self._leave,
                look_for_queues=consumers.group.look_for_queues,
            )
            consumers.group.join(found, topics)
            consumers.subscriptions.append(found)
            # So that it has its queues, and has begun in them, when this returns.
            consumers.group.rebalance()
        return found

    def _leave(self, subscription: Subscription) -> None:
        with self._lock:
            consumers = self._groups.get(subscription.group)
            if consumers is None or subscription not in consumers.subscriptions:
                return
            consumers.subscriptions.remove(subscription)
            consumers.group.leave(subscription)
            consumers.group.rebalance()
            if not consumers.subscriptions:
                self._service.forget(consumers.group)
                del self._groups[subscription.group]
        self._save_quietly()

    def forget_topic(self, topic: str) -> None:
        """It was deleted."""
        with self._lock:
            for consumers in self._groups.values():
                for subscription in consumers.subscriptions:
                    subscription.forget(topic)

    def _save_quietly(self) -> None:
        """Write the offsets; what cannot be written now is tried again."""
        try:
            self._offsets.save()
        except DiskError as e:
            if not self._save_failed:  # once, however often it is tried again
                text = "%s: offsets of consumers are not written yet: %s"
                log.warning(text, self._store.path, e, extra={"path": str(self._store.path)})
            self._save_failed = True
            return
        self._save_failed = False

    def close(self) -> None:
        """End every subscription, and write the offsets. Raises DiskError; of a poisoned store they are not written."""
        with self._lock:
            for subscription in [each for found in self._groups.values() for each in found.subscriptions]:
                subscription.close()
        self._service.stop()
        try:
            self._offsets.save()
        except StorePoisonedError as e:
            text = "%s: offsets of consumers since the last save are lost, messages come again: %s"
            log.warning(text, self._store.path, e, extra={"path": str(self._store.path)})
