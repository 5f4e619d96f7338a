"""Hosts: raw address, then four bytes of port."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.errors import InvalidMessageError
from flightlog.store.format.host import Host, decode_host, encode_host, raw_host

VECTORS = {
    ("10.0.0.1", 54321): "0a0000010000d431",
    ("192.168.1.2", 10911): "c0a8010200002a9f",
    ("2001:db8::1", 54321): "20010db80000000000000000000000010000d431",
    ("::1", 10911): "0000000000000000000000000000000100002a9f",
}


@pytest.mark.parametrize("host", VECTORS)
def test_vectors(host: tuple[str, int]) -> None:
    raw = bytes.fromhex(VECTORS[host])
    assert encode_host(*host) == raw
    assert decode_host(raw) == host
    assert raw_host(decode_host(raw)) == raw


@given(st.ip_addresses(), st.integers(0, 65535))
def test_round_trip(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> None:
    raw = encode_host(str(address), port)
    assert len(raw) == (8 if address.version == 4 else 20)
    found = decode_host(raw)
    assert (ipaddress.ip_address(found.address), found.port) == (address, port)


def test_a_foreign_port_is_taken_as_it_is() -> None:
    raw = bytes.fromhex("0a000001ffffffff")
    assert decode_host(raw) == Host("10.0.0.1", -1) and raw_host(Host("10.0.0.1", -1)) == raw


def test_text() -> None:
    assert str(Host("10.0.0.1", 80)) == "10.0.0.1:80"
    assert str(Host("::1", 80)) == "[::1]:80"


@pytest.mark.parametrize(
    ("address", "port"),
    [
        *(("localhost", 80), ("broker-1.example.org", 80), ("10.0.0", 80), ("", 80), ("10.0.0.1:80", 80)),
        *(("10.0.0.1", -1), ("10.0.0.1", 65536), ("10.0.0.1", "80"), ("10.0.0.1", 80.5), ("10.0.0.1", None)),
        *((None, 80), (b"\x0a\0\0\1", 80), (0x0A000001, 80)),
    ],
)
def test_no_host(address: Any, port: Any) -> None:
    with pytest.raises(InvalidMessageError, match="host"):
        encode_host(address, port)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 19, 21])
def test_no_raw_host(size: int) -> None:
    with pytest.raises(ValueError, match="8 or 20 bytes"):
        decode_host(bytes(size))
