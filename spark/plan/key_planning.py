"""Single records in place of the log: what a query by key reads, as far as the key index knows all of them.

The index may name records that have another key, or are none; never does it leave one out of the part of the log that
it covers. What it does not cover a view reads when it is asked for a key, so where that is much, the log is scanned by
tasks instead.
"""

from __future__ import annotations

from itertools import product

from ...engine.read_only import ReadOnlyStore
from ...index.key.index_file import key_hash
from ...index.queue.batch_queue import BatchQueue
from ...store.errors import CorruptRecordError
from ...store.format.light_queues import is_light
from ..options.bounds import Bounds
from ..options.options import ReadOptions
from ..remote.locations import StoreLocation
from .planning import LogRange

MOST_RECORDS = 1000
"""A range each, read one by one."""
MOST_QUESTIONS = 1000
"""Keys times topics: the index knows a key only together with its topic."""
UNINDEXED_SIZE = 64 << 20
"""Bytes of the log that are read for the keys that no index file has."""


def records_with_keys(
    view: ReadOnlyStore, location: StoreLocation, options: ReadOptions, bounds: Bounds
) -> list[LogRange] | None:
    """All records that can hold a message within the bounds, by its key, in the order of the log; None where the index
    does not tell."""
    keys = bounds.uniq_keys if bounds.uniq_keys is not None else bounds.keys
    disk = view.log_reader.disk
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
        return None  # a scan tells what is damaged


def _is_plain(view: ReadOnlyStore, topic: str) -> bool:
    """Whether each message of a topic is a record of its own: the index does not know the keys of others. And whether
    it is no light queue's name, under which records of other topics are listed."""
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
