"""Java hashes of texts that lie as raw UTF-8 in one buffer, one by one or thousands at once.

Java's hash is a polynomial in 31 modulo 2**32 over UTF-16 units, which for ASCII are the bytes. So the hashes of many
texts are one multiplication of all their bytes by powers of 31, summed text by text; and

    hash(topic + "#" + key) = (hash(topic) * 31 + hash("#")) * 31 ** length(key) + hash(key)

so that a topic's hash and a key's make the hash of both. Texts that are not ASCII are hashed one by one.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul

import numpy as np
from numpy.typing import NDArray

from ..format.java_hash import java_hash

MODULUS_MASK = 0xFFFFFFFF
MOST_UNITS = 1 << 15
"""No text is longer: properties have at most 32,767 bytes, topics fewer."""
KEY_START = 35
"""The hash of "#", which stands between topic and key."""

Bytes = NDArray[np.uint8]
Hashes = NDArray[np.uint32]


def _powers() -> Hashes:
    powers = np.full(MOST_UNITS + 1, 31, np.uint32)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint32)


POWERS = _powers()
"""31 ** i modulo 2**32."""


@lru_cache(maxsize=128)
def _descending_powers(length: int) -> list[int]:
    powers: list[int] = POWERS[:length][::-1].tolist()
    return powers


def hash_text(raw: bytes) -> int:
    """The hash of one text, modulo 2**32; bytes that are not UTF-8 count as U+FFFD."""
    if raw.isascii():
        total: int = sum(map(mul, raw, _descending_powers(len(raw))))
        return total & MODULUS_MASK
    return java_hash(raw.decode("utf-8", "replace")) & MODULUS_MASK


topic_hash = lru_cache(maxsize=4096)(hash_text)
"""`hash_text` of a topic: few texts, asked for again and again."""


tag_hash = lru_cache(maxsize=4096)(hash_text)
"""The same of a tag."""


def text_length(raw: bytes) -> int:
    """Its length in UTF-16 units."""
    return len(raw) if raw.isascii() else len(raw.decode("utf-8", "replace").encode("utf-16-le")) // 2


def hash_key(topic: bytes, key: bytes) -> int:
    """What an index entry keeps of a key: the same as `index_file.key_hash`."""
    prefix = topic_hash(topic) * 31 + KEY_START
    h = (prefix * int(POWERS[text_length(key)]) + hash_text(key)) & MODULUS_MASK
    if h < 0x80000000:
        return h
    return 0x100000000 - h if h > 0x80000000 else 0


def hash_texts(buffer: Bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> tuple[Hashes, NDArray[np.int64]]:
    """The hashes modulo 2**32 of the texts [start, stop) in a buffer, none of them empty, and their lengths in UTF-16
    units."""
    lengths = stops - starts
    if not len(lengths):
        return np.empty(0, np.uint32), lengths
    at = places(starts, lengths)
    units = buffer[at]
    ends = np.cumsum(lengths)
    products = units * POWERS[np.repeat(stops - 1, lengths) - at]
    hashes = np.add.reduceat(products, ends - lengths, dtype=np.uint32)
    foreign = np.maximum.reduceat(units, ends - lengths) > 0x7F
    for i in np.flatnonzero(foreign).tolist():
        raw = buffer[starts[i] : stops[i]].tobytes()
        hashes[i], lengths[i] = hash_text(raw), text_length(raw)
    return hashes, lengths


def hash_keys(topic_hashes: Hashes, key_hashes: Hashes, key_lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """What index entries keep of keys, from the hashes of their topics and their own."""
    hashes = (topic_hashes * np.uint32(31) + np.uint32(KEY_START)) * POWERS[key_lengths] + key_hashes
    signed = np.abs(hashes.view(np.int32))
    signed[signed < 0] = 0  # the one number without an absolute value
    return signed


def places(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers in [start, start + length) of each range, one range after the other."""
    ends = np.cumsum(lengths)
    found: NDArray[np.int64] = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return found
