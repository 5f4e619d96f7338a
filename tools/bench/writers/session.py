"""What the harness asks of a writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from ..loads.drive import Put
from ..loads.rows import Row

T = TypeVar("T")


class Session(ABC):
    """One open store of somebody."""

    @abstractmethod
    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        """What its `put` takes, made before the clock starts: one a call."""

    @abstractmethod
    def puts(self) -> Sequence[Put]:
        """The function to call, one for each thread of the load."""

    def drain(self) -> None:  # noqa: B027 (most have nothing to wait for)
        """Return when everything that was put can be read."""

    def settle(self) -> None:
        """Return when it is at rest: drained, and what it prepares for later puts is ready."""
        self.drain()

    @abstractmethod
    def close(self) -> None: ...


def parts(rows: Sequence[T], batch: int) -> list[Sequence[T]]:
    """The rows, or what was made of them, of each call."""
    return [rows[i : i + batch] for i in range(0, len(rows), batch)]
