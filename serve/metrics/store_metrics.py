"""The metrics of served stores, with the names and labels of RocketMQ's broker (`BrokerMetricsConstant`).

Counters are those of `traffic`; everything else is read from the store when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...consume.store import Store
from ...consume.store_metrics import NODE, StoreMetric, boolean, group_labels, permission, store_metrics
from ...store.errors import FlightlogError
from ...store.topic import TopicPermission, is_system_topic
from .traffic import Traffic
from .watched import Watched


class BrokerMetrics(Collector):
    """Collects the metrics of several brokers. Thread-safe."""

    def __init__(self, brokers: Sequence[Watched]) -> None:
        self._brokers = brokers

    def collect(self) -> Iterable[Metric]:
        """Each metric once, with the samples of all brokers; of one that cannot be read, its permission. Raises
        StoreClosedError, DiskError where none can be read."""
        found: dict[str, Metric] = {}
        failures: list[FlightlogError] = []
        for broker in self._brokers:
            try:
                metrics = [*map(_metric, _metrics(broker.store, broker.traffic))]
            except FlightlogError as e:
                failures.append(e)
                metrics = [_metric(permission(TopicPermission(0)))]
            for metric in metrics:
                whole = found.setdefault(metric.name, _family(metric))
                for sample in metric.samples:
                    whole.add_sample(sample.name, {**NODE, "node_id": broker.name, **sample.labels}, sample.value)
        if len(failures) == len(self._brokers):
            raise failures[-1]
        return found.values()


def _metrics(store: Store, traffic: Traffic) -> Iterator[StoreMetric]:
    """Metrics of one store, without the labels that all have. Raises StoreClosedError, DiskError."""
    yield from store_metrics(store)
    sent = [
        ({"topic": topic, "message_type": kind.lower(), "is_system": boolean(is_system_topic(topic))}, figures)
        for (topic, kind), figures in traffic.sent().items()
    ]
    received = [
        (group_labels(group, topic, is_retry=is_retry), figures)
        for (group, topic, is_retry), figures in traffic.received().items()
    ]
    for direction, found in (("in", sent), ("out", received)):
        counts = [(labels, float(count)) for labels, (count, _) in found]
        sizes = [(labels, float(size)) for labels, (_, size) in found]
        text = {"in": "that clients sent", "out": "that clients received"}[direction]
        yield StoreMetric(f"rocketmq_messages_{direction}", f"Messages {text}", counts, "counter")
        yield StoreMetric(
            f"rocketmq_throughput_{direction}", f"Bytes of the records of messages {text}", sizes, "counter"
        )
    counts_now = traffic.in_flight.counts(store.message_store.clock.now_ms())
    in_flight = [(group_labels(*place[:2], is_retry=place.is_retry), float(n)) for place, n in counts_now.items()]
    yield StoreMetric("rocketmq_consumer_inflight_messages", "Messages received by pop, not acknowledged", in_flight)


def _metric(found: StoreMetric) -> Metric:
    is_counter = found.kind == "counter"
    family = (CounterMetricFamily if is_counter else GaugeMetricFamily)(found.name, found.text)
    for labels, value in found.samples:
        family.add_sample(f"{found.name}_total" if is_counter else found.name, labels, value)
    return family


def _family(metric: Metric) -> Metric:
    """The same without samples."""
    return Metric(metric.name, metric.documentation, metric.type)
