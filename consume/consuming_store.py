"""A store that can be subscribed to: what `flightlog.open` gives."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from ..engine.diverting import Divert
from ..engine.message_store import MessageStore
from ..store.clock import Clock, SystemClock
from ..store.disk import Disk, RealDisk
from ..store.queue_offsets import QueueKey
from ..store.settings import StoreSettings
from .allocate import AllocationStrategy
from .consumption import Consumption
from .offset_table import OffsetTable
from .process_queue import FlowLimits
from .starting import StartFrom
from .subscription import Subscription


class Store(MessageStore):
    """A MessageStore with consumer groups. Their offsets are kept in `config/consumerOffset.json`.

    Nothing of this runs before the first subscription, but that offsets are read when the store is opened.
    """

    _consumption: Consumption | None = None

    def __init__(self, path: Path, settings: StoreSettings, disk: Disk, clock: Clock, divert: Divert | None) -> None:
        super().__init__(path, settings, disk, clock, divert)
        self._subscribing = threading.Lock()
        try:
            self._offsets = OffsetTable(disk, path, clock, self._log.flush)
            self._offsets.load(self._end_of)
            self._offsets.save()  # before the first put, what was lowered
        except BaseException:
            super().close()
            raise

    def _end_of(self, key: QueueKey) -> int:
        queue = self._table.get(key)
        return 0 if queue is None else queue.end

    def subscribe(
        self,
        topics: str | Mapping[str, str],
        group: str,
        *,
        tags: str = "*",
        start: StartFrom | int = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        idle_s: float | None = None,
    ) -> Subscription:
        """Join a consumer group as a new member: an iterator over the messages of its queues, each to be acknowledged.

            for message in store.subscribe("orders", group="billing"):
                ...
                message.ack()

        The members of a group share the queues of a topic (or of several: `{"orders": "paid || sent", "bills": "*"}`,
        with the tags of each); every group has all messages. `start` says where a group begins in a queue it has never
        been in: StartFrom.FIRST, LAST, or a store time in ms. `strategy` shares the queues (Averagely), `limits` say
        how much may be handed out without an acknowledgement. The iterator waits for messages; after `idle_s` seconds
        without one it ends (None: when it or the store is closed).

        A message that is not acknowledged comes again: to another member once this one is closed, or after the next
        open. Acknowledgements are written to the disk every five seconds and at close, never ahead of the messages.

        Raises InconsistentGroupError if the group has members with other topics, tags or another strategy, or one of
        this name; UsageError, StoreClosedError, ForkedStoreError.
        """
        self._check_usable()
        wanted = {topics: tags} if isinstance(topics, str) else dict(topics)
        with self._subscribing:
            self._check_usable()
            if self._consumption is None:
                self._consumption = Consumption(self, self._arrivals, self._offsets, self._clock)
            return self._consumption.subscribe(
                wanted, group, member=member, strategy=strategy, start=start, limits=limits, idle_s=idle_s
            )

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """Queue id -> the offset that the group goes on at, of the queues it has begun in."""
        self._check_usable()
        return self._offsets.of(group, topic)

    def _delete_topic(self, name: str) -> None:
        # First: a topic of this name that is made later must not be read from the middle.
        self._offsets.forget_topic(name)
        self._offsets.save()
        super()._delete_topic(name)
        if self._consumption is not None:
            self._consumption.forget_topic(name)

    def close(self) -> None:
        """End every subscription, write what was acknowledged, then close as MessageStore does."""
        try:
            if self._consumption is not None and not self._forked and not self._closed:
                with self._subscribing:
                    self._consumption.close()
        finally:
            super().close()

    def __enter__(self) -> Store:
        return self


def open_store(
    path: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    *,
    disk: Disk | None = None,
    clock: Clock | None = None,
    divert: Divert | None = None,
) -> Store:
    """Open a store for writing, made by flightlog or RocketMQ; create it where there is none. Recovers it first if need
    be.

    `disk`, `clock` and `divert` are the doors that tests and services hand in. Raises StoreLockedError,
    CorruptLogError, StrayFileError, SegmentLengthError, GeometryMismatchError, UnsupportedStoreError, ClockBehindError,
    ConfigFileError, DiskError. Durable when it returns: everything that was found, and that the store is now in use
    (`abort`).
    """
    return Store(Path(path), settings or StoreSettings(), disk or RealDisk(), clock or SystemClock(), divert)
