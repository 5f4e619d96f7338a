"""Queues in place of the log: what a query of a few topics reads where nothing but its filters says which.

Reading queues costs their entries and many small reads, so a topic that is most of the log is better scanned,
unless the entries alone are enough. And only
queues that surely list all messages of their topics will do: a record that no queue lists is a message in a scan.
"""

from __future__ import annotations

from ...engine.read_only import ReadOnlyStore
from ...store.format.light_queues import LIGHT_PREFIX, is_light
from ..options.bounds import Bounds
from ..options.options import ReadOptions
from ..options.selection import QueueSpans, narrowed
from ..options.visibility import is_internal
from .entries_alone import entries_suffice
from .queue_planning import about_size

SHARE = 0.5
"""Of the log's bytes, that are read by queues at most."""


def queues_instead(view: ReadOnlyStore, options: ReadOptions, bounds: Bounds) -> QueueSpans | None:
    """The queues that hold all messages within the bounds, if they are to be read; None: the log is."""
    if not bounds.says_topics or options.include_internal or _may_be_light(bounds):
        return None
    if view.report.damage or view.lost_places():
        return None  # what has no entry, or no record, is for a scan to tell
    held = {
        key: span
        for key, span in view.queues().items()
        if bounds.takes_topic(key[0]) and not is_internal(key[0].encode("utf-8", "surrogatepass"))
    }
    spans = narrowed(view, held, bounds)
    places = bounds.physical_offsets
    start, stop = max(places.start, view.min_physical_offset), min(places.stop, view.end_physical_offset)
    size = sum(about_size(queue, *spans[key]) for key in spans if (queue := view.queue_table.get(key)) is not None)
    return spans if entries_suffice(options, bounds) or size <= SHARE * (stop - start) else None


def _may_be_light(bounds: Bounds) -> bool:
    """Whether a wanted topic can have a light queue's name, under which records of other topics are listed."""
    if bounds.topics is not None:
        return any(map(is_light, bounds.topics))
    return all(text.startswith(LIGHT_PREFIX[: len(text)]) for text in bounds.topic_starts.texts)
