"""The server's own HTTP/2 against the library h2 as its client: whatever a client may do comes out as it was sent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.settings
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.serve.http2.call import Call, CallError
from flightlog.serve.http2.grpc_connection import CONNECTION_WINDOW, GrpcConnection
from flightlog.tests.support.memory_transport import MemoryTransport

REFUSED = 7
IDLE_TURNS = 20
"""Turns of the loop after which nothing moves any more."""


@dataclass
class Plan:
    """What one call does."""

    sizes: list[int]
    """Sizes of the messages that it sends, which the server sends back."""
    part: int
    """Bytes of a DATA frame."""
    padding: int | None
    extra_headers: int
    """How many; with 300, the block goes on in CONTINUATION frames."""
    has_trailers: bool = False
    is_reset: bool = False
    """Within its request."""
    refusal: str = ""
    """The server answers at once, with this text."""


@dataclass
class Sent:
    """One call, as its client sees it."""

    plan: Plan
    left: bytes
    expected: bytes
    is_over: bool = False
    has_sent: bool = False
    got: bytearray = field(default_factory=bytearray)
    headers: dict[str, str] = field(default_factory=dict)


async def echo(call: Call) -> None:
    if "refuse" in call.headers:
        raise CallError(REFUSED, unquote(call.headers["refuse"]))
    while (message := await call.receive()) is not None:
        call.send(message)


class H2Client:
    """Moves bytes between the two, cut anywhere."""

    def __init__(self, plans: list[Plan], window: int, frame_size: int, table_size: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.transport = MemoryTransport()
        self.lost: list[GrpcConnection] = []
        self.server = GrpcConnection(echo, self.lost.append)
        self.server.connection_made(self.transport)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        codes = h2.settings.SettingCodes
        self.h2.initiate_connection()
        self.h2.max_inbound_frame_size = frame_size  # h2 takes it over between two reads alone
        asked: dict[h2.settings.SettingCodes | int, int] = {
            codes.INITIAL_WINDOW_SIZE: window,
            codes.MAX_FRAME_SIZE: frame_size,
            codes.HEADER_TABLE_SIZE: table_size,
            codes.ENABLE_PUSH: 0,
        }
        self.h2.update_settings(asked)
        self.calls = {1 + 2 * place: self.begun(plan) for place, plan in enumerate(plans)}
        self.unopened = list(self.calls)
        self.unread = bytearray()
        self.unacknowledged: list[tuple[int, int]] = []

    def begun(self, plan: Plan) -> Sent:
        messages = [self.random.randbytes(size) for size in plan.sizes]
        data = b"".join(b"\0" + len(each).to_bytes(4, "big") + each for each in messages)
        return Sent(plan, data, b"" if plan.refusal else data)

    async def run(self) -> None:
        """Until nothing moves any more."""
        idle_turns = 0
        while idle_turns < IDLE_TURNS:
            idle_turns = 0 if self.step() else idle_turns + 1
            await asyncio.sleep(0)

    def step(self) -> bool:
        """Do one thing of those that can be done; False if there is none."""
        doings: list[Callable[[], None]] = []
        doings += [partial(self.send, n) for n, call in self.calls.items() if self.can_send(n, call)]
        if self.unopened:
            doings.append(self.open)
        if self.unread:
            doings.append(self.read)
        if self.unacknowledged:
            doings.append(self.acknowledge)
        if doings:
            self.random.choice(doings)()
        self.unread += self.transport.taken()
        data = self.h2.data_to_send()
        while data:
            count = self.random.choice((1, 9, 100, len(data), len(data)))
            self.server.data_received(data[:count])
            data = data[count:]
        self.unread += self.transport.taken()
        return bool(doings)

    def open(self) -> None:
        stream_id = self.unopened.pop(0)
        plan = self.calls[stream_id].plan
        head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "here"),
            (":path", "/echo"),
            ("te", "trailers"),
        ]
        head += [(f"extra-{number}", f"{number}" * 20) for number in range(plan.extra_headers)]
        head.append(("te", "trailers"))
        if plan.refusal:
            head.append(("refuse", plan.refusal.encode("unicode_escape").decode()))
        self.h2.send_headers(stream_id, head)

    def can_send(self, stream_id: int, call: Sent) -> bool:
        if stream_id in self.unopened or call.has_sent:
            return False
        padding = 0 if call.plan.padding is None else call.plan.padding + 1
        return not call.left or self.h2.local_flow_control_window(stream_id) > padding

    def send(self, stream_id: int) -> None:
        call, plan = self.calls[stream_id], self.calls[stream_id].plan
        if plan.is_reset and self.random.random() < 0.2:
            self.h2.reset_stream(stream_id, 8)
            call.is_over = call.has_sent = True
        elif call.left:
            padding = 0 if plan.padding is None else plan.padding + 1
            room = self.h2.local_flow_control_window(stream_id) - padding
            count = min(plan.part, len(call.left), room, self.h2.max_outbound_frame_size - padding)
            self.h2.send_data(stream_id, call.left[:count], pad_length=plan.padding)
            call.left = call.left[count:]
        else:
            call.has_sent = True
            if plan.has_trailers:
                self.h2.send_headers(stream_id, [("after", "all")], end_stream=True)
            else:
                self.h2.end_stream(stream_id)

    def read(self) -> None:
        count = self.random.choice((1, 9, 1000, len(self.unread), len(self.unread)))
        data = bytes(self.unread[:count])
        del self.unread[:count]
        for event in self.h2.receive_data(data):
            assert not isinstance(event, h2.events.ConnectionTerminated | h2.events.StreamReset), event
            call = self.calls.get(getattr(event, "stream_id", None) or 0)
            if isinstance(event, h2.events.DataReceived):
                assert call is not None
                call.got += event.data
                self.unacknowledged.append((event.flow_controlled_length, event.stream_id))
            elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                assert call is not None
                call.headers.update((str(name), str(value)) for name, value in event.headers)
            elif isinstance(event, h2.events.StreamEnded):
                assert call is not None
                call.is_over = True

    def acknowledge(self) -> None:
        count, stream_id = self.unacknowledged.pop(self.random.randrange(len(self.unacknowledged)))
        try:
            self.h2.acknowledge_received_data(count, stream_id)
        except h2.exceptions.StreamClosedError:
            self.h2.increment_flow_control_window(count)


PLANS = st.builds(
    Plan,
    sizes=st.lists(st.sampled_from((0, 1, 5, 100, 3000, 20_000, 70_000)), max_size=4),
    part=st.sampled_from((1000, 16_384)),
    padding=st.none() | st.integers(0, 255),
    extra_headers=st.sampled_from((0, 3, 300)),
    has_trailers=st.booleans(),
    is_reset=st.booleans(),
    refusal=st.sampled_from(("", "", "100% wrong: ü", "x" * 2000)),
)


@settings(max_examples=60, deadline=None)
@given(
    plans=st.lists(PLANS, min_size=1, max_size=5),
    window=st.sampled_from((1, 1000, 65_535, 1 << 20)),
    frame_size=st.sampled_from((16_384, 1 << 20)),
    table_size=st.sampled_from((0, 100, 4096, 65_536)),
    seed=st.integers(0, 1 << 32),
)
def test_what_a_client_sends_comes_back(
    plans: list[Plan], window: int, frame_size: int, table_size: int, seed: int
) -> None:
    if window == 1:  # a byte at a time
        for plan in plans:
            plan.sizes = [min(size, 100) for size in plan.sizes]

    async def run() -> None:
        client = H2Client(plans, window, frame_size, table_size, seed)
        await client.run()
        for stream_id, call in client.calls.items():
            assert call.is_over, f"stream {stream_id} was never answered"
            if call.plan.is_reset:
                assert call.expected.startswith(bytes(call.got))
                continue
            assert call.headers[":status"] == "200"
            assert call.headers["grpc-status"] == str(REFUSED if call.plan.refusal else 0)
            assert bytes(call.got) == call.expected
            if call.plan.refusal:
                told = unquote(unquote(call.headers["grpc-message"]))
                assert told == call.plan.refusal.encode("unicode_escape").decode()[:1000]
        assert not client.server.calls
        assert not client.server.answered
        assert client.server.held.size == 0
        client.server.connection_lost(None)
        assert client.lost == [client.server]

    asyncio.run(run())


def test_a_message_is_larger_than_the_windows() -> None:
    """Both ways: more than a stream's window, and all together more than the connection's."""

    async def run() -> None:
        plan = Plan(sizes=[CONNECTION_WINDOW // 2], part=16_384, padding=None, extra_headers=0)
        client = H2Client([plan] * 3, 1 << 20, 1 << 20, 4096, seed=0)
        await client.run()
        assert all(call.got == call.expected for call in client.calls.values())

    asyncio.run(run())
