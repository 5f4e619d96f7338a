"""What the tests of messages for later share: a clock that is set, and deliveries that are run, by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process, timed_store
from flightlog.tests.support.timed_store import SetClock, TimedStore

if TYPE_CHECKING:
    from flightlog import Store

    Opened = Callable[..., TimedStore]
    ByHand = Callable[[Store], Callable[[], float | None]]
    RunAll = Callable[[Store], None]
    Bodies = Callable[..., list[bytes]]
    Until = Callable[[Callable[[], object]], None]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timer_clock() -> SetClock:
    return timed_store.SetClock()


@pytest.fixture
def opened(timer_clock: SetClock, tmp_path: Path) -> Iterator[Opened]:
    """Opens the store of this test; at its end it is closed and verified."""
    last: list[TimedStore] = []

    def opened(**options: Any) -> TimedStore:
        last[:] = [timed_store.TimedStore(tmp_path / "store", timer_clock, **options)]
        return last[0]

    yield opened
    if not last[0].store.is_closed:
        last[0].close()
    with flightlog.open_read_only(tmp_path / "store") as view:
        assert view.verify().is_clean


@pytest.fixture
def until() -> Until:
    """Wait until something holds that another thread does."""
    return process.wait_until


@pytest.fixture
def by_hand() -> ByHand:
    """What delivers what is due, in the caller's thread alone."""

    def take(store: Store) -> Callable[[], float | None]:
        inside.delay_service(store).stop()
        return inside.delay_service(store).deadlines.run_due

    return take


@pytest.fixture
def run_all(by_hand: ByHand) -> RunAll:
    """Deliver everything that is due."""

    def deliver(store: Store) -> None:
        run = by_hand(store)
        while run() == 0:
            pass

    return deliver


@pytest.fixture
def bodies() -> Bodies:
    """Those of one queue, in order."""

    def read(store: Store, topic: str = "t", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in store.read(topic, queue_id)]

    return read
