"""What was handed out and not done when a process died: `flightlog/starts`, a slot for each queue of each group.

    | SHA-1 of group 8, of topic, queue 12 | attempt i32 | first i64 | end i64 | suspect i64 | CRC-32 of the rest u32 |

    first, end     queue offsets: everything below `first` was done, nothing from `end` on was handed out
    suspect        physical offset of the one message that was handed out alone, -1: there was none
    attempt        which delivery of that message it was

Positions in the log have slots, too, with first = end = 0, attempt -1, and the physical offset as suspect: the end of
the log at the last crash; for a group that was told to go on elsewhere, the end of the log then; and for one that may
receive again what it had sent back before a crash, from where on the log was looked at. What they are for: see
sent_back.py.

An ordered queue that waits for another attempt has a second slot, with the physical offset of the first message of the
batch that failed as suspect, that of the last as first, the queue offset behind it as end, and attempt -1 - n after n.
It is emptied when they are done.

A slot is written before messages are handed out, once for all that were read together, and emptied (first = end) when a
member gives its queue up; a clean close empties all but those of failed attempts, unless there are positions. So only a
process that died leaves a slot of a queue that is not empty.

It is not synced but for a message that is handed out alone, a failed attempt, and the position of a group: it outlives
the process, and a power cut may forget it. Not in RocketMQ, whose clients forget an attempt that ended their process,
and those of ordered consumption when they end.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from ...store.disk.disk import Disk, DiskFile
from ...store.errors import DiskError
from ...store.state.progress import FLIGHTLOG_FOLDER
from ...store.stored_message import StoredMessage

log = logging.getLogger("flightlog.consume")

STARTS_FILE = "starts"
SLOT = struct.Struct(">20siqqqI")
SLOT_SIZE = 52
assert SLOT.size == SLOT_SIZE
KEY_SIZE, GROUP_SIZE = 20, 8
NO_SUSPECT = -1
NO_QUEUE = -2
LOOKED_FROM = "looked from"
"""In the place of a topic."""
FAILED = "failed\n"
"""Before a topic: of its queue's failed attempt."""
POSITION = -1
"""In the place of an attempt; below it, failed attempts: -1 - n."""


class Start(NamedTuple):
    """What a slot says."""

    first: int
    end: int
    suspect: int = NO_SUSPECT
    attempt: int = 0


EMPTY = Start(0, 0)


class FailedAttempts(NamedTuple):
    """At the messages that an ordered queue waits for."""

    first: int
    last: int
    """Physical offsets of the first and the last of the batch."""
    end: int
    """The queue offset behind the last."""
    attempts: int

    def of(self, message: StoredMessage) -> int:
        """How many at this message of the queue. Those of an inner batch have one physical offset."""
        is_one = self.first <= message.physical_offset <= self.last and message.queue_offset < self.end
        return self.attempts if is_one else 0


class Starts:
    """The slots of one store that is open for writing. Thread-safe."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._disk, self._path = disk, root / FLIGHTLOG_FOLDER / STARTS_FILE
        self._lock = threading.RLock()
        self._slots: dict[bytes, int] = {}
        self._count = 0
        """Slots in the file."""
        self._free: list[int] = []
        """Slots that say nothing, to be used again."""
        self._left: dict[bytes, Start] = {}
        """What processes before this one left, until it is settled."""
        self._positions: dict[bytes, int] = {}
        self._failed: dict[bytes, FailedAttempts] = {}
        self._file: DiskFile | None = None
        self._is_closed = self._has_failed = False
        self._is_named = False
        """Whether this process has made the name of the file durable."""

    @classmethod
    def loaded(cls, disk: Disk, root: Path, log_end: int) -> Self:
        """With what was left, of a store whose log ends there. Raises DiskError."""
        starts = cls(disk, root)
        starts.load()
        starts.forget_lost(log_end)
        return starts

    def load(self) -> None:
        """Read what was left. A file that is damaged has nothing to say. Raises DiskError."""
        if not self._disk.exists(self._path):
            return
        file = self._disk.open(self._path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        self._count = len(data) // SLOT_SIZE
        for number in range(self._count):
            raw = data[number * SLOT_SIZE : (number + 1) * SLOT_SIZE]
            key, attempt, first, end, suspect, crc = SLOT.unpack(raw)
            if crc != zlib.crc32(raw[:-4]):
                self._free.append(number)
                continue
            self._slots[key] = number
            if attempt < POSITION:
                self._failed[key] = FailedAttempts(suspect, first, end, POSITION - attempt)
            elif first < end:
                self._left[key] = Start(first, end, suspect, attempt)
            elif attempt == POSITION:
                self._positions[key] = suspect

    def left(self, group: str, topic: str, queue_id: int) -> Start | None:
        """What a process that died had of this queue."""
        with self._lock:
            return self._left.get(_key(group, topic, queue_id))

    def settle(self, group: str, topic: str, queue_id: int) -> None:
        """What was left is done."""
        with self._lock:
            self._left.pop(_key(group, topic, queue_id), None)

    def note(self, group: str, topic: str, queue_id: int, start: Start, *, sync: bool = False) -> None:
        """Write the slot. What the disk refuses is logged once: the messages are handed out all the same."""
        self._write(_key(group, topic, queue_id), start, sync=sync)

    def failed(self, group: str, topic: str, queue_id: int) -> FailedAttempts | None:
        """What an ordered queue waits for; None: for nothing that has failed."""
        return self._failed.get(_key(group, FAILED + topic, queue_id)) if self._failed else None

    def note_failed(self, group: str, topic: str, queue_id: int, failed: FailedAttempts) -> None:
        """As `note`; durable."""
        key = _key(group, FAILED + topic, queue_id)
        with self._lock:
            self._failed[key] = failed
            self._write(key, Start(failed.last, failed.end, failed.first, POSITION - failed.attempts), sync=True)

    def end_failed(self, group: str, topic: str, queue_id: int, commit_offset: int) -> None:
        """All of the queue below this offset is done."""
        if self._failed:
            of_queue = _key(group, FAILED + topic, queue_id)
            self._forget_failed(lambda key, failed: key == of_queue and failed.end <= commit_offset)

    def forget_failed(self, group: str) -> None:
        """The group was told to go on elsewhere: it begins to count again."""
        of_group = _hash(group, GROUP_SIZE)
        self._forget_failed(lambda key, _: key.startswith(of_group))

    def forget_lost(self, log_end: int) -> None:
        """The log ends here: other messages will take the place of what a power cut took."""
        self._forget_failed(lambda _, failed: failed.last >= log_end)

    def _forget_failed(self, is_over: Callable[[bytes, FailedAttempts], bool]) -> None:
        with self._lock:
            for key in [key for key, failed in self._failed.items() if is_over(key, failed)]:
                del self._failed[key]
                self._write(key, EMPTY, sync=False)

    def crash_end(self) -> int:
        """Where the log ended at the last crash; 0: there was none."""
        return self._positions.get(CRASH_END, 0)

    def note_crash_end(self, position: int) -> None:
        """As `note`."""
        self._note_position(CRASH_END, position, sync=False)

    def floor(self, group: str) -> int:
        """Where the log ended when the group was last told to go on elsewhere; 0: it never was."""
        return self._positions.get(_key(group, "", NO_QUEUE), 0)

    def note_floor(self, group: str, position: int) -> None:
        """As `note`; durable."""
        self._note_position(_key(group, "", NO_QUEUE), position, sync=True)

    def looked_from(self, group: str) -> int:
        """From where on the log was looked at for what the group had sent back before a crash; 0: it never was."""
        return self._positions.get(_key(group, LOOKED_FROM, NO_QUEUE), 0)

    def note_looked_from(self, group: str, position: int) -> None:
        """As `note`; durable."""
        self._note_position(_key(group, LOOKED_FROM, NO_QUEUE), position, sync=True)

    def _note_position(self, key: bytes, position: int, *, sync: bool) -> None:
        self._positions[key] = position
        self._write(key, EMPTY._replace(attempt=POSITION, suspect=position), sync=sync)

    def _write(self, key: bytes, start: Start, *, sync: bool) -> None:
        with self._lock:
            if self._is_closed:
                return
            if key not in self._slots:
                self._slots[key] = self._free.pop() if self._free else self._count
                self._count = max(self._count, self._slots[key] + 1)
            try:
                file = self._opened()
                file.write(self._slots[key] * SLOT_SIZE, _slot(key, start))
                if sync:
                    file.sync()
                    self._sync_name()
            except DiskError as e:
                self._tell_failed(e)

    def _sync_name(self) -> None:
        if not self._is_named:
            self._disk.sync_folder(self._path.parent)
            self._is_named = True

    def _opened(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self._path, writable=True, create=True)
        return self._file

    def _tell_failed(self, error: DiskError) -> None:
        if not self._has_failed:
            text = "%s: not written: %s. Attempts that end their process are not counted meanwhile"
            log.warning(text, self._path, error, extra={"path": str(self._path)})
        self._has_failed = True

    def close(self, *, is_saved: bool = True) -> None:
        """`is_saved`: the offsets of groups are on the disk, or will be."""
        with self._lock:
            self._is_closed = True
            if self._file is None:
                return
            try:
                if is_saved and not self._left and CRASH_END not in self._positions:
                    self._empty(self._file)
            except DiskError as e:
                log.warning("%s: not emptied: %s", self._path, e, extra={"path": str(self._path)})
            finally:
                self._file.close()

    def _empty(self, file: DiskFile) -> None:
        if not self._failed:
            file.resize(0)
            return
        for key, number in self._slots.items():
            if key not in self._failed:
                file.write(number * SLOT_SIZE, _slot(key, EMPTY))


def _slot(key: bytes, start: Start) -> bytes:
    raw = SLOT.pack(key, start.attempt, start.first, start.end, start.suspect, 0)[:-4]
    return raw + zlib.crc32(raw).to_bytes(4, "big")


def _key(group: str, topic: str, queue_id: int) -> bytes:
    return _hash(group, GROUP_SIZE) + _hash(f"{topic}\n{queue_id}", KEY_SIZE - GROUP_SIZE)


def _hash(text: str, size: int) -> bytes:
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:size]


CRASH_END = _key("", "", NO_QUEUE)
