"""A host as stored in a record: the raw address, then the port as four bytes.

IPv4   | 4 address | 4 port |    8 bytes
IPv6   | 16 address         | 4 port |   20 bytes; sysFlag bit 4 (born) or 5 (store) says so
"""

from __future__ import annotations

import ipaddress
import struct
from functools import lru_cache
from typing import NamedTuple

from ..errors import InvalidMessageError

PORT = struct.Struct(">i")
HOST_V4_SIZE = 4 + PORT.size
HOST_V6_SIZE = 16 + PORT.size
assert (HOST_V4_SIZE, HOST_V6_SIZE) == (8, 20)


class Host(NamedTuple):
    """An IP address in text and a port."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@lru_cache(maxsize=4096, typed=True)  # else the cache would take 80.0 for 80
def encode_host(address: str, port: int) -> bytes:
    """Encode a host: 8 bytes for an IPv4 address, 20 for an IPv6 one.

    Raises InvalidMessageError for anything that is not an address with a port of 0..65535.
    """
    try:
        if not isinstance(address, str):  # ip_address() would also take a number or raw bytes
            raise ValueError("not text")
        packed = ipaddress.ip_address(address).packed
    except ValueError as e:
        raise InvalidMessageError(
            f"host {address!r}: expected an IPv4 or IPv6 address in digits; resolve names before the put"
        ) from e
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidMessageError(f"host {address!r}: port {port!r} is not a whole number from 0 to 65535")
    return packed + PORT.pack(port)


@lru_cache(maxsize=4096)
def raw_host(host: Host) -> bytes:
    """Encode a host that `decode_host` returned."""
    return ipaddress.ip_address(host.address).packed + PORT.pack(host.port)


@lru_cache(maxsize=4096)
def decode_host(raw: bytes) -> Host:
    """Decode a host from 8 or 20 bytes. The port is not checked: a foreign writer may have stored any number."""
    if len(raw) not in (HOST_V4_SIZE, HOST_V6_SIZE):
        raise ValueError(f"a host has 8 or 20 bytes, not {len(raw)}")
    return Host(str(ipaddress.ip_address(raw[: -PORT.size])), PORT.unpack(raw[-PORT.size :])[0])
