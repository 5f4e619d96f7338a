"""Make a new store out of messages that keep their queue offsets and store times: for imports and restored exports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ...store import native
from ...store.arguments import check_settings, checked_folder
from ...store.disk.disk import RealDisk
from ...store.errors import EXIT_REFUSED, FlightlogError
from ...store.format.crc_property import EMPTY, put_crc_property
from ...store.format.record import prepare
from ...store.message import Message
from ...store.queue_offsets import QueueKey
from ...store.segments.log_files import COMMIT_LOG_FOLDER
from ...store.settings import DEFAULT_SEGMENT_SIZE, StoreSettings
from ..message_store import MessageStore
from .new_log import NewLog

PART_SUFFIX = ".part"


class KeptOffsetsError(FlightlogError):
    """A message cannot have the queue offset that it had: the store is not empty, or messages before it are missing."""

    exit_code = EXIT_REFUSED


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message, and what it was in the store that it comes from."""

    where: str
    """In words: a line of a file, or queue and offset."""
    message: Message
    queue_offset: int
    store_timestamp_ms: int
    store_host: tuple[str, int]


def check_is_new(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The folder of a store to make, and the one that it is made in. Raises KeptOffsetsError unless it is empty or not
    there."""
    root, disk = checked_folder("path", path), RealDisk()
    part = root.with_name(root.name + PART_SUFFIX)
    if disk.exists(root) and disk.list(root):
        raise KeptOffsetsError(f"{root}: found a folder with content; queue offsets are kept in a new store alone")
    if disk.exists(part):
        raise KeptOffsetsError(f"{part}: found what an interrupted call left; remove it")
    return root, part


def make_store(
    path: str | os.PathLike[str], messages: Iterable[KeptMessage], settings: StoreSettings | None = None
) -> dict[str, int]:
    """Make the store `path`, which is empty or does not exist, of these messages in their order, which is that of its
    log. Each keeps its queue, queue offset, store time and hosts. Physical offsets are new, and so are message ids.
    Returns the messages of each topic.

    The store is there, durable, when this returns; until then it is `path` with the suffix .part, and after an error
    there is neither. Raises KeptOffsetsError for a folder that has something, and for a queue with a gap;
    InvalidMessageError; DiskError; what `messages` raises.
    """
    root, part = check_is_new(path)
    check_settings(settings)
    settings, disk = settings or StoreSettings(), RealDisk()
    size = settings.segment_size or DEFAULT_SEGMENT_SIZE
    settings = replace(settings, segment_size=size, commit_log_folders=(), commit_log_read_only_folders=())
    try:
        log = NewLog(disk, part / COMMIT_LOG_FOLDER, size, 0)
        try:
            counts = _write(log, messages, replace(settings, multi_dispatch=False))
            log.finish()
        finally:
            log.close()
        once = replace(settings, deliver_delayed=False, accept_future_store_time=True)
        MessageStore.open(part, once).close()  # recovery builds what is derived
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    disk.rename(part, root)
    disk.sync_folder(root.parent)
    return counts


def _write(log: NewLog, messages: Iterable[KeptMessage], settings: StoreSettings) -> dict[str, int]:
    counts: dict[str, int] = {}
    ends: dict[QueueKey, int] = {}
    with_host = lru_cache(lambda host: replace(settings, store_host=host))
    for each in messages:
        key = each.message.topic, each.message.queue_id or 0
        expected = ends.get(key, each.queue_offset)
        if each.queue_offset != expected:
            raise KeptOffsetsError(
                f"{each.where}: topic {key[0]}, queue {key[1]}: found queue offset {each.queue_offset}, expected "
                f"{expected}: a queue has no gaps. Import all messages of the queue in their order, or let them get "
                "new offsets"
            )
        ends[key] = expected + 1
        log.append(_record(log, each, with_host(each.store_host)))
        counts[key[0]] = counts.get(key[0], 0) + 1
    return counts


def _record(log: NewLog, each: KeptMessage, settings: StoreSettings) -> bytes:
    assert settings.segment_size
    made = prepare(each.message, settings, settings.segment_size)
    has_crc = settings.append_crc_property
    record = bytearray(made.size)
    native.encode_record(
        record,
        0,
        made.magic,
        made.queue_id,
        made.flag,
        each.queue_offset,
        log.place(made.size),
        made.sys_flag,
        each.store_timestamp_ms if made.born_timestamp_ms is None else made.born_timestamp_ms,
        made.born_host,
        each.store_timestamp_ms,
        made.store_host,
        made.reconsume_times,
        made.prepared_transaction_offset,
        made.body,
        made.topic_raw,
        made.properties_raw + (EMPTY if has_crc else b""),
    )
    if has_crc:
        put_crc_property(record)
    return bytes(record)
