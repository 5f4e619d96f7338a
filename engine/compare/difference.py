"""One thing in which two stores differ."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DifferenceKind(enum.StrEnum):
    """What differs."""

    TOPIC = "topic"
    """A setting of a topic, or the topic itself."""
    QUEUE = "queue"
    """The first or the end offset of a queue, or the queue itself."""
    MESSAGE = "message"
    """A field of the message at a queue offset, or the message itself."""
    GROUP_OFFSET = "group offset"
    """How far a consumer group has consumed a queue."""
    SETTING = "setting"
    """A file size, or a value in a file of `config/`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which store A and store B differ."""

    kind: DifferenceKind
    name: str
    """The topic; for GROUP_OFFSET the group; for SETTING the file."""
    field: str
    """What differs of it; empty if one of the stores does not have it at all."""
    a: str | None
    """The value in A; None if A does not have it."""
    b: str | None
    """The value in B; None if B does not have it."""
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None

    def __str__(self) -> str:
        """One line, as in `message orders/0@7: body: 5 bytes, CRC-32 1C291CA3 | 5 bytes, CRC-32 F2B8D3A0`."""
        place = "" if self.topic is None else self.topic if self.queue_id is None else f"{self.topic}/{self.queue_id}"
        place += "" if self.queue_offset is None else f"@{self.queue_offset}"
        name = place if self.name == self.topic else f"{self.name} {place}".rstrip()
        field = f"{self.field}: " if self.field else ""
        values = (value if value is not None else "none" for value in (self.a, self.b))
        return f"{self.kind} {name}: {field}{' | '.join(values)}"
