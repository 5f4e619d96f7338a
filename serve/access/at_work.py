"""How much one client, and one address, may have at work at a time: requests, and their bytes.

What one connection may do is bounded where it is read. This bounds clients that open many of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


class TooMuchAtWorkError(Exception):
    """The request is refused, with the word of RocketMQ's proxy."""

    def __init__(self) -> None:
        super().__init__("flow limit")


@dataclass(frozen=True)
class Most:
    """Limits of one client, or of one address."""

    requests: int
    size: int
    """Bytes of them."""


@dataclass(slots=True)
class _Share:
    requests: int = 0
    size: int = 0


NOTHING: Final = _Share()


class AtWork:
    """In one event loop."""

    def __init__(self, of_client: Most, of_address: Most) -> None:
        self._of_client, self._of_address = of_client, of_address
        self._shares: dict[Hashable, _Share] = {}

    @contextmanager
    def one(self, client: Hashable, address: str, size: int) -> Iterator[None]:
        """A request of so many bytes is at work in the block. Raises TooMuchAtWorkError."""
        keys = ((client, None), self._of_client), (address, self._of_address)
        for key, most in keys:
            share = self._shares.get(key, NOTHING)
            if share.requests >= most.requests or share.size + size > most.size:
                raise TooMuchAtWorkError
        for key, _ in keys:
            share = self._shares.setdefault(key, _Share())
            share.requests += 1
            share.size += size
        try:
            yield
        finally:
            for key, _ in keys:
                share = self._shares[key]
                share.requests -= 1
                share.size -= size
                if not share.requests:
                    del self._shares[key]
