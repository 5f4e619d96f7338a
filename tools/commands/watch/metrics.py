"""`flightlog metrics PATH`: the metrics of a store for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ....consume.store_metrics import NODE, Labels, StoreMetric, boolean, store_metrics
from ....engine.read_only import ReadOnlyStore
from ....store.disk.disk import RealDisk
from ....store.format.record import DEAD_LETTER_PREFIX, RETRY_TOPIC_PREFIX
from ....store.topic import is_system_topic
from ...backlog import backlog
from ...inspecting import folders_of
from ...prometheus_text import metric_objects, prometheus_text
from ..arguments import AsJson, Settings, StorePath, open_view

UNCOUNTED = (RETRY_TOPIC_PREFIX, DEAD_LETTER_PREFIX)
"""As in RocketMQ, puts to topics of retries and of dead letters are no messages that came in."""


def metrics(path: StorePath, settings: Settings = None, as_json: AsJson = False) -> None:
    """Print metrics in Prometheus' text format, with RocketMQ's names where it has one. Takes no lock, changes nothing.

    For a textfile collector. Offsets of groups are those that the writer saved last, up to 5 s ago.
    """
    with open_view(path, settings) as view:
        found = [*store_metrics(view), *_of_topics(view), *_waiting(view), *_sizes(view)]
    labels = {**NODE, "node_id": Path(path).resolve().name}
    if as_json:
        print(json.dumps(list(metric_objects(found, labels)), indent=2))
        return
    for line in prometheus_text(found, labels):
        print(line)


def _of_topics(view: ReadOnlyStore) -> Iterator[StoreMetric]:
    settings = view.topics(include_system=True)
    put: dict[str, int] = {}
    held: dict[str, int] = {}
    for (topic, _), (first, end) in view.queues().items():
        put[topic], held[topic] = put.get(topic, 0) + end, held.get(topic, 0) + end - first
    came_in: list[tuple[Labels, float]] = []
    for topic, count in put.items():
        if topic.startswith(UNCOUNTED):
            continue
        kind = settings[topic].message_type.lower() if topic in settings else "normal"
        labels = {"topic": topic, "message_type": kind, "is_system": boolean(is_system_topic(topic))}
        came_in.append((labels, count))
    yield StoreMetric("rocketmq_messages_in", "Messages ever put, by the ends of queues", came_in, "counter")
    samples: list[tuple[Labels, float]] = [({"topic": topic}, count) for topic, count in held.items()]
    yield StoreMetric("flightlog_topic_messages", "Messages in the queues of the topic", samples)


def _waiting(view: ReadOnlyStore) -> Iterator[StoreMetric]:
    waits = backlog(view, view.statistics().delays)
    yield StoreMetric("rocketmq_half_messages", "Transactions that are open", [({}, waits.half_messages)])
    yield StoreMetric("flightlog_timers_pending", "Timers that wait", [({}, waits.timers)])
    levels: list[tuple[Labels, float]] = [
        ({"level": str(state.level)}, state.pending) for state in waits.delays if state.pending
    ]
    yield StoreMetric("flightlog_delays_pending", "Messages that wait for a delay level", levels)
    dead: list[tuple[Labels, float]] = [
        ({"consumer_group": group}, count) for group, count in waits.dead_letters.items()
    ]
    yield StoreMetric("flightlog_dead_letters", "Dead letters of the group", dead)


def _sizes(view: ReadOnlyStore) -> Iterator[StoreMetric]:
    size = sum(folder.size for folder in folders_of(RealDisk(), view.path))
    labels = {"storage_type": "local", "storage_medium": "disk"}
    yield StoreMetric("rocketmq_storage_size", "Bytes of the files of the store", [(labels, size)])
    free = view.statistics().sizes.disk_free_size
    yield StoreMetric("flightlog_disk_free_bytes", "Free on the disk of the store", [({}, free)])
