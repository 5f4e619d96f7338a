"""The interface of a writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..case import Case
from ..drive import Put
from ..messages import Row, parts


class Session(ABC):
    """One open store of a writer."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def units(self, rows: Sequence[Row]) -> Sequence[Any]:
        """The arguments of `put`, one per call, made before the clock starts."""
        return parts(rows, self._case.batch)

    @abstractmethod
    def put(self, unit: Any) -> object:
        """One call."""

    def puts(self) -> Sequence[Put]:
        """The function to call, one for each thread of the case."""
        return [self.put] * self._case.threads

    def drain(self) -> None:  # noqa: B027 (most writers have nothing to wait for)
        """Return when everything that was put can be read."""

    def settle(self) -> None:
        """Return when the writer is at rest: drained, and prepared for the next puts."""
        self.drain()

    def close(self) -> None:  # noqa: B027 (as above)
        """End it; its files stay."""
