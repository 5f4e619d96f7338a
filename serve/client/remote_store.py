"""A store behind a server, with the calls of `flightlog.open`'s Store."""

from __future__ import annotations

import time
from typing import Any, Self

from ...consume.pop.check_point import MAX_COUNT
from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.pop_request import DEFAULT_INVISIBLE_MS, checked_handle, checked_handles
from ...consume.pop.popped import PopHandle, PoppedMessage
from ...index.filter.sql_filter import SqlFilter
from ...index.filter.wanted import message_filter, tags_or_filter
from ...produce.uniq_key import UniqKeys
from ...store.arguments import check_group, check_seconds, check_text, check_topic, check_type, check_whole
from ...store.errors import InvalidArgumentError
from ...store.message import Message
from ...store.results import PutStatus
from ..calls.checks import MAX_INVISIBLE_MS, MAX_POLLING_MS, MIN_INVISIBLE_MS, MIN_POLLING_MS
from ..calls.protocol import REQUESTS, Code, set_milliseconds
from .messages import SendReceipt, filter_out, message_out, popped_message, refused
from .remote_subscription import RemoteSubscription
from .rpc import Rpc


class RemoteStore:
    """A served store. Created by `flightlog.connect`; a context manager. Thread-safe.

    A child made by fork may use it, too: it opens its own connections. After `close` every call raises
    StoreClosedError. While the server is unreachable, calls wait for it, `timeout_s` in all, and then raise
    ServerUnavailableError. A refusal of the server is raised as the store's own error if the protocol names it, else as
    ServerRefusedError.
    """

    def __init__(self, rpc: Rpc) -> None:
        self._rpc, self._uniq_keys = rpc, UniqKeys()

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._rpc.address

    def put(self, message: Message, *, group: str | None = None) -> SendReceipt:
        """Store a message. Messages of the same message group `group` are stored in order in one queue. The server
        chooses the queue: `queue_id` is ignored.

        When this returns, the guarantees are those of a put to the store: under sync flush PUT_OK is durable. The
        message is sent once. If no answer came, ServerUnavailableError says in `may_be_done` whether it may be stored.
        Raises InvalidMessageError and its subclasses; ServerRefusedError for an error of the server's disk.
        """
        check_type("message", message, Message, "a flightlog.Message")
        check_topic(message.topic)
        check_type("message.body", message.body, bytes, "bytes")
        uniq_key = message.uniq_key or self._uniq_keys.make()
        if group is not None:
            check_text("group", group, "a message group as text")
        made = message_out(message, uniq_key, group)
        [response] = self._rpc.call("SendMessage", REQUESTS["SendMessage"](messages=[made]), repeats=False)
        status = PutStatus.PUT_OK
        if response.status.code == Code.MASTER_PERSISTENCE_TIMEOUT:
            status = PutStatus.FLUSH_DISK_TIMEOUT
        elif response.status.code != Code.OK or not response.entries:
            raise refused(self.address, "put", response.status, message.topic)
        entry = response.entries[0]
        return SendReceipt(status, message.topic, entry.offset, made.system_properties.message_id, entry.recall_handle)

    def receive(
        self,
        group: str | int,
        topic: str,
        max_count: int = MAX_COUNT,
        *,
        invisible_ms: int = DEFAULT_INVISIBLE_MS,
        wait_s: float = 5.0,
        tags: str = "*",
        filter: SqlFilter | None = None,
    ) -> list[PoppedMessage]:
        """Pop up to `max_count` messages (32 at most) of a topic for a group: no other receive of the group gets them
        for `invisible_ms` milliseconds, 10,000 to 12 hours. See `Store.receive`.

        `wait_s`: how many seconds to wait while there is no message, 5 to 20. The list is empty if there is none. A
        receive whose answer was lost is repeated, and the messages of the lost one are redelivered after their time.
        `physical_offset` and `size` of these messages are -1, and their topic is the one that was received from.
        """
        group = check_group(group)
        check_topic(topic)
        check_whole("max_count", max_count, 1, MAX_COUNT)
        check_whole("invisible_ms", invisible_ms, MIN_INVISIBLE_MS, MAX_INVISIBLE_MS)
        check_seconds("wait_s", wait_s, MAX_POLLING_MS / 1000)
        if wait_s * 1000 < MIN_POLLING_MS:
            raise InvalidArgumentError(
                "wait_s", wait_s, f"{MIN_POLLING_MS // 1000} to {MAX_POLLING_MS // 1000} seconds"
            )
        wanted = tags_or_filter(tags, filter)
        message_filter(wanted)
        request = REQUESTS["ReceiveMessage"](batch_size=max_count, filter_expression=filter_out(wanted))
        request.group.name = group
        request.message_queue.topic.name, request.message_queue.id = topic, -1
        set_milliseconds(request.invisible_duration, invisible_ms)
        set_milliseconds(request.long_polling_timeout, int(wait_s * 1000))
        responses = self._rpc.call("ReceiveMessage", request, repeats=True, wait_s=wait_s)
        until_ms = time.time_ns() // 1_000_000 + invisible_ms
        for each in responses:
            if each.HasField("status") and each.status.code not in (Code.OK, Code.MESSAGE_NOT_FOUND):
                raise refused(self.address, "receive", each.status, topic)
        return [popped_message(each.message, group, topic, until_ms) for each in responses if each.HasField("message")]

    def ack(self, *handles: PopHandle) -> None:
        """Acknowledge messages that `receive` returned: they are not delivered again. Acknowledging twice is fine.

        Repeated until it is answered. Durable on return as a put is. Raises ExpiredHandleError if the invisible time of
        some is over, after the others were acknowledged.
        """
        together: dict[tuple[str, str], list[PopHandle]] = {}
        for handle in checked_handles(handles):
            together.setdefault((handle.group, handle.topic), []).append(handle)
        expired: list[PopHandle] = []
        for (group, topic), of_topic in together.items():
            expired += self._ack(group, topic, of_topic)
        if expired:
            now_ms = time.time_ns() // 1_000_000
            raise ExpiredHandleError(expired, now_ms, now_ms)

    def _ack(self, group: str, topic: str, handles: list[PopHandle]) -> list[PopHandle]:
        """Returns those that have expired."""
        request = REQUESTS["AckMessage"]()
        request.group.name, request.topic.name = group, topic
        for handle in handles:
            request.entries.add(receipt_handle=handle.extra_info)
        [response] = self._rpc.call("AckMessage", request, repeats=True)
        statuses = [each.status for each in response.entries] or [response.status] * len(handles)
        for status in statuses:
            if status.code not in (Code.OK, Code.INVALID_RECEIPT_HANDLE):
                raise refused(self.address, "ack", status, topic)
        pairs = zip(handles, statuses, strict=True)
        return [handle for handle, status in pairs if status.code == Code.INVALID_RECEIPT_HANDLE]

    def change_invisible(self, handle: PopHandle, invisible_ms: int, *, count_attempt: bool = True) -> PopHandle:
        """Redeliver a received message `invisible_ms` milliseconds from now, 0 to 12 hours, unless it is acknowledged;
        with `count_attempt=False`, as the same attempt. Returns the handle that is valid from now on. See
        `Store.change_invisible`.

        It is sent once. If no answer came, the old handle may be invalid: its message is then redelivered.
        """
        handle = checked_handle(handle)
        check_whole("invisible_ms", invisible_ms, 0, MAX_INVISIBLE_MS)
        request: Any = REQUESTS["ChangeInvisibleDuration"](receipt_handle=handle.extra_info, suspend=not count_attempt)
        request.group.name, request.topic.name = handle.group, handle.topic
        set_milliseconds(request.invisible_duration, invisible_ms)
        [response] = self._rpc.call("ChangeInvisibleDuration", request, repeats=False)
        if response.status.code != Code.OK:
            raise refused(self.address, "change_invisible", response.status, handle.topic, [handle])
        return PopHandle(handle.group, handle.topic, response.receipt_handle)

    def subscribe(
        self,
        topic: str,
        group: str | int,
        *,
        tags: str = "*",
        filter: SqlFilter | None = None,
        idle_s: float | None = None,
        invisible_ms: int = DEFAULT_INVISIBLE_MS,
        max_count: int = 16,
    ) -> RemoteSubscription:
        """The messages of a topic for a consumer group, as an iterator; any number of processes may share the group.

            with store.subscribe("orders", group="billing") as messages:
                for message in messages:
                    bill(message.body)
                    message.ack()

        A message that is not acknowledged stays with this subscription while it is open, because a thread prolongs its
        invisible time; it is redelivered within `invisible_ms` milliseconds after the process has died. Up to
        `max_count` messages are received at a time. `idle_s`: after how many seconds without a message the iteration
        ends; None: never. Raises InvalidArgumentError.
        """
        check_whole("max_count", max_count, 1, MAX_COUNT)
        check_whole("invisible_ms", invisible_ms, MIN_INVISIBLE_MS, MAX_INVISIBLE_MS)
        if idle_s is not None:
            check_seconds("idle_s", idle_s)
        check_topic(topic)
        group = check_group(group)
        message_filter(tags_or_filter(tags, filter))

        def receive() -> list[PoppedMessage]:
            return self.receive(group, topic, max_count, invisible_ms=invisible_ms, tags=tags, filter=filter)

        return RemoteSubscription(topic, group, receive, self.ack, self.change_invisible, invisible_ms, idle_s)

    @property
    def is_closed(self) -> bool:
        return self._rpc.is_closed

    def close(self) -> None:
        """End the connection, and the calls of other threads with StoreClosedError. Calling it twice is fine."""
        self._rpc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self.address!r}, {'closed' if self.is_closed else 'open'}>"
