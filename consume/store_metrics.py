"""What a store says of itself in metrics, with the names and labels of RocketMQ's broker (`BrokerMetricsConstant`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..engine.read_only import ReadOnlyStore
from ..store.disk.disk import RealDisk
from ..store.format.record import RETRY_TOPIC_PREFIX
from ..store.queue_offsets import QueueKey
from ..store.topic import TopicPermission, is_system_topic
from .group.group_state import is_system_group, lag_of
from .group.stored_groups import stored_groups
from .pop.pop_topics import retry_topic
from .store import Store
from .topic_states import group_offsets

NODE = {"cluster": "DefaultCluster", "node_type": "broker"}
"""Labels of every metric, beside `node_id`: the name of the broker."""
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class StoreMetric:
    """One metric and its samples, without the labels that all have."""

    name: str
    """Without the `_total` that the samples of counters end with."""
    text: str
    samples: list[tuple[Labels, float]]
    kind: Literal["gauge", "counter"] = "gauge"


def store_metrics(store: Store | ReadOnlyStore) -> Iterator[StoreMetric]:
    """Topics, groups, how far the log is flushed and dispatched, the lag of each group and topic; of an open store also
    its permission. Raises ConfigFileError, StoreClosedError, DiskError."""
    if isinstance(store, Store):
        may_write = TopicPermission(0) if store.message_store.poison is not None else TopicPermission.WRITE
        yield permission(TopicPermission.READ | may_write)
        groups = len(store.groups())
    else:
        groups = len(stored_groups(RealDisk(), store.path, {}))
    topics = len(store.topics(include_system=True))
    yield StoreMetric("rocketmq_topic_number", "Topics, RocketMQ's own included", [({}, topics)])
    yield StoreMetric("rocketmq_consumer_group_number", "Consumer groups", [({}, groups)])
    lag = store.statistics().lag
    for name, text, size in (
        ("rocketmq_storage_flush_behind_bytes", "Appended, and not known to be on the disk", lag.flush_size),
        ("rocketmq_storage_dispatch_behind_bytes", "Readable, and not yet in queues", lag.dispatch_size),
    ):
        if size is not None:
            yield StoreMetric(name, text, [({}, size)])
    lags = list(_lags(store))
    yield StoreMetric("rocketmq_consumer_lag_messages", "Messages behind the offset of the group", lags)


def permission(perm: TopicPermission) -> StoreMetric:
    """What a broker takes."""
    text = "6: read and write; 4: read, after a failed sync; 0: the store is not open"
    return StoreMetric("rocketmq_broker_permission", text, [({}, perm)])


def _lags(store: Store | ReadOnlyStore) -> Iterator[tuple[Labels, float]]:
    bounds: dict[str, dict[QueueKey, tuple[int, int]]] = {}
    for key, ends in store.queues().items():
        bounds.setdefault(key[0], {})[key] = ends
    for group, offsets in sorted(group_offsets(store).items()):
        if not group or is_system_group(group):
            continue
        for topic in sorted(offsets):
            lag = sum(lag_of(offsets, bounds.get(topic, {})).values())
            is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
            name = topic.removeprefix(retry_topic(group, "")) if is_retry else topic
            yield group_labels(group, name, is_retry=is_retry), lag


def group_labels(group: str, topic: str, *, is_retry: bool) -> Labels:
    """Labels of a metric of a group in a topic."""
    is_system = is_system_group(group) or is_system_topic(topic)
    return {
        "consumer_group": group,
        "topic": topic,
        "is_retry": boolean(is_retry),
        "is_system": boolean(is_system),
    }


def boolean(value: bool) -> str:
    """As a label's value."""
    return str(value).lower()
