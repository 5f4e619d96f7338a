"""How a store behaves: one frozen, checked object. RocketMQ's name for a setting stands beside ours."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from .errors import InvalidMessageError, InvalidSettingsError
from .host import encode_host

PAGE_SIZE = 4096
DEFAULT_SEGMENT_SIZE = 1 << 30
DEFAULT_QUEUE_FILE_ENTRIES = 300_000
MAX_SEGMENT_SIZE = (1 << 31) - PAGE_SIZE  # positions in a segment are Java ints
MAX_MESSAGE_SIZE = 1 << 30
MAX_INDEX_ENTRIES = 100_000_000  # positions in an index file are Java ints: 20 bytes each
MAX_ANSWER = (1 << 31) - 1  # sizes and counts of an answer are Java ints
assert DEFAULT_SEGMENT_SIZE % PAGE_SIZE == 0


class FlushMode(enum.Enum):
    """When a put returns (RocketMQ's `flushDiskType`)."""

    ASYNC = "ASYNC_FLUSH"
    """Once the record is in the page cache: it survives the death of the process; a timer syncs it."""
    SYNC = "SYNC_FLUSH"
    """Once an fdatasync that covers the record has succeeded: it survives a power cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of one open store. Raises InvalidSettingsError, with the reason, for nonsense."""

    segment_size: int | None = None
    """Bytes of a commit-log segment (`mappedFileSizeCommitLog`). None adopts what exists, else 1 GiB."""
    queue_file_entries: int | None = None
    """20-byte entries in one consume-queue file (`mappedFileSizeConsumeQueue` / 20). None adopts, else 300,000."""
    key_index: bool = True
    """Whether the keys of messages are indexed (`messageIndexEnable`). An index that is turned off and on again is
    completed from the log when the store is opened."""
    index_slots: int | None = None
    """Hash slots of a key index file (`maxHashSlotNum`). None adopts what exists, else 5,000,000."""
    index_entries: int | None = None
    """Entries of a key index file, one of them unused (`maxIndexNum`). None adopts what exists, else 20,000,000."""
    index_flush_interval_ms: int = 10_000
    """How often the key index is synced. What lies behind is indexed again after a kill."""
    flush_mode: FlushMode = FlushMode.ASYNC
    """See FlushMode (`flushDiskType`)."""
    flush_interval_ms: int = 500
    """How long after an append the log is dispatched and, under async flush, synced if that is worth it
    (`flushIntervalCommitLog`)."""
    flush_least_pages: int = 4
    """How many pages of 4 KiB must be dirty, or a segment full, for that (`flushCommitLogLeastPages`); 0: one byte."""
    flush_thorough_interval_ms: int = 10_000
    """How often fewer than those are synced (`flushCommitLogThoroughInterval`). The two intervals together are how far
    back a power cut may reach under async flush."""
    queue_flush_interval_ms: int = 1000
    """How often queues are synced and the checkpoint is written, if that is worth it (`flushIntervalConsumeQueue`)."""
    queue_flush_least_pages: int = 2
    """How many pages of 4 KiB the entries since the last time must fill, all queues together, or the log have begun a
    segment, for that (`flushConsumeQueueLeastPages`); 0: one entry. Recovery goes through the log from the last time
    on, so this bounds what it reads; a power cut takes nothing more for it."""
    queue_flush_thorough_interval_ms: int = 60_000
    """How often it is done for fewer (`flushConsumeQueueThoroughInterval`)."""
    sync_flush_timeout_ms: int = 5000
    """How long a put under sync flush waits for another thread's sync before it answers FLUSH_DISK_TIMEOUT
    (`syncFlushTimeout`).

    A put whose own thread has begun a sync, as the first of those who wait, returns when that sync does, however long
    it takes: a thread inside an fdatasync cannot be called back, and to lend every sync to another thread would cost
    every put two changes of threads. At most one put at a time is in that place; all others keep the limit, and the
    futures of `put_async` keep it always.
    """
    max_message_size: int = 4 << 20
    """The largest body in bytes (`maxMessageSize`)."""
    allocate_step_size: int = 64 << 20
    """How many bytes of disk blocks are allocated at a time, ahead of the append position."""
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    """Address and port written into every record, and so into message ids (`brokerIP1`, `listenPort`)."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of levels 1, 2, ... (`messageDelayLevel`); gives the times in the queues of parked messages."""
    get_memory_max_size: int = 256 << 10
    """Bytes of records that a get answers where they are near the log's end (`maxTransferBytesOnMessageInMemory`)."""
    get_memory_max_count: int = 32
    """Messages that a get answers there (`maxTransferCountOnMessageInMemory`)."""
    get_disk_max_size: int = 64 << 10
    """Bytes of records that a get answers further back (`maxTransferBytesOnMessageInDisk`)."""
    get_disk_max_count: int = 8
    """Messages that a get answers there (`maxTransferCountOnMessageInDisk`)."""
    access_memory_ratio: int = 40
    """How near is near: per cent of this machine's memory before the log's end (`accessMessageInMemoryMaxRatio`)."""
    get_scan_size: int = 16_000
    """Bytes of queue entries that a get looks at, or more if it is asked for more (`maxFilterMessageSize`)."""
    accept_future_store_time: bool = False
    """Open for writing even if the newest record lies more than an hour in the clock's future."""

    def __post_init__(self) -> None:
        if self.segment_size is not None:
            _check_range("segment_size", self.segment_size, PAGE_SIZE, MAX_SEGMENT_SIZE)
            if self.segment_size % PAGE_SIZE:
                raise InvalidSettingsError(f"segment_size={self.segment_size}: expected a multiple of {PAGE_SIZE}")
        if self.queue_file_entries is not None:
            _check_range("queue_file_entries", self.queue_file_entries, 1, 100_000_000)
        if self.index_slots is not None:
            _check_range("index_slots", self.index_slots, 1, MAX_INDEX_ENTRIES)
        if self.index_entries is not None:
            _check_range("index_entries", self.index_entries, 2, MAX_INDEX_ENTRIES)
        _check_range("index_flush_interval_ms", self.index_flush_interval_ms, 1, 3_600_000)
        if not isinstance(self.flush_mode, FlushMode):
            raise InvalidSettingsError(f"flush_mode={self.flush_mode!r}: expected FlushMode.ASYNC or FlushMode.SYNC")
        _check_range("flush_interval_ms", self.flush_interval_ms, 1, 3_600_000)
        _check_range("flush_least_pages", self.flush_least_pages, 0, MAX_SEGMENT_SIZE // PAGE_SIZE)
        _check_range("flush_thorough_interval_ms", self.flush_thorough_interval_ms, 1, 3_600_000)
        _check_range("queue_flush_interval_ms", self.queue_flush_interval_ms, 1, 3_600_000)
        _check_range("queue_flush_least_pages", self.queue_flush_least_pages, 0, MAX_SEGMENT_SIZE // PAGE_SIZE)
        _check_range("queue_flush_thorough_interval_ms", self.queue_flush_thorough_interval_ms, 1, 3_600_000)
        _check_range("sync_flush_timeout_ms", self.sync_flush_timeout_ms, 1, 3_600_000)
        _check_range("max_message_size", self.max_message_size, 1, MAX_MESSAGE_SIZE)
        _check_range("allocate_step_size", self.allocate_step_size, PAGE_SIZE, MAX_SEGMENT_SIZE)
        for name in ("get_memory_max_size", "get_memory_max_count", "get_disk_max_size", "get_disk_max_count"):
            _check_range(name, getattr(self, name), 1, MAX_ANSWER)
        _check_range("access_memory_ratio", self.access_memory_ratio, 0, 100)
        _check_range("get_scan_size", self.get_scan_size, 1, MAX_ANSWER)
        try:
            encode_host(*self.store_host)
        except (InvalidMessageError, TypeError) as e:
            raise InvalidSettingsError(f"store_host={self.store_host!r}: {e}") from e

    @classmethod
    def small(cls, **changes: object) -> StoreSettings:
        """1 MiB segments, queue files of 1,000 entries, index files of 4,000: for tests and small lives; `changes`
        override."""
        small = cls(segment_size=1 << 20, queue_file_entries=1000, index_slots=1000, index_entries=4000)
        return replace(small, **changes)  # type: ignore[arg-type]


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSettingsError(f"{name}={value!r}: expected a whole number from {low} to {high}")
