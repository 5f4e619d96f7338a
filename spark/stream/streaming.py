"""`spark.readStream.format("flightlog")`: what Spark asks of a stream while it runs.

A reader lives in a Python process of the driver as long as its query, and plans every batch there; tasks have copies
of it, which only read. How far the stream has come is Spark's to keep, in the form that `stream_offsets.py` has. A
batch is what lies between two such offsets, so it is the same messages however often it is repeated.

From 4.2 on Spark says where the last batch ended and how much the next may hold. Before it the reader remembers the
one, and keeps to `maxOffsetsPerTrigger` by itself.
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
"""How often a batch is planned anew because segments were removed in the middle of it."""

IDLE_SHARE = 4
"""Behind a look that found nothing new the stream rests so many times as long as the look took: Spark asks a hundred
times a second, and beside a broker with many queues a look costs much."""
REST_MAX_S = 1.0

RECORDS_FOLLOWED_MAX = 1 << 20
"""A view keeps 20 bytes for each record that it has seen come; after so many it is opened anew."""
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
        """Where a query by Trigger.AvailableNow ends."""
        self._planned: Offset | None = None
        """Where the last planned batch ended, for Spark before 4.2."""
        self._rest_until_s = 0.0

    def initialOffset(self) -> Offset:
        """What stands for the beginning until the first batch is planned."""
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @entry
    def prepareForTriggerAvailableNow(self) -> None:
        """What is visible now is all that the query will read."""
        self._look()
        self._target = self._latest_places()

    @entry
    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """Where the next batch ends; `start` itself if there is nothing new.

        Raises DataLossError for what was removed unread, unless `failOnDataLoss=false`; CheckpointAheadError where the
        store is not the one that the stream has read; UsageError where the query is not.
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
        """Where all that is visible ends, for the query's progress."""
        return StreamOffset(self._latest_places()).to_json()

    @entry
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch, in the order of the log. Raises as `latestOffset`."""
        self._planned = end
        if start == end:  # so, too, Spark before 4.2 says where the stream goes on
            return []
        return self._again_where_gone(lambda: self._plan(start, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The partition's messages as RecordBatches, as for a batch query."""
        return iter(self._tasks.read(partition))

    def stop(self) -> None:
        """Let go of the stores."""
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
        losses.tell(fail=self._options.fail_on_data_loss)
        return places

    def _kept(self, places: Places) -> Places:
        """Where to go on in each store: a new one is read from its beginning."""
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
        losses.tell(fail=self._options.fail_on_data_loss)
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
