"""Addresses that `plain_acl.yml` trusts, as it writes them.

*                        every address
10.0.0.7   ::1           one
10.0.0.7,10.0.0.8        each of these
10.0.0.{7,8}             the same
10.0.*.*   10.0.0.7-9    each part any, or between two numbers; of IPv6, with all its eight parts
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

Matches = Callable[[str], bool]
"""Whether an address, such as `10.0.0.7`, is one of these."""

EVERY = {"*", "*.*.*.*", "*:*:*:*:*:*:*:*"}


def matcher(text: str) -> Matches:
    """A blank text matches no address, as in RocketMQ. Raises ValueError for what is no address."""
    text = text.strip()
    if not text:
        return lambda _: False
    if text in EVERY:
        return lambda _: True
    patterns = [_pattern(each.strip()) for each in _alternatives(text)]

    def matches(address: str) -> bool:
        parts = _parts(address)
        return any(
            len(pattern) == len(parts)
            and all(low <= part <= high for (low, high), part in zip(pattern, parts, strict=True))
            for pattern in patterns
        )

    return matches


def _alternatives(text: str) -> list[str]:
    if text.endswith("}") and "{" in text:
        head, _, last = text[:-1].partition("{")
        return [head + each.strip() for each in last.split(",")]
    return text.split(",")


def _pattern(text: str) -> list[tuple[int, int]]:
    """The least and the greatest value of each part."""
    if "*" not in text and "-" not in text:
        return [(part, part) for part in _numbers(text)]
    separator, count, base, greatest = (":", 8, 16, 0xFFFF) if ":" in text else (".", 4, 10, 0xFF)
    parts = text.split(separator)
    if len(parts) != count:
        raise ValueError(f"{text}: expected {count} parts")
    found = []
    for part in parts:
        low, _, high = part.strip().partition("-")
        ends = (0, greatest) if part.strip() == "*" else (int(low, base), int(high or low, base))
        if not 0 <= ends[0] <= ends[1] <= greatest:
            raise ValueError(f"{text}: no range is {part}")
        found.append(ends)
    return found


def _numbers(text: str) -> list[int]:
    address = ipaddress.ip_address(text)
    size = 1 if address.version == 4 else 2
    packed = address.packed
    return [int.from_bytes(packed[at : at + size], "big") for at in range(0, len(packed), size)]


def _parts(address: str) -> list[int]:
    try:
        return _numbers(address.partition("%")[0])
    except ValueError:
        return []
