"""The options that choose queues, offsets and times, with the names, defaults and refusals of Spark's Kafka source.

subscribe           topics with commas between
subscribePattern    a regular expression that a topic's whole name matches
assign              {"orders": [0, 1]}: queues by topic
startingOffsets     earliest (a batch's default), latest (a stream's), or {"orders": {"0": 23, "1": -2}}: an offset
                    for each queue that is read; -2 is its first message, -1 behind its last one
endingOffsets       latest (default), or JSON likewise; for batch queries
startingTimestamp, endingTimestamp
                    a store time in ms: from the first message at or after it, up to the first at or after it
                    (of everything: what was stored between these times, which may be nothing)
startingOffsetsByTimestamp, endingOffsetsByTimestamp
                    the same for each queue: {"orders": {"0": 1700000000000, "1": 1700000000000}}
startingOffsetsByTimestampStrategy
                    error (default): a queue without a message that late fails the query; latest: nothing of it
failOnDataLoss      true (default): offsets that the store holds no more fail the query; false: logged, passed over
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...store.errors import InvalidSettingsError
from ...store.format.light_queues import is_light
from ...store.format.record import INT32_MAX, INT64_MAX
from ...store.queue_offsets import QueueKey
from .selection import EARLIEST, LATEST, Assigned, Offsets, Pattern, Position, Selection, Times, Topics, Unmatched
from .visibility import is_internal

SELECTION_NAMES = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
)
QUEUE_ID = re.compile("[0-9]{1,10}")
MILLISECONDS = re.compile("[0-9]{1,19}")
WAYS = ("subscribe", "subscribePattern", "assign")


def parse_selection(given: Mapping[str, str], *, include_internal: bool) -> Selection:
    """What the options, by their names in lower case, say. Raises InvalidSettingsError."""
    selection = Selection(
        subscription=_subscription(given),
        starting=_position(given, "starting"),
        ending=_position(given, "ending"),
        unmatched=_unmatched(given.get("startingoffsetsbytimestampstrategy", "error")),
        fail_on_data_loss=_is_true("failOnDataLoss", given.get("failondataloss", "true")),
        include_internal=include_internal,
    )
    _refuse_internal(selection)
    return selection


def require_batch(selection: Selection) -> None:
    """Raises InvalidSettingsError for what only a stream may ask for."""
    _refuse_edge(selection.starting, "startingOffsets", "latest", LATEST, "a batch query cannot start at the latest")
    _refuse_edge(selection.ending, "endingOffsets", "earliest", EARLIEST, "a batch query cannot end at the earliest")


def require_stream(selection: Selection) -> None:
    """Raises InvalidSettingsError for what only a batch may ask for."""
    if selection.ending is not None:
        raise InvalidSettingsError("endingOffsets, endingTimestamp: a stream has no end; expected none of them")


def _refuse_edge(position: Position | None, name: str, edge: str, number: int, why: str) -> None:
    if position == edge:
        raise InvalidSettingsError(f"{name}={edge!r}: {why} offset; expected another, or JSON")
    if isinstance(position, Offsets):
        for (topic, queue_id), offset in sorted(position.by_queue.items()):
            if offset == number:
                raise InvalidSettingsError(f"{name}: topic {topic} queue {queue_id} has {number}: {why} offset")


def _subscription(given: Mapping[str, str]) -> Topics | Pattern | Assigned | None:
    named = [name for name in WAYS if name.lower() in given]
    if len(named) > 1:
        raise InvalidSettingsError(f"options {' and '.join(named)}: expected one of {', '.join(WAYS)}, or none of them")
    if not named:
        return None
    text = given[named[0].lower()]
    match named[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
            if not names:
                raise InvalidSettingsError(f"subscribe={text!r}: names no topic; expected topics with commas between")
            return Topics(names)
        case "subscribePattern":
            return _pattern(text)
    return _assigned(text)


def _pattern(text: str) -> Pattern:
    if not text.strip():
        raise InvalidSettingsError(f"subscribePattern={text!r}: empty; expected a regular expression")
    try:
        re.compile(text)
    except re.error as e:
        raise InvalidSettingsError(f"subscribePattern={text!r}: no regular expression of Python's: {e}") from e
    return Pattern(text)


def _assigned(text: str) -> Assigned:
    expected = 'expected queue ids by topic, as {"orders": [0, 1]}'
    found = _json("assign", text, expected)
    keys: set[QueueKey] = set()
    for topic, ids in found.items():
        if not isinstance(ids, list) or not all(_is_number(each) and 0 <= each <= INT32_MAX for each in ids):
            raise InvalidSettingsError(f"assign={text!r}: topic {topic!r} has {ids!r}; {expected}")
        keys |= {(topic, queue_id) for queue_id in ids}
    if not keys:
        raise InvalidSettingsError(f"assign={text!r}: names no queue; {expected}")
    return Assigned(frozenset(keys))


def _position(given: Mapping[str, str], side: str) -> Position | None:
    """The option that Spark's Kafka source prefers, of those that say where to start, or to end."""
    for name in (f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"):
        text = given.get(name.lower())
        if text is None:
            continue
        if name.endswith("ByTimestamp"):
            return Times(name, _by_queue(name, text, 0, 1_700_000_000_000))
        if name.endswith("Timestamp"):
            return Times(f"{name}={text}", None, _milliseconds(name, text))
        match text.strip().lower():
            case "earliest":
                return "earliest"
            case "latest":
                return "latest"
        return Offsets(name, _by_queue(name, text, EARLIEST, 23, edges=True))
    return None


def _by_queue(name: str, text: str, least: int, example: int, *, edges: bool = False) -> dict[QueueKey, int]:
    words = "earliest, latest, or a number" if edges else "a number"
    expected = f'expected {words} for each queue, as {{"orders": {{"0": {example}, "1": {example}}}}}'
    values: dict[QueueKey, int] = {}
    for topic, by_id in _json(name, text, expected).items():
        if not isinstance(by_id, dict):
            raise InvalidSettingsError(f"{name}={text!r}: topic {topic!r} has {by_id!r}; {expected}")
        for queue_id, value in by_id.items():
            is_id = QUEUE_ID.fullmatch(queue_id) is not None and int(queue_id) <= INT32_MAX
            if not is_id or not _is_number(value) or not least <= value <= INT64_MAX:
                raise InvalidSettingsError(f"{name}={text!r}: queue {queue_id!r} has {value!r}; {expected}")
            values[topic, int(queue_id)] = value
    return values


def _json(name: str, text: str, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as e:
        raise InvalidSettingsError(f"{name}={text!r}: {expected}; this is no JSON: {e}") from e
    if not isinstance(found, dict):
        raise InvalidSettingsError(f"{name}={text!r}: {expected}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _milliseconds(name: str, text: str) -> int:
    digits = text.strip()
    if not MILLISECONDS.fullmatch(digits) or int(digits) > INT64_MAX:
        raise InvalidSettingsError(f"{name}={text!r}: expected a store time in ms since 1970, as 1700000000000")
    return int(digits)


def _unmatched(text: str) -> Unmatched:
    match text.strip().lower():
        case "error":
            return "error"
        case "latest":
            return "latest"
    raise InvalidSettingsError(f"startingOffsetsByTimestampStrategy={text!r}: expected error or latest")


def _is_true(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidSettingsError(f"{name}={text!r}: expected true or false")
    return text.lower() == "true"


def _refuse_internal(selection: Selection) -> None:
    """A plain read would show nothing of these."""
    match selection.subscription:
        case Topics(names):
            asked = set(names)
        case Assigned(keys):
            asked = {topic for topic, _ in keys}
        case _:
            return
    for topic in sorted(asked):
        if not selection.include_internal and not is_light(topic) and is_internal(topic.encode()):
            raise InvalidSettingsError(
                f"topic {topic!r}: RocketMQ keeps it for itself; expected includeInternal=true beside it"
            )
