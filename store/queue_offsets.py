"""The next queue offset of every queue: what an append writes into a record, and one more than it afterwards."""

from __future__ import annotations

QueueKey = tuple[str, int]
"""Topic and queue id."""

QueueOffsets = dict[QueueKey, int]
"""Next queue offset by queue; a queue that is not there starts at 0. Filled by recovery, advanced by the append
alone."""
