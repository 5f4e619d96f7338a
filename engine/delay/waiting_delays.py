"""Which messages wait for their delivery: by delay level, and by timer, read from their topics without a wheel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...schedule.delay_level_table import SCHEDULE_TOPIC, DelayLevelTable
from ...schedule.delay_offsets import DelayOffsets
from ...schedule.timer_request import NUMBER, PRECISION_MS, TIMER_QUEUE_ID, TIMER_TOPIC, is_cancelled
from ...store.disk.clock import Clock, SystemClock
from ...store.disk.disk import Disk, RealDisk
from ...store.format import property_names as props
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ..read.reading import OnCorrupt


@dataclass(frozen=True, slots=True)
class WaitingDelay:
    """A message that was put with a delay level or a delivery time, and waits."""

    deliver_at_ms: int
    """When it is due, in ms since 1970; of a timer the whole second."""
    level: int | None
    """Its delay level; None: a timer."""
    topic: str
    """Where it goes."""
    uniq_key: str
    """`Store.cancel_timer` names a timer by topic, uniq key and time; a message with a level cannot be cancelled."""
    message: StoredMessage
    """As it is parked."""


class Queues(Protocol):
    """A store, or a read-only view."""

    @property
    def path(self) -> Path: ...

    def queues(self) -> dict[QueueKey, tuple[int, int]]: ...

    def read(
        self, topic: str, queue_id: int = 0, queue_offset: int | None = None, *, on_corrupt: OnCorrupt = "raise"
    ) -> Iterator[StoredMessage]: ...


def waiting_delays(
    store: Queues, settings: StoreSettings | None = None, *, disk: Disk | None = None, clock: Clock | None = None
) -> Iterator[WaitingDelay]:
    """The messages of a store or read-only view that wait for their delivery: by delay level, in the order in which
    they are due, and then timers, in the order in which they were put.

    How far deliveries by level are is what the writer saved last, up to `delay_save_interval_ms` ago. A timer counts as
    delivered once its time has come, by the clock: timers that are late because no writer has had the store open are
    left out. `settings` has the delay levels. Damaged messages are passed over.

    Raises ConfigFileError, InvalidSettingsError, StoreClosedError, DiskError.
    """
    disk, clock, settings = disk or RealDisk(), clock or SystemClock(), settings or StoreSettings()
    queues = store.queues()
    table = DelayLevelTable.parse(settings.delay_levels)
    delivered = DelayOffsets(disk, store.path, clock).load()
    for topic, queue_id in sorted(queues):
        if topic != SCHEDULE_TOPIC:
            continue
        level, (first, _) = queue_id + 1, queues[topic, queue_id]
        for message in store.read(topic, queue_id, max(delivered.get(level, 0), first), on_corrupt="skip"):
            due_ms = table.delivery_time_ms(level, message.store_timestamp_ms)
            yield _waiting(message, due_ms, level)
    if (TIMER_TOPIC, TIMER_QUEUE_ID) in queues:
        yield from _timers(store, clock.now_ms())


def _timers(store: Queues, now_ms: int) -> Iterator[WaitingDelay]:
    """Two passes: a cancellation comes after its timer."""
    cancelled = defaultdict[str, set[str]](set)
    for text, name in _cancellations(store):
        cancelled[text].add(name)
    for message in store.read(TIMER_TOPIC, TIMER_QUEUE_ID, on_corrupt="skip"):
        text = message.properties.get(props.TIMER_OUT_MS, "")
        if props.TIMER_CANCELLED_KEY in message.properties or not NUMBER.fullmatch(text):
            continue
        waiting = _waiting(message, int(text) + PRECISION_MS, None)
        is_over = is_cancelled(waiting.topic, waiting.uniq_key, cancelled.get(text, ()))
        if waiting.deliver_at_ms > now_ms and not is_over:
            yield waiting


def waiting_cancellations(store: Queues, now_ms: int) -> int:
    """How many timers that would be due after this time were cancelled. Damaged messages are passed over. Raises
    StoreClosedError, DiskError."""
    if (TIMER_TOPIC, TIMER_QUEUE_ID) not in store.queues():
        return 0
    slots = (text for text, _ in _cancellations(store))
    return sum(bool(NUMBER.fullmatch(text)) and int(text) + PRECISION_MS > now_ms for text in slots)


def _cancellations(store: Queues) -> Iterator[tuple[str, str]]:
    """The slot of each, as text, and the name of its timer."""
    for message in store.read(TIMER_TOPIC, TIMER_QUEUE_ID, on_corrupt="skip"):
        if props.TIMER_CANCELLED_KEY in message.properties:
            yield message.properties.get(props.TIMER_OUT_MS, ""), message.properties[props.TIMER_CANCELLED_KEY]


def _waiting(message: StoredMessage, due_ms: int, level: int | None) -> WaitingDelay:
    properties = message.properties
    return WaitingDelay(
        due_ms, level, properties.get(props.REAL_TOPIC, ""), properties.get(props.UNIQ_KEY, ""), message
    )
