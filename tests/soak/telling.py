"""What every message of a soak tells of itself: who put it, as which of his, where to, and a digest over all that."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

DIGEST_SIZE = 16
HEAD = re.compile(rb"(\d+) (\d+) (\d+) ")


class Head(NamedTuple):
    """Who put it: the round that its writer lived in, the writer's thread, and the number among that thread's."""

    round: int
    thread: int
    number: int

    @property
    def key(self) -> str:
        """By which it can be queried."""
        return f"k{self.round}-{self.thread}-{self.number}"


def body_of(topic: str, queue_id: int, head: Head, filling: bytes) -> bytes:
    said = b"%d %d %d " % head + filling
    return said + _digest(topic, queue_id, said)


def told_by(topic: str, queue_id: int, body: bytes) -> tuple[Head, str]:
    """Who put it, and its digest. Raises ValueError for a body that was never put there, or is not whole."""
    said, digest = body[:-DIGEST_SIZE], body[-DIGEST_SIZE:]
    found = HEAD.match(said)
    if found is None or _digest(topic, queue_id, said) != digest:
        raise ValueError(f"{len(body)} bytes that nobody put into {topic} {queue_id}: {body[:40]!r}")
    round_number, thread, number = map(int, found.groups())
    return Head(round_number, thread, number), digest.hex()


def digest_of(body: bytes) -> str:
    return body[-DIGEST_SIZE:].hex()


def _digest(topic: str, queue_id: int, said: bytes) -> bytes:
    place = f"{topic}/{queue_id}/".encode()
    return hashlib.blake2b(place + said, digest_size=DIGEST_SIZE).digest()
