"""How far the timers have come: RocketMQ's `config/timercheck`, and behind its words what we note for ourselves.

    at   word                        width
    0    lastReadTimeMs              i64  ms: every second before it has been delivered
    8    lastTimerLogFlushPos        i64  the timer log is durable up to here
    16   lastTimerQueueOffset        i64  of the timer topic: the messages before it are on the wheel
    24   masterTimerQueueOffset      i64  the same; RocketMQ takes the lesser of the two
    32   dataVersion.stateVersion    i64
    40   dataVersion.timestamp       i64  ms
    48   dataVersion.counter         i64
    56   ours: count                 i32
    60   ours: CRC-32                u32  over bytes 0 to 60, and all moments
    64   ours: moments               24 each, the newest first: end of the commit log, lastReadTimeMs, queue offset
         zeros to 4096

A moment records the progress at a length of the commit log. If the log lost its tail, deliveries in that tail are lost,
and RocketMQ's words claim too much: then the newest moment within the log counts. RocketMQ preserves the bytes behind
its own words; our CRC detects whether it has changed its words since.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from ..store.disk.config_file import CONFIG_FOLDER
from ..store.disk.disk import Disk
from ..store.settings import PAGE_SIZE

TIMER_CHECKPOINT_FILE: Final = "timercheck"
WORDS: Final = struct.Struct(">7q")
NOTE: Final = struct.Struct(">iI")
MOMENT: Final = struct.Struct(">3q")
assert WORDS.size == 56
assert WORDS.size + NOTE.size == 64
MAX_MOMENTS: Final = (PAGE_SIZE - 64) // MOMENT.size
OLDEST_MOMENT_MS: Final = 6 * 86_400_000
"""The timer log is kept for a little longer than these cover."""


class Moment(NamedTuple):
    """Progress that was durable when the commit log ended at `log_end`."""

    log_end: int
    read_time_ms: int
    queue_offset: int


@dataclass(frozen=True, slots=True)
class TimerCheckpoint:
    """RocketMQ's words, and our moments, the newest first; no moments if RocketMQ wrote last."""

    read_time_ms: int = 0
    timer_log_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0
    moments: tuple[Moment, ...] = field(default=())

    def encode(self) -> bytes:
        """The whole file: 4096 bytes."""
        words = WORDS.pack(
            self.read_time_ms,
            self.timer_log_position,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp_ms,
            self.counter,
        )
        moments = b"".join(MOMENT.pack(*moment) for moment in self.moments)
        count = len(self.moments).to_bytes(4)
        return (words + count + zlib.crc32(words + count + moments).to_bytes(4) + moments).ljust(PAGE_SIZE, b"\0")

    def next(self, moment: Moment, timer_log_position: int, now_ms: int) -> TimerCheckpoint:
        """The next checkpoint, with this moment added."""
        kept = [old for old in self.moments if old.log_end < moment.log_end]
        kept = [old for old in kept if old.read_time_ms > moment.read_time_ms - OLDEST_MOMENT_MS]
        if len(kept) >= MAX_MOMENTS:  # the older, the further apart
            half = MAX_MOMENTS // 2
            kept[half:] = kept[: half - 1 : -2][::-1]  # the oldest stays
        return replace(
            self,
            read_time_ms=moment.read_time_ms,
            timer_log_position=timer_log_position,
            queue_offset=moment.queue_offset,
            master_queue_offset=moment.queue_offset,
            timestamp_ms=now_ms,
            counter=self.counter + 1,
            moments=(moment, *kept),
        )

    def moment_within(self, log_end: int) -> Moment | None:
        """The newest moment whose part of the log still exists."""
        return next((moment for moment in self.moments if moment.log_end <= log_end), None)


def decode_timer_checkpoint(raw: bytes) -> TimerCheckpoint | None:
    """Parse the file; None if it is too short for RocketMQ's words."""
    if len(raw) < WORDS.size:
        return None
    found = TimerCheckpoint(*WORDS.unpack_from(raw))
    if len(raw) < WORDS.size + NOTE.size:
        return found
    count, crc = NOTE.unpack_from(raw, WORDS.size)
    stop = WORDS.size + NOTE.size + count * MOMENT.size
    if not 0 < count <= MAX_MOMENTS or stop > len(raw):
        return found
    moments = raw[WORDS.size + NOTE.size : stop]
    if zlib.crc32(raw[: WORDS.size + 4] + moments) != crc:
        return found
    return replace(found, moments=tuple(Moment._make(words) for words in MOMENT.iter_unpack(moments)))


def read_timer_checkpoint(disk: Disk, root: Path) -> TimerCheckpoint | None:
    """Read the checkpoint of the store at `root`; None if it is missing or too short."""
    try:
        file = disk.open(root / CONFIG_FOLDER / TIMER_CHECKPOINT_FILE)
    except FileNotFoundError:
        return None
    try:
        return decode_timer_checkpoint(file.read(0, PAGE_SIZE))
    finally:
        file.close()


def write_timer_checkpoint(disk: Disk, root: Path, checkpoint: TimerCheckpoint) -> None:
    """Overwrite the page in place, as RocketMQ does, and sync it. RocketMQ's words are in one sector; torn moments are
    ignored."""
    path = root / CONFIG_FOLDER / TIMER_CHECKPOINT_FILE
    is_new = not disk.exists(path)
    disk.make_folder(path.parent)
    file = disk.open(path, writable=True, create=True)
    try:
        file.write(0, checkpoint.encode())
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_folder(path.parent)
