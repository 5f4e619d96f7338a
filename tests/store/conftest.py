"""What the tests of the log share: time that a test holds, and how every test that wrote a store ends."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass
class ManualClock:
    """A clock that moves only when a test moves it."""

    at_ms: int = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
