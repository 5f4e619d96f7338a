"""What the end of the log says of queues and keys, noted while its records are checked: so it is read once.

A tail scan must have come to its end before anything is changed. What it came by until then is kept here.
"""

from __future__ import annotations

from collections.abc import Callable

from ...index.dispatch.build_entries import build_entries
from ...index.dispatch.dispatch import QueueEntries, put_entries, queue_entries
from ...index.dispatch.dispatch_rules import DispatchCount, DispatchRules
from ...index.key.key_entries import KeyEntries
from ...index.queue.queue_table import QueueTable
from ...store.format.frame import Rows
from ...store.queue_offsets import QueueKey
from ...store.segments.segment import Segment

MOST_KEPT = 4_000_000
"""Records, of some 50 bytes each."""


class KeptEntries:
    """Shown the log from physical offset `start` on, piece by piece; then puts what it noted."""

    def __init__(self, table: QueueTable, rules: DispatchRules, start: int) -> None:
        self._table, self._rules = table, rules
        self._apart_topic = rules.schedule_topic.encode()
        self._parts: list[tuple[dict[QueueKey, QueueEntries], KeyEntries]] = []
        self._room = MOST_KEPT if not table.has_extensions else 0
        self.stop = start
        """Physical offset below which everything is noted."""

    def look(self, segment: Segment, piece: bytes | memoryview, rows: Rows) -> None:
        """These records are the next ones. Where they are too many, or of a kind of their own, nothing more is noted:
        what lies behind `stop` is read again then."""
        if len(rows) > self._room:
            self._room = 0
            return
        built = build_entries(piece, rows, self._apart_topic)
        if built.batch_count:
            self._room = 0
            return
        self._room -= len(rows)
        found = queue_entries(piece, rows, self._rules, built)
        self._parts.append(({key: entries.detached() for key, entries in found.items()}, built.keys.copy()))
        last = rows[-1]
        self.stop = int(last["physical_offset"]) + int(last["size"])

    def dispatch(self, count: DispatchCount, put_keys: Callable[[KeyEntries], None] | None) -> None:
        """Put all that was noted, in the order of the log. It is forgotten then."""
        for listed, keys in self._parts:
            put_entries(listed, self._table, count)
            if put_keys is not None:
                put_keys(keys)
        self._parts = []
