"""Metrics in Prometheus' text format, version 0.0.4, and the same as objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..consume.store_metrics import Labels, StoreMetric

ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(metrics: Iterable[StoreMetric], labels: Labels) -> Iterator[str]:
    """Its lines; `labels` are those that every sample has."""
    for metric in metrics:
        name = _full_name(metric)
        yield f"# HELP {name} {metric.text}"
        yield f"# TYPE {name} {metric.kind}"
        for own, value in metric.samples:
            pairs = ",".join(f'{key}="{text.translate(ESCAPES)}"' for key, text in {**labels, **own}.items())
            yield f"{name}{{{pairs}}} {value:.15g}"


def metric_objects(metrics: Iterable[StoreMetric], labels: Labels) -> Iterator[dict[str, Any]]:
    """The same, an object a metric."""
    for metric in metrics:
        samples = [{"labels": {**labels, **own}, "value": value} for own, value in metric.samples]
        yield {"name": _full_name(metric), "kind": metric.kind, "help": metric.text, "samples": samples}


def _full_name(metric: StoreMetric) -> str:
    return f"{metric.name}_total" if metric.kind == "counter" else metric.name
