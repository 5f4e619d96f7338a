"""Rows of several topics that belong together, from what is given to what the log appends as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ...store.arguments import check_type
from ...store.errors import InvalidMessageError
from ...store.format import property_names as props
from ...store.log.column_records import ColumnRecords
from ...store.settings import StoreSettings
from ..columns.column_input import Rows, all_rows
from ..topics.topics import TopicTable

HARMLESS = {props.WAIT.encode()}
"""Nothing is acknowledged before it is durable, so it says nothing here. Java's clients write it into every message."""


class TopicColumns(NamedTuple):
    """Some rows of one topic."""

    topic: str
    columns: Any
    """As `append_columns` takes them."""
    sys_flag: int = 0
    """The bits that say how the bodies are compressed, see store/format/sys_flag.py."""


def checked_rows(part: TopicColumns, settings: StoreSettings, segment_size: int) -> list[Rows]:
    """The rows of a part, checked but for their topic's queues. Raises InvalidMessageError."""
    found = list(all_rows(part.topic, part.columns, settings, segment_size, sys_flag=part.sys_flag))
    harmless = HARMLESS if settings.multi_dispatch else HARMLESS | {props.MULTI_DISPATCH.encode()}
    for rows in found:
        refused = sorted(rows.uncommon - harmless)
        if refused:
            name = refused[0].decode()
            row = next(number for number, message in enumerate(rows.messages()) if name in (message.properties or {}))
            raise InvalidMessageError(
                f"topic {part.topic!r}: the property {name} asks for more than an append (a later delivery, another "
                "queue, an inner batch). Take it out, or put such messages one by one",
                row=row,
            )
    return found


def records_of(
    parts: Iterable[TopicColumns], topics: TopicTable, settings: StoreSettings, segment_size: int
) -> Iterator[ColumnRecords]:
    """Records that wait for their append, a part after the other. Raises InvalidMessageError."""
    for part in parts:
        check_type("part", part, TopicColumns, "a flightlog.TopicColumns")
        for rows in checked_rows(part, settings, segment_size):
            rows.choose_queues(
                partial(topics.queue_for, part.topic, is_internal=False), partial(topics.next_queues, part.topic)
            )
            yield rows.records()
