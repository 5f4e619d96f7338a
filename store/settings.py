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
    flush_mode: FlushMode = FlushMode.ASYNC
    """See FlushMode (`flushDiskType`)."""
    flush_interval_ms: int = 500
    """How often the log is synced under async flush (`flushIntervalCommitLog`)."""
    queue_flush_interval_ms: int = 1000
    """How often queues are synced and the checkpoint is written (`flushIntervalConsumeQueue`)."""
    sync_flush_timeout_ms: int = 5000
    """How long a put waits for its sync before it answers FLUSH_DISK_TIMEOUT (`syncFlushTimeout`)."""
    max_message_size: int = 4 << 20
    """The largest body in bytes (`maxMessageSize`)."""
    allocate_step_size: int = 64 << 20
    """How many bytes of disk blocks are allocated at a time, ahead of the append position."""
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    """Address and port written into every record, and so into message ids (`brokerIP1`, `listenPort`)."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of levels 1, 2, ... (`messageDelayLevel`); gives the times in the queues of parked messages."""
    accept_future_store_time: bool = False
    """Open for writing even if the newest record lies more than an hour in the clock's future."""

    def __post_init__(self) -> None:
        if self.segment_size is not None:
            _check_range("segment_size", self.segment_size, PAGE_SIZE, MAX_SEGMENT_SIZE)
            if self.segment_size % PAGE_SIZE:
                raise InvalidSettingsError(f"segment_size={self.segment_size}: expected a multiple of {PAGE_SIZE}")
        if self.queue_file_entries is not None:
            _check_range("queue_file_entries", self.queue_file_entries, 1, 100_000_000)
        if not isinstance(self.flush_mode, FlushMode):
            raise InvalidSettingsError(f"flush_mode={self.flush_mode!r}: expected FlushMode.ASYNC or FlushMode.SYNC")
        _check_range("flush_interval_ms", self.flush_interval_ms, 1, 3_600_000)
        _check_range("queue_flush_interval_ms", self.queue_flush_interval_ms, 1, 3_600_000)
        _check_range("sync_flush_timeout_ms", self.sync_flush_timeout_ms, 1, 3_600_000)
        _check_range("max_message_size", self.max_message_size, 1, MAX_MESSAGE_SIZE)
        _check_range("allocate_step_size", self.allocate_step_size, PAGE_SIZE, MAX_SEGMENT_SIZE)
        try:
            encode_host(*self.store_host)
        except (InvalidMessageError, TypeError) as e:
            raise InvalidSettingsError(f"store_host={self.store_host!r}: {e}") from e

    @classmethod
    def small(cls, **changes: object) -> StoreSettings:
        """1 MiB segments and queue files of 1,000 entries, for tests and small lives; `changes` override."""
        return replace(cls(segment_size=1 << 20, queue_file_entries=1000), **changes)  # type: ignore[arg-type]


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSettingsError(f"{name}={value!r}: expected a whole number from {low} to {high}")
