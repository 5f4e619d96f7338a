"""Queues by consistent hash: when a member comes or goes, only its own queues move."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...store.message_queue import MessageQueue

VIRTUAL_NODES = 10
"""A member, unless told otherwise: RocketMQ's default. More of them share more evenly."""


def md5_hash(text: str) -> int:
    """The first four bytes of the MD5 of the UTF-8, as RocketMQ's `ConsistentHashRouter` reads them: 0 to 2**32 - 1."""
    return int.from_bytes(hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4])


@dataclass(frozen=True)
class ConsistentHash:
    """Each member stands at `virtual_nodes` places of a ring; a queue belongs to the next one at or after its own."""

    virtual_nodes: int = VIRTUAL_NODES
    hash_of: Callable[[str], int] = md5_hash
    name = "CONSISTENT_HASH"

    def allocate(
        self, group: str, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        return _parts(self.virtual_nodes, self.hash_of, tuple(queues), tuple(members)).get(member, ())


@lru_cache(maxsize=1)
def _parts(
    virtual_nodes: int, hash_of: Callable[[str], int], queues: tuple[MessageQueue, ...], members: tuple[str, ...]
) -> Mapping[str, Sequence[MessageQueue]]:
    """The queues of each member that has some. Kept for the members that ask next in the same round."""
    # Where two members stand at one place, the later one has it.
    ring = {hash_of(f"{each}-{number}"): each for each in members for number in range(virtual_nodes)}
    places = sorted(ring)
    parts: dict[str, list[MessageQueue]] = {}
    for queue in queues if places else ():
        owner = ring[places[bisect_left(places, hash_of(str(queue))) % len(places)]]
        parts.setdefault(owner, []).append(queue)
    return parts
