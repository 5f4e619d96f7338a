"""A message store on top of a key-value store: one entry for the message by queue and offset, one for its key."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from ..cases.workloads import QUEUES, TOPIC
from ..loads.rows import TAG, Row

PLACE = struct.Struct(">IQ")
"""Queue id, queue offset: in order as bytes."""
HEAD = TOPIC.encode() + b"\0" + TAG.encode() + b"\0"


class Places:
    """Gives rows their offsets."""

    def __init__(self) -> None:
        self._ends = [0] * QUEUES

    def entries(self, rows: Iterable[Row]) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(place, message, key) of each."""
        for row in rows:
            offset = self._ends[row.queue_id]
            self._ends[row.queue_id] = offset + 1
            key = row.key.encode()
            yield PLACE.pack(row.queue_id, offset), HEAD + key + b"\0" + row.body, b"key:" + key
