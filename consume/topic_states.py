"""What a store knows of its topics: settings, bounds of their queues, store times, and the groups that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..engine.read_only import ReadOnlyStore
from ..engine.topics.offset_table import read_offsets
from ..store.arguments import check_flag, check_type
from ..store.disk.disk import RealDisk
from ..store.format.light_queues import is_light
from ..store.queue_offsets import QueueKey
from ..store.stored_message import StoredMessage
from ..store.topic import Topic, is_system_topic
from .group.group_state import is_system_group, lag_of
from .store import Store

Bounds = dict[QueueKey, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic, as it was when this was asked for."""

    name: str
    settings: Topic | None
    """None for what the store has queues of and no settings: RocketMQ's own topics, light queues."""
    queues: int
    """Queues that hold messages, or held some."""
    messages: int
    first_offset: int
    """The least queue offset of a message; where all queues are empty, of the next one."""
    end_offset: int
    """One past the greatest queue offset."""
    first_store_timestamp_ms: int | None
    """Store time of the oldest message that can be read; None without one."""
    last_store_timestamp_ms: int | None
    """Store time of the newest message that can be read; None without one."""
    groups: Mapping[str, int]
    """Each group that has offsets in the topic -> its lag there: messages between these and the ends of queues."""


def topic_states(store: Store | ReadOnlyStore, *, include_system: bool = False) -> dict[str, TopicState]:
    """The topics of a store, by name: those with settings, and those with queues alone. With `include_system` also
    RocketMQ's own topics, light queues, and RocketMQ's own groups.

    Reads two records of each queue. A read-only view tells offsets of groups as the writer saved them last, up to 5 s
    ago. Raises WrongTypeError, ConfigFileError, StoreClosedError, DiskError.
    """
    check_type("store", store, (Store, ReadOnlyStore), "a Store or a read-only view of one")
    check_flag("include_system", include_system)
    by_topic: dict[str, Bounds] = {}
    for key, bounds in store.queues().items():
        by_topic.setdefault(key[0], {})[key] = bounds
    settings = store.topics(include_system=include_system)
    groups = group_offsets(store)
    return {
        name: _state(store, name, settings.get(name), by_topic.get(name, {}), groups, include_system)
        for name in sorted(settings.keys() | by_topic.keys())
        if include_system or not (is_system_topic(name) or is_light(name))
    }


def group_offsets(store: Store | ReadOnlyStore) -> dict[str, dict[str, dict[int, int]]]:
    """Group -> topic -> queue id -> the offset that the group goes on at. Raises ConfigFileError, DiskError."""
    if isinstance(store, ReadOnlyStore):
        return read_offsets(RealDisk(), store.path)
    return store.message_store.offsets.by_group()


def _state(
    store: Store | ReadOnlyStore,
    name: str,
    settings: Topic | None,
    bounds: Bounds,
    groups: Mapping[str, Mapping[str, Mapping[int, int]]],
    include_system: bool,
) -> TopicState:
    filled = {key: ends for key, ends in bounds.items() if ends[0] < ends[1]}
    firsts = [message for key in filled if (message := next(store.read(*key, on_corrupt="skip"), None)) is not None]
    lasts = [message for key, ends in filled.items() if (message := _last(store, key, *ends)) is not None]
    return TopicState(
        name,
        settings,
        queues=len(bounds),
        messages=sum(end - first for first, end in bounds.values()),
        first_offset=min((first for first, _ in (filled or bounds).values()), default=0),
        end_offset=max((end for _, end in bounds.values()), default=0),
        first_store_timestamp_ms=min((message.store_timestamp_ms for message in firsts), default=None),
        last_store_timestamp_ms=max((message.store_timestamp_ms for message in lasts), default=None),
        groups={
            group: sum(lag_of(offsets, bounds).values())
            for group, offsets in sorted(groups.items())
            if name in offsets and (include_system or not is_system_group(group))
        },
    )


def _last(store: Store | ReadOnlyStore, key: QueueKey, first: int, end: int) -> StoredMessage | None:
    """The last message of a queue that is not damaged."""
    count, found = 1, list[StoredMessage]()
    while not found:
        start = max(first, end - count)
        found = list(store.read(*key, start, on_corrupt="skip"))
        if start == first:
            break
        count *= 8
    return found[-1] if found else None
