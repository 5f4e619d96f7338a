"""Write the messages of a store to a file, queue by queue; an interrupted export continues."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...engine.read_only import ReadOnlyStore
from ...store.disk.disk import RealDisk
from ...store.errors import InvalidArgumentError, TopicNotFoundError, UsageError
from ...store.format.light_queues import is_light
from ...store.queue_offsets import QueueKey
from ...store.topic import is_system_topic
from .message_lines import FORMAT, VERSION, encode_line, parse_line

PART_SUFFIX = ".part"
TAIL_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export did."""

    messages: int
    """Written by this call."""
    skipped: int
    """Damaged messages that were passed over."""
    is_continued: bool
    """Whether an interrupted export was continued."""


def export_messages(view: ReadOnlyStore, out: Path, topics: Collection[str] = ()) -> ExportResult:
    """Write the messages of these topics, or of all but RocketMQ's own and light queues, to the new file `out`.

    What the view shows when it begins is written, to `out` with the suffix .part, which becomes `out` when all is
    written and durable. After a kill the same call continues behind the last whole line.

    Raises InvalidArgumentError if `out` is there; TopicNotFoundError; UsageError for another export's .part; OSError.
    """
    if out.exists():
        raise InvalidArgumentError("out", str(out), "a file that is not there: nothing is written over")
    for topic in topics:
        if view.topic(topic) is None and not any(name == topic for name, _ in view.queues()):
            raise TopicNotFoundError(view.path, topic, "it cannot be exported")
    wanted = sorted(topics)
    head = {"format": FORMAT, "version": VERSION, "source": str(view.path.resolve()), "topics": wanted}
    part = out.with_name(out.name + PART_SUFFIX)
    messages, skipped = 0, view.corrupt_skipped
    with part.open("r+b" if part.exists() else "x+b") as file:
        after = _continue_at(file, part, head)
        is_continued = file.tell() > 0
        if not is_continued:
            file.write(json.dumps(head, separators=(",", ":")).encode() + b"\n")
        for (topic, queue_id), first in _queues(view, wanted, after):
            for message in view.read(topic, queue_id, first, on_corrupt="skip"):
                file.write(encode_line(message))
                messages += 1
        file.flush()
        os.fsync(file.fileno())
    disk = RealDisk()
    disk.rename(part, out)
    disk.sync_folder(out.parent)
    return ExportResult(messages, view.corrupt_skipped - skipped, is_continued)


def _queues(
    view: ReadOnlyStore, wanted: Collection[str], after: tuple[str, int, int] | None
) -> Iterator[tuple[QueueKey, int]]:
    """Each queue to write, and the queue offset to begin at."""
    for key, (first, _) in sorted(view.queues().items()):
        topic = key[0]
        if topic not in wanted and (wanted or is_system_topic(topic) or is_light(topic)):
            continue
        if after is None or key > after[:2]:
            yield key, first
        elif key == after[:2]:
            yield key, max(first, after[2] + 1)


def _continue_at(file: BinaryIO, part: Path, head: dict[str, object]) -> tuple[str, int, int] | None:
    """Cut a torn last line off, and go to the end. Returns topic, queue id and queue offset of the last message."""
    line = file.readline()
    if not line.endswith(b"\n"):  # new, or killed before its head was written
        file.seek(0)
        file.truncate()
        return None
    if parse_line(line, str(part)) != head:
        raise UsageError(f"{part}: found an interrupted export of something else; remove it, or name another file")
    end = _end_of_lines(file)
    file.seek(end)
    file.truncate()
    if end == len(line):
        return None
    last = parse_line(_last_line(file, end), str(part))
    file.seek(end)
    return str(last["topic"]), int(last["queueId"]), int(last["queueOffset"])


def _end_of_lines(file: BinaryIO) -> int:
    """The position behind the last newline."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(end - TAIL_SIZE, 0)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_line(file: BinaryIO, end: int) -> bytes:
    """The line whose newline is the last byte before `end`."""
    tail, at = b"", end
    while at and b"\n" not in tail[:-1]:
        start = max(at - TAIL_SIZE, 0)
        file.seek(start)
        tail, at = file.read(at - start) + tail, start
    return tail[tail.rfind(b"\n", 0, -1) + 1 :]
