"""`flightlog stat PATH`: the sizes of records, and the messages of each topic and hour."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ....engine.read.topic_traffic import HOUR_MS, HourTraffic, SizeBucket, TopicTraffic, topic_traffic
from ...output import Column, Output
from ...records.fields import iso_time
from ...typed_values import parse_time_ms
from ...words import count_text, figure_text, printable, size_text
from ..arguments import AsJson, Settings, StorePath, open_view

BAR = 30
"""Letters of the longest bar."""
HOUR_S = HOUR_MS // 1000


def stat(
    path: StorePath,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", help="Of this topic; may be repeated. None: all but RocketMQ's own.", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Stored at or after: 2026-05-01T12:00:00Z, or 2h for two hours ago.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Stored before; forms as for --since.", show_default=False)
    ] = None,
    system: Annotated[bool, typer.Option("--system", help="Also RocketMQ's own topics.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw sizes and hours: a .png, .svg or .pdf.", show_default=False)
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show how large records are, and how many messages each topic got an hour. Takes no lock and changes nothing.

    Reads queue entries, and of the log next to nothing.
    """
    begin_ms = None if since is None else parse_time_ms("--since", since)
    end_ms = None if until is None else parse_time_ms("--until", until)
    with open_view(path, settings) as view:
        found = topic_traffic(view, topics=tuple(topic or ()), begin_ms=begin_ms, end_ms=end_ms, include_system=system)
    if plot is not None:
        from .stat_plot import draw

        draw(list(found.values()), plot)
    if as_json:
        print(json.dumps([_as_object(each) for each in found.values()], indent=2))
    else:
        _show(list(found.values()), Output())


def _show(found: Sequence[TopicTraffic], output: Output) -> None:
    output.table(
        "Topics",
        [
            *(Column("messages", True), Column("size", True), Column("median", True)),
            *(Column("99 %", True), Column("most", True), Column("topic")),
        ],
        [
            [
                *(f"{each.messages:,}", size_text(each.size), size_text(each.median_size)),
                *(size_text(each.p99_size), size_text(each.max_size), printable(each.topic)),
            ]
            for each in found
        ],
    )
    output.table(
        "Sizes of records",
        [Column("above", True), Column("up to", True), Column("records", True), Column("")],
        _size_rows(sizes_of_all(found)),
    )
    hours = sorted((hour.begin_ms, each.topic, hour) for each in found for hour in each.hours)
    output.table(
        "Hours",
        [
            *(Column("hour"), Column("messages", True), Column("a second", True), Column("size", True)),
            Column("topic"),
        ],
        [
            [
                *(_hour_text(hour), f"{hour.messages:,}", figure_text(hour.messages / HOUR_S), size_text(hour.size)),
                printable(name),
            ]
            for _, name, hour in hours
        ],
    )
    total = sum(each.messages for each in found)
    output.line(f"{total:,} messages of {count_text(len(found), 'topic')}")


def sizes_of_all(found: Sequence[TopicTraffic]) -> list[SizeBucket]:
    """The buckets of all topics together."""
    records: dict[tuple[int, int], int] = {}
    for each in found:
        for bucket in each.sizes:
            place = bucket.above, bucket.up_to
            records[place] = records.get(place, 0) + bucket.records
    return [SizeBucket(*place, records[place]) for place in sorted(records)]


def _size_rows(buckets: Sequence[SizeBucket]) -> list[list[str]]:
    most = max((bucket.records for bucket in buckets), default=0)
    return [
        [
            *(size_text(bucket.above), size_text(bucket.up_to), f"{bucket.records:,}"),
            "#" * -(-BAR * bucket.records // most),
        ]
        for bucket in buckets
    ]


def _hour_text(hour: HourTraffic) -> str:
    return f"{iso_time(hour.begin_ms)[:16]}Z"


def _as_object(traffic: TopicTraffic) -> dict[str, Any]:
    hours = [{"begin": _hour_text(hour), "messages": hour.messages, "size": hour.size} for hour in traffic.hours]
    return {**asdict(traffic), "hours": hours}
