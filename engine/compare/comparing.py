"""What differs between two stores: settings, topics, queues, messages at each queue offset, and group offsets.

Stores hold the same messages if each queue has the same bounds and the same message at each offset. Where a record is
in the log is not part of that: a copy of the files has it at the same physical offset, a salvaged or imported store has
not. Both stores are read by views: without a lock, and also beside a live writer or broker. Memory: a message of each
store, the tables of queues, and the files of `config/`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

from ...store.arguments import check_flag, check_settings, checked_folder
from ...store.disk.disk import Disk, RealDisk
from ...store.format.crc_property import CRC_PROPERTY
from ...store.format.light_queues import LIGHT_PREFIX
from ...store.queue_offsets import QueueKey
from ...store.settings import StoreSettings
from ...store.stored_message import StoredMessage
from ..read_only import ReadOnlyStore
from .difference import Difference, DifferenceKind
from .state_files import state_differences

FIELDS = ("flag", "sys_flag", "reconsume_times", "born_timestamp_ms", "store_timestamp_ms", "born_host", "store_host")
Bounds = tuple[int, int]


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    settings: StoreSettings | None = None,
    settings_b: StoreSettings | None = None,
    *,
    places: bool = False,
) -> Iterator[Difference]:
    """Yield everything in which store `b` differs from store `a`, both of flightlog or RocketMQ. `settings` open `a`,
    and `b` unless `settings_b` are given.

    Messages are compared where both stores have the queue offset: body, properties, flags, times (in ms) and hosts.
    With `places`, also the physical offset, and so the message id that contains it. Of a light queue (LMQ) only the
    bounds are compared: its messages are in queues of their own topics, too. A damaged message counts as none.

    Reads only, also beside live writers. Raises StoreNotFoundError, ConfigFileError for a state file that cannot be
    read, FileGoneError if a live broker removes old files meanwhile, and DiskError.
    """
    roots = checked_folder("a", a), checked_folder("b", b)
    check_settings(settings)
    check_settings(settings_b)
    check_flag("places", places)
    settings = settings or StoreSettings()
    return _diff(RealDisk(), *roots, settings, settings_b or settings, places=places)


def _diff(
    disk: Disk, a: Path, b: Path, settings: StoreSettings, settings_b: StoreSettings, *, places: bool
) -> Iterator[Difference]:
    with ExitStack() as stack:
        left = stack.enter_context(ReadOnlyStore(a, disk, settings))
        right = stack.enter_context(ReadOnlyStore(b, disk, settings_b))
        yield from view_differences(left, right, places=places)
        yield from state_differences(disk, a, b)


def view_differences(a: ReadOnlyStore, b: ReadOnlyStore, *, places: bool = False) -> Iterator[Difference]:
    """As `diff`, of two views, without their state files."""
    size, other_size = (view.shutdown_state.files.segment_size for view in (a, b))
    if size and other_size and size != other_size:
        yield Difference(DifferenceKind.SETTING, "commitlog", "segment_size", str(size), str(other_size))
    yield from _topic_differences(a, b)
    queues, others = a.queues(), b.queues()
    for key in sorted(queues.keys() | others.keys()):
        bounds, other = queues.get(key), others.get(key)
        yield from _queue_differences(key, bounds, other)
        if bounds is not None and other is not None and not key[0].startswith(LIGHT_PREFIX):
            first, end = max(bounds[0], other[0]), min(bounds[1], other[1])
            yield from _message_differences(a, b, key, (first, end), places=places)


def _topic_differences(a: ReadOnlyStore, b: ReadOnlyStore) -> Iterator[Difference]:
    topics, others = (view.topics(include_system=True) for view in (a, b))
    for name in sorted(topics.keys() | others.keys()):
        topic, other = topics.get(name), others.get(name)
        if topic is None or other is None:
            here, there = (None if each is None else f"{each.queue_count} queues" for each in (topic, other))
            yield Difference(DifferenceKind.TOPIC, name, "", here, there, name)
            continue
        for field in fields(topic):
            of_a, of_b = getattr(topic, field.name), getattr(other, field.name)
            if of_a != of_b:
                yield Difference(DifferenceKind.TOPIC, name, field.name, str(of_a), str(of_b), name)


def _queue_differences(key: QueueKey, a: Bounds | None, b: Bounds | None) -> Iterator[Difference]:
    topic, queue_id = key
    if a is None or b is None:
        here, there = (None if each is None else f"offsets from {each[0]}, below {each[1]}" for each in (a, b))
        yield Difference(DifferenceKind.QUEUE, topic, "", here, there, topic, queue_id)
        return
    for field, of_a, of_b in zip(("first offset", "end offset"), a, b, strict=True):
        if of_a != of_b:
            yield Difference(DifferenceKind.QUEUE, topic, field, str(of_a), str(of_b), topic, queue_id)


def _message_differences(
    a: ReadOnlyStore, b: ReadOnlyStore, key: QueueKey, bounds: Bounds, *, places: bool
) -> Iterator[Difference]:
    """Those of one queue in [first, end)."""
    topic, queue_id = key
    messages, others = (_messages(view, key, bounds) for view in (a, b))
    message, other = next(messages, None), next(others, None)
    while message is not None or other is not None:
        offset = min(each.queue_offset for each in (message, other) if each is not None)
        here, there = (each if each and each.queue_offset == offset else None for each in (message, other))
        for field, of_a, of_b in _fields(here, there, places=places):
            yield Difference(DifferenceKind.MESSAGE, topic, field, of_a, of_b, topic, queue_id, offset)
        message = message if here is None else next(messages, None)
        other = other if there is None else next(others, None)


def _messages(view: ReadOnlyStore, key: QueueKey, bounds: Bounds) -> Iterator[StoredMessage]:
    for message in view.read(*key, bounds[0], on_corrupt="skip") if bounds[0] < bounds[1] else ():
        if message.queue_offset >= bounds[1]:
            return
        yield message


def _fields(
    a: StoredMessage | None, b: StoredMessage | None, *, places: bool
) -> Iterator[tuple[str, str | None, str | None]]:
    """(field, value in A, value in B) of everything that differs."""
    if a is None or b is None:
        yield "", None if a is None else _body_text(a), None if b is None else _body_text(b)
        return
    if a.body != b.body:
        yield "body", _body_text(a), _body_text(b)
    if a.properties_raw != b.properties_raw:
        properties, others = a.properties, b.properties
        for name in sorted(properties.keys() | others.keys()):
            values = properties.get(name), others.get(name)
            if values[0] != values[1] and (places or name != CRC_PROPERTY):  # that one covers the place
                yield f"property {name}", *values
    for field in (*FIELDS, "physical_offset") if places else FIELDS:
        of_a, of_b = getattr(a, field), getattr(b, field)
        if of_a != of_b:
            yield field, str(of_a), str(of_b)


def _body_text(message: StoredMessage) -> str:
    return f"{len(message.body)} bytes, CRC-32 {zlib.crc32(message.body):08X}"
