"""Java's `String.hashCode`, on which tags and keys are found in RocketMQ's files.

h = 31*h + unit over UTF-16 code units (not bytes, not code points), wrapped to signed 32 bits.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=8192)
def java_hash(text: str) -> int:
    """`text.hashCode()` as Java computes it: a signed 32-bit integer."""
    units = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - 0x100000000 if h >= 0x80000000 else h
