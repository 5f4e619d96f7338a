"""Which parts of a segment can hold what a query wants, as far as its seal tells.

Store times are not in order in every log: the clock of a RocketMQ broker can be set back. So the times of first and
last records prove nothing, and only a seal that holds the least and the greatest time of each of its blocks leaves out
any. Segments without a seal are read, their records looked at before any column is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...engine.read_only import ReadOnlyStore
from ...store.seal.seal import Seal, read_seal
from ...store.segments.segment import Segment
from ..options.bounds import Bounds


def stretches(
    view: ReadOnlyStore, segment: Segment, start: int, stop: int, bounds: Bounds
) -> Iterator[tuple[int, int]]:
    """The parts of positions [start, stop) of a segment whose records can lie within the bounds. They begin where
    records begin, and end there or at `stop`.

    Raises FileNotFoundError and DiskError.
    """
    places = bounds.physical_offsets
    if bounds.is_nothing or not places.meets(segment.base + start, segment.base + stop):
        return
    is_inside = segment.base + start in places and segment.base + stop - 1 in places
    if is_inside and not bounds.says_topics and bounds.store_times_ms.is_everything:
        yield start, stop
        return
    seal = _sound_seal(view, segment)
    if seal is None:
        yield start, stop
    elif not bounds.says_topics or any(map(bounds.takes_topic, seal.topics)):
        yield from _blocks(seal, start, stop, bounds)


def _sound_seal(view: ReadOnlyStore, segment: Segment) -> Seal | None:
    """The seal of a segment, where it surely says what is there. RocketMQ knows nothing of seals: after it nobody can
    say, until a flightlog opens the store again and drops those of segments that were cut back and filled anew."""
    seal = read_seal(view.log_reader.disk, view.path, segment) if view.shutdown_state.is_ours else None
    return seal if seal is not None and seal.boundaries and seal.boundaries[0] == 0 else None


def _blocks(seal: Seal, start: int, stop: int, bounds: Bounds) -> Iterator[tuple[int, int]]:
    """Neighbouring blocks together."""
    ends = [*seal.boundaries[1:], seal.segment_size]
    begun: int | None = None
    for i, (first, last) in enumerate(zip(seal.boundaries, ends, strict=True)):
        first, last = max(first, start), min(last, stop)
        if first >= last:
            continue
        is_wanted = bounds.physical_offsets.meets(seal.base + first, seal.base + last)
        if is_wanted and seal.store_times_ms:
            least, greatest = seal.store_times_ms[i]
            is_wanted = bounds.store_times_ms.meets(least, greatest + 1)
        if is_wanted:
            begun = first if begun is None else begun
        elif begun is not None:
            yield begun, first
            begun = None
    if begun is not None:
        yield begun, stop
