"""Java's `String.hashCode`, by which RocketMQ's files find tags and keys.

h = 31*h + unit over UTF-16 code units (not bytes, not code points), wrapped to signed 32 bits.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul

MASK = 0xFFFFFFFF
SHORT_SIZE = 64
"""Longest text, in UTF-16 units, that is hashed as one sum."""
POWERS = [pow(31, exponent, 1 << 32) for exponent in range(SHORT_SIZE + 1)]
"""31 ** i modulo 2**32."""
DESCENDING = [POWERS[:size][::-1] for size in range(SHORT_SIZE + 1)]
"""Factors of the units of a text, by its size."""


@lru_cache(maxsize=8192)
def java_hash(text: str) -> int:
    """`text.hashCode()` as Java computes it: a signed 32-bit integer."""
    h = hash_from(0, text)
    return h - 0x100000000 if h >= 0x80000000 else h


def hash_from(h: int, text: str) -> int:
    """The hash, modulo 2**32, of a text that consists of a prefix with the hash `h` and of `text`."""
    size = len(text)
    if size <= SHORT_SIZE and text.isascii():  # its bytes are its units
        total: int = sum(map(mul, text.encode(), DESCENDING[size]), h * POWERS[size])
        return total & MASK
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & MASK
    return h
