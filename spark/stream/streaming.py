"""The stream reader: `spark.readStream.format("flightlog")`.

A reader lives in a Python process of the driver as long as its query, and plans every batch there; tasks have copies
of it, which only read. Spark keeps the offsets, in the format of `stream_offsets.py`. A batch is the messages between
two offsets, so it is the same however often it is repeated.

From 4.2 on Spark passes the end of the last batch and the limit of the next one. Before that, the reader remembers the
end, and applies `maxOffsetsPerTrigger` itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ...engine.read_only import ReadOnlyStore
from ...store.errors import StoreChangingError, UsageError
from ..entry import entry
from ..options.data_loss import CheckpointAheadError, Losses
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation
from ..plan.batch_planning import LogPartition, report_batch
from .stream_log import LogStream, is_whole
from .stream_offsets import BEGINNING, NO_NAME, LogPlace, Place, QueuePlaces, StreamOffset, parse_offset
from .stream_queues import QueueStream, share_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ModuleNotFoundError:  # before 4.2: there Spark itself makes one batch of what is available
        SupportsTriggerAvailableNow = object

LOOKS_MORE = 20
"""How often a batch is planned again because segments were removed meanwhile."""

IDLE_SHARE = 4
"""After a refresh that found nothing new, the stream waits so many times as long as the refresh took: Spark asks a
hundred times a second, and beside a broker with many queues a refresh is expensive."""
REST_MAX_S = 1.0

RECORDS_FOLLOWED_MAX = 1 << 20
"""A view keeps 20 bytes for each record that it has seen arrive; beyond this number it is opened again."""
CATCHING_UP_LIMIT_S = 60.0
CATCHING_UP_PAUSE_S = 0.05

Offset = dict[str, Any]
T = TypeVar("T")
Places = Mapping[str, Any]
"""A `Place` for each store, of the kind that the stream counts in."""


class FollowedStore:
    """One store of a running stream: a view that is refreshed for every batch. Opened when it is first used."""

    def __init__(self, location: StoreLocation, steps: LogStream | QueueStream) -> None:
        self.location, self.steps = location, steps
        self._view: ReadOnlyStore | None = None
        self._records_before = 0

    @property
    def view(self) -> ReadOnlyStore:
        """What was visible of the store at the last `look`."""
        if self._view is None:
            self._view = self.location.open()
            self._records_before = self._view.report.records_scanned
        return self._view

    def look(self) -> None:
        """Refresh the view."""
        if self._view is None:
            return
        is_large = self._view.report.records_scanned - self._records_before > RECORDS_FOLLOWED_MAX
        if is_large or self.location.address is not None:  # a view of a remote store never changes
            self.close()
        else:
            self._view.refresh()

    def close(self) -> None:
        """Close the view; the next use opens another one."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def check(self, place: Place) -> None:
        """Raises UsageError for a place of another kind: the checkpoint is that of another query."""
        if not isinstance(place, self.steps.place_type):
            kinds: dict[type[Place], str] = {LogPlace: "everything", QueuePlaces: "topics"}
            raise UsageError(
                f"{self.location.uri}: the checkpoint is that of a stream over {kinds[type(place)]}, and this one "
                f"reads {kinds[self.steps.place_type]}; expected the same, or another checkpointLocation"
            )

    def is_ahead(self, place: Any) -> bool:
        """Whether the place lies behind what is visible just now, in a store that holds it nevertheless.

        A broker that has just started shows only bit by bit what was readable while no process had the store open.
        Raises CheckpointAheadError where the store does not hold the place: it lost its end, or is another one.
        """
        view = self.view
        if not self.steps.is_ahead(view, place):
            return False
        end, wanted = view.end_physical_offset, self.steps.log_end(place)
        if end < wanted and is_whole(view, end, wanted):
            return True
        raise CheckpointAheadError(self.location.uri, self.steps.ahead_text(view, place))

    def await_place(self, place: Any) -> None:
        """Wait until everything before the place is visible. Raises as `is_ahead`, and StoreChangingError after
        CATCHING_UP_LIMIT_S."""
        deadline_s = time.monotonic() + CATCHING_UP_LIMIT_S
        while self.is_ahead(place):
            if time.monotonic() > deadline_s:
                raise StoreChangingError(
                    f"{self.location.uri}: a broker that has just started has not come to what this stream has read, "
                    f"{self.steps.ahead_text(self.view, place)}; start the query again when it has"
                )
            time.sleep(CATCHING_UP_PAUSE_S)
            self.look()


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream over the stores of a query. `tasks` reads what is planned, as it does for a batch query."""

    def __init__(self, options: ReadOptions, tasks: DataSourceReader) -> None:
        options.require_stream()
        self._options, self._tasks = options, tasks
        steps: LogStream | QueueStream = LogStream(options) if options.reads_the_log else QueueStream(options)
        # A store that was named by itself may be moved, or renamed: its checkpoint is good for it all the same.
        self._stores = {
            location.name if options.shows_store else NO_NAME: FollowedStore(location, steps)
            for location in options.stores
        }
        self._target: Places | None = None
        """The end of a query with Trigger.AvailableNow."""
        self._planned: Offset | None = None
        """The end of the last planned batch, for Spark before 4.2."""
        self._rest_until_s = 0.0

    def initialOffset(self) -> Offset:
        """A placeholder for the start, until the first batch is planned."""
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @entry
    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end at what is visible now."""
        self._look()
        self._target = self._latest_places()

    @entry
    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """The end of the next batch; `start` itself if there is nothing new.

        Raises DataLossError for unread messages that were removed, unless `failOnDataLoss=false`; CheckpointAheadError
        if the checkpoint is that of another store; UsageError if it is that of another query.
        """
        if start is None:
            start, most = self._planned or self.initialOffset(), self._options.max_offsets_per_trigger
        else:
            most = getattr(limit, "max_rows", None)
        time.sleep(max(self._rest_until_s - time.monotonic(), 0))
        before_s = time.monotonic()
        self._look()
        found = self._again_where_gone(lambda: self._next_offset(start, most))
        if found == start:
            now_s = time.monotonic()
            self._rest_until_s = now_s + min(IDLE_SHARE * (now_s - before_s), REST_MAX_S)
        return found

    @entry
    def reportLatestOffset(self) -> Offset:
        """The end of what is visible, for the query's progress."""
        return StreamOffset(self._latest_places()).to_json()

    @entry
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch, in the order of the log. Raises as `latestOffset`."""
        self._planned = end
        if start == end:  # Spark before 4.2 also calls this to resume a stream
            return []
        return self._again_where_gone(lambda: self._plan(start, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The partition's messages as RecordBatches, as for a batch query."""
        return iter(self._tasks.read(partition))

    def stop(self) -> None:
        """Close the stores."""
        for store in self._stores.values():
            store.close()

    def _look(self) -> None:
        for store in self._stores.values():
            store.look()

    def _again_where_gone(self, plan: Callable[[], T]) -> T:
        for _ in range(LOOKS_MORE):
            with suppress(FileNotFoundError):
                return plan()
            self._look()
        return plan()

    def _latest_places(self) -> Places:
        return {name: store.steps.latest(store.view) for name, store in self._stores.items()}

    def _next_offset(self, start: Offset, most: int | None) -> Offset:
        before = parse_offset(start)
        began = self._beginning() if before is None else None
        places = self._kept(before.places if before is not None else began or {})
        for name, store in self._stores.items():
            store.is_ahead(places[name])  # raises where it should not be
        latest = self._target or self._latest_places()
        backlogs = {name: store.steps.backlog(places[name], latest[name]) for name, store in self._stores.items()}
        total = sum(backlogs.values())
        found = {
            name: store.steps.advance(store.view, places[name], latest[name], share_of(most, backlogs[name], total))
            for name, store in self._stores.items()
        }
        if before is not None and found == before.places:
            return start
        return StreamOffset(found, began).to_json()

    def _beginning(self) -> Places:
        losses = Losses()
        places = {name: store.steps.begin(store.view, losses) for name, store in self._stores.items()}
        losses.report(fail=self._options.fail_on_data_loss)
        return places

    def _kept(self, places: Places) -> Places:
        """The place from which to read each store. A new store is read from its beginning."""
        losses = Losses()
        kept: dict[str, Place] = {}
        for name, store in self._stores.items():
            place = places.get(name)
            if place is None:
                kept[name] = store.steps.earliest(store.view)
                continue
            store.check(place)
            kept[name] = store.steps.kept(store.view, place, losses)
        for name in places.keys() - self._stores.keys():
            losses.add(f"the store {name!r}, which the query does not name any more")
        losses.report(fail=self._options.fail_on_data_loss)
        return kept

    def _plan(self, start: Offset, end: Offset) -> list[InputPartition]:
        before, upto = parse_offset(start), parse_offset(end)
        began: Places | None = before.places if before is not None else upto.began if upto is not None else None
        if upto is None or began is None:
            raise UsageError(
                f"a batch from {start} to {end}: expected the end of its first batch to say where it began"
            )
        ends: Places = upto.places
        for name, place in ends.items():
            if name in self._stores:
                self._stores[name].check(place)
                self._stores[name].await_place(place)
        places = self._kept(began)
        tasks = [
            pack
            for name, store in self._stores.items()
            if name in ends
            for pack in store.steps.plan(store.view, store.location, places[name], ends[name])
        ]
        stores = [location.uri for location in self._options.stores]
        report_batch(stores, tasks, StreamOffset(places).to_json(), StreamOffset(upto.places).to_json())
        return [LogPartition(pack) for pack in tasks]
