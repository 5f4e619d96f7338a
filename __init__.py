"""flightlog: an embeddable message store whose files are Apache RocketMQ's files.

import flightlog

with flightlog.open("orders-store") as store:
    store.put(flightlog.Message("orders", b"created", tags="create", keys="order-1"))
    for message in store.read("orders"):
        print(message.queue_offset, message.body)
"""

from __future__ import annotations

import sys as _sys

if _sys.platform == "win32":
    raise ImportError(
        "flightlog needs Linux (or macOS, untested): Windows has neither POSIX record locks nor fdatasync"
    )

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .consume.consumer import Consumer
from .consume.consuming_store import Store
from .consume.consuming_store import open_store as open
from .consume.received import ReceivedMessage
from .consume.starting import StartFrom
from .consume.stores import Stores
from .consume.subscription import Subscription
from .engine.append_together import ColumnPart
from .engine.finding import Boundary
from .engine.message_store import MessageStore
from .engine.queue_handle import QueueHandle
from .engine.read_only import ReadOnlyStore, open_read_only
from .engine.statistics import StoreStatistics
from .produce.producer import Producer, SendResult
from .store.column_records import AppendResult
from .store.compression import CompressionType
from .store.errors import FlightlogError
from .store.message import GetResult, GetStatus, Message, PutResult, PutStatus, StoredMessage
from .store.message_queue import MessageQueue
from .store.settings import FlushMode, StoreSettings
from .store.topic import Topic, TopicPermission
from .store.which_kernel import warn_if_another_was_built as _warn_if_another_was_built

if _TYPE_CHECKING:
    from . import spark

    kernel: str
    """The name of the kernel in use: "c", or "pure" for the reference in Python."""

__version__ = "0.1.0"

__all__ = [
    "AppendResult",
    "Boundary",
    "ColumnPart",
    "CompressionType",
    "Consumer",
    "FlightlogError",
    "FlushMode",
    "GetResult",
    "GetStatus",
    "Message",
    "MessageQueue",
    "MessageStore",
    "Producer",
    "PutResult",
    "PutStatus",
    "QueueHandle",
    "ReadOnlyStore",
    "ReceivedMessage",
    "SendResult",
    "StartFrom",
    "Store",
    "StoreSettings",
    "StoreStatistics",
    "StoredMessage",
    "Stores",
    "Subscription",
    "Topic",
    "TopicPermission",
    "kernel",
    "open",
    "open_read_only",
    "spark",
]


def __getattr__(name: str) -> _Any:
    """`kernel`, and what most programs never use: imported on first use."""
    if name == "kernel":
        from .store import native

        return native.NAME
    if name == "spark":
        import importlib

        return importlib.import_module(".spark", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_warn_if_another_was_built()
