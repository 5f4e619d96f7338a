"""ReceiveMessage, and what clients do with the messages that they received."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import lru_cache, partial
from typing import Any

from ...consume.pop.check_point import MAX_COUNT
from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, PoppedMessage
from ...consume.store import Store
from ...index.filter.sql_filter import SqlFilter
from ...store.errors import FlightlogError, InvalidArgumentError
from ..http2.call import Call
from . import checks
from .brokers import ServedBroker, ServedBrokers
from .clients import Clients
from .context import Context
from .kept_messages import SLICE_MS, give_back
from .long_polls import ServedLongPolls, Watched
from .message_out import popped_response
from .protocol import Code, definition, service, set_milliseconds, status
from .refusals import Refused, refusal
from .routes import Routes

Response = service.ReceiveMessageResponse
DEFAULT_REQUEST_TIMEOUT_MS = 3_000


class Receiving:
    """In one event loop."""

    def __init__(self, brokers: ServedBrokers, routes: Routes, clients: Clients, polls: ServedLongPolls) -> None:
        self._brokers, self._routes, self._clients, self._polls = brokers, routes, clients, polls

    # -- receiving

    async def receive_message(self, call: Call, request: Any) -> None:
        """Answer with a status, the messages, and the time of delivery: always these, in this order."""
        parts: list[bytes] = []
        popped: list[PoppedMessage] = []
        try:
            context = Context.of(call)
            was_known = self._clients.of(context.client_id) is not None
            served, popped = await self._receive(context, request)
            found = status(Code.OK) if popped else status(Code.MESSAGE_NOT_FOUND, "no new message")
            parts = [popped_response(each, each.handle.extra_info) for each in popped]
        except (Refused, FlightlogError) as e:
            found = refusal(e)
        ending = Response()
        set_milliseconds(ending.delivery_timestamp, self._brokers.now_ms())
        if popped and request.auto_renew:
            served.kept.add(context.client_id, (each.handle for each in popped))
            if was_known and self._clients.of(context.client_id) is None:  # it went during the receive
                served.kept.forget_client(context.client_id)
        elif popped:
            served.traffic.in_flight.received(popped)
        call.send(Response(status=found).SerializeToString(), *parts, ending.SerializeToString())
        for each in popped:
            served.traffic.note_received(each.handle.group, each.handle.topic, each.message)

    async def _receive(self, context: Context, request: Any) -> tuple[ServedBroker, list[PoppedMessage]]:
        """The messages, all of one broker."""
        client = self._clients.of(context.client_id)
        timeout_ms = DEFAULT_REQUEST_TIMEOUT_MS if client is None else client.request_timeout_ms
        wait_s = checks.polling_s(request, context.call.left_s(), timeout_ms, context.client_version)
        topic, group = checks.topic_name(request.message_queue.topic), checks.group_name(request.group)
        invisible_ms = SLICE_MS
        if not request.auto_renew:
            invisible_ms = checks.invisible_ms(request.invisible_duration, checks.MIN_INVISIBLE_MS)
        tags, sql = _wanted(request.filter_expression)
        having = await self._routes.having(topic, self._brokers.read_by(request.message_queue.broker.name))
        count = min(max(request.batch_size, 1), MAX_COUNT)
        sources = [_Source(served, group, topic) for served, _ in having]
        due_s = asyncio.get_running_loop().time() + wait_s
        with self._polls.on([source.watched() for source in sources]) as arrival, ExitStack() as expecting:
            for source in sources:
                expecting.enter_context(source.store.pop_service.expecting(arrival, group))
            while True:
                arrival.expect()
                for source in sources:
                    popped = await source.pop(count, invisible_ms, tags, sql, request)
                    if popped or not source.served.is_up:  # that one was lost; the client asks the others next
                        return source.served, popped
                left_s = due_s - asyncio.get_running_loop().time()
                if left_s <= 0 or self._polls.is_closed:
                    return source.served, []
                await arrival.wait(min(left_s, *(source.free_in_s() for source in sources)))

    # -- what was received

    async def ack_message(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        if not request.entries:
            raise Refused(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        found: list[Any] = [None] * len(request.entries)
        handles: dict[ServedBroker, dict[int, PopHandle]] = {}
        for place, entry in enumerate(request.entries):
            try:
                served, handle = self._handle(group, topic, entry.receipt_handle)
                handles.setdefault(served, {})[place] = handle
            except Refused as e:
                found[place] = refusal(e)
        for served, of_broker in handles.items():
            for place, each in zip(of_broker, await _acknowledged(served, list(of_broker.values())), strict=True):
                found[place] = each
        for entry, each in zip(request.entries, found, strict=True):
            response.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=each)
        codes = {each.code for each in found}
        response.status.CopyFrom(status(codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS))

    async def change_invisible_duration(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        invisible_ms = max(checks.invisible_ms(request.invisible_duration, 0), 1)
        response.receipt_handle = request.receipt_handle  # clients take it over before they look at the status
        served, handle = self._handle(group, topic, request.receipt_handle)
        change = partial(served.store.change_invisible, count_attempt=not request.suspend)
        changed = await served.off_loop.run(change, handle, invisible_ms)
        response.receipt_handle = changed.extra_info
        served.traffic.in_flight.changed(changed)

    async def forward_message_to_dead_letter_queue(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        served, handle = self._handle(group, topic, request.receipt_handle)
        forward, attempt = served.store.pop_service.forward_to_dead_letters, max(request.delivery_attempt, 1)
        with suppress(ExpiredHandleError):  # it comes again; a client told so would ask each second without end
            await served.off_loop.run(forward, handle, attempt)
        response.status.CopyFrom(status(Code.OK, "0"))  # the proxy's text, whatever it means

    def _handle(self, group: str, topic: str, text: str) -> tuple[ServedBroker, PopHandle]:
        """The broker, and the handle of what a client calls so. Raises Refused."""
        handle = PopHandle(group, topic, text)
        served = self._brokers.of_handle(handle)
        if not served.kept.forget(handle):
            served.traffic.in_flight.done(handle)
        return served, handle


class _Source:
    """The queues of a topic in one store, as a receive of a group reads them."""

    def __init__(self, served: ServedBroker, group: str, topic: str) -> None:
        self.served, self.store = served, served.store
        """Another store than this one may be the broker's before the receive ends."""
        self._group, self._topic = group, topic

    def watched(self) -> Watched:
        queues = self.store.pop_service.queue_keys(self._group, self._topic)
        return self.store.message_store.arrivals, set(queues)

    def free_in_s(self) -> float:
        return self.store.pop_service.free_in_s(self._group, self._topic)

    async def pop(
        self, count: int, invisible_ms: int, tags: str, sql: SqlFilter | None, request: Any
    ) -> list[PoppedMessage]:
        """Empty, too, once the broker was lost."""
        is_ordered = self.store.group_settings(self._group).is_ordered
        receiving = self.served.off_loop.submit(
            self.store.receive,
            *(self._group, self._topic, count),
            invisible_ms=invisible_ms,
            tags=tags,
            filter=sql,
            attempt_id=(request.attempt_id if is_ordered else None) or None,
            renew=request.auto_renew,
        )
        try:
            return await asyncio.wrap_future(receiving)
        except asyncio.CancelledError:  # the client is gone
            receiving.add_done_callback(self._give_back)
            raise
        except FlightlogError:
            if self.served.is_up:
                raise
            return []

    def _give_back(self, receiving: Future[list[PoppedMessage]]) -> None:
        if not receiving.cancelled() and receiving.exception() is None and receiving.result():
            handles = [each.handle for each in receiving.result()]
            self.served.off_loop.submit(give_back, self.served.broker, *handles)


async def _acknowledged(served: ServedBroker, handles: list[PopHandle]) -> list[Any]:
    """Acknowledge them; returns the status of each."""
    try:
        expired = await served.off_loop.run(_ack, served.store, handles)
    except FlightlogError as e:
        return [refusal(e)] * len(handles)
    late = refusal(Refused(Code.INVALID_RECEIPT_HANDLE, EXPIRED))
    return [late if handle in expired else status(Code.OK) for handle in handles]


def _ack(store: Store, handles: list[PopHandle]) -> set[PopHandle]:
    """Acknowledge them; returns those that have expired."""
    try:
        store.ack(*handles)
    except ExpiredHandleError as e:
        return {handle for handle in e.handles if isinstance(handle, PopHandle)}
    return set()


EXPIRED = "receipt handle is expired"
_remembered_filter = lru_cache(256)(SqlFilter)
MAX_REMEMBERED = 1000
"""Characters of a filter that is kept: a client asks with the same one each time."""


def _wanted(found: Any) -> tuple[str, SqlFilter | None]:
    """Tags such as `a || b`, and a SQL92 filter."""
    text = found.expression or "*"
    if found.type != definition.FilterType.SQL and not text.replace("|", "").strip():
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, f"the filter {text!r} names no tag")
    try:
        if found.type != definition.FilterType.SQL:
            return text, None
        return "*", _remembered_filter(text) if len(text) <= MAX_REMEMBERED else SqlFilter(text)
    except InvalidArgumentError as e:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(e)) from e
