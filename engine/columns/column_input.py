"""The input of `append_columns`: check all rows of the given columns, and turn them into records to append, without an
object for each row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...store.errors import BodyTooLargeError, InvalidMessageError, QueueNotFoundError, RecordTooLargeError
from ...store.format import property_names as props
from ...store.format.properties import decode_properties
from ...store.format.record import BLANK_SIZE, INT32_MAX, prepare
from ...store.log.column_records import ColumnRecords
from ...store.message import Message
from ...store.message_check import NO_BODY, EmptyBodyError
from ...store.settings import RECORD_EXTRA_SIZE, StoreSettings
from . import column_buffers, with_arrow
from .column_buffers import Fields, Integers, Lists, Mask, Pairs, Ranges
from .property_texts import key_texts, texts_of

WRITABLE = ("value", "tags", "keys", "uniqKey", "partition", "bornTimestamp", "flag", "properties")
"""The columns that an append accepts, with the names that reads use."""
ALIASES = {"body": "value", "uniq_key": "uniqKey", "queue_id": "partition", "born_timestamp_ms": "bornTimestamp"}
"""The names of the same fields in a Message."""
BY_LOWER_NAME = {name.lower(): name for name in WRITABLE} | ALIASES

UNCOMMON = {
    name.encode()
    for name in (
        *(props.WAIT, props.DELAY, *props.TIMER_PROPERTIES, props.MULTI_DISPATCH, props.MULTI_QUEUE_OFFSET),
        *(props.INNER_COUNT, props.INNER_BASE),
    )
}
"""Properties that change what a put does. Rows with one of them are put as messages."""

Given = Mapping[str, Any]


def parts_of(given: Any) -> list[Given]:
    """The columns by the names of WRITABLE; one part for each Arrow chunk. Raises InvalidMessageError for an unknown or
    duplicate column."""
    if isinstance(given, Mapping):
        return [_named(given)]
    if not hasattr(given, "__arrow_c_stream__") and not type(given).__module__.startswith("pyarrow"):
        raise InvalidMessageError(
            f"columns: a {type(given).__name__}, expected an Arrow record batch or table, or names mapped to columns"
        )
    return [_named(part) for part in with_arrow("arrow_intake", "append_columns").batches_of(given)]


def _named(given: Mapping[Any, Any]) -> Given:
    found: dict[str, Any] = {}
    for name, column in given.items():
        known = BY_LOWER_NAME.get(str(name).lower())
        if known is None:
            raise InvalidMessageError(
                f"column {name!r}: an append takes {', '.join(WRITABLE)} (or {', '.join(ALIASES)}, as a Message calls "
                "them); the rest is the store's"
            )
        if known in found:
            raise InvalidMessageError(f"column {known!r} is there twice")
        found[known] = column
    if "value" not in found:
        raise InvalidMessageError("no column 'value': expected the messages' bodies")
    return found


class Rows:
    """The rows of one part. They are checked, but have no queues until `choose_queues`."""

    def __init__(
        self,
        topic: str,
        given: Given,
        settings: StoreSettings,
        segment_size: int,
        *,
        sys_flag: int = 0,
        first_row: int = 0,
    ) -> None:
        """`first_row`: how many rows come before those of this part. Raises InvalidMessageError, or its subclass for
        the limit that is exceeded, with a row at fault, counted in this part."""
        # Checks the topic as the put of a message does.
        self._template = prepare(Message(topic, b"", sys_flag=sys_flag), settings, segment_size)
        self._given, self.first_row = given, first_row
        self.bodies = _ranges("value", given["value"])
        count = self.count = len(self.bodies)
        if not self.bodies.present().all():
            row = int(self.bodies.present().argmin())
            raise InvalidMessageError("no body, expected bytes", row=row, column="value")
        self.texts, names = texts_of([part for part in self._properties() if part is not None], count)
        self.uncommon = names & UNCOMMON
        """Names of UNCOMMON that occur in these rows. If there are any, the rows must be put as messages."""
        self.queue_ids, self.has_queue = self._numbers("partition", 32, 0)
        self.flags, has_flag = self._numbers("flag", 32, 0)
        self.born_timestamps_ms, self.has_born = self._numbers("bornTimestamp", 64, None)
        if (self.queue_ids < 0).any():
            row = int((self.queue_ids < 0).argmax())
            text = f"queue id {self.queue_ids[row]}, expected 0 to {INT32_MAX}"
            raise InvalidMessageError(text, row=row, column="partition")
        if not has_flag.all():
            raise InvalidMessageError("no flag, expected a whole number", row=int(has_flag.argmin()), column="flag")
        self._check_sizes(settings, segment_size)

    def _properties(self) -> list[Pairs | Fields | None]:
        given, count = self._given, self.count
        properties = given.get("properties")
        keys = given.get("keys")
        return [
            None if properties is None else _pairs("properties", properties, count),
            None if keys is None else self._alone(props.KEYS, "keys", key_texts(_lists("keys", keys, count))),
            None if given.get("tags") is None else self._alone(props.TAGS, "tags", self._texts("tags")),
            None if given.get("uniqKey") is None else self._alone(props.UNIQ_KEY, "uniqKey", self._texts("uniqKey")),
        ]

    def _texts(self, name: str) -> Ranges:
        given = self._given[name]
        if isinstance(given, str):  # the same for all rows
            return column_buffers.one_for_all(name, given, self.count)
        return _ranges(name, given)

    def _alone(self, name: str, column: str, texts: Ranges) -> Fields:
        """A column with one property; rows with an empty text lack it."""
        _check_count(column, len(texts), self.count)
        return Fields([(name.encode(), texts.filled())])

    def _numbers(self, name: str, bits: int, default: int | None) -> tuple[Integers, Mask]:
        given = self._given.get(name)
        if given is None:
            present = np.zeros(self.count, np.bool_) if default is None else np.ones(self.count, np.bool_)
            return np.full(self.count, default or 0, np.int64), present
        if _is_arrow(given):
            numbers, present = with_arrow("arrow_intake", "append_columns").numbers_of(name, given, bits)
        else:
            numbers, present = column_buffers.numbers_of(name, given, self.count, bits)
        _check_count(name, len(numbers), self.count)
        return numbers, present

    def _check_sizes(self, settings: StoreSettings, segment_size: int) -> None:
        limit = settings.max_message_size
        if not self.count:
            return
        row = int(self.bodies.sizes.argmin())
        if settings.rocketmq_strict and not self.bodies.sizes[row]:
            raise EmptyBodyError(NO_BODY, row=row, column="value")
        row = int(self.bodies.sizes.argmax())
        if self.bodies.sizes[row] > limit:
            raise BodyTooLargeError(
                f"the body has {self.bodies.sizes[row]} bytes, the limit is {limit} (max_message_size)",
                row=row,
                column="value",
            )
        sizes = self.bodies.sizes + self.texts.sizes + self._template.size
        row = int(sizes.argmax())
        if sizes[row] > limit + RECORD_EXTRA_SIZE or sizes[row] + BLANK_SIZE > segment_size:
            raise RecordTooLargeError(
                f"the record takes {sizes[row]} bytes; the limits are {limit + RECORD_EXTRA_SIZE} "
                f"(max_message_size + 64 KiB) and {segment_size - BLANK_SIZE} (segment_size less its filler)",
                row=row,
            )

    def choose_queues(self, queue_for: Callable[[int | None], int], next_queues: Callable[[int], Integers]) -> None:
        """Choose the queue of every row as a put does. `queue_for` takes a queue id, or None for a row without one;
        `next_queues` serves all rows at once if none has a queue id. Raises QueueNotFoundError: for queue ids that the
        topic has not, with the first row of the highest one."""
        if not self.count:
            return
        if not self.has_queue.any():
            self.queue_ids = next_queues(self.count)
            return
        if self.has_queue.all():
            self._check_highest(self.queue_ids, queue_for)  # creates the queues below it, too
            return
        ids = np.where(self.has_queue, self.queue_ids, -1)
        chosen: list[int] = []
        for queue_id in ids.tolist():
            try:
                chosen.append(queue_for(None if queue_id < 0 else queue_id))
            except QueueNotFoundError:
                if queue_id >= 0:
                    self._check_highest(ids, queue_for)  # is refused, too
                raise
        self.queue_ids = np.array(chosen, np.int64)

    def _check_highest(self, ids: Integers, queue_for: Callable[[int | None], int]) -> None:
        row = int(ids.argmax())
        try:
            queue_for(int(ids[row]))
        except QueueNotFoundError as e:
            raise QueueNotFoundError(e.reason, row=self.first_row + row, column="partition") from None

    def records(self) -> ColumnRecords:
        bodies, texts = self.bodies, self.texts
        return ColumnRecords(
            replace(self._template),
            self.queue_ids.astype(np.int32),
            self.flags.astype(np.int32),
            self.born_timestamps_ms,
            self.has_born,
            (bodies.data, bodies.starts, bodies.sizes),
            (texts.data, texts.starts, texts.sizes),
        )

    def messages(self) -> list[Message]:
        """The rows as messages, for rows that must be put one by one."""
        return [
            Message(
                self._template.topic,
                _bytes(self.bodies, row),
                properties=decode_properties(_bytes(self.texts, row)),
                queue_id=int(self.queue_ids[row]) if self.has_queue[row] else None,
                flag=int(self.flags[row]),
                born_timestamp_ms=int(self.born_timestamps_ms[row]) if self.has_born[row] else None,
            )
            for row in range(self.count)
        ]


def _bytes(column: Ranges, row: int) -> bytes:
    start = int(column.starts[row])
    return column.data[start : start + int(column.sizes[row])].tobytes()


def _is_arrow(values: Any) -> bool:
    return type(values).__module__.startswith("pyarrow")


def _check_count(name: str, count: int, expected: int) -> None:
    if count != expected:
        raise InvalidMessageError(f"column {name!r}: {count} rows, but there are {expected} bodies")


def _ranges(name: str, values: Any) -> Ranges:
    if _is_arrow(values):
        found: Ranges = with_arrow("arrow_intake", "append_columns").ranges_of(name, values)
        return found
    return column_buffers.ranges_of(name, values)


def _lists(name: str, values: Any, count: int) -> Lists | Ranges:
    if isinstance(values, str):  # the same for all rows
        values = [values] * count
    if _is_arrow(values):
        found: Lists | Ranges = with_arrow("arrow_intake", "append_columns").lists_of(name, values)
        return found
    return column_buffers.lists_of(name, values)


def _pairs(name: str, values: Any, count: int) -> Pairs | Fields:
    if not _is_arrow(values):
        return column_buffers.pairs_of(name, values, count)
    _check_count(name, len(values), count)
    found: Pairs | Fields = with_arrow("arrow_intake", "append_columns").pairs_of(name, values)
    return found


def all_rows(
    topic: str, given: Any, settings: StoreSettings, segment_size: int, *, sys_flag: int = 0
) -> Sequence[Rows]:
    """Check all given rows, before any of them is appended. Returns a `Rows` for each part."""
    found: list[Rows] = []
    first_row = 0
    for part in parts_of(given):
        try:
            rows = Rows(topic, part, settings, segment_size, sys_flag=sys_flag, first_row=first_row)
        except InvalidMessageError as e:
            if e.row is not None:
                e.row += first_row
                e.args = InvalidMessageError(e.reason, row=e.row, column=e.column).args
            raise
        found.append(rows)
        first_row += rows.count
    return found
