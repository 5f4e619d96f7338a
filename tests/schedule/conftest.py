"""What the tests of messages for later share: a clock that is set and run by hand, and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class SteppedClock:
    """Time that passes when a test says so (`advance`), and a clock that a test may set (`set`)."""

    at_ms: int = 1_700_000_000_000
    passed_ms: int = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.passed_ms / 1000

    def advance(self, ms: int) -> None:
        self.at_ms += ms
        self.passed_ms += ms

    def set(self, at_ms: int) -> None:
        self.at_ms = at_ms


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(scope="session")
def assert_clean() -> Callable[[Path], None]:
    """Verify a store that nobody has open."""
    import flightlog

    def check(path: Path) -> None:
        with flightlog.open_read_only(path) as view:
            report = view.verify()
        assert report.is_clean, "\n".join(map(str, report.findings))

    return check
