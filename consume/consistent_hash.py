"""Queues by consistent hash: when a member comes or goes, only its own queues move."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..store.message_queue import MessageQueue

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
        # Where two members stand at one place, the later one has it.
        ring = {self.hash_of(f"{each}-{number}"): each for each in members for number in range(self.virtual_nodes)}
        if not ring:
            return []
        places = sorted(ring)
        owners = [ring[place] for place in places]
        return [
            queue for queue in queues if owners[bisect_left(places, self.hash_of(str(queue))) % len(owners)] == member
        ]
