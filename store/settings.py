"""How a store behaves: one frozen, checked object. RocketMQ's name for a setting stands beside ours."""

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
"""Bytes of the largest record that any settings allow. What claims to be larger is damage, and is never read."""
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
    """Settings of one open store. Raises InvalidSettingsError, with the reason, for nonsense."""

    segment_size: int | None = None
    """Bytes of a commit-log segment (`mappedFileSizeCommitLog`). None adopts what exists or what the store was made
    with, else 1 GiB. Another size than that raises GeometryMismatchError, unless the store has no segment yet; so with
    the other sizes of files."""
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
    prepare_ahead_size: int | None = None
    """How many bytes of memory, at most, a thread of the store has ready ahead of the append position, besides disk
    blocks and the next segment; a quarter of a segment is enough. It takes less while the log grows slowly. 0: each put
    makes ready what it needs. None: 64 MiB, and 0 where segments are smaller than 8 MiB; under async flush also as much
    as came in the last burst, once the log is at rest: at most 256 MiB, a quarter of a segment and a 64th of the
    machine's memory."""
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    """Address and port written into every record, and so into message ids (`brokerIP1`, `listenPort`)."""
    broker_name: str = "store"
    """Names the store among several: the broker of its message queues and of the handles of received messages, which
    count under this name alone (`brokerName`, which `from_broker_conf` does not take over)."""
    queue_extension: bool = False
    """Whether the queues of a new store get extensions, which hold the store time of each message beside its tag
    (`enableConsumeQueueExt`). A store that has them goes on with them in any case."""
    queue_extension_file_size: int | None = None
    """Bytes of an extension's file (`mappedFileSizeConsumeQueueExt`). None adopts what exists, else 48 MiB."""
    commit_log_folders: tuple[str, ...] = ()
    """Folders of the commit log, each absolute or below the store's: its segments are made in them in turn
    (`storePathCommitLog`, there separated by commas), but not on a disk above `disk_clean_forcibly_percent` while
    others are below. Empty: `commitlog`. Every opening of the store must name them."""
    commit_log_read_only_folders: tuple[str, ...] = ()
    """Folders that hold segments too, and get no new ones (`readOnlyCommitLogStorePaths`)."""
    multi_dispatch: bool = False
    """Whether a message that names light queues in its property INNER_MULTI_DISPATCH stands in those too
    (`enableMultiDispatch` with `enableLmq`). What stands in light queues is read and kept in any case."""
    auto_create_topics: bool = True
    """Whether a put makes a topic that is not there, and adds queues to one that a put made
    (`autoCreateTopicEnable`)."""
    max_auto_queue_count: int = 64
    """Up to how many queues a put adds queues to a topic that a put made. A put to a higher queue id raises
    QueueNotFoundError, and so does a put to a queue that a topic made by `create_topic` or by a broker has not."""
    put_adds_queues: bool = False
    """Whether a put adds the queue that it names to any topic, whatever its id, as a RocketMQ store does. One wrong id
    then gives a topic as many queues as that number says."""
    rocketmq_strict: bool = True
    """Whether names of new topics and consumer groups must be such as RocketMQ's clients take, and bodies of new
    messages not empty: others cannot be handed over to a broker. Each opening decides for itself; what is there already
    keeps working. False: a new topic may have any name that can name a folder, a new group any text without an "@", a
    message no body."""
    default_queue_count: int = 4
    """Queues of a topic that is made without a number of them (`defaultTopicQueueNums`: 8 in RocketMQ, of which its
    clients ask for 4)."""
    delay_levels: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    """The delays of levels 1, 2, ... (`messageDelayLevel`); gives the times in the queues of parked messages."""
    deliver_delayed: bool = True
    """Whether messages whose delay is over are delivered while the store is open. False: they are only parked, for a
    RocketMQ broker that takes the store over, or for a later opening."""
    delay_save_interval_ms: int = 10_000
    """How often it is written how far deliveries are (`flushDelayOffsetInterval`), while there are any. What was
    delivered since then is delivered again after a kill."""
    offset_save_interval_ms: int = 5_000
    """How often the offsets of consumer groups are written while they change (`flushConsumerOffsetInterval`), and
    members whose threads have ended are looked for. After a kill, messages acknowledged since then are delivered again.
    `Stores` has its own."""
    rebalance_interval_ms: int = 20_000
    """How often the queues of consumer groups are reallocated besides at once on every change (the clients'
    `rocketmq.client.rebalance.waitInterval`). `Stores` has its own."""
    timer_max_delay_s: int = 3 * 86_400
    """How far ahead a timer may be (`timerMaxDelaySec`)."""
    timer_slot_max_count: int = (1 << 31) - 1
    """How many timers may be due in one second (`timerCongestNumEachSlot`)."""
    transaction_timeout_ms: int = 6000
    """How old a half message is before somebody is asked about it (`transactionTimeOut`), unless it says otherwise in
    its property CHECK_IMMUNITY_TIME_IN_SECONDS. See TransactionChecker."""
    transaction_check_interval_ms: int = 30_000
    """How often half messages are looked at while there is a TransactionChecker (`transactionCheckInterval`)."""
    transaction_check_max_count: int = 15
    """How often somebody is asked about a half message, before it goes to TRANS_CHECK_MAX_TIME_TOPIC
    (`transactionCheckMax`)."""
    get_memory_max_size: int = 256 << 10
    """Bytes of records that a get answers where they are near the log's end (`maxTransferBytesOnMessageInMemory`)."""
    get_memory_max_count: int = 32
    """Messages that a get answers there (`maxTransferCountOnMessageInMemory`)."""
    get_disk_max_size: int = 64 << 10
    """Bytes of records that a get answers further back (`maxTransferBytesOnMessageInDisk`)."""
    get_disk_max_count: int = 8
    """Messages that a get answers there (`maxTransferCountOnMessageInDisk`)."""
    access_memory_percent: int = 40
    """How near is near: per cent of this machine's memory before the log's end (`accessMessageInMemoryMaxRatio`)."""
    get_scan_size: int = 16_000
    """Bytes of queue entries that a get looks at, or more if it is asked for more (`maxFilterMessageSize`)."""
    retention_hours: int | None = None
    """How many hours after it was last written to a full segment may go (`fileReservedTime`, there 72). None: nothing
    is ever deleted unasked, however full the disk is, and the settings that follow mean nothing. The last segment
    always stays, and what a reader of this process holds."""
    retention_bytes: int | None = None
    """How many bytes of the log are kept: the oldest full segments go, at any hour and whatever their age, as long as
    at least so many bytes remain behind them. It works with `retention_hours` and without. None: no such limit."""
    retention: str | None = None
    """"consumed": the oldest full segments go, at any hour, once every consumer group has consumed their messages and
    all their delayed messages are delivered; see "Deleting what was consumed" in docs/operations.md. It works with the
    two settings before and without. None: what was consumed stays."""
    delete_when: str = "04"
    """The hours of local time at which such segments go, separated by ";" (`deleteWhen`)."""
    disk_max_used_percent: int = 75
    """Per cent of the disk in use above which they go at any hour (`diskMaxUsedSpaceRatio`)."""
    disk_clean_forcibly_percent: int = 85
    """Above which the oldest segments go, whatever their age (`diskSpaceCleanForciblyRatio`)."""
    disk_warning_percent: int = 90
    """Above which puts are refused too, until the disk is down at the ratio before (`diskSpaceWarningLevelRatio`)."""
    clean_forcibly: bool = True
    """Whether segments that are not old enough may go for want of room (`cleanFileForciblyEnable`)."""
    clean_interval_ms: int = 10_000
    """How often all this is looked at (`cleanResourceInterval`)."""
    clean_batch_count: int = 10
    """How many segments go at a time (`deleteFileBatchMax`)."""
    append_crc_property: bool = False
    """Whether every record gets the property `__CRC32#`, a checksum over all of it (`enabledAppendPropCRC`)."""
    check_crc_property: bool = False
    """Whether a record counts as damaged unless it has that property and fits it (`forceVerifyPropCRC`): by reads,
    recovery and verify. Its body's CRC is checked all the same. For stores that were written with it from the first
    record on."""
    check_blocks: bool = False
    """Whether reads of messages also ask the seals, which cover every byte where RocketMQ's CRC covers bodies alone: a
    record in a block of 1 MiB that is not what was put counts as damaged. The first read in a block reads all of it,
    later ones rely on that. Covered is what flightlog wrote and synced, up to its last round of the queues
    (`queue_flush_interval_ms`) or its close; in a store that another program wrote last, nothing. Scans of whole ranges
    (Spark) ask no seals; `verify` always does."""
    accept_future_store_time: bool = False
    """Open for writing even if the newest record lies more than an hour in the clock's future."""
    unkept_promises: tuple[str, ...] = ()
    """Settings of a `broker.conf` that promise safety (replication, access control) where flightlog does not keep the
    promise, with file and line: filled by `from_broker_conf`. Opening for writing raises UnkeptPromiseError while there
    are any; a read-only view warns. To open without them: `dataclasses.replace(settings, unkept_promises=())`."""

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
        """1 MiB segments, queue files of 1,000 entries, index files of 4,000: for tests and small lives; `changes`
        override."""
        small = cls(segment_size=1 << 20, queue_file_entries=1000, index_slots=1000, index_entries=4000)
        return replace(small, **changes)  # type: ignore[arg-type]

    @classmethod
    def from_broker_conf(cls, path: str | os.PathLike[str]) -> StoreSettings:
        """The settings of a RocketMQ broker, from its `broker.conf`. What is not there has RocketMQ's default: 72 for
        `retention_hours`. `read_broker_conf` of flightlog.store.conf.broker_conf tells more: the store's folder, and
        what was ignored.

        Settings that promise what flightlog does not keep are logged as warnings. Opening a store for writing with the
        result raises UnkeptPromiseError for those that promise safety: see `unkept_promises`.

        Raises InvalidSettingsError, with file and line, for what makes no sense.
        """
        from .conf.broker_conf import read_broker_conf  # it needs this module

        return read_broker_conf(path).settings
