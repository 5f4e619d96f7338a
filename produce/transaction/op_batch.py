"""Which half messages are over with, gathered into op messages: one for many of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...store.disk.clock import Clock
from ...store.errors import FlightlogError
from ...store.message import Message
from ...store.results import PutResult
from .half_message import OP_MAX_SIZE, op_message

INTERVAL_S = 3.0
"""How long an op message is gathered (`transactionOpBatchInterval`)."""


class OpBatch:
    """Not thread-safe: the caller holds a lock."""

    def __init__(self, put: Callable[[Message], PutResult], clock: Clock) -> None:
        self._put, self._clock = put, clock
        self._offsets: list[int] = []
        self._size = 0
        self.due_s: float | None = None
        """When it is to be written, on the monotonic clock; None while there is nothing to write."""

    def add(self, half_queue_offset: int) -> None:
        """Raises nothing: what a full disk does not take is kept, and written later."""
        size = len(f"{half_queue_offset},")
        if self._size + size > OP_MAX_SIZE:
            with suppress(FlightlogError):
                self.write()
        if self.due_s is None:
            self.due_s = self._clock.monotonic_s() + INTERVAL_S
        self._offsets.append(half_queue_offset)
        self._size += size

    def write(self) -> PutResult | None:
        """Put what was gathered; where the last op message went, None if there was nothing. What a put raises leaves
        the rest gathered."""
        result = None
        while self._offsets:
            count = self._count_of_one()
            result = self._put(op_message(self._offsets[:count]))
            del self._offsets[:count]
        self._size, self.due_s = 0, None
        return result

    def _count_of_one(self) -> int:
        """How many of what was gathered fit into one op message."""
        size = 0
        for count, offset in enumerate(self._offsets):
            size += len(f"{offset},")
            if size > OP_MAX_SIZE:
                return count
        return len(self._offsets)
