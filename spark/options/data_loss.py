"""Requested messages that no longer exist. The option `failOnDataLoss` decides whether that fails the query."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...store.errors import FlightlogError

log = logging.getLogger("flightlog.spark")


class DataLossError(FlightlogError):
    """Messages that a query or a stream requests were removed before it read them."""

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(
            f"gone before it was read: {'; '.join(losses)}. Retention was faster, or a topic was deleted; the "
            "option failOnDataLoss=false goes on with the messages that still exist"
        )
        self.losses = tuple(losses)


class CheckpointAheadError(FlightlogError):
    """A stream has read past the end of its store. It would skip new messages, as they get offsets that it has read."""

    def __init__(self, store: str, detail: str) -> None:
        super().__init__(
            f"{store}: the stream has read up to {detail}. The store lost its end (a power failure loses "
            "unflushed messages), was restored from an older backup, or is another store. Restore the newer store, or "
            "start again with another checkpointLocation"
        )


class Losses:
    """Collects what is missing in the stores of a query."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, what: str) -> None:
        self._found.append(what)

    def report(self, *, fail: bool) -> None:
        """Raise DataLossError, or log a warning, if something is missing."""
        if self._found and fail:
            raise DataLossError(self._found)
        if self._found:
            text = "; ".join(self._found)
            log.warning("failOnDataLoss=false: the query goes on without %s", text, extra={"losses": self._found})
