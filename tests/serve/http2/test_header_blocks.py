"""Header blocks, beside the library hpack: the same headers, and nothing taken that it refuses."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.serve.http2.frames import FrameError
from flightlog.serve.http2.header_blocks import MAX_LIST_SIZE, RequestHeaders, literal, trailers

NEEDED = [(":method", "POST"), (":scheme", "http"), (":path", "/x")]
NAMES = st.sampled_from(("content-type", "grpc-timeout", "x-mq-client-id", "user-agent", "x-" + "long" * 40))
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=300)
HEADERS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=12)


@settings(max_examples=150, deadline=None)
@given(blocks=st.lists(st.tuples(HEADERS, st.booleans(), st.none() | st.sampled_from((0, 60, 500, 4096))), max_size=8))
def test_blocks_that_hpack_made(blocks: list[tuple[list[tuple[str, str, bool]], bool, int | None]]) -> None:
    encoder, decoder = Encoder(), RequestHeaders()
    for headers, is_packed, table_size in blocks:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = encoder.encode([*NEEDED, *headers], huffman=is_packed)
        assert decoder.decode(block) == dict([*NEEDED, *(each[:2] for each in headers)])


@settings(max_examples=400, deadline=None)
@given(
    blocks=st.lists(
        st.lists(
            st.binary(max_size=12)
            | st.integers(0x80, 0xFF).map(lambda byte: bytes((byte,)))
            | st.tuples(NAMES, VALUES).map(lambda each: Encoder().encode([each])),
            max_size=8,
        ).map(b"".join),
        max_size=4,
    )
)
def test_bytes_that_may_be_none(blocks: list[bytes]) -> None:
    needed = b"\x83\x86\x84"
    known, decoder = Decoder(MAX_LIST_SIZE), RequestHeaders()
    for block in blocks:
        try:
            found = decoder.decode(needed + block)
        except FrameError:
            return
        try:
            expected = known.decode(needed + block)
        except HPACKError as e:
            raise AssertionError(f"hpack refuses {block.hex()}: {e}") from e
        assert [*found.items()] == [*{str(name): str(value) for name, value in expected}.items()]


@pytest.mark.parametrize(
    "headers",
    [
        NEEDED[:2],
        [*NEEDED, (":path", "/y")],
        [*NEEDED, ("a", "b"), (":authority", "here")],
        [*NEEDED, (":status", "200")],
        [*NEEDED, ("Upper", "b")],
        [*NEEDED, ("", "b")],
        [*NEEDED, ("connection", "close")],
        [*NEEDED, ("te", "gzip")],
        [*NEEDED, ("a", "b\r\nc: d")],
        [*NEEDED, ("a", "b" * MAX_LIST_SIZE)],
        [*NEEDED, *[("a", "b" * 100)] * 1000],
    ],
)
def test_headers_that_no_request_has(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(FrameError):
        RequestHeaders().decode(Encoder().encode(headers))


def test_a_header_in_the_table_is_refused_again() -> None:
    """What is wrong stays wrong, wherever it comes from."""
    encoder = Encoder()
    encoder.encode([*NEEDED, ("te", "gzip")])
    second = encoder.encode([*NEEDED, ("te", "gzip")])
    decoder = RequestHeaders()
    with pytest.raises(FrameError, match="te"):
        decoder.decode(Encoder().encode([*NEEDED, ("te", "gzip")]))
    with pytest.raises(FrameError, match="te"):
        decoder.decode(second)


def test_a_table_is_resized_before_the_headers_alone() -> None:
    needed = Encoder().encode(NEEDED)
    assert RequestHeaders().decode(b"\x20\x3f\xe1\x1f" + needed) == dict(NEEDED)
    for block in (needed + b"\x20", b"\x20" * 3 + needed, b"\x3f\xe2\x1f" + needed):
        with pytest.raises(FrameError):
            RequestHeaders().decode(block)


def test_trailers_have_no_path() -> None:
    assert RequestHeaders().decode(Encoder().encode([("a", "b")]), are_trailers=True) == {"a": "b"}
    with pytest.raises(FrameError):
        RequestHeaders().decode(Encoder().encode([(":path", "/")]), are_trailers=True)


def read(block: bytes) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in Decoder().decode(block)]


@pytest.mark.parametrize("size", [0, 126, 127, 128, 254, 255, 256, 300, 20_000])
def test_a_literal_is_read_by_hpack(size: int) -> None:
    assert read(literal(b"name", b"v" * size)) == [("name", "v" * size)]


def test_a_status_is_read_by_hpack() -> None:
    assert read(trailers(0, "")) == [("grpc-status", "0")]
    assert read(trailers(13, "50% ü")) == [("grpc-status", "13"), ("grpc-message", "50%25 %C3%BC")]
    assert len(trailers(13, "\U0001f600" * 5000)) < 1 << 14
