"""The parts of the messaging benchmark, and their plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flightlog.benches.loads import DrawPart, load
from flightlog.benches.messaging.flow import BURST, MEMBERS, burst, latency_cases, points_of, throughput_cases
from flightlog.benches.messaging.groups import rebalance_cases
from flightlog.benches.messaging.pulls import PULLS, pulls
from flightlog.benches.messaging.rocketmq_broker import RocketmqMessaging
from flightlog.store.settings import FlushMode
from flightlog.tools.bench import plot
from flightlog.tools.bench.case import OWN, Case


def message_parts(*, quick: bool = False, rocketmq: RocketmqMessaging | None = None) -> dict[str, list[Case]]:
    """All parts: about five minutes, with RocketMQ twice that, or seconds if quick."""
    rate, latency_s, burst_s, change_s = (500, 0.1, 0.02, 0.1) if quick else (200, 3.0, 1.0, 1.5)
    members, backlog = ((1, 2), 500) if quick else (MEMBERS, 40_000)
    count, pulls_s = (100, 0.2) if quick else (PULLS, 10.0)
    return {
        "latency": latency_cases(FlushMode.ASYNC, members, rate, latency_s, rocketmq),
        "sync": latency_cases(FlushMode.SYNC, members, rate, latency_s, rocketmq),
        "throughput": throughput_cases(members, backlog, rocketmq),
        "burst": [load(OWN, BURST, partial(burst, burst_s))],
        "rebalance": rebalance_cases(change_s),
        "pulls": [
            load(
                OWN,
                "Pulls that wait, and how long after its put a message has woken one",
                partial(pulls, count, pulls_s),
            )
        ],
    }


def _shares(axes: Any, series: Mapping[str, Sequence[float]]) -> None:
    plot.shares(axes, series, "ms, logarithmic", is_log=True)


def _percentiles(axes: Any, series: Mapping[str, Sequence[float]]) -> None:
    """Lines of the median and, dotted, of the 99th percentile, by the number of consumers."""
    for percentile, style in ((50, "-"), (99, ":")):
        plot.lines(axes, points_of(series, percentile), "consumers", "ms: p50, and p99 dotted", style, is_log=True)


def _throughput(axes: Any, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    plot.lines(axes, points_of(series), "consumers", "messages a second", is_log=True)


def _behind(axes: Any, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    plot.lines(axes, series, "s since the burst began", "messages behind")


DRAWS: dict[str, DrawPart] = {
    "latency": _percentiles,
    "sync": _percentiles,
    "throughput": _throughput,
    "burst": _behind,
    "pulls": _shares,
}
