"""Resolves the options that select queues, offsets and times against a store.

The conventions are those of Spark's Kafka source: topics by name, by pattern, or queue by queue, or everything; each
queue from and to an offset, or the first message at or after a time.

Invariants:
- A queue is read as the view shows it: up to the last visible message, without deleted topics.
- Offsets that a queue no longer has are reported (`failOnDataLoss`), never skipped silently.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import search_offset
from ...store.errors import ConfigFileError, InvalidSettingsError
from ...store.format.light_queues import is_light
from ...store.queue_offsets import QueueKey
from ...store.topic import MAX_ROUTED_QUEUES, Topic
from ..options.bounds import NO_BOUNDS, Bounds
from ..options.data_loss import Losses
from ..options.read_options import EARLIEST, LATEST, Assigned, Offsets, Position, ReadOptions, Times, Topics

log = logging.getLogger("flightlog.spark")

QueueSpans = dict[QueueKey, tuple[int, int]]
"""By topic and queue id: queue offsets [first, end)."""

NAMES_TOLD = 10


def selected_queues(view: ReadOnlyStore, options: ReadOptions) -> QueueSpans:
    """The queues of the view that are selected, each with the span of its offsets; (0, 0) for queues of known topics
    without messages."""
    spans = view.queues()
    for name, topic in _topics(view).items():
        for queue_id in range(min(topic.queue_count, MAX_ROUTED_QUEUES)):  # further ones once they hold something
            spans.setdefault((name, queue_id), (0, 0))
    return {key: span for key, span in sorted(spans.items()) if options.takes(key)}


def selected_spans(view: ReadOnlyStore, options: ReadOptions, losses: Losses) -> QueueSpans | None:
    """The spans of this store's queues that a batch query reads, empty ones included; None if it scans the log.
    Offsets that are not in their queues are added to `losses`.

    Raises InvalidSettingsError if offsets or times are not given for exactly the queues that are read, or no message is
    as late as a starting time.
    """
    if options.reads_the_log:
        return None
    known = selected_queues(view, options)
    starts = starting_offsets(view, options, known, options.starting or "earliest", losses)
    stops = _offsets(view, known, options.ending or "latest", losses, needs_message=False)
    return {key: (starts[key], stops[key]) for key in known}


def starting_offsets(
    view: ReadOnlyStore, options: ReadOptions, known: QueueSpans, starting: Position, losses: Losses
) -> dict[QueueKey, int]:
    """The queue offset at which to start each known queue, within its span. Raises as `selected_spans`."""
    return _offsets(view, known, starting, losses, needs_message=options.unmatched == "error")


def _offsets(
    view: ReadOnlyStore, known: QueueSpans, position: Position, losses: Losses, *, needs_message: bool
) -> dict[QueueKey, int]:
    if isinstance(position, Offsets) or (isinstance(position, Times) and position.by_queue is not None):
        _check_names(position, known)
    found: dict[QueueKey, int] = {}
    for key, (first, end) in known.items():
        match position:
            case "earliest":
                found[key] = first
            case "latest":
                found[key] = end
            case Offsets():
                found[key] = _offset_in(view, key, (first, end), position, losses)
            case Times():
                # Where nothing was ever put there is nothing to miss.
                found[key] = _first_at(view, key, (first, end), position, needs_message) if end else 0
    return found


def _first_at(view: ReadOnlyStore, key: QueueKey, span: tuple[int, int], position: Times, needs_message: bool) -> int:
    asked_ms = position.of(key)
    found = view.offset_at(*key, asked_ms)
    if found == span[1] and needs_message:
        raise InvalidSettingsError(
            f"{position.option}: {view.path}: topic {key[0]} queue {key[1]} has no message stored at or after "
            f"{asked_ms} ms; expected an earlier time, or startingOffsetsByTimestampStrategy=latest, which begins "
            "behind the last one"
        )
    return max(found, span[0])


def _offset_in(view: ReadOnlyStore, key: QueueKey, span: tuple[int, int], position: Offsets, losses: Losses) -> int:
    first, end = span
    asked = position.by_queue.get(key, LATEST)  # without one only where nothing was ever put
    if asked == EARLIEST:
        return first
    if asked == LATEST:
        return end
    if not first <= asked <= end:
        held = f"which holds offsets {first} to {end}"
        losses.add(f"{position.option}: {view.path}: offset {asked} of topic {key[0]} queue {key[1]}, {held}")
    return min(max(asked, first), end)


def _check_names(position: Offsets | Times, known: QueueSpans) -> None:
    assert position.by_queue is not None
    held = {key for key, (_, end) in known.items() if end > 0}
    for wrong, said in ((held - position.by_queue.keys(), "lacks"), (position.by_queue.keys() - known.keys(), "names")):
        if wrong:
            raise InvalidSettingsError(
                f"{position.option}: {said} {_keys_text(wrong)}; expected every queue that is read and no other: "
                f"{_keys_text(known)}. -2 is the earliest offset, -1 the latest"
            )


def _keys_text(keys: Iterable[QueueKey]) -> str:
    """The first NAMES_TOLD queues as text."""
    told = [f"{topic} queue {queue_id}" for topic, queue_id in sorted(keys)]
    more = f" and {len(told) - NAMES_TOLD} more" if len(told) > NAMES_TOLD else ""
    return (", ".join(told[:NAMES_TOLD]) or "none") + more


def _topics(view: ReadOnlyStore) -> dict[str, Topic]:
    """The store's topics; empty if their file is unreadable: queues with messages are known without it."""
    try:
        return view.topics(include_system=True)
    except ConfigFileError as e:
        log.warning("%s; topics without messages are not known", e, extra={"path": str(e.path)})
        return {}


def require_known(options: ReadOptions, views: Iterable[ReadOnlyStore]) -> None:
    """Raises InvalidSettingsError for a topic or a queue that is given by name and is in none of the stores."""
    looked_at = list(views)
    missing = set.intersection(*(_missing(view, options) for view in looked_at)) if looked_at else set()
    if missing:
        topics = sorted({name for view in looked_at for name, topic in _topics(view).items() if not topic.is_system})
        more = " ..." if len(topics) > NAMES_TOLD else ""
        raise InvalidSettingsError(
            f"{', '.join(sorted(missing))}: not in {', '.join(str(view.path) for view in looked_at)}; "
            f"found topics {', '.join(topics[:NAMES_TOLD])}{more}"
        )


def _missing(view: ReadOnlyStore, options: ReadOptions) -> set[str]:
    """The topics and queues that are given by name and are not in this store."""
    match options.subscription:
        case Topics(names):
            return set(names) - {topic for topic, _ in selected_queues(view, options)} - _topics(view).keys()
        case Assigned(keys):
            return {f"{topic} queue {queue_id}" for topic, queue_id in keys - selected_queues(view, options).keys()}
    return set()


def narrowed(view: ReadOnlyStore, spans: QueueSpans, bounds: Bounds = NO_BOUNDS) -> QueueSpans:
    """The parts of these spans that can be within the bounds, by the places of entries; no empty span."""
    found: QueueSpans = {}
    for key, (start, stop) in spans.items():
        topic, queue_id = key
        if not is_light(topic):  # its messages have the topics, ids and offsets of other queues
            if not bounds.takes_topic(topic) or queue_id not in bounds.queue_ids:
                continue
            start, stop = max(start, bounds.queue_offsets.start), min(stop, bounds.queue_offsets.stop)
        queue = view.queue_table.get(key)
        if queue is not None and start < stop and not bounds.physical_offsets.is_everything:
            start = index_at(queue, bounds.physical_offsets.start, start, stop)
            stop = index_at(queue, bounds.physical_offsets.stop, start, stop)
        if start < stop:
            found[key] = start, stop
    return found


def index_at(queue: Queue, physical_offset: int, low: int, high: int) -> int:
    """The first queue offset in [low, high) of a record at or behind `physical_offset`, or `high`."""
    if isinstance(queue, BatchQueue):
        return min(max(queue.first_at_or_after(physical_offset), low), high)
    return search_offset(queue.units, physical_offset, low, high)
