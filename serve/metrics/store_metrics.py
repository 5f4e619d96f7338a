"""The metrics of served stores, with the names and labels of RocketMQ's broker (`BrokerMetricsConstant`).

Counters are those of `traffic`; everything else is read from the store when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...consume.group.group_state import is_system_group, lag_of
from ...consume.pop.pop_topics import retry_topic
from ...consume.store import Store
from ...store.errors import FlightlogError
from ...store.format.record import RETRY_TOPIC_PREFIX
from ...store.queue_offsets import QueueKey
from ...store.topic import TopicPermission, is_system_topic
from .traffic import Traffic
from .watched import Watched

NODE = {"cluster": "DefaultCluster", "node_type": "broker"}
"""Labels of every metric, beside `node_id`: the name of the broker."""
Sample = tuple[dict[str, str], float]


class BrokerMetrics(Collector):
    """Of several brokers. Safe from many threads."""

    def __init__(self, brokers: Sequence[Watched]) -> None:
        self._brokers = brokers

    def collect(self) -> Iterable[Metric]:
        """Each metric once, with the samples of all brokers; of one that cannot be read, its permission. Raises
        StoreClosedError, DiskError where none can be read."""
        found: dict[str, Metric] = {}
        failures: list[FlightlogError] = []
        for broker in self._brokers:
            try:
                metrics = [*StoreMetrics(broker.store, broker.traffic).collect()]
            except FlightlogError as e:
                failures.append(e)
                metrics = [_permission(TopicPermission(0))]
            for metric in metrics:
                whole = found.setdefault(metric.name, _family(metric))
                for sample in metric.samples:
                    whole.add_sample(sample.name, {**NODE, "node_id": broker.name, **sample.labels}, sample.value)
        if len(failures) == len(self._brokers):
            raise failures[-1]
        return found.values()


class StoreMetrics:
    """Of one store, without the labels that all have."""

    def __init__(self, store: Store, traffic: Traffic) -> None:
        self._store, self._traffic = store, traffic

    def collect(self) -> Iterable[Metric]:
        """Raises StoreClosedError, DiskError."""
        yield from self._of_broker()
        yield from self._of_storage()
        yield from self._of_traffic()
        lags = list(self._lags())
        yield _gauge("rocketmq_consumer_lag_messages", "Messages behind the offset of the group", lags)

    def _of_broker(self) -> Iterator[Metric]:
        perm = TopicPermission.READ
        if self._store.message_store.poison is None:
            perm |= TopicPermission.WRITE
        topics = self._store.topics(include_system=True)
        yield _permission(perm)
        yield _gauge("rocketmq_topic_number", "Topics, RocketMQ's own included", [({}, len(topics))])
        yield _gauge("rocketmq_consumer_group_number", "Consumer groups", [({}, len(self._store.groups()))])

    def _of_storage(self) -> Iterator[Metric]:
        lag = self._store.statistics().lag
        for name, text, size in (
            ("rocketmq_storage_flush_behind_bytes", "Appended, and not known to be on the disk", lag.flush_size),
            ("rocketmq_storage_dispatch_behind_bytes", "Readable, and not yet in queues", lag.dispatch_size),
        ):
            if size is not None:
                yield _gauge(name, text, [({}, size)])

    def _of_traffic(self) -> Iterator[Metric]:
        sent = [
            ({"topic": topic, "message_type": kind.lower(), "is_system": _boolean(is_system_topic(topic))}, figures)
            for (topic, kind), figures in self._traffic.sent().items()
        ]
        received = [
            (_of_group(group, topic, is_retry=is_retry), figures)
            for (group, topic, is_retry), figures in self._traffic.received().items()
        ]
        for direction, found in (("in", sent), ("out", received)):
            counts = [(labels, count) for labels, (count, _) in found]
            sizes = [(labels, size) for labels, (_, size) in found]
            text = {"in": "that clients sent", "out": "that clients received"}[direction]
            yield _counter(f"rocketmq_messages_{direction}", f"Messages {text}", counts)
            yield _counter(f"rocketmq_throughput_{direction}", f"Bytes of the records of messages {text}", sizes)

    def _lags(self) -> Iterator[Sample]:
        bounds: dict[str, dict[QueueKey, tuple[int, int]]] = {}
        for key, ends in self._store.queues().items():
            bounds.setdefault(key[0], {})[key] = ends
        for group, offsets in sorted(self._store.message_store.offsets.by_group().items()):
            if not group or is_system_group(group):
                continue
            for topic in sorted(offsets):
                lag = sum(lag_of(offsets, bounds.get(topic, {})).values())
                is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
                name = topic.removeprefix(retry_topic(group, "")) if is_retry else topic
                yield _of_group(group, name, is_retry=is_retry), lag


def _of_group(group: str, topic: str, *, is_retry: bool) -> dict[str, str]:
    is_system = is_system_group(group) or is_system_topic(topic)
    return {
        "consumer_group": group,
        "topic": topic,
        "is_retry": _boolean(is_retry),
        "is_system": _boolean(is_system),
    }


def _boolean(value: bool) -> str:
    return str(value).lower()


def _family(metric: Metric) -> Metric:
    """The same without samples."""
    return Metric(metric.name, metric.documentation, metric.type)


def _permission(perm: TopicPermission) -> Metric:
    text = "6: read and write; 4: read, after a failed sync; 0: the store is not open"
    return _gauge("rocketmq_broker_permission", text, [({}, perm)])


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return _filled(GaugeMetricFamily(name, text), name, samples)


def _counter(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return _filled(CounterMetricFamily(name, text), f"{name}_total", samples)


def _filled(family: Metric, name: str, samples: Iterable[Sample]) -> Metric:
    for labels, value in samples:
        family.add_sample(name, labels, value)
    return family
