"""The progress page: how far the one writer has come, for readers in other processes and for recovery.

One page, `flightlog/progress`, of 8-byte little-endian words (RocketMQ ignores the folder):

    0   magic
    1   epoch           random, drawn at each open for writing; the `abort` file names it too
    2   pid             of the writer
    3   segment size
    4   appended        end of the last whole record
    5   visible         readers never pass this
    6   flushed         durable: everything below was synced
    7   dispatched      every record below is in its consume queue
    8   queues flushed  every queue entry of a record below is synced
    9   clean close     end of the log at a clean close, -1 while open
    10  boot            which boot of the machine wrote the page; 0 where that cannot be told
    11  store time      ms, of the newest record when queues were last flushed
    12  queue count     when queues were last flushed
    13  queue ends      the sum of all queues' ends then
    14  queue starts    the sum of all queues' first queue offsets then
    15  the five checkpoint words as the last clean close left them (15..19)
    20  index flushed   every key of a record below is in a synced index file
    21  index file      name, as a number, of the newest index file when the index was last flushed; 0 for none
    22  index entries   number of the next entry in it then
    23  index count     how many index files there were then

Invariants:
- A word is published after the bytes that it speaks of, by one aligned 8-byte store; where the processor promises no
  order between stores, by a system call.
- On disk the page may be older than the log, never ahead of it: a word only grows after its bytes are safe.
- All words lie in the first 512 bytes, so a power cut leaves an old page or a new one.
"""

from __future__ import annotations

import hashlib
import mmap
import platform
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..disk.disk import Disk
from ..errors import DiskError
from ..settings import PAGE_SIZE
from .checkpoint import WORDS as CHECKPOINT_WORDS

FLIGHTLOG_FOLDER = "flightlog"
PROGRESS_FILE = "progress"

MAGIC = int.from_bytes(b"FLTLOG01", "little")
STILL_OPEN = -1
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
(
    EPOCH,
    PID,
    SEGMENT_SIZE,
    APPENDED,
    VISIBLE,
    FLUSHED,
    DISPATCHED,
    QUEUES_FLUSHED,
    CLEAN_CLOSE,
    BOOT,
    STORE_TIMESTAMP,
    QUEUE_COUNT,
    QUEUE_ENDS,
    QUEUE_STARTS,
    CHECKPOINT,
) = range(1, 16)
INDEX_FLUSHED, INDEX_FILE, INDEX_ENTRIES, INDEX_COUNT = range(
    CHECKPOINT + CHECKPOINT_WORDS, CHECKPOINT + CHECKPOINT_WORDS + 4
)
PAGE = struct.Struct(f"<{INDEX_COUNT + 1}q")
assert PAGE.size <= 512

STORES_ARE_ORDERED = sys.byteorder == "little" and platform.machine().lower() in ("x86_64", "amd64", "i686")


@dataclass(frozen=True)
class Progress:
    """The words as one reader saw them."""

    epoch: int
    pid: int
    segment_size: int
    appended: int
    visible: int
    flushed: int
    dispatched: int
    queues_flushed: int
    clean_close: int
    boot: int
    store_timestamp_ms: int
    queue_count: int
    queue_ends: int
    queue_starts: int
    checkpoint: tuple[int, ...]
    index_flushed: int = 0
    index_file: int = 0
    index_entries: int = 0
    index_count: int = 0

    @property
    def is_of_this_boot(self) -> bool:
        """Whether the page cache that this page was written into is still there: then no word of it is stale."""
        return self.boot != 0 and self.boot == boot_number()


@cache
def boot_number() -> int:
    """A number for this boot of the machine, 0 where the system does not tell."""
    try:
        text = BOOT_ID_FILE.read_bytes()
    except OSError:
        return 0
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def progress_path(root: Path) -> Path:
    return root / FLIGHTLOG_FOLDER / PROGRESS_FILE


def decode_progress(page: bytes) -> Progress | None:
    """None for anything that is not a whole page of a store that flightlog has written."""
    if len(page) < PAGE.size:
        return None
    words = PAGE.unpack_from(page)
    if words[0] != MAGIC or words[SEGMENT_SIZE] <= 0:
        return None
    if not 0 <= words[QUEUES_FLUSHED] <= words[DISPATCHED] or min(words[APPENDED:DISPATCHED]) < 0:
        return None
    if min(words[INDEX_FLUSHED:]) < 0:
        return None
    return Progress(
        epoch=words[EPOCH],
        pid=words[PID],
        segment_size=words[SEGMENT_SIZE],
        appended=words[APPENDED],
        visible=words[VISIBLE],
        flushed=words[FLUSHED],
        dispatched=words[DISPATCHED],
        queues_flushed=words[QUEUES_FLUSHED],
        clean_close=words[CLEAN_CLOSE],
        boot=words[BOOT],
        store_timestamp_ms=words[STORE_TIMESTAMP],
        queue_count=words[QUEUE_COUNT],
        queue_ends=words[QUEUE_ENDS],
        queue_starts=words[QUEUE_STARTS],
        checkpoint=words[CHECKPOINT:INDEX_FLUSHED],
        index_flushed=words[INDEX_FLUSHED],
        index_file=words[INDEX_FILE],
        index_entries=words[INDEX_ENTRIES],
        index_count=words[INDEX_COUNT],
    )


def read_progress(disk: Disk, root: Path) -> Progress | None:
    """The page as it is now, or None where there is none (a store that only RocketMQ wrote)."""
    try:
        file = disk.open(progress_path(root))
    except FileNotFoundError:
        return None
    try:
        return decode_progress(file.read(0, PAGE.size))
    finally:
        file.close()


class ProgressPage:
    """The writer's side of the page."""

    def __init__(self, disk: Disk, root: Path, *, is_mapped: bool = True) -> None:
        """`is_mapped`: whether its file system promises that a store through a mapping of allocated blocks never
        fails."""
        disk.make_folder(root / FLIGHTLOG_FOLDER)
        self._file = disk.open(progress_path(root), writable=True, create=True)
        if self._file.size() != PAGE_SIZE:
            self._file.resize(PAGE_SIZE)
            disk.sync_folder(root / FLIGHTLOG_FOLDER)
        self._file.allocate(0, PAGE_SIZE)  # a store into a hole on a full disk would kill the process
        self.mapping: mmap.mmap | None = self._file.map_for_append() if is_mapped else mmap.mmap(-1, PAGE_SIZE)
        """For the kernel, whose stores into it come after all others on any processor; private memory if the file
        is not mapped, and then the kernel has nothing to store."""
        self._words: memoryview | None = None
        if STORES_ARE_ORDERED and is_mapped:
            self._words = memoryview(self.mapping).cast("q")
        self._shadow: bytearray | None = None if is_mapped else bytearray(PAGE.size)
        """What a file that is not mapped should hold."""
        self._is_behind = False
        """Whether the disk, full perhaps, has not taken all of it: it is written as a whole as soon as that goes."""

    def begin(self, words: Progress) -> None:
        """Start a session: write the whole page and sync it."""
        values = (
            MAGIC,
            words.epoch,
            words.pid,
            words.segment_size,
            words.appended,
            words.visible,
            words.flushed,
            words.dispatched,
            words.queues_flushed,
            words.clean_close,
            words.boot,
            words.store_timestamp_ms,
            words.queue_count,
            words.queue_ends,
            words.queue_starts,
            *words.checkpoint,
            words.index_flushed,
            words.index_file,
            words.index_entries,
            words.index_count,
        )
        page = PAGE.pack(*values)
        if self._shadow is not None:
            self._shadow[:] = page
        self._file.write(0, page)
        self._file.sync()

    def publish(self, word: int, value: int) -> None:
        """Make one word visible to other processes, after everything that was stored before."""
        if self._words is not None:
            self._words[word] = value
        else:
            raw = value.to_bytes(8, "little", signed=True)
            if self._shadow is None:
                self._file.write(word * 8, raw)
            else:
                self._shadow[word * 8 : word * 8 + 8] = raw
                self._write_shadow(word * 8)

    def _write_shadow(self, position: int) -> None:
        assert self._shadow is not None
        start, stop = (0, len(self._shadow)) if self._is_behind else (position, position + 8)
        try:
            self._file.write(start, bytes(self._shadow[start:stop]))
            self._is_behind = False
        except DiskError:
            # What it speaks of has happened, and the page may be behind: as one that was not written back yet.
            self._is_behind = True

    def publisher(self, *numbers: int) -> Callable[[int], None]:
        """What publishes one value as several words, in one call where that is a store."""
        words = self._words

        def publish(value: int) -> None:
            for number in numbers:
                self.publish(number, value)

        if words is None or len(numbers) != 2:
            return publish
        first, second = numbers

        def publish_two(value: int) -> None:
            words[first] = value
            words[second] = value

        return publish_two

    def sync(self) -> None:
        """Make the words durable. Raises SyncFailedError; DiskError where a file that is not mapped lacks some of them,
        and cannot be written."""
        if self._shadow is not None and self._is_behind:
            self._file.write(0, bytes(self._shadow))
            self._is_behind = False
        self._file.sync()

    def close(self) -> None:
        self._words = self.mapping = None
        self._file.close()
