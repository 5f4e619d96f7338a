"""Frames out of bytes, cut anywhere; and bytes that are none, which end their connection and nothing else."""

from __future__ import annotations

import asyncio
import random

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.serve.http2.call import Call
from flightlog.serve.http2.frame_reader import MAX_CONTINUATIONS, FrameReader
from flightlog.serve.http2.frames import DATA, HEADERS, PREFACE, FrameError, frame
from flightlog.serve.http2.grpc_connection import CONNECTION_WINDOW, MAX_CALLS, STREAM_WINDOW, GrpcConnection
from flightlog.tests.support.memory_transport import MemoryTransport

BLOCK = Encoder().encode([(":method", "POST"), (":scheme", "http"), (":path", "/x"), ("te", "trailers")])


def opening(stream_id: int, *flags: str) -> HeadersFrame:
    return HeadersFrame(stream_id, BLOCK, flags=["END_HEADERS", *flags])


@pytest.mark.parametrize("step", [1, 2, 7, 100, 1 << 20])
def test_frames_are_read_wherever_they_are_cut(step: int) -> None:
    padded = DataFrame(3, b"data", pad_length=200, flags=["PADDED"])
    first = HeadersFrame(3, b"one", pad_length=3, depends_on=1, flags=["PADDED", "PRIORITY"])
    parts = [first, ContinuationFrame(3, b"two"), ContinuationFrame(3, b"three", flags=["END_HEADERS"])]
    data = PREFACE + b"".join(each.serialize() for each in (SettingsFrame(0), *parts, padded, DataFrame(3, b"more")))
    reader = FrameReader()
    found: list[tuple[int, int, int, bytes, int]] = []
    for at in range(0, len(data), step):
        found += reader.frames(data[at : at + step])
    assert [(kind, payload) for kind, _, _, payload, _ in found] == [
        (4, b""),
        (HEADERS, b"onetwothree"),
        (DATA, b"data"),
        (DATA, b"more"),
    ]
    assert found[2][4] == 1 + 4 + 200


WRONG: list[bytes] = [
    b"\x00\x40\x01" + bytes(6),  # too long, and refused before it is there
    frame(0, 0, 0, b"x"),
    frame(1, 4, 0, BLOCK),
    frame(1, 4, 2, BLOCK),
    frame(2, 0, 1, bytes(4)),
    frame(3, 0, 1, bytes(3)),
    frame(3, 0, 1, bytes(4)),
    frame(4, 0, 0, bytes(5)),
    frame(4, 1, 0, bytes(6)),
    frame(4, 0, 1, bytes(6)),
    frame(4, 0, 0, b"\0\4\x80\0\0\0"),
    frame(4, 0, 0, b"\0\5\0\0\0\1"),
    frame(4, 0, 0, b"\0\2\0\0\0\2"),
    frame(5, 4, 1, bytes(4) + BLOCK),
    frame(6, 0, 0, bytes(7)),
    frame(6, 0, 1, bytes(8)),
    frame(7, 0, 0, bytes(7)),
    frame(8, 0, 0, bytes(4)),
    frame(8, 0, 0, b"\x7f\xff\xff\xff"),
    frame(8, 0, 1, b"\0\0\0\1"),
    frame(9, 4, 1, BLOCK),
    frame(1, 0, 1, BLOCK) + frame(6, 0, 0, bytes(8)),
    frame(1, 0, 1, BLOCK) + frame(9, 4, 3),
    frame(1, 0, 1) + frame(9, 0, 1) * (MAX_CONTINUATIONS + 1),
    frame(1, 4 | 8, 1, b"\xff" + BLOCK),
    frame(1, 4 | 8, 1),
    frame(1, 4 | 0x20, 1, bytes(4)),
    frame(1, 4, 1, BLOCK) + frame(0, 8, 1, b"\5aaaa"),
    frame(1, 4, 1, BLOCK) * 2,
    frame(1, 4, 3, BLOCK) + frame(1, 4, 1, BLOCK),
    frame(1, 5, 1, BLOCK) + frame(0, 0, 1, b"late"),
    frame(1, 4, 1, BLOCK) + frame(3, 0, 1, bytes(4)) + frame(0, 0, 1, b"late"),
    frame(1, 4, 1, BLOCK) + frame(8, 0, 1, b"\x7f\xff\xff\xff"),
    b"".join(frame(1, 4, 1 + 2 * number, BLOCK) for number in range(MAX_CALLS + 1)),
    frame(1, 4, 1, BLOCK) + frame(0, 0, 1, bytes(1 << 14)) * (STREAM_WINDOW // (1 << 14) + 1),
    b"".join(
        frame(1, 4, number, BLOCK) + frame(0, 0, number, bytes(1 << 14)) * (STREAM_WINDOW // (1 << 14))
        for number in range(1, 2 * (CONNECTION_WINDOW // STREAM_WINDOW + 1), 2)
    ),
]


async def wait(call: Call) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("data", WRONG, ids=range(len(WRONG)))
def test_a_wrong_frame_ends_its_connection(data: bytes) -> None:
    async def run() -> None:
        server, transport = GrpcConnection(wait, lambda _: None), MemoryTransport()
        server.connection_made(transport)
        server.data_received(PREFACE + frame(4, 0, 0))
        assert not transport.is_closed
        transport.taken()
        server.data_received(data)
        assert transport.is_closed
        last = transport.taken()[-17:]
        assert last[:9] == frame(7, 0, 0, bytes(8))[:9]
        assert last[-1] != 0
        server.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(run())


def test_another_beginning_ends_the_connection() -> None:
    with pytest.raises(FrameError):
        list(FrameReader().frames(b"PRI * HTTP/1"))


def session() -> list[Frame]:
    """Frames of a client's session, one of each kind."""
    message = b"\0" + (1000).to_bytes(4, "big") + bytes(1000)
    return [
        SettingsFrame(0, {4: 1000, 5: 1 << 14, 1: 0}),
        WindowUpdateFrame(0, window_increment=1 << 20),
        opening(1),
        DataFrame(1, message, flags=["END_STREAM"]),
        opening(3),
        PriorityFrame(3, depends_on=1),
        DataFrame(3, message[:500], pad_length=10, flags=["PADDED"]),
        HeadersFrame(5, BLOCK[:5]),
        ContinuationFrame(5, BLOCK[5:], flags=["END_HEADERS"]),
        PingFrame(0, b"12345678"),
        RstStreamFrame(5, error_code=8),
        WindowUpdateFrame(1, window_increment=1000),
        DataFrame(3, message[500:]),
        HeadersFrame(3, Encoder().encode([("a", "b")]), flags=["END_HEADERS", "END_STREAM"]),
        GoAwayFrame(0),
    ]


async def echo(call: Call) -> None:
    while (message := await call.receive()) is not None:
        call.send(message)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 1 << 32), changes=st.integers(0, 8))
def test_bytes_that_were_changed_do_no_harm(seed: int, changes: int) -> None:
    chance = random.Random(seed)
    whole = session()
    for _ in range(chance.randrange(4)):  # frames that come twice, too late or not at all
        at, to = chance.randrange(len(whole)), chance.randrange(len(whole))
        whole.insert(to, whole.pop(at) if chance.random() < 0.5 else whole[at])
    data = bytearray(PREFACE + b"".join(each.serialize() for each in whole))
    for _ in range(changes):
        at = chance.randrange(len(PREFACE), len(data))
        doing = chance.randrange(4)
        if doing == 0:
            data[at] = chance.randrange(256)
        elif doing == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif doing == 2:
            del data[at : at + chance.randrange(20)]
        else:
            data[at:at] = chance.randbytes(chance.randrange(20))

    async def run() -> None:
        lost: list[GrpcConnection] = []
        server, transport = GrpcConnection(echo, lost.append), MemoryTransport()
        server.connection_made(transport)
        at = 0
        while at < len(data) and not transport.is_closed:
            count = chance.choice((1, 9, 100, len(data)))
            server.data_received(bytes(data[at : at + count]))
            at += count
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks = [call.task for call in server.calls.values() if call.task is not None]
        server.connection_lost(None)
        assert (server.held.size, lost) == (0, [server])
        await asyncio.gather(*tasks, return_exceptions=True)
        assert server.held.size == 0

    asyncio.run(run())


def test_trailers_wait_for_a_client_that_does_not_read() -> None:
    async def run() -> None:
        server, transport = GrpcConnection(echo, lambda _: None), MemoryTransport()
        server.connection_made(transport)
        server.data_received(PREFACE + frame(4, 0, 0) + opening(1, "END_STREAM").serialize())
        server.pause_writing()
        task = server.calls[1].task
        assert task is not None
        await task
        assert b"grpc-status" not in transport.taken()
        server.resume_writing()
        assert b"grpc-status" in transport.taken()

    asyncio.run(run())
