"""What the tasks of a batch query read, of all its stores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ...engine.read_only import ReadOnlyStore
from ..options.bounds import NO_BOUNDS, Bounds
from ..options.data_loss import Losses
from ..options.options import ReadOptions
from ..options.selection import QueueSpans, narrowed, require_known
from ..remote.locations import StoreLocation
from .entries_alone import plan_chosen
from .key_planning import records_with_keys
from .lost_messages import lost_to_queues
from .plan_report import report_plan
from .planning import LogRange, packed, plan_log
from .queue_planning import QueueRange
from .topic_planning import queues_instead

Range = LogRange | QueueRange

SCATTERED = 4
"""Records that are read one here and one there take about so many times as long as the same bytes of a scan: a task has
so many times fewer of them, else a topic that is a tenth of a log leaves cores idle."""


def plan_batch(options: ReadOptions, bounds: Bounds = NO_BOUNDS, pushed: Sequence[str] = ()) -> list[tuple[Range, ...]]:
    """The ranges of each task, in the order of the stores and their logs: of the log where everything is read, else of
    queues, or of the records that the key index names; what surely lies outside of `bounds` may be left out. A store
    outside of them is opened only where the options must be held against it. Logs one INFO line; `pushed` are the
    filters that it tells.

    Raises InvalidSettingsError for topics and queues that are not there, and as `Selection.resolve`; DataLossError for
    offsets that are not, unless that is to be passed over.
    """
    selection, losses = options.selection, Losses()
    with ExitStack() as opened:
        views = [
            (location, opened.enter_context(location.open()))
            for location in options.stores
            if selection.says_what_is_there or _is_wanted(location, bounds)
        ]
        require_known(selection, [view for _, view in views])
        logs: list[tuple[StoreLocation, ReadOnlyStore]] = []
        queues: list[tuple[StoreLocation, ReadOnlyStore, QueueSpans]] = []
        records: list[LogRange] = []
        untold: list[LogRange] = []
        for location, view in views:
            found = selection.resolve(view, losses)
            if not _is_wanted(location, bounds):
                continue
            if found is not None:
                untold += lost_to_queues(view, location, found)
                found = narrowed(view, found, bounds)
            if found is None and (with_keys := records_with_keys(view, location, options, bounds)) is not None:
                records += with_keys
                continue
            if found is None:
                found = queues_instead(view, options, bounds)
            if found is None:
                logs.append((location, view))
            elif found:
                queues.append((location, view, found))
        losses.tell(fail=selection.fail_on_data_loss)
        by_key = packed(records, options.split_bytes, options.min_partitions)
        lost = packed(untold, options.split_bytes)
        tasks: list[tuple[Range, ...]] = [
            *by_key,
            *_log_tasks(logs, options, bounds),
            *_queue_tasks(queues, options, bounds),
            *lost,
        ]
        wanted = [location.uri for location in options.stores if _is_wanted(location, bounds)]
        log_size = sum(view.end_physical_offset - view.min_physical_offset for _, view in views)
        report_plan(wanted, tasks, log_size, pushed, len(options.stores) - len(wanted))
        return tasks


def _is_wanted(location: StoreLocation, bounds: Bounds) -> bool:
    return bounds.stores is None or location.name in bounds.stores


def _log_tasks(
    logs: list[tuple[StoreLocation, ReadOnlyStore]], options: ReadOptions, bounds: Bounds
) -> list[tuple[LogRange, ...]]:
    total = sum(view.end_physical_offset - view.min_physical_offset for _, view in logs)
    size = max(min(options.split_bytes, -(-total // options.min_partitions)), 1)
    ranges = [piece for location, view in logs for piece in plan_log(view, location, size, bounds=bounds)]
    return list(packed(ranges, size, options.min_partitions))


def _queue_tasks(
    queues: list[tuple[StoreLocation, ReadOnlyStore, QueueSpans]], options: ReadOptions, bounds: Bounds
) -> list[tuple[QueueRange, ...]]:
    least, size = -(-options.min_partitions // max(len(queues), 1)), max(options.split_bytes // SCATTERED, 1)
    return [
        task
        for location, view, spans in queues
        for task in plan_chosen(view, location, spans, options, bounds, size, least)
    ]
