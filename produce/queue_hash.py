"""Map a message group to a queue, so that its messages stay in order: RocketMQ's hash rules.

A group keeps its queue as long as the rule and the number of queues stay the same. Changing one of them
while messages wait breaks the order between earlier and later messages.
"""

from __future__ import annotations

from ..store.format.java_hash import java_hash

MASK = 0xFFFF_FFFF_FFFF_FFFF
SIP_KEY = bytes(range(16))
"""That of RocketMQ's gRPC clients."""
LCG_MULTIPLIER = 2862933555777941757


def by_hash_code(group: str, queue_count: int) -> int:
    """The rule of `SelectMessageQueueByHash` in RocketMQ's own Java client: the text's Java hash."""
    return abs(java_hash(group)) % queue_count


def by_jump_hash(group: str, queue_count: int) -> int:
    """The rule of RocketMQ's proxy for a message group: Guava's consistent hash of the text's Java hash. Where queues
    are added, as few groups as can be move, and all of those into new queues.

    The algorithm: Lamping and Veach, A Fast, Minimal Memory, Consistent Hash Algorithm.
    """
    state = java_hash(group) & MASK
    candidate = 0
    while True:
        state = (state * LCG_MULTIPLIER + 1) & MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / 2**31))
        if following >= queue_count:
            return candidate
        candidate = following


def by_sip_hash(group: str, queue_count: int) -> int:
    """The rule of RocketMQ's gRPC clients for a message group: SipHash-2-4 of the UTF-8, as a signed number."""
    found = sip_hash_2_4(group.encode(), SIP_KEY)
    return (found - (1 << 64) if found >> 63 else found) % queue_count


def sip_hash_2_4(data: bytes, key: bytes) -> int:
    """SipHash with two rounds a word and four at the end (Aumasson and Bernstein); `key` is 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = len(data) & ~7
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a, c = (a + b) & MASK, (c + d) & MASK
        b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
        a, c = (_rotate(a, 32) + d) & MASK, (c + b) & MASK
        b, d = _rotate(b, 17) ^ c, _rotate(d, 21) ^ a
        c = _rotate(c, 32)
    state[:] = a, b, c, d


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK
