"""The store that an application opens: a MessageStore, and the consumer groups that read it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from ..engine.documented import documented_by
from ..engine.message_store import MessageStore
from ..engine.read.finding import Boundary
from ..engine.read.get_limits import DEFAULT_MAX_COUNT
from ..engine.read.key_query import QueryResult
from ..engine.read.reader import DEFAULT_BATCH_COUNT, DEFAULT_BATCH_SIZE
from ..engine.read.reading import OnCorrupt
from ..engine.services.long_polls import DEFAULT_WAIT_S
from ..engine.services.retention import CleanUpReport
from ..engine.shutdown import close_at_exit
from ..engine.statistics import StoreStatistics
from ..engine.verify.findings import VerifyReport
from ..engine.write.append_atomically import TopicColumns
from ..engine.write.putting import PrePutHook
from ..engine.write.queue_handle import QueueHandle
from ..index.filter.sql_filter import SqlFilter
from ..index.filter.wanted import Wanted, tags_or_filter
from ..store import native
from ..store.arguments import check_group
from ..store.disk.clock import Clock
from ..store.disk.disk import Disk
from ..store.get_result import GetResult
from ..store.log.atomic_append import AtomicRange, Commit
from ..store.message import Message
from ..store.queue_offsets import QueueKey
from ..store.results import AppendResult, PutResult, PutStatus
from ..store.settings import StoreSettings
from ..store.stored_message import StoredMessage
from ..store.topic import READ_WRITE, Topic
from .allocate.allocate import AllocationStrategy
from .consumption import StoreConsumption
from .deliver.failures import OnDeadLetter
from .deliver.process_queue import FlowLimits
from .deliver.subscription import Subscription
from .group.consumed_store import Owner
from .group.group import Change
from .group.group_settings import GroupSettings
from .group.group_state import GroupState
from .group.group_table import GroupTable
from .group.initial_offset import StartFrom
from .group.retry_policy import RetryPolicy
from .group.store_checks import check_new_group
from .group_admin import GroupAdmin
from .group_coordinator import GroupCoordinator
from .outside_groups import OutsideGroups
from .pop.pop_request import DEFAULT_INVISIBLE_MS, DEFAULT_POP_COUNT
from .pop.pop_service import PopService
from .pop.popped import PopHandle, PoppedMessage
from .readers import Readers
from .retry.redrive import Redrive, RedriveResult, Where
from .retry.sent_back import SentBack
from .retry.starts import Starts

if TYPE_CHECKING:
    import pyarrow as pa


class Store(native.OrdinaryPut):
    """A store with its consumer groups, open for writing. Made by `flightlog.open`; a context manager.

    Thread-safe. It holds a MessageStore, and a GroupCoordinator from the first subscription on. Every call
    raises StoreClosedError after `close`, and ForkedStoreError in a child made by fork.
    """

    if TYPE_CHECKING:  # the kernel has it, and knows the types of neither

        def put(self, message: Message) -> PutResult: ...

    def __init__(self, store: MessageStore) -> None:
        self._at_exit = close_at_exit(self)
        self._store = self.message_store = store
        self._group_table = GroupTable(store.disk, store.path, store.clock)
        owners: dict[str, Owner] = {}
        with ExitStack() as undo:
            undo.callback(store.close)
            self._group_table.load()
            self.pop_service = PopService(store, self._group_table, owners, store.settings.broker_name)
            self.pop_service.recover()
            self._starts = Starts.loaded(store.disk, store.path, store.log_end())
            self._sent_back = SentBack(store, self._starts)
            undo.pop_all()
        self._put_fast_path = store.put_fast_path  # of `put`, without a frame of Python
        self._put_slow = store.put_slow  # type: ignore[method-assign]
        self.path, self.settings, self.recovery_report = store.path, store.settings, store.recovery_report
        store.retention.consumption = StoreConsumption(store)
        self._readers = Readers(
            store, self._group_table, self._starts, self._sent_back, owners, self.pop_service.no_pop
        )
        self._redrive = Redrive(store)
        atexit.register(self._at_exit)  # after that of the store: so it comes first

    @classmethod
    @documented_by(MessageStore.open)
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: StoreSettings | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        pre_put_hook: PrePutHook | None = None,
    ) -> Self:
        return cls(MessageStore.open(path, settings, disk=disk, clock=clock, pre_put_hook=pre_put_hook))

    # -- putting

    @documented_by(MessageStore.put_async)
    def put_async(self, message: Message) -> Future[PutResult]:
        return self._store.put_async(message)

    @documented_by(MessageStore.put_many)
    def put_many(self, messages: Iterable[Message]) -> list[PutResult]:
        return self._store.put_many(messages)

    @documented_by(MessageStore.put_batch)
    def put_batch(self, messages: Iterable[Message]) -> list[PutResult]:
        return self._store.put_batch(messages)

    @documented_by(MessageStore.queue)
    def queue(self, topic: str, queue_id: int = 0) -> QueueHandle:
        return self._store.queue(topic, queue_id)

    @documented_by(MessageStore.append_columns)
    def append_columns(self, topic: str, columns: Any) -> AppendResult:
        return self._store.append_columns(topic, columns)

    @documented_by(MessageStore.append_atomically)
    def append_atomically(
        self, parts: Iterable[TopicColumns], before_commit: Commit = lambda appended: None
    ) -> AtomicRange:
        return self._store.append_atomically(parts, before_commit)

    @documented_by(MessageStore.cancel_timer)
    def cancel_timer(self, topic: str, uniq_key: str, deliver_at_ms: int) -> PutResult:
        return self._store.cancel_timer(topic, uniq_key, deliver_at_ms)

    @documented_by(MessageStore.flush)
    def flush(self) -> None:
        self._store.flush()

    @documented_by(MessageStore.wait_until_prepared)
    def wait_until_prepared(self, timeout_s: float) -> bool:
        return self._store.wait_until_prepared(timeout_s)

    # -- reading

    @documented_by(MessageStore.get)
    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        max_size: int | None = None,
    ) -> GetResult:
        wanted = tags_or_filter(tags, filter)
        return self._store.get(topic, queue_id, queue_offset, max_count, tags=wanted, max_size=max_size)

    @documented_by(MessageStore.read)
    def read(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        return self._store.read(
            *(topic, queue_id, queue_offset),
            tags=tags_or_filter(tags, filter),
            decompress=decompress,
            on_corrupt=on_corrupt,
            must_exist=must_exist,
        )

    @documented_by(MessageStore.read_all)
    def read_all(
        self,
        topic: str,
        physical_offset: int | None = None,
        *,
        begin_ms: int | datetime | None = None,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        decompress: bool = False,
        on_corrupt: OnCorrupt = "raise",
        must_exist: bool = False,
    ) -> Iterator[StoredMessage]:
        return self._store.read_all(
            *(topic, physical_offset),
            begin_ms=begin_ms,
            tags=tags_or_filter(tags, filter),
            decompress=decompress,
            on_corrupt=on_corrupt,
            must_exist=must_exist,
        )

    @documented_by(MessageStore.read_batch)
    def read_batch(
        self,
        topic: str,
        queue_id: int = 0,
        queue_offset: int | None = None,
        *,
        max_count: int = DEFAULT_BATCH_COUNT,
        max_size: int = DEFAULT_BATCH_SIZE,
        columns: Sequence[str] | None = None,
        on_corrupt: OnCorrupt = "raise",
    ) -> pa.RecordBatch:
        return self._store.read_batch(
            *(topic, queue_id, queue_offset),
            max_count=max_count,
            max_size=max_size,
            columns=columns,
            on_corrupt=on_corrupt,
        )

    @documented_by(MessageStore.body_view)
    def body_view(self, message: StoredMessage) -> memoryview:
        return self._store.body_view(message)

    @property
    def corrupt_skipped(self) -> int:
        """Messages that `on_corrupt="skip"` has left out so far."""
        return self._store.corrupt_skipped

    @documented_by(MessageStore.queues)
    def queues(self) -> dict[QueueKey, tuple[int, int]]:
        return self._store.queues()

    @documented_by(MessageStore.queue_bounds)
    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self._store.queue_bounds(topic, queue_id)

    @documented_by(MessageStore.offset_at)
    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int | datetime, boundary: Boundary = "lower") -> int:
        return self._store.offset_at(topic, queue_id, timestamp_ms, boundary)

    @documented_by(MessageStore.estimate_count)
    def estimate_count(self, topic: str, queue_id: int, start: int, stop: int, *, tags: str | None = None) -> int:
        return self._store.estimate_count(topic, queue_id, start, stop, tags=tags)

    @documented_by(MessageStore.message_at)
    def message_at(self, physical_offset: int, batch_index: int | None = None) -> StoredMessage | None:
        return self._store.message_at(physical_offset, batch_index)

    @documented_by(MessageStore.message_by_id)
    def message_by_id(self, message_id: str) -> StoredMessage | None:
        return self._store.message_by_id(message_id)

    @documented_by(MessageStore.query)
    def query(
        self,
        topic: str,
        key: str,
        begin_ms: int | datetime = 0,
        end_ms: int | datetime | None = None,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        on_corrupt: OnCorrupt = "raise",
    ) -> QueryResult:
        return self._store.query(topic, key, begin_ms, end_ms, max_count, on_corrupt=on_corrupt)

    @documented_by(MessageStore.message_by_uniq_key)
    def message_by_uniq_key(self, topic: str, uniq_key: str) -> StoredMessage | None:
        return self._store.message_by_uniq_key(topic, uniq_key)

    @documented_by(MessageStore.was_stored)
    def was_stored(self, uniq_key: str, topic: str | None = None) -> bool:
        return self._store.was_stored(uniq_key, topic)

    @documented_by(MessageStore.pull)
    def pull(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = DEFAULT_MAX_COUNT,
        *,
        tags: str | None = None,
        filter: SqlFilter | None = None,
        max_size: int | None = None,
        wait_s: float = DEFAULT_WAIT_S,
    ) -> Future[GetResult]:
        wanted = tags_or_filter(tags, filter)
        return self._store.pull(topic, queue_id, queue_offset, max_count, tags=wanted, max_size=max_size, wait_s=wait_s)

    # -- topics

    @documented_by(MessageStore.topics)
    def topics(self, *, include_system: bool = False) -> dict[str, Topic]:
        return self._store.topics(include_system=include_system)

    @documented_by(MessageStore.topic)
    def topic(self, name: str) -> Topic | None:
        return self._store.topic(name)

    @documented_by(MessageStore.create_topic)
    def create_topic(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> Topic:
        return self._store.create_topic(
            *(name, queue_count),
            read_queue_count=read_queue_count,
            write_queue_count=write_queue_count,
            perm=perm,
            order=order,
            attributes=attributes,
        )

    @documented_by(MessageStore.update_topic)
    def update_topic(
        self,
        name: str,
        queue_count: int | None = None,
        *,
        read_queue_count: int | None = None,
        write_queue_count: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        allow_unread: bool = False,
    ) -> Topic:
        return self._store.update_topic(
            *(name, queue_count),
            read_queue_count=read_queue_count,
            write_queue_count=write_queue_count,
            perm=perm,
            order=order,
            attributes=attributes,
            allow_unread=allow_unread,
        )

    @documented_by(MessageStore.delete_topic)
    def delete_topic(self, name: str) -> None:
        self._store.delete_topic(name)
        self._readers.forget_topic(name)
        self.pop_service.forget(topic=name)

    # -- consumer groups

    @documented_by(GroupCoordinator.subscribe)
    def subscribe(
        self,
        topics: str | Mapping[str, Wanted],
        group: str | int,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        start: StartFrom | int | datetime = StartFrom.FIRST,
        member: str | None = None,
        strategy: AllocationStrategy | None = None,
        limits: FlowLimits | None = None,
        ordered: bool = False,
        idle_s: float | None = None,
        broadcast_folder: str | os.PathLike[str] | None = None,
        on_change: Callable[[Change], None] | None = None,
        must_exist: bool = False,
        max_attempts: int | None = None,
        on_dead_letter: OnDeadLetter | None = None,
        consume_timeout_s: float | None = None,
    ) -> Subscription:
        return self._readers.own().subscribe(
            *(topics, group),
            tags=tags,
            filter=filter,
            start=start,
            member=member,
            strategy=strategy,
            limits=limits,
            ordered=ordered,
            idle_s=idle_s,
            broadcast_folder=broadcast_folder,
            on_change=on_change,
            must_exist=must_exist,
            max_attempts=max_attempts,
            on_dead_letter=on_dead_letter,
            consume_timeout_s=consume_timeout_s,
        )

    @documented_by(PopService.receive)
    def receive(
        self,
        group: str | int,
        topic: str,
        max_count: int = DEFAULT_POP_COUNT,
        *,
        invisible_ms: int = DEFAULT_INVISIBLE_MS,
        wait_s: float = 0.0,
        tags: str = "*",
        filter: SqlFilter | None = None,
        start: StartFrom | int | datetime = StartFrom.FIRST,
        max_attempts: int | None = None,
        attempt_id: str | None = None,
        renew: bool = False,
    ) -> list[PoppedMessage]:
        return self.pop_service.receive(
            *(group, topic, max_count, invisible_ms, wait_s, start, renew),
            tags=tags,
            filter=filter,
            max_attempts=max_attempts,
            attempt_id=attempt_id,
        )

    @documented_by(PopService.ack)
    def ack(self, *handles: PopHandle) -> PutStatus:
        return self.pop_service.ack(*handles)

    @documented_by(PopService.change_invisible)
    def change_invisible(
        self, handle: PopHandle, invisible_ms: int | None = None, *, count_attempt: bool = True
    ) -> PopHandle:
        return self.pop_service.change_invisible(handle, invisible_ms, count_attempt=count_attempt)

    @documented_by(GroupCoordinator.change_subscription)
    def change_subscription(
        self,
        group: str | int,
        topics: str | Mapping[str, Wanted] | None = None,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        strategy: AllocationStrategy | None = None,
    ) -> None:
        self._readers.own().change_subscription(group, topics, tags=tags, filter=filter, strategy=strategy)

    @documented_by(GroupAdmin.group_offsets)
    def group_offsets(self, group: str | int, topic: str) -> dict[int, int]:
        return self._admin().group_offsets(group, topic)

    @documented_by(GroupAdmin.settings)
    def group_settings(self, group: str | int) -> GroupSettings:
        return self._admin().settings(group)

    @documented_by(GroupTable.update)
    def update_group(
        self,
        group: str | int,
        *,
        is_enabled: bool | None = None,
        is_broadcast_enabled: bool | None = None,
        is_ordered: bool | None = None,
        retry_queue_count: int | None = None,
        retry_max_times: int | None = None,
        retry_policy: RetryPolicy | None = None,
        consume_timeout_minutes: int | None = None,
    ) -> GroupSettings:
        self._store.check_usable()
        check_new_group(self._store, self._group_table, check_group(group))
        settings = self._group_table.update(
            group,
            is_enabled=is_enabled,
            is_broadcast_enabled=is_broadcast_enabled,
            is_ordered=is_ordered,
            retry_queue_count=retry_queue_count,
            retry_max_times=retry_max_times,
            retry_policy=retry_policy,
            consume_timeout_minutes=consume_timeout_minutes,
        )
        self._readers.wake(settings.name)
        return settings

    @documented_by(GroupAdmin.dead_letters)
    def dead_letters(self, group: str | int) -> Iterator[StoredMessage]:
        return self._admin().dead_letters(group)

    @documented_by(Redrive.redrive)
    def redrive(
        self, group: str | int, *, to: str | None = None, where: Where | None = None, dry_run: bool = False
    ) -> RedriveResult:
        return self._redrive.redrive(group, to=to, where=where, dry_run=dry_run)

    @documented_by(GroupAdmin.groups)
    def groups(self, *, include_system: bool = False) -> dict[str, GroupState]:
        return self._admin().groups(include_system=include_system)

    @documented_by(GroupAdmin.lag)
    def lag(self, group: str | int) -> dict[QueueKey, int]:
        return self._admin().lag(group)

    @documented_by(GroupAdmin.reset_offset)
    def reset_offset(
        self,
        group: str | int,
        topic: str,
        to: int | datetime | StartFrom | Literal["first", "last"],
        *,
        queue_id: int | None = None,
        dry_run: bool = False,
    ) -> dict[int, int]:
        self._readers.own()  # its coordinator is there, so that no member joins meanwhile
        return self._admin().reset_offset(group, topic, to, queue_id=queue_id, dry_run=dry_run)

    @documented_by(GroupAdmin.commit_offset)
    def commit_offset(self, group: str | int, topic: str, queue_id: int, queue_offset: int) -> None:
        self._readers.own()
        self._admin().commit_offset(group, topic, queue_id, queue_offset)

    @documented_by(GroupAdmin.delete)
    def delete_group(self, group: str | int, *, with_topics: bool = False) -> None:
        self._readers.own()
        self._admin().delete(group, with_topics=with_topics)

    def _admin(self) -> GroupAdmin:
        self._store.check_usable()
        readers = self._readers.now()
        return GroupAdmin(self._store, self._group_table, readers, self.pop_service, self._sent_back, self.delete_topic)

    def be_read_by(self, coordinator: GroupCoordinator, name: str) -> None:
        """See Stores.add_store."""
        self._readers.add(coordinator, name)

    def outside_groups(self, owner: Owner) -> OutsideGroups:
        """The groups whose members allocate the queues among themselves; `owner` says whether a group has any."""
        return self._readers.outside(owner)

    # -- checking

    @documented_by(MessageStore.verify)
    def verify(self) -> VerifyReport:
        return self._store.verify()

    @documented_by(MessageStore.statistics)
    def statistics(self) -> StoreStatistics:
        return self._store.statistics()

    @documented_by(MessageStore.clean_up)
    def clean_up(
        self, retention_hours: int | None = None, *, consumed_by_all: bool = False, dry_run: bool = False
    ) -> CleanUpReport:
        return self._store.clean_up(retention_hours, consumed_by_all=consumed_by_all, dry_run=dry_run)

    # -- life

    def close(self) -> None:
        """End every subscription to this store alone, drop its queues from those to several, write acknowledgements,
        then flush everything, mark the store as cleanly closed, and release it. Closing twice is fine. Raises what the
        flush raises; the store is closed nevertheless, but like after a kill. If a KeyboardInterrupt ends it, call it
        again. Do not call it in a signal handler, which may interrupt a put: raise an exception there, and close where
        it arrives. A store that is never closed is closed at exit, or with its handle (and a ResourceWarning)."""
        atexit.unregister(self._at_exit)
        if not self._store.is_usable:
            self._store.close()
            return
        with self._readers.without_new():
            try:
                self.pop_service.close()
                self._readers.end()
            finally:
                try:
                    self._starts.close(is_saved=self._store.poison is None)
                finally:
                    self._store.close()

    @property
    def is_closed(self) -> bool:
        return self._store.is_closed

    def __del__(self) -> None:
        atexit.unregister(self._at_exit)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.path)!r}, {'closed' if self.is_closed else 'open for writing'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


open_store = Store.open
