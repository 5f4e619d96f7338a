"""How a store behaves: one frozen, checked object. RocketMQ's name for a setting is given in brackets."""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, replace

from .conf.settings_check import (
    Ranges,
    check_broker_name,
    check_delay_levels,
    check_fields,
    check_folders,
    check_host,
    check_hours,
    check_texts,
)
from .conf.settings_doc import show_fields
from .errors import InvalidSettingsError

PAGE_SIZE = 4096
DEFAULT_SEGMENT_SIZE = 1 << 30
DEFAULT_QUEUE_FILE_ENTRIES = 300_000
MAX_SEGMENT_SIZE = (1 << 31) - PAGE_SIZE  # positions in a segment are Java ints
MAX_MESSAGE_SIZE = 1 << 30
RECORD_EXTRA_SIZE = 64 << 10
"""A record may exceed the largest body by this much (RocketMQ's encoder has this reserve)."""
MAX_RECORD_SIZE = MAX_MESSAGE_SIZE + RECORD_EXTRA_SIZE
"""Bytes of the largest record that any settings allow. A record that claims to be larger is damaged, and is never
read."""
MAX_INDEX_ENTRIES = 100_000_000  # positions in an index file are Java ints: 20 bytes each
MAX_ANSWER = (1 << 31) - 1  # sizes and counts of an answer are Java ints
assert DEFAULT_SEGMENT_SIZE % PAGE_SIZE == 0

INTERVAL_MS = (1, 3_600_000)
LEAST_PAGES = (0, MAX_SEGMENT_SIZE // PAGE_SIZE)
RANGES: Ranges = {
    "segment_size": (PAGE_SIZE, MAX_SEGMENT_SIZE),
    "queue_file_entries": (1, 100_000_000),
    "queue_extension_file_size": (64, MAX_SEGMENT_SIZE),
    "index_slots": (1, MAX_INDEX_ENTRIES),
    "index_entries": (2, MAX_INDEX_ENTRIES),
    "index_flush_interval_ms": INTERVAL_MS,
    "flush_interval_ms": INTERVAL_MS,
    "flush_least_pages": LEAST_PAGES,
    "flush_thorough_interval_ms": INTERVAL_MS,
    "queue_flush_interval_ms": INTERVAL_MS,
    "queue_flush_least_pages": LEAST_PAGES,
    "queue_flush_thorough_interval_ms": INTERVAL_MS,
    "sync_flush_timeout_ms": INTERVAL_MS,
    "max_message_size": (1, MAX_MESSAGE_SIZE),
    "allocate_step_size": (PAGE_SIZE, MAX_SEGMENT_SIZE),
    "prepare_ahead_size": (0, MAX_SEGMENT_SIZE),
    "default_queue_count": (1, MAX_ANSWER),
    "max_auto_queue_count": (1, MAX_ANSWER),
    "delay_save_interval_ms": INTERVAL_MS,
    "offset_save_interval_ms": INTERVAL_MS,
    "rebalance_interval_ms": INTERVAL_MS,
    "timer_max_delay_s": (1, 10 * 365 * 86_400),
    "timer_slot_max_count": (1, MAX_ANSWER),
    "transaction_timeout_ms": INTERVAL_MS,
    "transaction_check_interval_ms": INTERVAL_MS,
    "transaction_check_max_count": (1, MAX_ANSWER),
    "get_memory_max_size": (1, MAX_ANSWER),
    "get_memory_max_count": (1, MAX_ANSWER),
    "get_disk_max_size": (1, MAX_ANSWER),
    "get_disk_max_count": (1, MAX_ANSWER),
    "access_memory_percent": (0, 100),
    "get_scan_size": (1, MAX_ANSWER),
    "retention_hours": (0, 1_000_000),
    "retention_bytes": (0, 1 << 62),
    "disk_max_used_percent": (10, 95),  # RocketMQ moves what lies outside into these three ranges
    "disk_clean_forcibly_percent": (30, 85),
    "disk_warning_percent": (35, 90),
    "clean_interval_ms": INTERVAL_MS,
    "clean_batch_count": (1, 1_000_000),
}
"""Smallest and largest value of every setting that is a whole number, both allowed."""


class FlushMode(enum.Enum):
    """When a put returns (RocketMQ's `flushDiskType`)."""

    ASYNC = "ASYNC_FLUSH"
    """Once the record is in the page cache: it survives the death of the process; a timer syncs it."""
    SYNC = "SYNC_FLUSH"
    """Once an fdatasync that covers the record has succeeded: it survives a power cut."""


@show_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of one open store. Raises InvalidSettingsError, with the reason, for invalid values."""

    segment_size: int | None = None
    """Bytes of a commit-log segment (`mappedFileSizeCommitLog`). None adopts the size of existing segments or the one
    that the store was created with, else 1 GiB. A different size raises GeometryMismatchError, unless the store has no
    segment yet. The same holds for the other file sizes."""
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
    """How often the key index is synced. Keys since the last sync are indexed again after a kill."""
    flush_mode: FlushMode = FlushMode.ASYNC
    """See FlushMode (`flushDiskType`)."""
    flush_interval_ms: int = 500
    """How long after an append the log is dispatched and, under async flush, synced if enough pages are dirty
    (`flushIntervalCommitLog`)."""
    flush_least_pages: int = 4
    """How many pages of 4 KiB must be dirty, or a segment full, for a sync (`flushCommitLogLeastPages`); 0: one
    byte."""
    flush_thorough_interval_ms: int = 10_000
    """How often fewer than those are synced (`flushCommitLogThoroughInterval`). The sum of the two intervals bounds
    what a power cut can lose under async flush."""
    queue_flush_interval_ms: int = 1000
    """How often queues are synced and the checkpoint is written, if enough entries are new
    (`flushIntervalConsumeQueue`)."""
    queue_flush_least_pages: int = 2
    """How many pages of 4 KiB the new entries of all queues must fill for that, unless the log has started a new
    segment (`flushConsumeQueueLeastPages`); 0: one entry. Recovery scans the log from the last such sync on, so this
    bounds what it reads; it does not affect what a power cut can lose."""
    queue_flush_thorough_interval_ms: int = 60_000
    """How often they are synced with fewer new entries (`flushConsumeQueueThoroughInterval`)."""
    sync_flush_timeout_ms: int = 5000
    """How long a put under sync flush waits for another thread's sync before it answers FLUSH_DISK_TIMEOUT
    (`syncFlushTimeout`).

    The first waiting put runs the sync in its own thread and returns when the sync does, however long it takes: a
    thread inside an fdatasync cannot be interrupted, and moving every sync to another thread would cost every put two
    context switches. Only one put at a time is in this position; all others keep the limit, and the futures of
    `put_async` always do.
    """
    max_message_size: int = 4 << 20
    """The largest body in bytes (`maxMessageSize`)."""
    allocate_step_size: int = 64 << 20
    """How many bytes of disk blocks are allocated at a time, ahead of the append position."""
    prepare_ahead_size: int | None = None
    """How many bytes of memory, at most, a thread of the store prepares ahead of the append position, in addition to
    disk blocks and the next segment; a quarter of a segment is enough. It uses less while the log grows slowly. 0: each
    put prepares what it needs. None: 64 MiB, and 0 where segments are smaller than 8 MiB; under async flush also as
    much as the size of the last burst, once the log is idle: at most 256 MiB, a quarter of a segment and a 64th of the
    machine's memory."""
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    """Address and port written into every record, and so into message ids (`brokerIP1`, `listenPort`)."""
    broker_name: str = "store"
    """The store's name among several: the broker of its message queues and of the handles of received messages, which
    are valid only under this name (`brokerName`, which `from_broker_conf` does not take over)."""
    queue_extension: bool = False
    """Whether the queues of a new store get extensions, which hold the store time of each message in addition to its
    tag (`enableConsumeQueueExt`). A store that has them always continues to use them."""
    queue_extension_file_size: int | None = None
    """Bytes of an extension's file (`mappedFileSizeConsumeQueueExt`). None adopts what exists, else 48 MiB."""
    commit_log_folders: tuple[str, ...] = ()
    """Folders of the commit log, each absolute or below the store's: segments are created in them round-robin
    (`storePathCommitLog`, there separated by commas), but not on a disk above `disk_clean_forcibly_percent` while
    others are below. Empty: `commitlog`. Every opening of the store must name them."""
    commit_log_read_only_folders: tuple[str, ...] = ()
    """Folders that hold segments, too, but get no new ones (`readOnlyCommitLogStorePaths`)."""
    multi_dispatch: bool = False
    """Whether a message that names light queues in its property INNER_MULTI_DISPATCH is put into those, too
    (`enableMultiDispatch` with `enableLmq`). Existing light queues are always read and kept."""
    auto_create_topics: bool = True
    """Whether a put creates a missing topic, and adds queues to a topic that a put created
    (`autoCreateTopicEnable`)."""
    max_auto_queue_count: int = 64
    """The number of queues up to which a put adds queues to a topic that a put created. A put to a higher queue id
    raises QueueNotFoundError, and so does a put to a missing queue of a topic that `create_topic` or a broker
    created."""
    put_adds_queues: bool = False
    """Whether a put adds the queue that it names to any topic, whatever its id, as a RocketMQ store does. A single
    wrong id can then give a topic a huge number of queues."""
    rocketmq_strict: bool = True
    """Whether new topics and consumer groups must have names that RocketMQ's clients accept, and new messages a body:
    others cannot be handed over to a broker. This applies to the current opening; existing ones keep working. False: a
    new topic may have any name that a folder can have, a new group any text without an "@", and a message may have an
    empty body."""
    default_queue_count: int = 4
    """Queues of a topic that is created without a number of queues (`defaultTopicQueueNums`: 8 in RocketMQ, of which
    its clients use 4)."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of levels 1, 2, ... (`messageDelayLevel`); gives the times in the queues of parked messages."""
    deliver_delayed: bool = True
    """Whether due messages are delivered while the store is open. False: they are only parked, for a RocketMQ broker
    that takes the store over, or for a later opening."""
    delay_save_interval_ms: int = 10_000
    """How often the progress of deliveries is written (`flushDelayOffsetInterval`), while there are any. Messages
    delivered since then are delivered again after a kill."""
    offset_save_interval_ms: int = 5_000
    """How often the offsets of consumer groups are written while they change (`flushConsumerOffsetInterval`), and
    members whose threads have ended are removed. After a kill, messages acknowledged since then are delivered again.
    `Stores` has its own."""
    rebalance_interval_ms: int = 20_000
    """How often the queues of consumer groups are reallocated, in addition to every change (the clients'
    `rocketmq.client.rebalance.waitInterval`). `Stores` has its own."""
    timer_max_delay_s: int = 3 * 86_400
    """How far ahead a timer may be (`timerMaxDelaySec`)."""
    timer_slot_max_count: int = (1 << 31) - 1
    """How many timers may be due in one second (`timerCongestNumEachSlot`)."""
    transaction_timeout_ms: int = 6000
    """How old a half message must be before it is checked (`transactionTimeOut`), unless its own age is set in its
    property CHECK_IMMUNITY_TIME_IN_SECONDS. See TransactionChecker."""
    transaction_check_interval_ms: int = 30_000
    """How often half messages are checked while there is a TransactionChecker (`transactionCheckInterval`)."""
    transaction_check_max_count: int = 15
    """How many checks a half message gets before it is moved to TRANS_CHECK_MAX_TIME_TOPIC (`transactionCheckMax`)."""
    get_memory_max_size: int = 256 << 10
    """Bytes of records that a get returns if they are near the log's end (`maxTransferBytesOnMessageInMemory`)."""
    get_memory_max_count: int = 32
    """Messages that a get returns in this case (`maxTransferCountOnMessageInMemory`)."""
    get_disk_max_size: int = 64 << 10
    """Bytes of records that a get returns further back (`maxTransferBytesOnMessageInDisk`)."""
    get_disk_max_count: int = 8
    """Messages that a get returns in this case (`maxTransferCountOnMessageInDisk`)."""
    access_memory_percent: int = 40
    """What counts as near: per cent of this machine's memory before the log's end (`accessMessageInMemoryMaxRatio`)."""
    get_scan_size: int = 16_000
    """Bytes of queue entries that a get scans, or more if more messages are requested (`maxFilterMessageSize`)."""
    retention_hours: int | None = None
    """How many hours after its last write a full segment may be removed (`fileReservedTime`, there 72). None: nothing
    is deleted for its age or for lack of room, and `delete_when` and the `disk_` settings have no effect. The last
    segment always stays, and so do segments that a reader of this process pins."""
    retention_bytes: int | None = None
    """How many bytes of the log are kept: the oldest full segments are removed, at any hour and whatever their age, as
    long as at least so many bytes remain. It works with and without `retention_hours`. None: no such limit."""
    retention: str | None = None
    """"consumed": the oldest full segments are removed, at any hour, once every consumer group has consumed their
    messages and all their delayed messages are delivered; see "Deleting what was consumed" in docs/operations.md. It
    works with and without the two settings above. None: consumed messages stay."""
    delete_when: str = "04"
    """The hours of local time at which such segments are removed, separated by ";" (`deleteWhen`)."""
    disk_max_used_percent: int = 75
    """Per cent of the disk in use above which they are removed at any hour (`diskMaxUsedSpaceRatio`)."""
    disk_clean_forcibly_percent: int = 85
    """Per cent of the disk in use above which the oldest segments are removed, whatever their age
    (`diskSpaceCleanForciblyRatio`)."""
    disk_warning_percent: int = 90
    """Per cent of the disk in use above which puts are refused, too, until it is down to `disk_clean_forcibly_percent`
    (`diskSpaceWarningLevelRatio`)."""
    clean_forcibly: bool = True
    """Whether segments that have not expired may be removed for lack of room (`cleanFileForciblyEnable`)."""
    clean_interval_ms: int = 10_000
    """How often retention and disk use are checked (`cleanResourceInterval`)."""
    clean_batch_count: int = 10
    """How many segments are removed at a time (`deleteFileBatchMax`)."""
    append_crc_property: bool = False
    """Whether every record gets the property `__CRC32#`, a checksum over all of it (`enabledAppendPropCRC`)."""
    check_crc_property: bool = False
    """Whether a record counts as damaged unless it has that property and matches it (`forceVerifyPropCRC`): by reads,
    recovery and verify. Its body's CRC is checked as well. For stores that were written with this property from the
    first record on."""
    check_blocks: bool = False
    """Whether reads of messages also check the seals, which cover every byte, while RocketMQ's CRC covers only bodies:
    a record in a block of 1 MiB that does not match its seal counts as damaged. The first read in a block reads all of
    it, later ones rely on that. Seals cover what flightlog wrote and synced, up to its last flush round of the queues
    (`queue_flush_interval_ms`) or its close; in a store that another program wrote last, nothing. Scans of whole ranges
    (Spark) do not check seals; `verify` always does."""
    accept_future_store_time: bool = False
    """Open for writing even if the newest record is more than an hour ahead of the clock."""
    unkept_promises: tuple[str, ...] = ()
    """Settings of a `broker.conf` that promise safety (replication, access control) that flightlog cannot provide, with
    file and line: filled by `from_broker_conf`. Opening for writing raises UnkeptPromiseError while there are any; a
    read-only view warns. To open without them: `dataclasses.replace(settings, unkept_promises=())`."""

    def __post_init__(self) -> None:
        check_fields(self, RANGES)
        if self.segment_size is not None and self.segment_size % PAGE_SIZE:
            raise InvalidSettingsError(f"segment_size={self.segment_size}: expected a multiple of {PAGE_SIZE}")
        if not isinstance(self.flush_mode, FlushMode):
            raise InvalidSettingsError(f"flush_mode={self.flush_mode!r}: expected FlushMode.ASYNC or FlushMode.SYNC")
        if self.retention not in (None, "consumed"):
            raise InvalidSettingsError(f"retention={self.retention!r}: expected 'consumed', or None")
        check_folders(self, "commit_log_folders", "commit_log_read_only_folders")
        check_texts("unkept_promises", self.unkept_promises)
        check_host("store_host", self.store_host)
        check_broker_name("broker_name", self.broker_name)
        check_delay_levels("delay_levels", self.delay_levels)
        check_hours("delete_when", self.delete_when)
        slots, entries = self.index_slots or 0, self.index_entries or 0
        if 40 + 4 * slots + 20 * entries > MAX_ANSWER:
            raise InvalidSettingsError(
                f"index_slots={slots} and index_entries={entries}: an index file of {40 + 4 * slots + 20 * entries} "
                f"bytes, expected {MAX_ANSWER} at most, which is what RocketMQ can map: make one of them smaller"
            )

    @classmethod
    def small(cls, **changes: object) -> StoreSettings:
        """1 MiB segments, queue files of 1,000 entries, index files of 4,000: for tests and small applications;
        `changes` override."""
        small = cls(segment_size=1 << 20, queue_file_entries=1000, index_slots=1000, index_entries=4000)
        return replace(small, **changes)  # type: ignore[arg-type]

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str]) -> StoreSettings:
        """The settings of a RocketMQ broker, from its `broker.conf`. Missing settings have RocketMQ's defaults: 72 for
        `retention_hours`. `read_broker_conf` of flightlog.store.conf.broker_conf returns more: the store's folder, and
        what was ignored.

        Promises that flightlog cannot keep are logged as warnings. Opening a store for writing with the result raises
        UnkeptPromiseError for those that promise safety: see `unkept_promises`.

        Raises InvalidSettingsError, with file and line, for invalid values.
        """
        from .conf.broker_conf import read_broker_conf  # it needs this module

        return read_broker_conf(path).settings
