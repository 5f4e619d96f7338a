"""Input of an atomic append across topics: check the rows of every topic, and turn them into records of the log."""

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
"""Allowed and ignored: an atomic append always waits for its sync. RocketMQ's Java client sets WAIT in all messages."""


class TopicColumns(NamedTuple):
    """Rows of one topic."""

    topic: str
    columns: Any
    """The same forms as `append_columns` takes."""
    sys_flag: int = 0
    """The bits for the compression of the bodies, see store/format/sys_flag.py."""


def checked_rows(part: TopicColumns, settings: StoreSettings, segment_size: int) -> list[Rows]:
    """The rows of a part, checked, except that no queues are chosen yet. Raises InvalidMessageError."""
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
                row=rows.first_row + row,
            )
    return found


def records_of(
    parts: Iterable[TopicColumns], topics: TopicTable, settings: StoreSettings, segment_size: int
) -> Iterator[ColumnRecords]:
    """The records to append, one part at a time. Raises InvalidMessageError."""
    for part in parts:
        check_type("part", part, TopicColumns, "a flightlog.TopicColumns")
        for rows in checked_rows(part, settings, segment_size):
            rows.choose_queues(
                partial(topics.queue_for, part.topic, is_internal=False), partial(topics.next_queues, part.topic)
            )
            yield rows.records()
