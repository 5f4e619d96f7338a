"""Which queues of a store are read, and between which offsets or times.

The conventions are those of Spark's Kafka source: topics by name, by pattern, or queue by queue, or everything; each
queue from and to an offset, or the first message at or after a time. `selection_options.py` has the words for it.

Invariants:
- A queue is read as it stands in the view: up to what is visible, without deleted topics.
- Offsets that a queue does not hold are told (`failOnDataLoss`), never passed over silently.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ...engine.read_only import ReadOnlyStore
from ...index.queue.batch_queue import BatchQueue
from ...index.queue.queue_table import Queue
from ...index.queue.queue_unit import search_offset
from ...store.errors import ConfigFileError, InvalidSettingsError
from ...store.format.light_queues import LIGHT_PREFIX, is_light
from ...store.queue_offsets import QueueKey
from ...store.topic import MAX_ROUTED_QUEUES, Topic
from .bounds import GREATEST, LEAST, NO_BOUNDS, Bounds, Span
from .data_loss import Losses
from .visibility import is_internal

log = logging.getLogger("flightlog.spark")

EARLIEST, LATEST = -2, -1
"""In place of an offset: the first message, and behind the last one."""

Edge = Literal["earliest", "latest"]
Unmatched = Literal["error", "latest"]
QueueSpans = dict[QueueKey, tuple[int, int]]
"""By topic and queue id: the first queue offset, and the one behind the last."""

NAMES_TOLD = 10


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each queue."""

    option: str
    """How it was asked for; refusals say it."""
    by_queue: Mapping[QueueKey, int]


@dataclass(frozen=True, slots=True)
class Times:
    """A store time in ms, for each queue or one for all: the first message at or after it."""

    option: str
    by_queue: Mapping[QueueKey, int] | None
    for_all_ms: int = 0

    def of(self, key: QueueKey) -> int:
        return self.for_all_ms if self.by_queue is None else self.by_queue[key]


Position = Edge | Offsets | Times


@dataclass(frozen=True, slots=True)
class Topics:
    """`subscribe`: all queues of these topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """`subscribePattern`: all queues of the topics whose whole name matches."""

    regex: str

    def matches(self, topic: str) -> bool:
        if is_light(topic) and not self.regex.startswith(LIGHT_PREFIX):
            return False  # light queues hold messages of other topics once more: nobody who writes .* means them
        return re.fullmatch(self.regex, topic) is not None


@dataclass(frozen=True, slots=True)
class Assigned:
    """`assign`: these queues."""

    keys: frozenset[QueueKey]


@dataclass(frozen=True, slots=True)
class Selection:
    """What the options say. All of it can be pickled."""

    subscription: Topics | Pattern | Assigned | None = None
    """None: everything."""
    starting: Position | None = None
    """None: as the kind of query has it, earliest for a batch and latest for a stream."""
    ending: Position | None = None
    unmatched: Unmatched = "error"
    """What becomes of a queue without a message at or after its starting time."""
    fail_on_data_loss: bool = True
    include_internal: bool = False

    def queues(self, view: ReadOnlyStore) -> QueueSpans:
        """The queues of this selection that the view has, each with what it holds; (0, 0) for those that the store's
        topics have and nothing was ever put to."""
        spans = view.queues()
        for name, topic in _topics(view).items():
            for queue_id in range(min(topic.queue_count, MAX_ROUTED_QUEUES)):  # further ones once they hold something
                spans.setdefault((name, queue_id), (0, 0))
        return {key: span for key, span in sorted(spans.items()) if self.takes(key)}

    def takes(self, key: QueueKey) -> bool:
        """Whether a queue of this name is read, if it is there."""
        topic, _ = key
        match self.subscription:
            case Topics(names):
                return topic in names
            case Assigned(keys):
                return key in keys
            case Pattern():
                return self.subscription.matches(topic) and self._shows(topic)
        return not is_light(topic) and self._shows(topic)

    def _shows(self, topic: str) -> bool:
        return self.include_internal or not is_internal(topic.encode("utf-8", "surrogatepass"))

    def missing(self, view: ReadOnlyStore) -> set[str]:
        """The topics and queues that were asked for by name and are not in this store."""
        match self.subscription:
            case Topics(names):
                return set(names) - {topic for topic, _ in self.queues(view)} - _topics(view).keys()
            case Assigned(keys):
                return {f"{topic} queue {queue_id}" for topic, queue_id in keys - self.queues(view).keys()}
        return set()

    @property
    def bounds(self) -> Bounds:
        """Between which times records of the log are read."""
        if not self.reads_the_log:
            return NO_BOUNDS
        since, before = (
            position.for_all_ms if isinstance(position, Times) else None for position in (self.starting, self.ending)
        )
        return Bounds(
            store_times_ms=Span(LEAST if since is None else since, GREATEST + 1 if before is None else before)
        )

    @property
    def reads_the_log(self) -> bool:
        """Whether everything is read, and nothing said by queue: then records are read as they lie."""
        by_queue = (self.starting, self.ending)
        return self.subscription is None and not any(
            isinstance(position, Offsets) or (isinstance(position, Times) and position.by_queue is not None)
            for position in by_queue
        )

    @property
    def says_what_is_there(self) -> bool:
        """Whether it names topics, queues, offsets or times, and is refused where they are not there."""
        positions = () if self.reads_the_log else (self.starting, self.ending)
        names_places = any(isinstance(position, Offsets | Times) for position in positions)
        return names_places or isinstance(self.subscription, Topics | Assigned)

    def resolve(self, view: ReadOnlyStore, losses: Losses) -> QueueSpans | None:
        """What a batch query reads of this store's queues, those included of which that is nothing; None where it reads
        the log. Offsets that are not in their queues go to `losses`.

        Raises InvalidSettingsError where offsets or times are not given for exactly the queues that are read, or no
        message is as late as a starting time.
        """
        if self.reads_the_log:
            return None
        known = self.queues(view)
        starts = self.offsets(view, known, self.starting or "earliest", losses, is_start=True)
        stops = self.offsets(view, known, self.ending or "latest", losses, is_start=False)
        return {key: (starts[key], stops[key]) for key in known}

    def offsets(
        self, view: ReadOnlyStore, known: QueueSpans, position: Position, losses: Losses, *, is_start: bool
    ) -> dict[QueueKey, int]:
        """The queue offset of a position in each of the known queues, within what these hold. Raises as `resolve`."""
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
                    found[key] = self._first_at(view, key, (first, end), position, is_start) if end else 0
        return found

    def _first_at(
        self, view: ReadOnlyStore, key: QueueKey, span: tuple[int, int], position: Times, is_start: bool
    ) -> int:
        asked_ms = position.of(key)
        found = view.offset_at(*key, asked_ms)
        if found == span[1] and is_start and self.unmatched == "error":
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


EVERYTHING = Selection()


def _check_names(position: Offsets | Times, known: QueueSpans) -> None:
    assert position.by_queue is not None
    held = {key for key, (_, end) in known.items() if end > 0}
    for wrong, said in ((held - position.by_queue.keys(), "lacks"), (position.by_queue.keys() - known.keys(), "names")):
        if wrong:
            raise InvalidSettingsError(
                f"{position.option}: {said} {tell_keys(wrong)}; expected every queue that is read and no other: "
                f"{tell_keys(known)}. -2 is the earliest offset, -1 the latest"
            )


def _topics(view: ReadOnlyStore) -> dict[str, Topic]:
    """The store's topics; none where their file cannot be read: what holds messages is known without it."""
    try:
        return view.topics(include_system=True)
    except ConfigFileError as e:
        log.warning("%s; topics without messages are not known", e, extra={"path": str(e.path)})
        return {}


def tell_keys(keys: Iterable[QueueKey]) -> str:
    """A few queues in words."""
    told = [f"{topic} queue {queue_id}" for topic, queue_id in sorted(keys)]
    more = f" and {len(told) - NAMES_TOLD} more" if len(told) > NAMES_TOLD else ""
    return (", ".join(told[:NAMES_TOLD]) or "none") + more


def narrowed(view: ReadOnlyStore, spans: QueueSpans, bounds: Bounds = NO_BOUNDS) -> QueueSpans:
    """What of these queues can lie within the bounds, as far as the places of entries tell; no empty span."""
    found: QueueSpans = {}
    for key, (start, stop) in spans.items():
        topic, queue_id = key
        if not is_light(topic):  # what its messages say of themselves is about other queues
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


def require_known(selection: Selection, views: Iterable[ReadOnlyStore]) -> None:
    """Raises InvalidSettingsError for a topic or a queue that was asked for by name and is in none of the stores."""
    looked_at = list(views)
    missing = set.intersection(*(selection.missing(view) for view in looked_at)) if looked_at else set()
    if missing:
        topics = sorted({name for view in looked_at for name, topic in _topics(view).items() if not topic.is_system})
        more = " ..." if len(topics) > NAMES_TOLD else ""
        raise InvalidSettingsError(
            f"{', '.join(sorted(missing))}: not in {', '.join(str(view.path) for view in looked_at)}; "
            f"found topics {', '.join(topics[:NAMES_TOLD])}{more}"
        )
