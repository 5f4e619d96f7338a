"""How fast a store fills and its groups go on: the difference of two looks at it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ..consume.group.group_state import is_system_group
from ..consume.group.stored_groups import stored_groups
from ..consume.topic_states import group_offsets
from ..engine.read_only import ReadOnlyStore
from ..engine.statistics import StoreStatistics
from ..store.disk.disk import RealDisk
from ..store.format.light_queues import is_light
from ..store.queue_offsets import QueueKey
from ..store.topic import is_system_topic

MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """One look."""

    at_s: float
    """On the monotonic clock."""
    ends: dict[str, int]
    """Topic -> the sum of the ends of its queues."""
    physical_offset: int
    """The end of the log."""
    consumed: dict[str, int]
    """Consumer group -> the sum of its offsets; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class TopicRate:
    """A topic: messages that it holds, and that came in a second."""

    topic: str
    messages: int
    per_s: float


@dataclass(frozen=True, slots=True)
class GroupRate:
    """A consumer group: its lag, and how many messages a second it went on by."""

    group: str
    lag: int
    per_s: float | None
    """None without an earlier look."""


@dataclass(frozen=True, slots=True)
class StoreRates:
    """What two looks tell. Sizes are bytes."""

    at_ms: int
    """When the later one was, in ms since 1970."""
    interval_s: float
    messages_per_s: float
    size_per_s: float
    topics: list[TopicRate]
    """All but RocketMQ's own; the fastest first."""
    groups: list[GroupRate]
    """All but RocketMQ's own; those furthest behind first."""
    statistics: StoreStatistics


def rates(view: ReadOnlyStore, before: Sample, now: Sample) -> StoreRates:
    """What came between these looks; the later one is of the view as it is. Raises ConfigFileError, DiskError."""
    interval_s = max(now.at_s - before.at_s, 1e-3)
    held: dict[str, int] = {}
    for key, (first, end) in _queues(view):
        held[key[0]] = held.get(key[0], 0) + end - first
    topics = [
        TopicRate(topic, held.get(topic, 0), max(end - before.ends.get(topic, 0), 0) / interval_s)
        for topic, end in now.ends.items()
    ]
    groups = [
        GroupRate(state.name, state.lag, _consumed_per_s(state.name, before, now, interval_s))
        for state in stored_groups(RealDisk(), view.path, view.queues()).values()
    ]
    return StoreRates(
        round(time.time() * 1000),
        interval_s,
        sum(topic.per_s for topic in topics),
        max(now.physical_offset - before.physical_offset, 0) / interval_s,
        sorted(topics, key=lambda each: (-each.per_s, each.topic)),
        sorted(groups, key=lambda each: (-each.lag, each.group)),
        view.statistics(),
    )


def _consumed_per_s(group: str, before: Sample, now: Sample, interval_s: float) -> float | None:
    if group not in before.consumed:
        return None
    return max(now.consumed.get(group, 0) - before.consumed[group], 0) / interval_s


def sample(view: ReadOnlyStore) -> Sample:
    """The store as the view has it. Raises ConfigFileError, DiskError."""
    ends: dict[str, int] = {}
    for (topic, _), (_, end) in _queues(view):
        ends[topic] = ends.get(topic, 0) + end
    consumed = {
        group: sum(offset for offsets in topics.values() for offset in offsets.values())
        for group, topics in group_offsets(view).items()
        if not is_system_group(group)
    }
    return Sample(time.monotonic(), ends, view.end_physical_offset, consumed)


def a_minute_ago(view: ReadOnlyStore) -> Sample:
    """The store as it was a minute ago, by the store times of its messages. Raises CorruptQueueError, DiskError."""
    begin_ms = round((time.time() - MINUTE_S) * 1000)
    ends: dict[str, int] = {}
    physical_offset = view.end_physical_offset
    for (topic, queue_id), (_, end) in _queues(view):
        queue_offset = view.offset_at(topic, queue_id, begin_ms)
        ends[topic] = ends.get(topic, 0) + queue_offset
        if queue_offset < end:
            first = next(view.read(topic, queue_id, queue_offset, on_corrupt="skip"), None)
            physical_offset = min(physical_offset, first.physical_offset if first else physical_offset)
    return Sample(time.monotonic() - MINUTE_S, ends, physical_offset, {})


def _queues(view: ReadOnlyStore) -> Iterator[tuple[QueueKey, tuple[int, int]]]:
    """All but those of RocketMQ's own topics, and light queues."""
    for key, bounds in view.queues().items():
        if not (is_system_topic(key[0]) or is_light(key[0])):
            yield key, bounds
