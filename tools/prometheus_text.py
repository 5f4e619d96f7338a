"""Metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..consume.store_metrics import Labels, StoreMetric

ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(metrics: Iterable[StoreMetric], labels: Labels) -> Iterator[str]:
    """Its lines; `labels` are those that every sample has."""
    for metric in metrics:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        yield f"# HELP {name} {metric.text}"
        yield f"# TYPE {name} {metric.kind}"
        for own, value in metric.samples:
            pairs = ",".join(f'{key}="{text.translate(ESCAPES)}"' for key, text in {**labels, **own}.items())
            yield f"{name}{{{pairs}}} {value:.15g}"
