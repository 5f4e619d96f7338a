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

from ...store.errors import UsageError
from ..entry import entry
from ..options.data_loss import Losses
from ..options.read_options import ReadOptions
from ..plan.batch_planning import LogPartition, report_batch
from .followed_store import FollowedStore
from .stream_log import LogStream
from .stream_offsets import BEGINNING, NO_NAME, Place, StreamOffset, parse_offset
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

Offset = dict[str, Any]
T = TypeVar("T")


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream over the stores of a query. `tasks` reads what is planned, as it does for a batch query."""

    def __init__(self, options: ReadOptions, tasks: DataSourceReader) -> None:
        options.require_stream()
        self._options, self._tasks = options, tasks
        steps = LogStream(options) if options.reads_the_log else QueueStream(options)
        # A store that was named by itself may be moved, or renamed: its checkpoint is good for it all the same.
        self._stores = {
            location.name if options.shows_store else NO_NAME: FollowedStore(location, steps)
            for location in options.stores
        }
        self._target: Mapping[str, Place] | None = None
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

    def _latest_places(self) -> dict[str, Place]:
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

    def _beginning(self) -> dict[str, Place]:
        losses = Losses()
        places = {name: store.steps.begin(store.view, losses) for name, store in self._stores.items()}
        losses.tell(fail=self._options.fail_on_data_loss)
        return places

    def _kept(self, places: Mapping[str, Place]) -> dict[str, Place]:
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
        began = before.places if before is not None else upto.began if upto is not None else None
        if upto is None or began is None:
            raise UsageError(
                f"a batch from {start} to {end}: expected the end of its first batch to say where it began"
            )
        for name, place in upto.places.items():
            if name in self._stores:
                self._stores[name].check(place)
                self._stores[name].await_place(place)
        places = self._kept(began)
        tasks = [
            pack
            for name, store in self._stores.items()
            if name in upto.places
            for pack in store.steps.plan(store.view, store.location, places[name], upto.places[name])
        ]
        stores = [location.uri for location in self._options.stores]
        report_batch(stores, tasks, StreamOffset(places).to_json(), StreamOffset(upto.places).to_json())
        return [LogPartition(pack) for pack in tasks]
