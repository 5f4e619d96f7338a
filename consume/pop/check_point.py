"""What the revive topic holds: check points of popped messages, and their acknowledgements, as RocketMQ writes them.

    tag    body                                     due
    ck     PopCheckPoint as JSON                    a second before the messages become visible again
    ack    AckMsg: the offset of one message        when they do
    bAck   BatchAckMsg: the offsets of several      when they do

A record is due by its property TIMER_DELIVER_MS. An ack belongs to the check point with the same `key`. The check point
of a pop has a property of ours, NEXT_OFFSET: see recovery.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...store.format import property_names as props
from ...store.message import Message
from .json_words import json_object, json_text, json_whole
from .pop_topics import REVIVE_TOPIC

CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
LEAD_MS: Final = 1000
"""How much earlier than its acks a check point leaves the wheel (`ackTimeInterval`)."""
NEXT_OFFSET: Final = "FLIGHTLOG_NEXT_OFFSET"
"""Where the group goes on in the queue that it popped from."""
MAX_COUNT: Final = 32
"""Messages of one check point: the bits of RocketMQ's bit map."""


class CheckPointKey(NamedTuple):
    """What a check point and its acks have in common."""

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    broker_name: str

    def uniq_key(self, offset: int, tag: str) -> str:
        """The UNIQ_KEY of a record (`genCkUniqueId`, `genAckUniqueId`)."""
        words = self.topic, self.queue_id, offset, self.group, self.pop_time_ms, self.broker_name, tag
        return "@".join(map(str, words))


@dataclass(slots=True)
class CheckPoint:
    """Messages of one queue that were popped together."""

    key: CheckPointKey
    invisible_ms: int
    offsets: tuple[int, ...]
    """Queue offsets of the messages."""
    put_count: int = 0
    """How many times it was put again because a message could not be read."""
    revive_offset: int = -1
    """Where it is in the revive topic."""
    acked_bits: int = 0
    """Bit n: the ack of `offsets[n]` was found."""
    is_uncounted: bool = False
    """Whether the next delivery has the same attempt as this one (`suspend` of RocketMQ 5.5; 5.3 does not know it)."""

    @property
    def revive_ms(self) -> int:
        """When the messages become visible again."""
        return self.key.pop_time_ms + self.invisible_ms

    @property
    def open_offsets(self) -> list[int]:
        """Those without an ack."""
        return [offset for place, offset in enumerate(self.offsets) if not self.acked_bits >> place & 1]

    @property
    def acked_offsets(self) -> set[int]:
        return set(self.offsets).difference(self.open_offsets)

    def note_acked(self, offsets: Container[int]) -> None:
        """Offsets that are not this check point's are left out."""
        for place, offset in enumerate(self.offsets):
            if offset in offsets:
                self.acked_bits |= 1 << place


@dataclass(frozen=True)
class Ack:
    """Acknowledges messages of one check point."""

    key: CheckPointKey
    offsets: Sequence[int]


def check_point_message(point: CheckPoint, revive_queue_id: int, next_offset: int | None = None) -> Message:
    """The record of a check point; `next_offset`: where the group goes on in the queue that it popped from."""
    key = point.key
    body: dict[str, Any] = {
        "bm": 0,
        "bn": key.broker_name,
        "c": key.group,
        "d": [offset - key.start_offset for offset in point.offsets],
        "it": point.invisible_ms,
        "n": len(point.offsets),
        "pt": key.pop_time_ms,
        "q": key.queue_id,
        "reviveTime": point.revive_ms,
        "ro": 0,
    }
    if point.put_count:
        body["rp"] = str(point.put_count)
    body["so"] = key.start_offset
    if point.is_uncounted:
        body["sp"] = True
    body["t"] = key.topic
    uniq_key = key.uniq_key(key.start_offset, CHECK_POINT_TAG)
    record = _record(body, CHECK_POINT_TAG, uniq_key, revive_queue_id, point.revive_ms - LEAD_MS)
    if next_offset is not None:
        record.properties = {**(record.properties or {}), NEXT_OFFSET: str(next_offset)}
    return record


def ack_message(ack: Ack, revive_ms: int, revive_queue_id: int) -> Message:
    """The record of an acknowledgement, also of several messages."""
    key, is_batch = ack.key, len(ack.offsets) > 1
    offset = -1 if is_batch else ack.offsets[0]
    body: dict[str, Any] = {"ao": offset}
    if is_batch:
        body["aol"] = list(ack.offsets)
    body |= {
        "bn": key.broker_name,
        "c": key.group,
        "pt": key.pop_time_ms,
        "q": key.queue_id,
        "so": key.start_offset,
        "t": key.topic,
    }
    tag = BATCH_ACK_TAG if is_batch else ACK_TAG
    return _record(body, tag, key.uniq_key(offset, ACK_TAG), revive_queue_id, revive_ms)


def _record(body: dict[str, Any], tag: str, uniq_key: str, revive_queue_id: int, due_ms: int) -> Message:
    return Message(
        REVIVE_TOPIC,
        json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode(),
        tags=tag,
        uniq_key=uniq_key,
        queue_id=revive_queue_id,
        properties={props.TIMER_DELIVER_MS: str(due_ms)},
    )


def read_check_point(body: bytes) -> CheckPoint:
    """Raises ValueError for what is no check point."""
    found = json_object(json.loads(body))
    start = json_whole(found, "so")
    count = json_whole(found, "n")
    diffs = found.get("d") or range(count)  # RocketMQ before 4.9 wrote none: the messages follow each other
    if len(diffs) < count or not all(isinstance(diff, int) for diff in diffs):
        raise ValueError(f"{count} messages at the offsets {diffs!r}")
    key = CheckPointKey(
        json_text(found, "t"),
        json_text(found, "c" if "c" in found else "CId"),
        json_whole(found, "q"),
        start,
        json_whole(found, "pt"),
        sys.intern(str(found.get("bn") or "")),
    )
    offsets = tuple(start + diff for diff in diffs[:count])
    put_count, bits = int(found.get("rp") or 0), json_whole(found, "bm") & 0xFFFF_FFFF  # Java's int
    is_uncounted = found.get("sp") is True
    return CheckPoint(key, json_whole(found, "it"), offsets, put_count, acked_bits=bits, is_uncounted=is_uncounted)


def read_ack(body: bytes, own_name: str) -> Ack:
    """`own_name`: the broker name of an ack that says none. Raises ValueError for what is no ack."""
    found = json_object(json.loads(body))
    key = CheckPointKey(
        json_text(found, "t"),
        json_text(found, "c"),
        json_whole(found, "q"),
        json_whole(found, "so"),
        json_whole(found, "pt"),
        str(found.get("bn") or own_name),
    )
    offsets = found.get("aol") or [json_whole(found, "ao")]
    if not isinstance(offsets, list) or not all(isinstance(offset, int) for offset in offsets):
        raise ValueError(f"the offsets {offsets!r}")
    return Ack(key, offsets)
