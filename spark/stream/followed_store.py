"""One store of a stream while it runs: a view of it that is looked through anew for every batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from ...engine.read_only import ReadOnlyStore
from ...store.errors import StoreChangingError, UsageError
from ..options.data_loss import CheckpointAheadError, Losses
from ..options.stores import StoreLocation
from ..plan.batch_planning import Range
from .stream_log import is_whole
from .stream_offsets import LogPlace, Place, QueuePlaces

RECORDS_FOLLOWED_MAX = 1 << 20
"""A view keeps 20 bytes for each record that it has seen come; from then on it is made anew."""

CATCHING_UP_LIMIT_S = 60.0
CATCHING_UP_PAUSE_S = 0.05


class Steps(Protocol):
    """What a stream asks of one store, by the kind of places that it counts in. Nothing is held between two calls."""

    place_type: ClassVar[type[Place]]

    def begin(self, view: ReadOnlyStore, losses: Losses) -> Place:
        """Where a new stream begins, as the options have it."""

    def earliest(self, view: ReadOnlyStore) -> Place:
        """Before everything that the store holds."""

    def latest(self, view: ReadOnlyStore) -> Place:
        """Behind everything that is visible."""

    def is_ahead(self, view: ReadOnlyStore, place: Any) -> bool:
        """Whether the place lies behind what the view shows."""

    def log_end(self, place: Any) -> int:
        """The physical offset that the log of a store must reach to hold the place."""

    def ahead_text(self, view: ReadOnlyStore, place: Any) -> str:
        """What is to be said of a place that is ahead."""

    def kept(self, view: ReadOnlyStore, place: Any, losses: Losses) -> Place:
        """The place, moved on to what there still is."""

    def backlog(self, place: Any, last: Any) -> int:
        """How much there is to read between two places, in the kind's own measure."""

    def advance(self, view: ReadOnlyStore, place: Any, last: Any, limit: int | None) -> Place:
        """The end of the next batch: `last`, or about `limit` messages on; `place` itself where nothing is new.

        Raises FileNotFoundError where a segment is gone.
        """

    def plan(self, view: ReadOnlyStore, location: StoreLocation, start: Any, stop: Any) -> Sequence[tuple[Range, ...]]:
        """The ranges of each task of a batch. Raises FileNotFoundError as `advance`."""


class FollowedStore:
    """A store, and the steps in which it is read. Opened when it is first looked at."""

    def __init__(self, location: StoreLocation, steps: Steps) -> None:
        self.location, self.steps = location, steps
        self._view: ReadOnlyStore | None = None
        self._records_before = 0

    @property
    def view(self) -> ReadOnlyStore:
        """What is visible of the store, as of the last look."""
        if self._view is None:
            self._view = self.location.open()
            self._records_before = self._view.report.records_scanned
        return self._view

    def look(self) -> None:
        """See what has been written since."""
        if self._view is None:
            return
        is_large = self._view.report.records_scanned - self._records_before > RECORDS_FOLLOWED_MAX
        if is_large or self.location.address is not None:  # of a remote store a view knows what was there when it began
            self.close()
        else:
            self._view.refresh()

    def close(self) -> None:
        """Let go of the view; the next look makes another."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def check(self, place: Place) -> None:
        """Raises UsageError for a place of another kind: this query reads other things than the checkpoint's did."""
        if not isinstance(place, self.steps.place_type):
            kinds: dict[type[Place], str] = {LogPlace: "everything", QueuePlaces: "topics"}
            raise UsageError(
                f"{self.location.uri}: the checkpoint is that of a stream over {kinds[type(place)]}, and this one "
                f"reads {kinds[self.steps.place_type]}; expected the same, or another checkpointLocation"
            )

    def is_ahead(self, place: Place) -> bool:
        """Whether the place lies behind what is visible just now, in a store that holds it nevertheless.

        A broker that has just started shows only bit by bit what could be read while nobody had the store open. Raises
        CheckpointAheadError where the store does not hold it: it lost its end, or is another one.
        """
        view = self.view
        if not self.steps.is_ahead(view, place):
            return False
        end, wanted = view.end_physical_offset, self.steps.log_end(place)
        if end < wanted and is_whole(view, end, wanted):
            return True
        raise CheckpointAheadError(self.location.uri, self.steps.ahead_text(view, place))

    def await_place(self, place: Place) -> None:
        """Return once everything before the place is visible. Raises as `is_ahead`, and StoreChangingError where that
        takes very long."""
        deadline_s = time.monotonic() + CATCHING_UP_LIMIT_S
        while self.is_ahead(place):
            if time.monotonic() > deadline_s:
                raise StoreChangingError(
                    f"{self.location.uri}: a broker that has just started has not come to what this stream has read, "
                    f"{self.steps.ahead_text(self.view, place)}; start the query again when it has"
                )
            time.sleep(CATCHING_UP_PAUSE_S)
            self.look()
