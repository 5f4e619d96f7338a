"""`flightlog topics PATH`: the topics of a store."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ....consume.topic_states import TopicState, topic_states
from ....store.topic import TopicPermission
from ...output import Column, Output
from ...records.fields import iso_time
from ...words import count_text, printable
from ..arguments import AsJson, Settings, StorePath, open_view

LETTERS = {TopicPermission.READ: "r", TopicPermission.WRITE: "w", TopicPermission.INHERIT: "x"}


def topics(
    path: StorePath,
    system: Annotated[
        bool, typer.Option("--system", help="Also RocketMQ's own topics and groups, and light queues.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show topics: queues, permission, offsets, times, groups with their lag. Takes no lock and changes nothing.

    Offsets of groups are those that the writer saved last, up to 5 s ago.
    """
    with open_view(path, settings) as view:
        found = topic_states(view, include_system=system)
    if as_json:
        print(json.dumps([_as_object(state) for state in found.values()], indent=2))
        return
    output = Output()
    columns = [
        *(Column("messages", True), Column("queues", True), Column("perm"), Column("type")),
        *(Column("first", True), Column("end", True), Column("first stored"), Column("last stored")),
        *(Column("groups and lag"), Column("topic")),
    ]
    output.table("Topics", columns, [_row(state) for state in found.values()])
    output.line(f"{count_text(len(found), 'topic')}, {sum(state.messages for state in found.values()):,} messages")


def _row(state: TopicState) -> list[str]:
    known = _as_object(state)
    groups = ", ".join(f"{group} {lag:,}" for group, lag in state.groups.items())
    return [
        *(f"{state.messages:,}", _queues_text(state), known["permission"] or "", (known["type"] or "").lower()),
        *(f"{state.first_offset:,}", f"{state.end_offset:,}"),
        *(_short(known["first_store_time"]), _short(known["last_store_time"])),
        *(printable(groups), printable(state.name)),
    ]


def _queues_text(state: TopicState) -> str:
    """'8', or '8 read, 4 write'; without settings the number that there are."""
    settings = state.settings
    if settings is None:
        return f"{state.queues:,}"
    if settings.read_queue_count == settings.write_queue_count:
        return f"{settings.read_queue_count:,}"
    return f"{settings.read_queue_count:,} read, {settings.write_queue_count:,} write"


def _as_object(state: TopicState) -> dict[str, Any]:
    settings = state.settings
    return {
        "topic": state.name,
        "queues": state.queues,
        "read_queues": None if settings is None else settings.read_queue_count,
        "write_queues": None if settings is None else settings.write_queue_count,
        "permission": None if settings is None else "".join(LETTERS[each] for each in LETTERS if each in settings.perm),
        "type": None if settings is None else settings.message_type,
        "holds_batches": settings is not None and settings.holds_batches,
        "messages": state.messages,
        "first_offset": state.first_offset,
        "end_offset": state.end_offset,
        "first_store_time": _time(state.first_store_timestamp_ms),
        "last_store_time": _time(state.last_store_timestamp_ms),
        "groups": dict(state.groups),
    }


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else iso_time(timestamp_ms)


def _short(time: str | None) -> str:
    """Without the fraction of a second."""
    return "" if time is None else f"{time.partition('.')[0]}Z"
