"""A commit log read without the store: its files, frame by frame, as RocketMQ's format has them.

Nothing here is shared with the package. Reading ends at the first bytes that are no whole frame: behind a power cut
that is the torn tail, and whatever must be there must stand before it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
COMPRESSED, BORN_V6, STORED_V6, INNER_BATCH = 0x1, 0x10, 0x20, 0x80
FIXED = struct.Struct(">iIiiiqqiq")
"""Size, magic, body CRC, queue id, flag, queue offset, physical offset, sysFlag, born time."""
INNER = struct.Struct(">iiiii")
"""Size, 0, 0, flag, body size."""
HOST_SIZES = 8, 20


class Frame(NamedTuple):
    """One message. Of an inner batch, the one at `place`."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    place: int
    body: bytes


@dataclass
class Log:
    """A whole log."""

    start: int = 0
    end: int = 0
    last_base: int = 0
    """Where the last file begins that holds a frame."""
    frames: dict[tuple[int, int], Frame] = field(default_factory=dict)
    """By physical offset and place."""
    tail_is_zero: bool = True
    """Whether nothing stands behind the last frame."""


def read_log(folder: Path) -> Log:
    log = Log()
    paths = sorted(path for path in folder.glob("*") if len(path.name) == 20 and path.stat().st_size)
    is_over = False
    for number, path in enumerate(paths):
        raw, base = path.read_bytes(), int(path.name)
        if number == 0:
            log.start = log.end = log.last_base = base
        if is_over or base != (log.end if number else base):
            log.tail_is_zero = log.tail_is_zero and not any(raw)
            is_over = True
            continue
        position = 0
        while (size := _frame_size(raw, position, base)) is not None:
            for frame in _messages(raw[position : position + size], base + position):
                log.frames[frame.physical_offset, frame.place] = frame
            position += size
            log.last_base = base
        if len(raw) - position >= 8 and struct.unpack_from(">iI", raw, position) == (len(raw) - position, BLANK):
            log.end = base + len(raw)
            continue
        log.end, is_over = base + position, True
        log.tail_is_zero = not any(raw[position:])
    return log


def _parts(raw: bytes, start: int) -> tuple[int, int, int, int]:
    """Where the body of the frame at `start` begins and how long it is; the same of its topic."""
    (_, magic, *_, sys_flag, _) = FIXED.unpack_from(raw, start)
    at = start + 48 + HOST_SIZES[bool(sys_flag & BORN_V6)] + 8 + HOST_SIZES[bool(sys_flag & STORED_V6)] + 12
    body_size = struct.unpack_from(">i", raw, at)[0]
    topic_at = at + 4 + max(body_size, 0)
    size_of_topic, width = (struct.unpack_from(">h", raw, topic_at)[0], 2) if magic == V2 else (raw[topic_at], 1)
    return at + 4, body_size, topic_at + width, size_of_topic


def _frame_size(raw: bytes, start: int, base: int) -> int | None:
    """How long the frame at this position is; None if there is no whole one."""
    if start + FIXED.size > len(raw):
        return None
    size, magic, crc, *_, physical_offset, _, _ = FIXED.unpack_from(raw, start)
    if magic not in (V1, V2) or not 91 <= size <= len(raw) - start or physical_offset != base + start:
        return None
    try:
        body_at, body_size, topic_at, topic_size = _parts(raw, start)
        properties_size = struct.unpack_from(">h", raw, topic_at + topic_size)[0]
    except (struct.error, IndexError):
        return None
    if body_size < 0 or topic_at + topic_size + 2 + properties_size != start + size:
        return None
    return size if zlib.crc32(raw[body_at : body_at + body_size]) & 0x7FFFFFFF == crc else None


def _messages(raw: bytes, physical_offset: int) -> Iterator[Frame]:
    """The messages of one whole frame."""
    _, _, _, queue_id, _, queue_offset, _, sys_flag, _ = FIXED.unpack_from(raw)
    body_at, body_size, topic_at, topic_size = _parts(raw, 0)
    topic, body = raw[topic_at : topic_at + topic_size].decode(), raw[body_at : body_at + body_size]
    if not sys_flag & INNER_BATCH:
        body = zlib.decompress(body) if sys_flag & COMPRESSED else body
        yield Frame(topic, queue_id, queue_offset, physical_offset, 0, body)
        return
    at = place = 0
    while at < len(body):
        size, _, _, _, inner_size = INNER.unpack_from(body, at)
        inner = body[at + INNER.size : at + INNER.size + inner_size]
        yield Frame(topic, queue_id, queue_offset + place, physical_offset, place, inner)
        at, place = at + size, place + 1
