"""The calls of RocketMQ's MessagingService, each handed to what answers it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ..access.accounts import AccessDenied
from ..access.acl_file import AclFile
from ..access.at_work import AtWork, Most, TooMuchAtWorkError
from ..access.grpc_access import credentials_of, needed_for
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop
from ..http2.call import EXHAUSTED, INVALID_ARGUMENT, UNIMPLEMENTED, Call, CallError
from .brokers import ServedBroker, ServedBrokers
from .clients import Clients
from .context import CLIENT_ID, Context
from .long_polls import ServedLongPolls
from .protocol import REQUESTS, RESPONSES, SERVICE_NAME, Code, status
from .receiving import Receiving
from .refusals import Refused, refusal
from .routes import Routes
from .sending import Sending

log = logging.getLogger("flightlog.serve")
access_log = logging.getLogger("flightlog.serve.access")

OF_CLIENT, OF_ADDRESS = Most(4_000, 128 << 20), Most(20_000, 512 << 20)
"""Calls at work of one client id, and of one address: a client may wait for a thousand queues, and a machine
may have many clients."""
STREAMS_OF_CLIENT, STREAMS_OF_ADDRESS = Most(16, 0), Most(20_000, 0)
"""The same for streams of telemetry. A client has one of each server that it knows."""

Answer = Callable[[Context, Any, Any], Awaitable[None]]
"""Context, request, and the response to fill."""


def _client_id(call: Call) -> str:
    return call.headers.get(CLIENT_ID, "")


class GrpcService:
    """In one event loop."""

    def __init__(
        self, brokers: Iterable[Broker], *, advertised: str | None, auto_create: bool, acl: AclFile | None
    ) -> None:
        """`acl`: who may do what; None: everybody everything."""
        self._acl = acl
        self._at_work, self._streams = AtWork(OF_CLIENT, OF_ADDRESS), AtWork(STREAMS_OF_CLIENT, STREAMS_OF_ADDRESS)
        self.running = 0
        """Calls at work, the streams of telemetry excepted."""
        self.off_loop = OffLoop()
        """For what is of no one broker."""
        self.polls = ServedLongPolls()
        self.brokers = ServedBrokers(brokers, lambda half, its_id: self.clients.ask_producer(half, its_id))
        self.clients = Clients(
            self.brokers.group_settings, self._producers_changed, self.brokers.forget_client, self._authorize
        )
        routes = Routes(self.brokers, advertised, auto_create=auto_create)
        self._sending = Sending(self.brokers, self.off_loop, routes)
        self._receiving = Receiving(self.brokers, routes, self.clients, self.polls)
        self._answers: dict[str, Answer] = {
            "QueryRoute": routes.query_route,
            "QueryAssignment": routes.query_assignment,
            "Heartbeat": self.clients.heartbeat,
            "NotifyClientTermination": self.clients.notify_client_termination,
            "SendMessage": self._sending.send_message,
            "RecallMessage": self._sending.recall_message,
            "AckMessage": self._receiving.ack_message,
            "ChangeInvisibleDuration": self._receiving.change_invisible_duration,
            "ForwardMessageToDeadLetterQueue": self._receiving.forward_message_to_dead_letter_queue,
            "EndTransaction": self._sending.end_transaction,
        }

    def _producers_changed(self) -> None:
        self.brokers.check_groups(self.clients.published_topics())

    async def handle(self, call: Call) -> None:
        """Serve a call to its end."""
        service, _, name = call.path.removeprefix("/").partition("/")
        if service != SERVICE_NAME or name not in REQUESTS:
            raise CallError(UNIMPLEMENTED, f"no such call: {call.path}")
        if name == "Telemetry":
            try:
                with self._streams.one((_client_id(call), call.peer), call.peer, 0):
                    await self.clients.telemetry(call)
            except TooMuchAtWorkError as e:
                raise CallError(EXHAUSTED, str(e)) from e
            return
        began_s = time.monotonic()
        self.running += 1
        try:
            if name == "ReceiveMessage":
                request, size = await self._request(call, name)
                try:
                    self._authorize(call, name, request)
                    with self._at_work.one(_client_id(call), call.peer, size):
                        await self._receiving.receive_message(call, request)
                except (Refused, TooMuchAtWorkError) as e:
                    call.send(RESPONSES[name](status=refusal(e)).SerializeToString())
            elif name in self._answers:
                await self._answer(call, name, self._answers[name])
            else:
                raise CallError(UNIMPLEMENTED, f"Method {SERVICE_NAME}/{name} is unimplemented")
        finally:
            self.running -= 1
        access_log.debug("%s of %s:%d: %.1f ms", name, call.peer, call.peer_port, (time.monotonic() - began_s) * 1000)

    def _authorize(self, call: Call, name: str, request: Any) -> None:
        """Raises Refused for a request that its client may not make."""
        if self._acl is None:
            return
        try:
            self._acl.accounts.check(credentials_of(call.headers), call.peer, needed_for(name, request))
        except AccessDenied as e:
            access_log.debug("%s of %s:%d was refused: %s", name, call.peer, call.peer_port, e)
            raise Refused(Code.UNAUTHORIZED, str(e)) from e

    async def _request(self, call: Call, name: str) -> tuple[Any, int]:
        """The request, and its bytes."""
        data = await call.receive()
        if data is None:
            raise CallError(INVALID_ARGUMENT, "the call has no request")
        try:
            return REQUESTS[name].FromString(data), len(data)
        except Exception as e:  # protobuf's DecodeError, of whichever of its implementations is here
            raise CallError(INVALID_ARGUMENT, f"the request is no {REQUESTS[name].DESCRIPTOR.name}") from e

    async def _answer(self, call: Call, name: str, answer: Answer) -> None:
        (request, size), response = await self._request(call, name), RESPONSES[name]()
        try:
            self._authorize(call, name, request)
            with self._at_work.one(_client_id(call), call.peer, size):
                await answer(Context.of(call), request, response)
            if not response.status.code:
                response.status.CopyFrom(status(Code.OK))
        except Exception as e:  # clients understand codes, and no failed call
            response.status.CopyFrom(refusal(e))
        call.send(response.SerializeToString())

    def sweep(self) -> None:
        """What is done from time to time, in the loop."""
        self.clients.sweep()

    def refresh(self) -> None:
        """What is done from time to time, by a thread: it may wait for the disk."""
        if self._acl is not None:
            self._acl.refresh()

    def note_opened(self, served: ServedBroker) -> None:
        """It was opened after the others, or again."""
        self._sending.note_opened(served.broker)
        served.transactions.check_groups(self.clients.published_topics())

    def close(self) -> None:
        """Return once the last call has ended. By a thread."""
        self.brokers.close()
        self.off_loop.close()
