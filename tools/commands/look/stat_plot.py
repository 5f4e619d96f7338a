"""What `flightlog stat --plot` draws: the sizes of records, and messages by the hour."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....engine.read.topic_traffic import HOUR_MS, TopicTraffic
from ....store.errors import InvalidArgumentError, MissingExtraError
from ...words import printable, size_text

FORMS = (".png", ".svg", ".pdf")
LINES_MAX = 10
"""More cannot be told apart: the rest is one line."""
SETTINGS: Any = {"svg.fonttype": "none", "font.size": 9}


def draw(found: Sequence[TopicTraffic], path: Path) -> None:
    """Raises InvalidArgumentError for another form of file, MissingExtraError without matplotlib, OSError."""
    if path.suffix not in FORMS:
        raise InvalidArgumentError("--plot", str(path), f"a file that ends with {', '.join(FORMS)}")
    try:
        import matplotlib
    except ImportError as e:
        raise MissingExtraError("tools", "a plot") from e
    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_messages = sorted(found, key=lambda each: each.messages, reverse=True)
    shown, rest = by_messages[:LINES_MAX], by_messages[LINES_MAX:]
    groups = [(printable(each.topic), [each]) for each in shown]
    if rest:
        groups.append((f"{len(rest):,} more topics", rest))
    with matplotlib.rc_context(SETTINGS):
        figure, (sizes, hours) = pyplot.subplots(2, 1, layout="constrained", figsize=(9, 7))
        _draw_sizes(sizes, groups)
        _draw_hours(hours, groups)
        figure.savefig(path, dpi=110)
        pyplot.close(figure)


def _draw_sizes(axes: Any, groups: Sequence[tuple[str, Sequence[TopicTraffic]]]) -> None:
    ends = sorted({bucket.up_to for _, found in groups for each in found for bucket in each.sizes})
    below = [0] * len(ends)
    for name, found in groups:
        records = [
            sum(bucket.records for each in found for bucket in each.sizes if bucket.up_to == end) for end in ends
        ]
        axes.bar(range(len(ends)), records, bottom=below, label=name)
        below = [sum(pair) for pair in zip(below, records, strict=True)]
    axes.set_xticks(range(len(ends)), [size_text(end) for end in ends], rotation=45)
    axes.set_title("Records by size, up to", loc="left")
    if groups:
        axes.legend(fontsize=8)


def _draw_hours(axes: Any, groups: Sequence[tuple[str, Sequence[TopicTraffic]]]) -> None:
    every = [hour.begin_ms for _, found in groups for each in found for hour in each.hours]
    for name, found in groups:
        messages: dict[int, int] = {}
        for each in found:
            for hour in each.hours:
                messages[hour.begin_ms] = messages.get(hour.begin_ms, 0) + hour.messages
        begins = range(min(every), max(every) + HOUR_MS, HOUR_MS)
        times = [datetime.datetime.fromtimestamp(begin / 1000, datetime.UTC) for begin in begins]
        axes.plot(times, [messages.get(begin, 0) for begin in begins], marker=".", label=name)
    if every:  # of one hour alone matplotlib would show years
        hours = min(every) - HOUR_MS, max(every) + HOUR_MS
        axes.set_xlim(*(datetime.datetime.fromtimestamp(hour / 1000, datetime.UTC) for hour in hours))
    axes.set_title("Messages an hour (UTC)", loc="left")
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", rotation=20)
