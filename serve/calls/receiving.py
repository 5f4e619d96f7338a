"""ReceiveMessage, and what clients do with the messages that they received."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from ...consume.pop.check_point import MAX_COUNT
from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, PoppedMessage, words_of
from ...consume.store import Store
from ...index.filter.sql_filter import SqlFilter
from ...store.errors import FlightlogError, InvalidArgumentError
from ..http2.call import Call
from ..metrics.traffic import Traffic
from . import checks
from .clients import Clients
from .context import Context
from .long_polls import LongPolls
from .message_out import popped_response
from .off_loop import OffLoop
from .protocol import Code, definition, service, set_milliseconds, status
from .refusals import Refused, refusal
from .renewals import SLICE_MS, Renewals
from .routes import Routes

Response = service.ReceiveMessageResponse
DEFAULT_REQUEST_TIMEOUT_MS = 3_000


class Receiving:
    """In one event loop."""

    def __init__(
        self,
        store: Store,
        off_loop: OffLoop,
        routes: Routes,
        clients: Clients,
        polls: LongPolls,
        renewals: Renewals,
        traffic: Traffic,
    ) -> None:
        self._store, self._off_loop, self._routes, self._clients = store, off_loop, routes, clients
        self._polls, self._renewals, self._clock = polls, renewals, store.message_store.clock
        self._traffic = traffic

    # -- receiving

    async def receive_message(self, call: Call, request: Any) -> None:
        """Answer with a status, the messages, and the time of delivery: always these, in this order."""
        parts: list[bytes] = []
        popped: list[PoppedMessage] = []
        try:
            context = Context.of(call)
            popped = await self._receive(context, request)
            found = status(Code.OK) if popped else status(Code.MESSAGE_NOT_FOUND, "no new message")
            parts = [popped_response(each, each.handle.extra_info) for each in popped]
        except (Refused, FlightlogError) as e:
            found = refusal(e)
        ending = Response()
        set_milliseconds(ending.delivery_timestamp, self._clock.now_ms())
        if popped and request.auto_renew:
            for each in popped:
                self._renewals.add(context.client_id, each.handle)
        call.send(Response(status=found).SerializeToString(), *parts, ending.SerializeToString())
        for each in popped:
            self._traffic.note_received(each.handle.group, each.handle.topic, each.message)

    async def _receive(self, context: Context, request: Any) -> list[PoppedMessage]:
        client = self._clients.of(context.client_id)
        timeout_ms = DEFAULT_REQUEST_TIMEOUT_MS if client is None else client.request_timeout_ms
        wait_s = checks.polling_s(request, context.call.left_s(), timeout_ms, context.client_version)
        topic, group = checks.topic_name(request.message_queue.topic), checks.group_name(request.group)
        invisible_ms = SLICE_MS
        if not request.auto_renew:
            invisible_ms = checks.invisible_ms(request.invisible_duration, checks.MIN_INVISIBLE_MS)
        attempt_id = request.attempt_id if self._store.group_settings(group).is_ordered else None
        tags, sql = _wanted(request.filter_expression)
        await self._routes.topic(topic)
        count = min(max(request.batch_size, 1), MAX_COUNT)
        pop_now = partial(
            self._store.receive,
            *(group, topic, count),
            invisible_ms=invisible_ms,
            tags=tags,
            filter=sql,
            attempt_id=attempt_id or None,
        )
        pops = self._store.pop_service
        due_s = asyncio.get_running_loop().time() + wait_s
        with self._polls.on(set(pops.queue_keys(group, topic))) as arrival, pops.expecting(arrival, group):
            while True:
                arrival.expect()
                popped = await self._pop(pop_now)
                left_s = due_s - asyncio.get_running_loop().time()
                if popped or left_s <= 0 or self._polls.is_closed:
                    return popped
                await arrival.wait(min(left_s, pops.free_in_s(group, topic)))

    async def _pop(self, pop_now: Callable[[], list[PoppedMessage]]) -> list[PoppedMessage]:
        receiving = self._off_loop.submit(pop_now)
        try:
            return await asyncio.wrap_future(receiving)
        except asyncio.CancelledError:  # the client is gone
            receiving.add_done_callback(self._give_back)
            raise

    def _give_back(self, receiving: Future[list[PoppedMessage]]) -> None:
        if not receiving.cancelled() and receiving.exception() is None and receiving.result():
            self._off_loop.submit(self._renewals.give_back, *(each.handle for each in receiving.result()))

    # -- what was received

    async def ack_message(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        if not request.entries:
            raise Refused(Code.INTERNAL_SERVER_ERROR, "ack message result is empty")
        found: list[Any] = [None] * len(request.entries)
        handles: dict[int, PopHandle] = {}
        for place, entry in enumerate(request.entries):
            try:
                handles[place] = self._handle(context, group, topic, entry.receipt_handle)
            except Refused as e:
                found[place] = refusal(e)
        expired = await self._off_loop.run(self._ack, list(handles.values()))
        for place, handle in handles.items():
            is_expired = handle in expired
            found[place] = refusal(Refused(Code.INVALID_RECEIPT_HANDLE, EXPIRED)) if is_expired else status(Code.OK)
        for entry, each in zip(request.entries, found, strict=True):
            response.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=each)
        codes = {each.code for each in found}
        response.status.CopyFrom(status(codes.pop() if len(codes) == 1 else Code.MULTIPLE_RESULTS))

    def _ack(self, handles: list[PopHandle]) -> set[PopHandle]:
        """Acknowledge them; returns those that have expired."""
        if not handles:
            return set()
        try:
            self._store.ack(*handles)
        except ExpiredHandleError as e:
            return {handle for handle in e.handles if isinstance(handle, PopHandle)}
        return set()

    async def change_invisible_duration(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        invisible_ms = max(checks.invisible_ms(request.invisible_duration, 0), 1)
        response.receipt_handle = request.receipt_handle  # clients take it over before they look at the status
        handle = self._handle(context, group, topic, request.receipt_handle)
        changed = await self._off_loop.run(self._store.change_invisible, handle, invisible_ms)
        response.receipt_handle = changed.extra_info

    async def forward_message_to_dead_letter_queue(self, context: Context, request: Any, response: Any) -> None:
        topic, group = checks.topic_name(request.topic), checks.group_name(request.group)
        handle, attempt = self._handle(context, group, topic, request.receipt_handle), max(request.delivery_attempt, 1)
        forward = self._store.pop_service.forward_to_dead_letters
        with suppress(ExpiredHandleError):  # it comes again; a client told so would ask each second without end
            await self._off_loop.run(forward, handle, attempt)
        response.status.CopyFrom(status(Code.OK, "0"))  # the proxy's text, whatever it means

    def _handle(self, context: Context, group: str, topic: str, text: str) -> PopHandle:
        """The handle that counts for what a client calls so."""
        handle = PopHandle(group, topic, text)
        try:
            words_of(handle)
        except InvalidArgumentError as e:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, str(e)) from e
        return self._renewals.take(context.client_id, handle)


EXPIRED = "receipt handle is expired"


def _wanted(found: Any) -> tuple[str, SqlFilter | None]:
    """Tags such as `a || b`, and a SQL92 filter."""
    text = found.expression or "*"
    if found.type != definition.FilterType.SQL and not text.replace("|", "").strip():
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, f"the filter {text!r} names no tag")
    try:
        return ("*", SqlFilter(text)) if found.type == definition.FilterType.SQL else (text, None)
    except InvalidArgumentError as e:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(e)) from e
