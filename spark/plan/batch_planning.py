"""Plans a batch query: for each of its stores, tasks scan the log, read queues, or read single records by key.

Queues: reading them costs their entries and many small reads, so a topic that is most of the log is scanned, unless the
entries alone are enough. If only filters select the topics, queues are read only if they surely list all messages of
their topics: a scan also returns records that no queue lists.

Records by key: the key index may list records that have another key, or none, but it lists every record with the key in
the part of the log that it covers. A view reads the rest of the log itself, so if that is much, tasks scan the log.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any

from pyspark.sql.datasource import InputPartition

from ...engine.read_only import ReadOnlyStore
from ...index.key.index_file import key_hash
from ...index.queue.batch_queue import BatchQueue
from ...store.errors import CorruptRecordError
from ...store.format.light_queues import LIGHT_PREFIX, is_light
from ..options.bounds import Bounds, is_internal
from ..options.data_loss import Losses
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation
from .log_planning import LogRange, packed, plan_log, task_size
from .queue_planning import QueueRange, about_size, entries_suffice, lost_to_queues, plan_chosen
from .selection import QueueSpans, narrowed, require_known, selected_spans

log = logging.getLogger("flightlog.spark")

Range = LogRange | QueueRange

SCATTERED = 4
"""Scattered records take about so many times as long as the same bytes of a scan. A task of queues gets so many times
fewer bytes, else a topic that is a tenth of a log leaves cores idle."""
QUEUES_SHARE = 0.5
"""Largest share of the log's bytes that is read by queues."""
MOST_RECORDS = 1000
"""Largest number of records that are read by key, each in a range of its own."""
MOST_QUESTIONS = 1000
"""Keys times topics: the index hashes a key together with its topic."""
UNINDEXED_SIZE = 64 << 20
"""Most bytes of the log, not covered by the index, that a view reads for a key."""

WORKER_LOGGING = "PYSPARK_SPARK_SESSION_UUID"
"""Spark sets it for its workers where it collects what they log."""
OFFSET_SIZE = 400
"""Characters of a stream's offset that are logged: it may name thousands of queues."""


@dataclass
class LogPartition(InputPartition):
    """The ranges that one task reads. Pickled."""

    ranges: tuple[Range, ...]


def plan_batch(options: ReadOptions, pushed: Sequence[str] = ()) -> list[tuple[Range, ...]]:
    """The ranges of each task, in the order of the stores and their logs. Records outside of the options' bounds may be
    left out. A store outside of them is opened only if the options must be checked against it. Logs one INFO line with
    the filters `pushed`.

    Raises InvalidSettingsError for unknown topics and queues, and as `selected_spans`; DataLossError for offsets that
    no longer exist, unless failOnDataLoss=false.
    """
    losses, bounds = Losses(), options.bounds
    wanted = [each for each in options.stores if bounds.stores is None or each.name in bounds.stores]
    with ExitStack() as opened:
        looked_at = options.stores if options.says_what_is_there else wanted
        views = [(location, opened.enter_context(location.open())) for location in looked_at]
        require_known(options, [view for _, view in views])
        logs: list[tuple[StoreLocation, ReadOnlyStore]] = []
        queues: list[tuple[StoreLocation, ReadOnlyStore, QueueSpans]] = []
        records: list[LogRange] = []
        untold: list[LogRange] = []
        for location, view in views:
            found = selected_spans(view, options, losses)
            if location not in wanted:
                continue
            if found is not None:
                untold += lost_to_queues(view, location, found)
                found = narrowed(view, found, bounds)
            elif (with_keys := records_with_keys(view, location, options)) is not None:
                records += with_keys
                continue
            else:
                found = queues_instead(view, options)
            if found is None:
                logs.append((location, view))
            elif found:
                queues.append((location, view, found))
        losses.report(fail=options.fail_on_data_loss)
        tasks: list[tuple[Range, ...]] = [
            *packed(records, options.split_bytes, options.min_partitions),
            *_log_tasks(logs, options),
            *_queue_tasks(queues, options),
            *packed(untold, options.split_bytes),
        ]
        log_size = sum(view.end_physical_offset - view.min_physical_offset for _, view in views)
        uris = [location.uri for location in wanted]
        _report_plan(uris, tasks, log_size, pushed, len(options.stores) - len(wanted))
        return tasks


def _log_tasks(logs: list[tuple[StoreLocation, ReadOnlyStore]], options: ReadOptions) -> list[tuple[LogRange, ...]]:
    size = task_size(sum(view.end_physical_offset - view.min_physical_offset for _, view in logs), options)
    ranges = [piece for location, view in logs for piece in plan_log(view, location, size, bounds=options.bounds)]
    return list(packed(ranges, size, options.min_partitions))


def _queue_tasks(
    queues: list[tuple[StoreLocation, ReadOnlyStore, QueueSpans]], options: ReadOptions
) -> list[tuple[QueueRange, ...]]:
    least, size = -(-options.min_partitions // max(len(queues), 1)), max(options.split_bytes // SCATTERED, 1)
    return [
        task for location, view, spans in queues for task in plan_chosen(view, location, spans, options, size, least)
    ]


def queues_instead(view: ReadOnlyStore, options: ReadOptions) -> QueueSpans | None:
    """The queues with all messages within the bounds, if they are cheaper to read; None to scan the log."""
    bounds = options.bounds
    if not bounds.says_topics or options.include_internal or _may_be_light(bounds):
        return None
    if view.report.damage or view.lost_places():
        return None  # only a scan finds records without an entry
    held = {
        key: span
        for key, span in view.queues().items()
        if bounds.takes_topic(key[0]) and not is_internal(key[0].encode("utf-8", "surrogatepass"))
    }
    spans = narrowed(view, held, bounds)
    places = bounds.physical_offsets
    start, stop = max(places.start, view.min_physical_offset), min(places.stop, view.end_physical_offset)
    size = sum(about_size(queue, *spans[key]) for key in spans if (queue := view.queue_table.get(key)) is not None)
    return spans if entries_suffice(options) or size <= QUEUES_SHARE * (stop - start) else None


def _may_be_light(bounds: Bounds) -> bool:
    """Whether a wanted topic can have the name of a light queue, which lists records of other topics."""
    if bounds.topics is not None:
        return any(map(is_light, bounds.topics))
    return all(text.startswith(LIGHT_PREFIX[: len(text)]) for text in bounds.topic_starts.texts)


def records_with_keys(view: ReadOnlyStore, location: StoreLocation, options: ReadOptions) -> list[LogRange] | None:
    """All records that can hold a message within the bounds, by the key index, in the order of the log; None if the
    index does not cover enough."""
    bounds, disk = options.bounds, view.log_reader.disk
    keys = bounds.uniq_keys if bounds.uniq_keys is not None else bounds.keys
    if keys is None or options.include_internal or not disk.maps_files or view.report.damage or view.lost_places():
        return None
    held = {topic for topic, _ in view.queues() if not is_light(topic)}
    topics = {topic for topic in (held if bounds.topics is None else bounds.topics) if bounds.topic_starts.take(topic)}
    if len(topics) * len(keys) > MOST_QUESTIONS or not all(_is_plain(view, topic) for topic in topics):
        return None
    if view.view_keys.unread_size() > UNINDEXED_SIZE:
        return None
    places: set[int] = set()
    for topic, key in product(sorted(topics), sorted(keys)):
        for physical_offset in view.view_keys.candidates(key_hash(topic, key), 0, None):
            if physical_offset in bounds.physical_offsets:
                places.add(physical_offset)
            if len(places) > MOST_RECORDS:
                return None
    try:
        return [each for place in sorted(places) if (each := _record_at(view, location, place)) is not None]
    except CorruptRecordError:
        return None  # a scan reports what is damaged


def _is_plain(view: ReadOnlyStore, topic: str) -> bool:
    """Whether each message of a topic is a record: the index has no keys of messages in batches. And whether it is not
    a light queue, which lists records of other topics."""
    queues = (queue for key, queue in view.queue_table.items() if key[0] == topic)
    return not is_light(topic) and not any(isinstance(queue, BatchQueue) for queue in queues)


def _record_at(view: ReadOnlyStore, location: StoreLocation, physical_offset: int) -> LogRange | None:
    """The record there, if one starts there, as a range."""
    message, segment = view.message_at(physical_offset), view.log_reader.segment_at(physical_offset)
    if message is None or segment is None:
        return None
    start = physical_offset - segment.base
    return LogRange(
        *(location, str(segment.path), segment.base, segment.size, start, start + message.size),
        is_cut=True,
        deleted=view.deleted_topics,
    )


# -- the INFO lines of plans. Spark plans in a worker of the driver, and shows its log where
# `spark.sql.pyspark.worker.logging.enabled` is true (4.1): `spark.tvf.python_worker_logs()`. Its `explain` does not
# show what a Python source says.


def _report_plan(
    stores: Sequence[str], tasks: Sequence[Sequence[Range]], log_size: int, pushed: Sequence[str], stores_left_out: int
) -> None:
    """Log the plan of a batch query. `log_size` is that of the logs of all stores that were opened."""
    sizes = _sizes(stores, tasks)
    size = sizes["bytes"] - sizes["entries_bytes"]
    left_out = max(log_size - size, 0)
    _log_info(
        "%s: planned %d tasks, about %d of %d bytes of the log%s; filters pushed: %s; left out: about %d bytes, "
        "%d stores",
        *(sizes["path"], len(tasks), size, log_size, _entries_text(sizes), "; ".join(pushed) or "none"),
        *(left_out, stores_left_out),
        extra={
            **sizes,
            "log_bytes": log_size,
            "filters": list(pushed),
            "left_out_bytes": left_out,
            "left_out_stores": stores_left_out,
        },
    )


def report_batch(stores: Sequence[str], tasks: Sequence[Sequence[Range]], start: Any, end: Any) -> None:
    """Log the plan of a stream's batch between these two offsets."""
    sizes = _sizes(stores, tasks)
    texts = [json.dumps(offset, ensure_ascii=False) for offset in (start, end)]
    _log_info(
        "%s: planned a batch of %d tasks, about %d bytes of the log%s, from %s to %s",
        *(sizes["path"], len(tasks), sizes["bytes"] - sizes["entries_bytes"], _entries_text(sizes)),
        *(text if len(text) <= OFFSET_SIZE else f"{text[:OFFSET_SIZE]} ..." for text in texts),
        extra={**sizes, "start": texts[0], "end": texts[1]},
    )


def _sizes(stores: Sequence[str], tasks: Sequence[Sequence[Range]]) -> dict[str, Any]:
    """The fields that both lines have: the stores, and bytes of the log and of entries that are read in its place."""
    pieces = [piece for task in tasks for piece in task]
    return {
        "path": ", ".join(stores),
        "tasks": len(tasks),
        "bytes": sum(piece.size for piece in pieces),
        "entries_bytes": sum(piece.size for piece in pieces if piece.from_entries),
    }


def _entries_text(sizes: dict[str, Any]) -> str:
    return f", from the queues alone {sizes['entries_bytes']} bytes" if sizes["entries_bytes"] else ""


def _log_info(text: str, *values: Any, extra: dict[str, Any]) -> None:
    if WORKER_LOGGING in os.environ and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    log.info(text, *values, extra=extra)
