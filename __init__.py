"""flightlog: an embeddable message store whose files are Apache RocketMQ's files.

import flightlog

with flightlog.open("orders-store") as store:
    store.put(flightlog.Message("orders", b"created", tags="create", keys="order-1"))
    for message in store.read("orders"):
        print(message.queue_offset, message.body)
"""

from __future__ import annotations

import sys as _sys
import typing as _typing

if _sys.platform == "win32":
    raise ImportError(
        "flightlog needs Linux (or macOS, untested): Windows has neither POSIX record locks nor fdatasync"
    )


from .consume.consumer import Consumer
from .consume.deduplication.deduplication_window import DeduplicationWindow, EffectInProgressError
from .consume.deliver.received import ReceivedMessage
from .consume.deliver.subscription import Subscription
from .consume.group.group_errors import GroupHasMembersError, GroupNotFoundError, InvalidGroupError
from .consume.group.group_settings import GroupSettings
from .consume.group.group_state import GroupState
from .consume.group.initial_offset import StartFrom
from .consume.group.retry_policy import CustomizedRetryPolicy, ExponentialRetryPolicy
from .consume.pop.pop_errors import ExpiredHandleError
from .consume.pop.popped import PopHandle, PoppedMessage
from .consume.retry.redrive import RedriveResult
from .consume.store import Store
from .consume.store import open_store as open
from .consume.stores import Stores
from .consume.topic_states import TopicState, topic_states
from .engine.backup.backup import BackupResult, backup, copy_store
from .engine.compare.comparing import diff
from .engine.compare.difference import Difference, DifferenceKind
from .engine.delay.waiting_delays import WaitingDelay, waiting_delays
from .engine.read.finding import Boundary
from .engine.read.key_query import QueryResult
from .engine.read.topic_traffic import HourTraffic, SizeBucket, TopicTraffic, topic_traffic
from .engine.read_only import ReadOnlyStore, open_read_only
from .engine.repair.new_store import KeptOffsetsError
from .engine.repair.repairing import RepairReport, repair
from .engine.repair.salvaging import LostRange, SalvageReport, salvage
from .engine.repair.sealing import SealReport, seal
from .engine.statistics import StoreStatistics
from .engine.write.append_atomically import TopicColumns
from .engine.write.queue_handle import QueueHandle
from .index.filter.invalid_filter import InvalidFilterError
from .index.filter.sql_filter import SqlFilter, sql
from .produce.producer import Producer
from .produce.send_errors import GroupLagError, MessageTypeError, NoRouteError, SendManyError, SendTimeoutError
from .produce.send_result import SendFailure, SendResult
from .produce.transaction.checker import TransactionChecker
from .produce.transaction.resolution import TransactionResolution
from .produce.transaction.transaction import Transaction
from .serve.client.client_errors import ServerRefusedError, ServerUnavailableError
from .serve.client.connect import connect
from .store.errors import (
    BodyTooLargeError,
    ClockBehindError,
    ConfigFileError,
    CorruptBodyError,
    CorruptLogError,
    CorruptQueueError,
    CorruptRecordError,
    DamagedStoreError,
    DiskError,
    DiskFullError,
    FileGoneError,
    FileSystemWarning,
    FileTooLargeError,
    FlightlogError,
    ForkedStoreError,
    GeometryMismatchError,
    InconsistentGroupError,
    IndexFileGoneError,
    InvalidAllocationError,
    InvalidArgumentError,
    InvalidMessageError,
    InvalidSettingsError,
    InvalidTopicError,
    ListenerResultError,
    MissingExtraError,
    MissingJavaError,
    MissingSegmentsError,
    NewerFormatError,
    PropertiesTooLargeError,
    QueueNotFoundError,
    RecordTooLargeError,
    RocksDbConfigError,
    RocksDbQueuesError,
    SegmentGoneError,
    SegmentLengthError,
    SegmentRemovedError,
    StoreChangingError,
    StoreClosedError,
    StoreLockedError,
    StoreNotFoundError,
    StorePoisonedError,
    StrayFileError,
    SymbolicLinkError,
    SyncFailedError,
    ThreadStartError,
    TooManyFilesError,
    TooManyQueuesError,
    TopicExistsError,
    TopicNotFoundError,
    TopicPermissionError,
    TopicTooLongError,
    UnkeptPromiseError,
    UnreadMessagesError,
    UnsupportedStoreError,
    UsageError,
    WrongTypeError,
)
from .store.format.compression import CompressionType
from .store.get_result import GetResult, GetStatus
from .store.message import Message
from .store.message_check import EmptyBodyError
from .store.message_queue import MessageQueue
from .store.results import AppendResult, PutResult, PutStatus
from .store.settings import FlushMode, StoreSettings
from .store.stored_message import StoredMessage
from .store.timer_errors import (
    InvalidTimerError,
    TimersCongestedError,
    TimerTooFarError,
    TimerTooLateError,
    UnknownTimerError,
)
from .store.topic import Topic, TopicPermission
from .store.which_kernel import warn_if_another_was_built as _warn_if_another_was_built

if _typing.TYPE_CHECKING:
    from . import spark
    from .serve.client.messages import SendReceipt
    from .serve.client.remote_message import RemoteMessage
    from .serve.client.remote_store import RemoteStore
    from .serve.client.remote_subscription import RemoteSubscription
    from .spark.options.data_loss import CheckpointAheadError, DataLossError

    kernel: str
    """The name of the kernel in use: "c", or "pure" for the reference in Python."""

__version__ = "0.1.0"

__all__ = [
    "AppendResult",
    "BackupResult",
    "BodyTooLargeError",
    "Boundary",
    "CheckpointAheadError",
    "ClockBehindError",
    "CompressionType",
    "ConfigFileError",
    "Consumer",
    "CorruptBodyError",
    "CorruptLogError",
    "CorruptQueueError",
    "CorruptRecordError",
    "CustomizedRetryPolicy",
    "DamagedStoreError",
    "DataLossError",
    "DeduplicationWindow",
    "Difference",
    "DifferenceKind",
    "DiskError",
    "DiskFullError",
    "EffectInProgressError",
    "EmptyBodyError",
    "ExpiredHandleError",
    "ExponentialRetryPolicy",
    "FileGoneError",
    "FileSystemWarning",
    "FileTooLargeError",
    "FlightlogError",
    "FlushMode",
    "ForkedStoreError",
    "GeometryMismatchError",
    "GetResult",
    "GetStatus",
    "GroupHasMembersError",
    "GroupLagError",
    "GroupNotFoundError",
    "GroupSettings",
    "GroupState",
    "HourTraffic",
    "InconsistentGroupError",
    "IndexFileGoneError",
    "InvalidAllocationError",
    "InvalidArgumentError",
    "InvalidFilterError",
    "InvalidGroupError",
    "InvalidMessageError",
    "InvalidSettingsError",
    "InvalidTimerError",
    "InvalidTopicError",
    "KeptOffsetsError",
    "ListenerResultError",
    "LostRange",
    "Message",
    "MessageQueue",
    "MessageTypeError",
    "MissingExtraError",
    "MissingJavaError",
    "MissingSegmentsError",
    "NewerFormatError",
    "NoRouteError",
    "PopHandle",
    "PoppedMessage",
    "Producer",
    "PropertiesTooLargeError",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "QueueHandle",
    "QueueNotFoundError",
    "ReadOnlyStore",
    "ReceivedMessage",
    "RecordTooLargeError",
    "RedriveResult",
    "RemoteMessage",
    "RemoteStore",
    "RemoteSubscription",
    "RepairReport",
    "RocksDbConfigError",
    "RocksDbQueuesError",
    "SalvageReport",
    "SealReport",
    "SegmentGoneError",
    "SegmentLengthError",
    "SegmentRemovedError",
    "SendFailure",
    "SendManyError",
    "SendReceipt",
    "SendResult",
    "SendTimeoutError",
    "ServerRefusedError",
    "ServerUnavailableError",
    "SizeBucket",
    "SqlFilter",
    "StartFrom",
    "Store",
    "StoreChangingError",
    "StoreClosedError",
    "StoreLockedError",
    "StoreNotFoundError",
    "StorePoisonedError",
    "StoreSettings",
    "StoreStatistics",
    "StoredMessage",
    "Stores",
    "StrayFileError",
    "Subscription",
    "SymbolicLinkError",
    "SyncFailedError",
    "ThreadStartError",
    "TimerTooFarError",
    "TimerTooLateError",
    "TimersCongestedError",
    "TooManyFilesError",
    "TooManyQueuesError",
    "Topic",
    "TopicColumns",
    "TopicExistsError",
    "TopicNotFoundError",
    "TopicPermission",
    "TopicPermissionError",
    "TopicState",
    "TopicTooLongError",
    "TopicTraffic",
    "Transaction",
    "TransactionChecker",
    "TransactionResolution",
    "UnkeptPromiseError",
    "UnknownTimerError",
    "UnreadMessagesError",
    "UnsupportedStoreError",
    "UsageError",
    "WaitingDelay",
    "WrongTypeError",
    "backup",
    "connect",
    "copy_store",
    "diff",
    "kernel",
    "open",
    "open_read_only",
    "repair",
    "salvage",
    "seal",
    "spark",
    "sql",
    "topic_states",
    "topic_traffic",
    "waiting_delays",
]


_OF_SPARK = ("CheckpointAheadError", "DataLossError")
"""Errors of the Spark source: they are here too, without its being imported by every program."""


_OF_CLIENT = {
    "RemoteMessage": "remote_message",
    "RemoteStore": "remote_store",
    "RemoteSubscription": "remote_subscription",
    "SendReceipt": "messages",
}
"""What `connect` works with, and its module: it needs protobuf."""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not _typing.TYPE_CHECKING:  # a type checker would take any misspelled name for one of these

    def __getattr__(name: str):
        """`kernel`, and what most programs never use: imported on first use."""
        if name == "kernel":
            from .store import native

            return native.NAME
        if name == "spark":
            import importlib

            return importlib.import_module(".spark", __name__)
        if name in _OF_SPARK:
            from .spark.options import data_loss

            return getattr(data_loss, name)
        if name in _OF_CLIENT:
            import importlib

            return getattr(importlib.import_module(f".serve.client.{_OF_CLIENT[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_warn_if_another_was_built()
