"""Offset message ids: store host and physical offset in upper-case hexadecimal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.errors import UsageError
from flightlog.store.format.host import decode_host, encode_host
from flightlog.store.format.message_id import decode_message_id
from flightlog.store.results import encode_message_id


@pytest.mark.parametrize(
    ("host", "physical_offset", "message_id"),
    [
        (("192.168.1.2", 10911), 1024, "C0A8010200002A9F0000000000000400"),
        (("::1", 10911), 4096, "0000000000000000000000000000000100002A9F0000000000001000"),
    ],
)
def test_vectors(host: tuple[str, int], physical_offset: int, message_id: str) -> None:
    assert encode_message_id(encode_host(*host), physical_offset) == message_id
    assert decode_message_id(message_id) == (host, physical_offset)
    assert decode_message_id(message_id.lower()) == (host, physical_offset)


@given(st.one_of(st.binary(min_size=8, max_size=8), st.binary(min_size=20, max_size=20)), st.integers(0, (1 << 63) - 1))
def test_round_trip(raw_host: bytes, physical_offset: int) -> None:
    message_id = encode_message_id(raw_host, physical_offset)
    assert len(message_id) in (32, 56)
    assert decode_message_id(message_id) == (decode_host(raw_host), physical_offset)


@pytest.mark.parametrize(
    "text",
    [
        *("", "C0A8", "x" * 32, "0" * 31, "0" * 30, "0" * 34, "0" * 54, "0" * 58),
        *("00 " * 16, "0" * 30 + "  ", " " * 32, "０" * 32, None, b"0" * 32, 7),
    ],
)
def test_no_id(text: Any) -> None:
    with pytest.raises(UsageError, match="message id"):
        decode_message_id(text)
