"""A stream over some topics: its position is an offset for each of their queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...engine.read_only import ReadOnlyStore
from ...store.queue_offsets import QueueKey
from ..options.data_loss import Losses
from ..options.read_options import ReadOptions
from ..options.stores import StoreLocation
from ..plan.log_planning import LogRange, packed
from ..plan.queue_planning import QueueRange, lost_to_queues, plan_chosen
from ..plan.selection import selected_queues, starting_offsets
from .stream_offsets import Place, QueuePlaces


@dataclass(frozen=True, slots=True)
class QueueStream:
    """What a stream over topics asks of one store: the methods of LogStream, which has their docstrings."""

    options: ReadOptions
    place_type: ClassVar[type[Place]] = QueuePlaces

    def begin(self, view: ReadOnlyStore, losses: Losses) -> QueuePlaces:
        known, position = selected_queues(view, self.options), self.options.starting or "latest"
        offsets = starting_offsets(view, self.options, known, position, losses)
        return QueuePlaces(offsets, view.end_physical_offset)

    def earliest(self, view: ReadOnlyStore) -> QueuePlaces:
        starts = {key: start for key, (start, _) in selected_queues(view, self.options).items()}
        return QueuePlaces(starts, view.end_physical_offset)

    def latest(self, view: ReadOnlyStore) -> QueuePlaces:
        ends = {key: end for key, (_, end) in selected_queues(view, self.options).items()}
        return QueuePlaces(ends, view.end_physical_offset)

    def log_end(self, place: QueuePlaces) -> int:
        return place.log_end

    def is_ahead(self, view: ReadOnlyStore, place: QueuePlaces) -> bool:
        return bool(self._ahead(view, place))

    def ahead_text(self, view: ReadOnlyStore, place: QueuePlaces) -> str:
        return "; ".join(self._ahead(view, place))

    def _ahead(self, view: ReadOnlyStore, place: QueuePlaces) -> list[str]:
        queues, found = selected_queues(view, self.options), list[str]()
        for key, offset in place.offsets.items():
            _, end = queues.get(key, (0, 0))
            may_come = key in queues or _shows_less(view, place)
            if offset > end and may_come and self.options.takes(key) and not _was_deleted(view, key, place):
                found.append(f"offset {offset} of topic {key[0]} queue {key[1]}, and it ends at {end}")
        return found

    def kept(self, view: ReadOnlyStore, place: QueuePlaces, losses: Losses) -> QueuePlaces:
        """Drops queues that are no longer selected, and adds new ones at their first message."""
        queues, offsets = selected_queues(view, self.options), dict[QueueKey, int]()
        for key, offset in place.offsets.items():
            told = f"{view.path}: topic {key[0]} queue {key[1]}"
            if not self.options.takes(key):
                continue
            if key not in queues and not _shows_less(view, place):
                losses.add(f"{told}, which no longer exists")
                continue
            start, _ = queues.get(key, (0, 0))
            if _was_deleted(view, key, place) and offset != start:
                losses.add(f"{told} from offset {offset} on, which was deleted with its topic; there is a new one")
                offset = start
            elif offset < start:
                losses.add(f"{told}, offsets {offset} to {start}")
                offset = start
            offsets[key] = offset
        for key, (start, end) in queues.items():
            if key not in offsets and start < end:
                if start > 0:
                    losses.add(f"{view.path}: topic {key[0]} queue {key[1]}, offsets 0 to {start} of a new queue")
                offsets[key] = start
        return place if offsets == place.offsets else QueuePlaces(offsets, place.log_end)

    def backlog(self, place: QueuePlaces, last: QueuePlaces) -> int:
        return sum(_waiting(place, last).values())

    def advance(self, view: ReadOnlyStore, place: QueuePlaces, last: QueuePlaces, limit: int | None) -> QueuePlaces:
        waiting = _waiting(place, last)
        total = sum(waiting.values())
        if not total:
            return place
        offsets = dict(place.offsets)
        for key, count in waiting.items():
            share = share_of(limit, count, total)
            offsets[key] += count if share is None else min(count, share)
        return QueuePlaces(offsets, view.end_physical_offset)

    def plan(
        self, view: ReadOnlyStore, location: StoreLocation, start: QueuePlaces, stop: QueuePlaces
    ) -> list[tuple[LogRange | QueueRange, ...]]:
        spans = {
            key: (start.offsets[key], end)
            for key, end in stop.offsets.items()
            if start.offsets.get(key, end) < end and not _was_deleted(view, key, stop)
        }
        sizes = self.options.split_bytes, self.options.min_partitions
        chosen = plan_chosen(view, location, spans, self.options, *sizes)
        return [*chosen, *packed(lost_to_queues(view, location, spans), self.options.split_bytes)]


def _shows_less(view: ReadOnlyStore, place: QueuePlaces) -> bool:
    """Whether the view ends before the log ended when the place was recorded."""
    return view.end_physical_offset < place.log_end


def _was_deleted(view: ReadOnlyStore, key: QueueKey, place: QueuePlaces) -> bool:
    """Whether the topic was deleted since the place was recorded, or before: then its messages are gone. (A place that
    was recorded after the deletion has offsets of 0.)"""
    return view.deleted_topics.below(key[0]) >= max(place.log_end, 1)


def _waiting(place: QueuePlaces, last: QueuePlaces) -> dict[QueueKey, int]:
    """The number of messages of each queue between two places."""
    return {
        key: last.offsets[key] - offset
        for key, offset in place.offsets.items()
        if last.offsets.get(key, offset) > offset
    }


def share_of(limit: int | None, backlog: int, total: int) -> int | None:
    """The share of a limit for one of several queues or stores: proportional to its backlog, but at least 1, so that a
    small one does not starve. None without a limit.

    The shares exceed the limit in total if it is less than the number of queues or stores with a backlog.
    """
    if limit is None or total == 0:
        return limit
    return max(limit * backlog // total, 1)
