"""Every failure that a user of flightlog can meet, as one tree.

    FlightlogError
    ├── UsageError                     the call was wrong; nothing was written
    │   ├── InvalidArgumentError       an argument has a value that means nothing there; a ValueError, too
    │   │   ├── WrongTypeError         an argument is of another type than expected; a TypeError, too
    │   │   └── InvalidFilterError     index/: an expression is no SQL92 filter
    │   ├── InvalidSettingsError
    │   │   └── UnkeptPromiseError     a broker.conf promises safety that flightlog does not give
    │   ├── InvalidAllocationError     an allocation strategy shared out what is not there, or the same twice
    │   ├── InconsistentGroupError     a member of a consumer group differs from those that are there
    │   ├── GroupNotFoundError         the store knows no such consumer group
    │   ├── InvalidGroupError          a name that RocketMQ's clients refuse for a new consumer group
    │   ├── GroupHasMembersError       the consumer group has members, which the call does not allow
    │   ├── ExpiredHandleError         consume/: a popped message whose invisible time is over
    │   ├── ListenerResultError        a consumer's listener returned neither None nor a status
    │   ├── InvalidMessageError
    │   │   ├── InvalidTopicError      a name that RocketMQ gives no topic
    │   │   │   └── TopicTooLongError
    │   │   ├── TopicNotFoundError     the topic is not there, and is not made by a put
    │   │   ├── TopicPermissionError   the topic does not take puts
    │   │   ├── MessageTypeError       the topic is for messages of another type (a producer checks on request)
    │   │   ├── QueueNotFoundError     the topic has no such queue
    │   │   ├── BodyTooLargeError
    │   │   ├── EmptyBodyError         no body, which RocketMQ's clients refuse (`rocketmq_strict`)
    │   │   ├── PropertiesTooLargeError
    │   │   ├── RecordTooLargeError
    │   │   └── InvalidTimerError      a time of delivery that cannot be read
    │   │       ├── TimerTooFarError       beyond `timer_max_delay_s`
    │   │       ├── TimerTooLateError      a cancellation of what is due already
    │   │       ├── UnknownTimerError      a cancellation of what was not put
    │   │       └── TimersCongestedError   too many timers are due in the same second
    │   ├── NoRouteError               no store of a producer takes messages of the topic
    │   ├── TopicExistsError
    │   ├── UnreadMessagesError        fewer queues would leave messages that a consumer group has yet to consume
    │   ├── TooManyQueuesError         a topic has more queues than consumers and producers go through
    │   ├── GeometryMismatchError      a setting contradicts the files that exist
    │   ├── UnsupportedStoreError      a feature of these files that flightlog cannot write beside
    │   │   ├── NewerFormatError       a newer flightlog wrote the store's own folder
    │   │   ├── RocksDbQueuesError     the consume queues are in RocksDB
    │   │   └── RocksDbConfigError     the broker's topics, groups and offsets are in RocksDB
    │   ├── StoreNotFoundError
    │   ├── StoreClosedError
    │   ├── ForkedStoreError
    │   ├── MissingExtraError
    │   └── MissingJavaError
    ├── ThreadStartError               the system has no thread to give; a RuntimeError, too
    ├── EffectInProgressError          consume/: an id of a deduplication window that another thread is at work on
    ├── KeptOffsetsError               engine/: an import cannot give messages the queue offsets that they had
    ├── StoreLockedError               another writer holds the store
    ├── ClockBehindError               the last record lies in the clock's future
    ├── GroupLagError                  a consumer group lags further than a producer's max_lag
    ├── SendManyError                  some of the messages of a producer's send_many were not acknowledged
    ├── SendTimeoutError               a producer's send was not over in time; a TimeoutError, too
    ├── ServerUnavailableError         serve/: no answer of a server came in time
    ├── ServerRefusedError             serve/: a server refused a call for a reason that has no error of its own
    ├── StoreChangingError             each look at a store was overtaken by its writer: try again
    ├── DataLossError                  spark/: what a query or a stream asks for was removed before it was read
    ├── CheckpointAheadError           spark/: a stream has come further than its store reaches
    ├── DamagedStoreError              the files are not what they should be
    │   ├── StrayFileError
    │   ├── SymbolicLinkError          a link to elsewhere, where a store has files and folders of its own
    │   ├── SegmentLengthError
    │   ├── FileTooLargeError          a file that is longer than any of its kind
    │   ├── ConfigFileError            a small state file, and its `.bak`, that cannot be read
    │   ├── CorruptLogError            intact records lie behind the damage: nothing was cut
    │   ├── MissingSegmentsError       the oldest segments are gone, and retention did not remove them
    │   ├── CorruptRecordError
    │   ├── CorruptBodyError           a compressed body that cannot be decompressed, or not within the limit
    │   └── CorruptQueueError
    └── DiskError                      the disk said no
        ├── FileGoneError              a FileNotFoundError, too
        │   └── SegmentGoneError       a segment that is to be read is not there any more
        ├── DiskFullError
        ├── TooManyFilesError          no descriptor is left
        ├── IndexFileGoneError         a file of an open store's key index was deleted; the index is rebuilt
        ├── SyncFailedError
        │   └── SegmentRemovedError    the open store's active segment was removed or moved away on disk
        └── StorePoisonedError         an earlier sync failed; reads go on, puts do not

Each error says what was found, where, what was expected, and what to do. `exit_code` is what the command line returns
for it: 2 for a wrong call, 3 where a store cannot be read or written, 4 where it is refused to protect a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import AppendResult, PutResult

EXIT_USAGE, EXIT_UNREADABLE, EXIT_REFUSED = 2, 3, 4

SHOWN_LENGTH = 80
"""Characters of a wrong argument that an error shows."""
SHOWN_BODY_SIZE = 40
"""Bytes of a message's body that its repr shows."""


class FileSystemWarning(UserWarning):
    """A store that was opened for writing is on a file system that promises less than others: btrfs, ZFS, NFS, overlay,
    virtiofs and the like. No error: it takes puts, slower, and none of them ends the process by SIGBUS."""


class FlightlogError(Exception):
    """The base of everything that flightlog raises on purpose."""

    exit_code = EXIT_UNREADABLE


class UsageError(FlightlogError):
    """The call was wrong; nothing was written."""

    exit_code = EXIT_USAGE


class InvalidArgumentError(UsageError, ValueError):
    """An argument of a call has a value that means nothing there. Nothing was read or written.

    `argument` is its name, `given` what it was, `expected` what it may be.
    """

    def __init__(self, argument: str, given: object, expected: str) -> None:
        super().__init__(f"{argument}={shown(given)}: expected {expected}")
        self.argument, self.given, self.expected = argument, given, expected


class WrongTypeError(InvalidArgumentError, TypeError):
    """An argument of a call is of another type than expected. Nothing was read or written."""


def shown(given: object) -> str:
    """A value as an error shows it: a path whole, else what `repr` says, cut off where that is long."""
    try:
        text = repr(str(given) if isinstance(given, Path) else given)
    except Exception:  # a failing repr of the caller's object must not hide the error that shows it
        text = object.__repr__(given)
    return text if len(text) <= SHOWN_LENGTH or isinstance(given, Path) else f"{text[:SHOWN_LENGTH]}..."


def shown_body(body: object) -> str:
    """A message's body as its repr shows it: 40 bytes of it, and how many there are."""
    if not isinstance(body, bytes) or len(body) <= SHOWN_BODY_SIZE:
        return shown(body)
    return f"{body[:SHOWN_BODY_SIZE]!r}... ({len(body):,} bytes)"


class InvalidSettingsError(UsageError):
    """A setting has no meaning or contradicts another one."""


class UnkeptPromiseError(InvalidSettingsError):
    """A broker's settings promise safety that flightlog does not give. Nothing was opened or written."""

    def __init__(self, path: Path, promises: Sequence[str]) -> None:
        super().__init__(
            f"{path}: not opened for writing, because the settings promise what is not kept: {'; '.join(promises)}. "
            "Take these settings out of the file, or accept the loss by dataclasses.replace(settings, "
            "unkept_promises=()); open_read_only works with them"
        )
        self.path, self.promises = path, tuple(promises)


class InvalidAllocationError(UsageError):
    """An allocation strategy assigned queues that the topic does not have, or a queue twice."""


class InconsistentGroupError(UsageError):
    """A member of a consumer group differs from the present members: queues would be read twice, or not at all."""

    def __init__(self, group: str, found: str, expected: str) -> None:
        super().__init__(f"group {group!r}: found {found}, expected {expected}; or take another name for the group")
        self.group, self.found, self.expected = group, found, expected


class ListenerResultError(UsageError):
    """A listener returned neither None nor a status. Its messages were not acknowledged and are redelivered."""

    def __init__(self, listener: str, returned: object, statuses: Sequence[str], hint: str) -> None:
        shown = repr(returned)
        shown = shown if len(shown) <= 100 else shown[:100] + "..."
        super().__init__(
            f"the listener {listener} returned {shown} ({type(returned).__name__}), expected None or one of "
            f"{', '.join(statuses)}: nothing was acknowledged, the messages come again. Return None (or nothing) to "
            f"acknowledge, {statuses[1]!r} to have them again, or raise an exception.{hint}"
        )
        self.listener, self.returned = listener, returned


class InvalidMessageError(UsageError):
    """A message that no RocketMQ store would accept. Nothing was appended.

    Of rows that are appended together, `row` is the number of the first one that is wrong, counted from 0 (of those
    beyond a limit, the one that is furthest beyond), and `column` its column; `reason` is the text without them.
    """

    def __init__(self, reason: str, *, row: int | None = None, column: str | None = None) -> None:
        places = ([] if column is None else [f"column {column!r}"]) + ([] if row is None else [f"row {row}"])
        super().__init__(f"{', '.join(places)}: {reason}" if places else reason)
        self.reason, self.row, self.column = reason, row, column


class InvalidTopicError(InvalidMessageError):
    """A name that RocketMQ gives no topic."""


class TopicTooLongError(InvalidTopicError):
    """A topic above 127 UTF-8 bytes (255 for `%RETRY%` topics)."""


class TopicNotFoundError(InvalidMessageError):
    """There is no such topic, and a put does not make it."""

    def __init__(self, path: Path, topic: str, what_to_do: str) -> None:
        super().__init__(f"{path}: there is no topic {topic!r}; {what_to_do}")
        self.path, self.topic = path, topic


class TopicPermissionError(InvalidMessageError):
    """The topic is not for messages of applications."""


class QueueNotFoundError(InvalidMessageError):
    """The topic has no such queue, and a put does not make it."""


class BodyTooLargeError(InvalidMessageError):
    """A body above `max_message_size` bytes."""


class PropertiesTooLargeError(InvalidMessageError):
    """Properties above 32,767 bytes when written as RocketMQ writes them."""


class RecordTooLargeError(InvalidMessageError):
    """A record that does not fit into one segment, or is above `max_message_size` + 64 KiB."""


class TopicExistsError(UsageError):
    """There is a topic of this name already."""


class UnreadMessagesError(UsageError):
    """A topic was to have fewer queues, and a group has yet to consume messages of the others. Nothing was changed."""

    def __init__(self, path: Path, topic: str, queue_ids: range, unread: Mapping[str, int]) -> None:
        shown = "; ".join(f"group {group!r}: {count}" for group, count in unread.items() if count)
        super().__init__(
            f"{path}: topic {topic!r}: no consumer would read queues {queue_ids[0]} to {queue_ids[-1]} any more, but "
            f"there are messages in them that were not consumed: {shown}. Lower write_queue_count first, and "
            "read_queue_count when they have been consumed; or pass allow_unread=True to leave them behind"
        )
        self.path, self.topic, self.queue_ids, self.unread = path, topic, queue_ids, dict(unread)


class TooManyQueuesError(UsageError):
    """A topic has more queues than consumers and producers go through."""

    def __init__(self, store: Path | str, topic: str, setting: str, found: int, limit: int) -> None:
        super().__init__(
            f"{store}: topic {topic!r} has {setting}={found}, expected {limit} at most to subscribe to it, to receive "
            f"from it or to send to it in turn. A wrong queue id or a wrong config/topics.json may have set it: lower "
            f"it with update_topic({topic!r}, {setting}=...)"
        )
        self.store, self.topic, self.setting, self.found, self.limit = store, topic, setting, found, limit


class GeometryMismatchError(UsageError):
    """A setting contradicts the sizes of the files that are already there, or those that the store was made with."""

    def __init__(self, path: Path, setting: str, wanted: int, found: int, note: Path | None = None) -> None:
        """`note`: the file that says so, where no other file shows it."""
        known = f"the files here have {found}" if note is None else f"the store was made with {found} ({note})"
        super().__init__(
            f"{path}: {setting} was set to {wanted}, but {known}. "
            f"Leave {setting} unset to adopt what exists, or open an empty folder"
        )
        self.path, self.setting, self.wanted, self.found = path, setting, wanted, found


class UnsupportedStoreError(UsageError):
    """The store uses a feature of RocketMQ that flightlog reads past but cannot write beside."""

    def __init__(self, path: Path, feature: str) -> None:
        super().__init__(
            f"{path}: {feature}; flightlog would leave it behind its own appends. "
            "Open this store with open_read_only, or let RocketMQ write it"
        )
        self.path, self.feature = path, feature


class NewerFormatError(UnsupportedStoreError):
    """A newer flightlog wrote this store's own folder. Nothing was changed."""

    def __init__(self, path: Path, note: Path, found: int, expected: int) -> None:
        UsageError.__init__(
            self,
            f"{path}: found format version {found} in {note}, expected {expected} at most: a newer flightlog wrote "
            "this store. Upgrade flightlog to write it; open_read_only reads its messages",
        )
        self.path, self.found, self.expected = path, found, expected
        self.feature = f"format version {found}"


class RocksDbQueuesError(UnsupportedStoreError):
    """RocketMQ keeps this store's consume queues in RocksDB. Nothing was changed."""

    def __init__(self, path: Path) -> None:
        UsageError.__init__(
            self,
            f"{path}: found consume queues in RocksDB (consumequeue/CURRENT, MANIFEST-*, *.sst), expected queue files: "
            "a broker with storeType=defaultRocksDB would not find messages that flightlog puts. Read this store "
            "with open_read_only, which takes its messages from the commit log; or let the broker write it. To "
            "write it with flightlog, stop the broker, set storeType=default, move consumequeue/ away, open again",
        )
        self.path, self.feature = path, "its consume queues are in RocksDB"


class RocksDbConfigError(UnsupportedStoreError):
    """RocketMQ keeps this store's topics, groups and offsets in RocksDB. Nothing was changed."""

    def __init__(self, path: Path, folders: Sequence[str]) -> None:
        found = ", ".join(folders)
        UsageError.__init__(
            self,
            f"{path}: found RocksDB in {found}, expected topics and offsets in config/*.json: a broker with "
            "storeType=defaultRocksDB or configManagerVersion=v2 would not know topics that flightlog makes and "
            "offsets that it commits, nor flightlog the broker's. Read this store with open_read_only, or let the "
            "broker write it. To write it with flightlog, have RocketMQ export them as JSON, stop the broker, set "
            f"storeType=default and configManagerVersion=v1, move {found} away, open again",
        )
        self.path, self.feature = path, f"its broker's settings are in RocksDB ({found})"


class ThreadStartError(FlightlogError, RuntimeError):
    """The system has no thread to give: an open gave everything back, and a put stored nothing."""

    def __init__(self, thread: str, detail: str) -> None:
        super().__init__(
            f"the thread {thread!r} cannot be started ({detail}): found no memory or address space for its stack, or "
            "as many threads as this user may have. Allow more (ulimit -v, ulimit -u, the container's pids limit), or "
            "a smaller stack (threading.stack_size), and call again"
        )
        self.thread = thread


class StoreNotFoundError(UsageError):
    """There is no store at this path."""


class StoreClosedError(UsageError):
    """The store was closed; open it again."""


class ForkedStoreError(UsageError):
    """This process inherited an open store by fork; only the parent may use it."""


class MissingExtraError(UsageError):
    """An optional part of flightlog is not installed."""

    def __init__(self, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs the extra '{extra}': run  pip install 'flightlog[{extra}]'")
        self.extra, self.needed_for = extra, needed_for


class MissingJavaError(UsageError):
    """No Java that Spark could run on."""


class StoreLockedError(FlightlogError):
    """Another writer, in this or in another process, holds the store."""

    exit_code = EXIT_REFUSED

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(
            f"{path}: already open for writing by {holder}. One process may write a store at a time: "
            "close the other writer, or use open_read_only, which needs no lock"
        )
        self.path, self.holder = path, holder


class ClockBehindError(FlightlogError):
    """The newest record was stored more than an hour after what the clock says now."""

    def __init__(self, path: Path, newest_store_timestamp_ms: int, now_ms: int) -> None:
        super().__init__(
            f"{path}: the newest record's store time is {newest_store_timestamp_ms} ms, "
            f"{(newest_store_timestamp_ms - now_ms) / 3_600_000:.1f} hours ahead of this machine's clock "
            f"({now_ms} ms). Set the clock right, or open with accept_future_store_time=True: "
            "store times then stand still until the clock catches up"
        )
        self.path, self.newest_store_timestamp_ms, self.now_ms = path, newest_store_timestamp_ms, now_ms


class DamagedStoreError(FlightlogError):
    """Files of the store are damaged or inconsistent. Nothing was changed."""


class StrayFileError(DamagedStoreError):
    """A foreign file is among the segments; RocketMQ refuses to start with it, too."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: found a file that is no segment (expected a name of 20 decimal digits). "
            "Move it out of this folder"
        )
        self.path = path


class SymbolicLinkError(DamagedStoreError):
    """A symbolic link among the files and folders of a store: it is followed neither for reading nor for writing."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: found a symbolic link, expected the store's own file or folder: links are not followed, they may "
            "lead anywhere. Put what it leads to in its place; for a commit log on other disks name their folders "
            "(commit_log_folders)"
        )
        self.path = path


class FileTooLargeError(DamagedStoreError):
    """A file longer than any of its kind: what is in it cannot be what its name says."""

    def __init__(self, path: Path, found: int, limit: int) -> None:
        super().__init__(
            f"{path}: {found} bytes long, expected {limit} at most, which is what RocketMQ can map. Restore this file "
            "from a copy, or move it away"
        )
        self.path, self.found, self.limit = path, found, limit


class SegmentLengthError(DamagedStoreError):
    """A segment's length differs from its neighbours', or two segments overlap."""

    def __init__(self, path: Path, found: int, expected: int) -> None:
        super().__init__(
            f"{path}: {found} bytes long, expected {expected}. A segment of the wrong length was cut off, copied "
            "incompletely or written by other settings: restore this file from where it was copied"
        )
        self.path, self.found, self.expected = path, found, expected


class ConfigFileError(DamagedStoreError):
    """A small state file that cannot be read, nor its `.bak`."""

    def __init__(self, path: Path, found: str, expected: str) -> None:
        super().__init__(
            f"{path}: found {found}, expected {expected}, and there is no {path.name}.bak that can be read. Restore "
            "the file from a copy; or delete it: the defaults take its place"
        )
        self.path, self.found, self.expected = path, found, expected


class CorruptLogError(DamagedStoreError):
    """Damage with intact records behind it. Cutting would throw those away, so nothing was cut."""

    def __init__(self, path: Path, physical_offset: int, found: str, records_behind: int, durable_below: int) -> None:
        behind = f"{records_behind} intact records lie behind it" if records_behind else "it was already synced to disk"
        super().__init__(
            f"{path}: the commit log is damaged at physical offset {physical_offset} ({found}), and {behind}. "
            "Nothing was changed. open_read_only and Spark read past the damage; restore the segment from a copy, "
            "or copy the readable messages into a new store"
        )
        self.path, self.physical_offset, self.found = path, physical_offset, found
        self.records_behind, self.durable_below = records_behind, durable_below


class MissingSegmentsError(DamagedStoreError):
    """The oldest segments are missing, although retention did not remove them. Nothing was changed."""

    def __init__(self, path: Path, found: int, expected: int, note: Path) -> None:
        super().__init__(
            f"{path}: the commit log begins at physical offset {found}, expected {expected}: retention has removed "
            "nothing from there on. Nothing was changed; open_read_only and Spark read what is left. Restore the "
            "missing segments from a copy, or name the folders that hold them (commit_log_folders). To accept the "
            f"loss, delete {note} and open the store again"
        )
        self.path, self.found, self.expected, self.note = path, found, expected, note


class CorruptRecordError(DamagedStoreError):
    """A record whose bytes are not those that were written."""

    def __init__(self, path: Path, physical_offset: int, found: str, expected: str) -> None:
        super().__init__(
            f"{path}: record at physical offset {physical_offset}: found {found}, expected {expected}. "
            "Skip it with on_corrupt='skip', or restore the segment from a copy"
        )
        self.path, self.physical_offset, self.found, self.expected = path, physical_offset, found, expected


class CorruptBodyError(DamagedStoreError):
    """A body that cannot be decompressed by the method its bits name, or that is larger than allowed once decompressed.
    It is unchanged since its put: its CRC matches. `body` returns it as stored."""


class CorruptQueueError(DamagedStoreError):
    """A consume queue's entry points at something that is not its message."""

    def __init__(self, path: Path, queue_offset: int, found: str, expected: str) -> None:
        super().__init__(
            f"{path}: entry {queue_offset}: found {found}, expected {expected}. "
            "Queues are derived from the log: closing every writer and opening the store for writing rebuilds its end"
        )
        self.path, self.queue_offset, self.found, self.expected = path, queue_offset, found, expected


class DiskError(FlightlogError):
    """The disk or the file system refused."""


class FileGoneError(DiskError, FileNotFoundError):
    """A file or folder is not there, or a dead disk says so."""


class DiskFullError(DiskError):
    """No room for the next blocks of the log. The message was not appended; reads continue."""

    results: Sequence[PutResult] = ()
    """Results of the earlier messages of a `put_many`."""
    appended: AppendResult | None = None
    """Result for the earlier rows of an `append_columns`."""

    def __init__(self, path: Path, wanted: int, detail: str) -> None:
        super().__init__(
            f"{path}: no room for {wanted} more bytes ({detail}). Nothing of the refused message was written and reads "
            "go on; free space on this file system and put again"
        )
        self.path, self.wanted = path, wanted


class SegmentGoneError(FileGoneError):
    """A segment was removed since the log's segments were listed, usually by the retention of the writing process."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path}: this segment is gone; it was there when the log was listed. Its writer has let it go: call "
            "refresh, or open the store again, to go on with what there is now"
        )
        self.path = path


class TooManyFilesError(DiskError):
    """This process, or the machine, has no file descriptor left. Nothing is lost: what needed one is retried later."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path}: {detail}. Nothing is lost and the store goes on once there are descriptors: close files, or "
            "allow this process more of them (ulimit -n)"
        )
        self.path = path


class StoreChangingError(FlightlogError):
    """Each read of the store was overtaken by a writer that opened or closed it, or by a deleted topic. Try again."""


class IndexFileGoneError(DiskError):
    """A key index file was deleted. The store rebuilds its index from the log and continues."""


class SyncFailedError(DiskError):
    """A sync failed: messages not acknowledged before it may be lost. The store refuses further puts."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"{path}: the sync failed ({detail}). Nothing after the last successful sync is acknowledged, and no sync "
            "is tried again, because a second one may succeed without having written. Close the store, look after the "
            "disk, and open it again: it recovers what reached the disk"
        )
        self.path = path


class SegmentRemovedError(SyncFailedError):
    """The segment that an open store appends to was removed, moved away or replaced. Nothing after its last flush is
    acknowledged; the store refuses further puts."""

    def __init__(self, path: Path) -> None:
        DiskError.__init__(
            self,
            f"{path}: this segment was removed, moved away or replaced while the store had it open: what is appended "
            "to it would be lost. Nothing after the last flush is acknowledged. Close the store, restore the commit "
            "log from a copy, and open it again",
        )
        self.path = path


class StorePoisonedError(DiskError):
    """A sync or a service failed before; the store refuses puts until it is reopened. Reads continue."""

    def __init__(self, path: Path, cause: BaseException) -> None:
        super().__init__(
            f"{path}: takes no more puts since this happened: {cause}. Reads go on; close it and open it again"
        )
        self.path, self.cause = path, cause
