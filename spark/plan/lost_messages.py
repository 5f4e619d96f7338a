"""Lost places of the log that no queue entry tells of, for a query that reads queues.

A view takes from the queues' files what leads up to where it had to look at the log itself. Entries of a segment that
is missing behind that were forgotten, or never written: in their place is filler, or the queue's end. And queues begin
where the log begins, behind a first segment of the wrong length. Whose messages were there nobody can say, so each
queue whose range reaches over such a place may lack some.
"""

from __future__ import annotations

from ...engine.open.tail_scan import Damage
from ...engine.read_only import ReadOnlyStore
from ..options.selection import QueueSpans, index_at
from ..remote.locations import StoreLocation
from .planning import LogRange, lost_ranges


def lost_to_queues(view: ReadOnlyStore, location: StoreLocation, spans: QueueSpans) -> list[LogRange]:
    """The lost places that a query of these spans may have had messages from, and would not come by."""
    places = [place for place in view.lost_places() if _is_forgotten(view, place) and _reach_over(view, spans, place)]
    return list(lost_ranges(view, location, places))


def _is_forgotten(view: ReadOnlyStore, place: Damage) -> bool:
    return not view.min_physical_offset <= place.physical_offset < view.report.scanned_from


def _reach_over(view: ReadOnlyStore, spans: QueueSpans, place: Damage) -> bool:
    """Whether one of the spans comes from before the place to behind it, where a queue's own ends are those that it was
    cut to. Not where one has entries of the place left: whoever follows these tells of it."""
    held, is_reached = view.queues(), False
    for key, (start, stop) in spans.items():
        first, end = held.get(key, (0, 0))
        queue = view.queue_table.get(key)
        at = start if queue is None else index_at(queue, place.physical_offset, start, stop)
        if queue is not None and at < stop and place.resumes_at is not None:
            there = queue.units(at, 1)
            if len(there) and place.physical_offset <= int(there["physical_offset"][0]) < place.resumes_at:
                return False
        is_reached |= (at > start or start <= first) and (at < stop or stop >= end)
    return is_reached
