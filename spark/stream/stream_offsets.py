"""Offsets of a stream, as JSON: Spark keeps them in the checkpoint.

    {"physicalOffset": 81920}                                       everything is read
    {"logEnd": 81920, "queues": {"orders": {"0": 12, "1": 9}}}      topics are selected
    {"stores": {"broker-a": {...}, "broker-b": {...}}}              several stores, each as above

Every number is the next offset to read. `logEnd` is the end of the log when the offsets were recorded; it detects a
queue that was deleted and created again, and a store whose broker has not dispatched everything since its start.

The offset of a stream's first batch also has the start of the stream, under `began`: Spark asks for it again when it
repeats that batch, and `latest` would be another place by then.

Equal offsets must be equal texts: that is how Spark compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...store.errors import UsageError
from ...store.queue_offsets import QueueKey

BEGINNING: Mapping[str, Any] = {"beginning": True}
"""The start of a stream before the first batch is planned."""

NO_NAME = ""
"""The name of a store that is read alone: its folder can be moved without losing the checkpoint."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The position in a log of which everything is read."""

    physical_offset: int

    def to_json(self) -> dict[str, Any]:
        return {"physicalOffset": self.physical_offset}


@dataclass(frozen=True, slots=True)
class QueuePlaces:
    """The position in each queue of the selected topics. A queue without one is new: it is read from its first
    message."""

    offsets: Mapping[QueueKey, int]
    log_end: int
    """Physical end of the log when this was recorded."""

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, dict[str, int]] = {}
        for (topic, queue_id), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(queue_id)] = offset
        return {"logEnd": self.log_end, "queues": topics}


Place = LogPlace | QueuePlaces
"""The position in one store."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The places of all stores of a stream, by name."""

    places: Mapping[str, Place]
    began: Mapping[str, Place] | None = None
    """The start of the stream; None after its first batch."""

    def to_json(self) -> dict[str, Any]:
        began = {} if self.began is None else {"began": _places_json(self.began)}
        return {**began, **_places_json(self.places)}


def parse_offset(found: Mapping[str, Any]) -> StreamOffset | None:
    """Parse what `to_json` returned; None for BEGINNING. Raises UsageError for anything else."""
    if found == BEGINNING:
        return None
    try:
        rest = dict(found)
        began = rest.pop("began", None)
        return StreamOffset(_parse_places(rest), None if began is None else _parse_places(began))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise UsageError(
            f"the checkpoint has the offset {dict(found)}, which is none of flightlog's; expected a physicalOffset or "
            "queues. It belongs to another source or a later version: give this query a checkpointLocation of its own"
        ) from e


def _places_json(places: Mapping[str, Place]) -> dict[str, Any]:
    if places.keys() == {NO_NAME}:
        return places[NO_NAME].to_json()
    return {"stores": {name: places[name].to_json() for name in sorted(places)}}


def _parse_places(found: Mapping[str, Any]) -> dict[str, Place]:
    if found.keys() == {"stores"}:
        return {name: _parse_place(place) for name, place in found["stores"].items()}
    return {NO_NAME: _parse_place(found)}


def _parse_place(found: Mapping[str, Any]) -> Place:
    if found.keys() == {"physicalOffset"}:
        return LogPlace(_offset(found["physicalOffset"]))
    if found.keys() != {"logEnd", "queues"}:
        raise ValueError(f"a place with {', '.join(found)}")
    offsets = {
        (topic, int(queue_id)): _offset(offset)
        for topic, queues in found["queues"].items()
        for queue_id, offset in queues.items()
    }
    return QueuePlaces(offsets, _offset(found["logEnd"]))


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no offset")
    return value
