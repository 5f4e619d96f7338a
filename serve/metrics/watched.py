"""What is watched: a broker, by the words that metrics and health need."""

from __future__ import annotations

from typing import Protocol

from ...consume.store import Store
from .traffic import Traffic


class Watched(Protocol):
    """A store that is served under a name. It may be lost."""

    name: str
    traffic: Traffic

    @property
    def store(self) -> Store:
        """Raises StoreClosedError before it was opened for the first time."""

    @property
    def is_up(self) -> bool: ...

    @property
    def reason(self) -> str: ...
