"""The clients that are connected: their settings, and the streams on which they take commands."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...consume.group.group_settings import GroupSettings
from ...consume.group.retry_policy import ExponentialRetryPolicy
from ...store.stored_message import StoredMessage
from ..http2.call import INTERNAL, INVALID_ARGUMENT, Call, CallError
from . import checks
from .context import Context
from .message_out import message_of
from .protocol import REQUESTS, Code, definition, set_milliseconds, status
from .refusals import Refused

TelemetryCommand = REQUESTS["Telemetry"]
GONE_S = 60.0
"""After how long without a stream and a heartbeat a client is forgotten."""
PRODUCER_ATTEMPTS, PRODUCER_FIRST_MS, PRODUCER_LONGEST_MS, PRODUCER_MULTIPLIER = 3, 10, 1000, 2
"""Retry policy of a producer (`grpcClientProducerMaxAttempts` and the settings after it)."""
CONSUMERS = {
    definition.ClientType.PUSH_CONSUMER,
    definition.ClientType.SIMPLE_CONSUMER,
    definition.ClientType.LITE_PUSH_CONSUMER,
}
TYPE_NAMES = {number: name for name, number in definition.ClientType.items()}
ANSWERS = frozenset({"thread_stack_trace", "verify_message_result"})
"""What a client sends as an answer (fields of `TelemetryCommand`)."""
TELEMETRY_FAILED = "process client telemetryCommand failed. "


@dataclass
class Client:
    """One client, by its id."""

    settings: Any
    stream: Call | None
    heard_s: float

    @property
    def request_timeout_ms(self) -> int:
        timeout = self.settings.request_timeout
        return int(timeout.seconds) * 1000 + int(timeout.nanos) // 1_000_000

    @property
    def topics(self) -> set[str]:
        """What a producer publishes to."""
        return {topic.name for topic in self.settings.publishing.topics}

    @property
    def is_producer(self) -> bool:
        return bool(self.settings.HasField("publishing"))


class ConnectedClient(NamedTuple):
    """A consumer, for people."""

    client_id: str
    address: str
    kind: str
    """How it receives, such as `push consumer`."""


class ClientGoneError(Exception):
    """The client went before it answered, or does not read."""


class ClientQuestions:
    """In one event loop. An answer has the nonce of its question, and counts only on the stream of that question."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[Call, asyncio.Future[Any]]] = {}

    async def ask(self, stream: Call, command: Any, patience_s: float) -> Any:
        """The `TelemetryCommand` that answers this one, whose nonce is set here. Raises TimeoutError, and
        ClientGoneError."""
        nonce = uuid.uuid4().hex
        getattr(command, command.WhichOneof("command")).nonce = nonce
        found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[nonce] = stream, found
        try:
            stream.send(command.SerializeToString())
            return await asyncio.wait_for(found, patience_s)
        except CallError as e:
            raise ClientGoneError(str(e)) from e
        finally:
            del self._asked[nonce]

    def note_answer(self, stream: Call, told: Any) -> None:
        """A late answer is ignored."""
        nonce = getattr(told, told.WhichOneof("command")).nonce
        asked, found = self._asked.get(nonce, (None, None))
        if asked is stream and found is not None and not found.done():
            found.set_result(told)

    def note_gone(self, stream: Call) -> None:
        for asked, found in self._asked.values():
            if asked is stream and not found.done():
                found.set_exception(ClientGoneError("the client is gone"))


class Clients:
    """In one event loop."""

    def __init__(
        self,
        group_settings: Callable[[str], GroupSettings],
        on_producers: Callable[[], None],
        on_gone: Callable[[str], None],
        authorize: Callable[[Call, str, Any], None],
    ) -> None:
        """`on_producers` is told when producers with a stream come or go, `on_gone` the id of a client that went.
        `authorize` raises Refused for a request that its client may not make."""
        self._group_settings, self._on_producers, self._on_gone = group_settings, on_producers, on_gone
        self._authorize = authorize
        self._clients: dict[str, Client] = {}
        self._questions = ClientQuestions()

    def of(self, client_id: str) -> Client | None:
        return self._clients.get(client_id)

    def __len__(self) -> int:
        return len(self._clients)

    def producer_of(self, topic: str) -> Call | None:
        """The stream of a producer of this topic, any one of them; None if there is none."""
        streams = [each.stream for each in self._clients.values() if topic in each.topics]
        found = [stream for stream in streams if stream is not None]
        return random.choice(found) if found else None

    def ask_producer(self, half: StoredMessage, transaction_id: str) -> bool:
        """Ask a producer of its topic what became of a transaction; False if there is none."""
        stream = self.producer_of(half.topic)
        if stream is None:
            return False
        command = TelemetryCommand()
        asked = command.recover_orphaned_transaction_command
        asked.message.CopyFrom(message_of(half, half.topic))
        asked.transaction_id = transaction_id
        with suppress(CallError):  # it does not read; another check will ask again
            stream.send(command.SerializeToString())
        return True

    def consumer(self, group: str, client_id: str) -> Call | None:
        """The stream of a consumer of this group; None if it is not here."""
        client = self._clients.get(client_id)
        is_member = client is not None and client.settings.subscription.group.name == group
        return client.stream if client is not None and is_member else None

    async def ask_for_stacks(self, stream: Call, patience_s: float) -> Any:
        """A `TelemetryCommand` with the stacks of a client's threads. Raises TimeoutError, ClientGoneError."""
        command = TelemetryCommand()
        command.print_thread_stack_trace_command.SetInParent()
        return await self._questions.ask(stream, command, patience_s)

    async def ask_to_consume(self, stream: Call, message: StoredMessage, patience_s: float) -> Any:
        """Have a push consumer consume this message besides; its status says how. Raises TimeoutError,
        ClientGoneError."""
        command = TelemetryCommand()
        command.verify_message_command.message.CopyFrom(message_of(message, message.topic))
        return await self._questions.ask(stream, command, patience_s)

    def consumers(self) -> dict[str, list[ConnectedClient]]:
        """The consumers whose settings are known, by group. Any thread may ask."""
        found: dict[str, list[ConnectedClient]] = {}
        for client_id, each in tuple(self._clients.items()):
            if not each.is_producer:
                address = "" if each.stream is None else f"{each.stream.peer}:{each.stream.peer_port}"
                kind = TYPE_NAMES.get(each.settings.client_type, "").lower().replace("_", " ")
                of_group = found.setdefault(each.settings.subscription.group.name, [])
                of_group.append(ConnectedClient(client_id, address, kind))
        return found

    def published_topics(self) -> set[str]:
        """The topics whose producers can be asked about transactions."""
        return {topic for each in self._clients.values() if each.stream is not None for topic in each.topics}

    # -- calls

    async def telemetry(self, call: Call) -> None:
        """Keep the stream of a client: take its settings, answer them with what they come to, send commands."""
        context: Context | None = None
        try:
            while (data := await call.receive()) is not None:
                command = TelemetryCommand.FromString(data)
                self._authorize(call, "Telemetry", command)
                context = context or Context.of(call)
                kind = command.WhichOneof("command")
                if kind == "settings":
                    call.send(self._take_settings(context.client_id, command.settings, call).SerializeToString())
                elif kind in ANSWERS:
                    self._questions.note_answer(call, command)
        except Refused as e:
            if e.code in (Code.UNAUTHORIZED, Code.CLIENT_ID_REQUIRED):
                call.send(TelemetryCommand(status=status(e.code, e.text)).SerializeToString())
                return
            raise CallError(INVALID_ARGUMENT, f"{TELEMETRY_FAILED}{e.text}") from e
        finally:
            self._questions.note_gone(call)
            client = None if context is None else self._clients.get(context.client_id)
            if client is not None and client.stream is call:
                client.stream, client.heard_s = None, time.monotonic()
                if client.is_producer:
                    self._on_producers()

    def _take_settings(self, client_id: str, settings: Any, stream: Call) -> Any:
        kind = settings.WhichOneof("pub_sub")
        if kind is None:
            raise CallError(INVALID_ARGUMENT, "there is no publishing or subscription data in settings")
        if kind == "publishing":
            for topic in settings.publishing.topics:
                checks.topic_name(topic)
        else:
            checks.group_name(settings.subscription.group)
            if settings.client_type not in CONSUMERS:
                name = TYPE_NAMES.get(settings.client_type, "UNRECOGNIZED")
                raise CallError(INTERNAL, f"{TELEMETRY_FAILED}Client type is not consumer, type: {name}")
        self._clients[client_id] = Client(settings, stream, time.monotonic())
        if kind == "publishing":
            self._on_producers()
        return TelemetryCommand(status=status(Code.OK), settings=self._merged(settings))

    def _merged(self, settings: Any) -> Any:
        """The settings of a client with those of the server: what is asked for and not set stops some clients."""
        found = definition.Settings()
        found.CopyFrom(settings)
        found.metric.on = False
        backoff = found.backoff_policy
        if found.HasField("publishing"):
            found.publishing.max_body_size = checks.MAX_BODY_SIZE
            found.publishing.validate_message_type = True
            backoff.max_attempts = PRODUCER_ATTEMPTS
            set_milliseconds(backoff.exponential_backoff.initial, PRODUCER_FIRST_MS)
            set_milliseconds(backoff.exponential_backoff.max, PRODUCER_LONGEST_MS)
            backoff.exponential_backoff.multiplier = PRODUCER_MULTIPLIER
            return found
        group = self._group_settings(found.subscription.group.name)
        found.subscription.fifo = group.is_ordered
        found.subscription.receive_batch_size = checks.MAX_BATCH
        set_milliseconds(found.subscription.long_polling_timeout, checks.MAX_POLLING_MS)
        backoff.max_attempts = group.max_attempts
        policy = group.retry_policy
        if isinstance(policy, ExponentialRetryPolicy):
            set_milliseconds(backoff.exponential_backoff.initial, policy.initial_ms)
            set_milliseconds(backoff.exponential_backoff.max, policy.max_ms)
            backoff.exponential_backoff.multiplier = policy.multiplier
            return found
        backoff.customized_backoff.ClearField("next")
        for delay_ms in policy.delays_ms:
            set_milliseconds(backoff.customized_backoff.next.add(), delay_ms)
        return found

    async def heartbeat(self, context: Context, request: Any, response: Any) -> None:
        client = self._known(context)
        client.heard_s = time.monotonic()
        if client.settings.client_type in CONSUMERS:
            checks.group_name(request.group)

    async def notify_client_termination(self, context: Context, request: Any, response: Any) -> None:
        client = self._known(context)
        self._forget(context.client_id)
        if client.settings.client_type in CONSUMERS:
            checks.group_name(request.group)

    def _known(self, context: Context) -> Client:
        client = self._clients.get(context.client_id)
        if client is None:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
        return client

    def _forget(self, client_id: str) -> None:
        client = self._clients.pop(client_id)
        self._on_gone(client_id)
        if client.is_producer:
            self._on_producers()

    def sweep(self) -> None:
        """Forget the clients that are gone without a word."""
        now_s = time.monotonic()
        for client_id, client in tuple(self._clients.items()):
            if client.stream is None and now_s - client.heard_s > GONE_S:
                self._forget(client_id)
