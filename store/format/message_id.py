"""The offset message id: the location of a message, in upper-case hexadecimal. `encode_message_id` makes one
(results.py).

| store host address 4 or 16 | port i32 | physical offset i64 |      32 digits (IPv4) or 56 (IPv6)
"""

from __future__ import annotations

from ..errors import UsageError
from ..results import OFFSET
from .host import HOST_V4_SIZE, HOST_V6_SIZE, Host, decode_host

DIGITS = (2 * (HOST_V4_SIZE + OFFSET.size), 2 * (HOST_V6_SIZE + OFFSET.size))


def decode_message_id(message_id: str) -> tuple[Host, int]:
    """Decode an id into store host and physical offset. Raises UsageError if it is not one."""
    if not isinstance(message_id, str):
        raise UsageError(f"message id {message_id!r}: a {type(message_id).__name__}, expected text")
    if len(message_id) not in DIGITS:
        raise UsageError(f"message id {message_id!r}: {len(message_id)} digits, expected 32 (IPv4) or 56 (IPv6)")
    try:
        raw = bytes.fromhex(message_id)
    except ValueError as e:
        raise UsageError(f"message id {message_id!r}: not hexadecimal") from e
    if 2 * len(raw) != len(message_id):  # `fromhex` would skip white space
        raise UsageError(f"message id {message_id!r}: not hexadecimal")
    return decode_host(raw[: -OFFSET.size]), OFFSET.unpack(raw[-OFFSET.size :])[0]
