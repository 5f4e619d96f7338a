"""Store time never runs backwards inside a store, whatever the clock does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import ClockBehindError

if TYPE_CHECKING:
    from flightlog.tests.store.conftest import ManualClock

HOUR_MS = 3_600_000
SETTINGS = StoreSettings.small()
FORGIVING = StoreSettings.small(accept_future_store_time=True)
AssertClean = Callable[[Path], None]


def put(store: flightlog.Store) -> int:
    return store.put(Message("t", b"x")).store_timestamp_ms


def test_a_clock_that_steps_back(clock: ManualClock, tmp_path: Path, assert_clean: AssertClean) -> None:
    start = clock.at_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        found = []
        for step in (0, 10, -500, 100, 389, 2, -5 * HOUR_MS, 5 * HOUR_MS + 1):
            clock.at_ms += step
            found.append(put(store) - start)
        assert found == [0, 10, 10, 10, 10, 10, 10, 10]
        clock.at_ms = start + 11
        assert put(store) == start + 11
        assert [m.store_timestamp_ms - start for m in store.read("t")] == [*found, 11]
    assert_clean(tmp_path)


def test_a_batch_too(clock: ManualClock, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        newest = put(store)
        clock.at_ms -= 1000
        assert {r.store_timestamp_ms for r in store.put_many([Message("t", b"x")] * 5)} == {newest}
    assert_clean(tmp_path)


def test_the_born_time_is_the_clocks_if_the_sender_says_nothing(
    clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        store.put_many(
            [Message("t", b"x"), Message("t", b"x", born_timestamp_ms=0), Message("t", b"x", born_timestamp_ms=-5)]
        )
        assert [m.born_timestamp_ms for m in store.read("t")] == [clock.at_ms, 0, -5]
    assert_clean(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("behind_ms", [1, HOUR_MS])
def test_up_to_an_hour_ahead_time_stands_still(
    behind_ms: int, killed: bool, clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    newest = written(tmp_path, clock, killed)
    clock.at_ms -= behind_ms
    with flightlog.open(tmp_path, SETTINGS, clock=clock) as store:
        assert put(store) == newest
        clock.at_ms = newest + 1
        assert put(store) == newest + 1
    assert_clean(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_more_than_an_hour_ahead_is_refused_until_accepted(
    killed: bool, clock: ManualClock, tmp_path: Path, assert_clean: AssertClean
) -> None:
    newest = written(tmp_path, clock, killed)
    clock.at_ms -= HOUR_MS + 1
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    for _ in range(2):  # the lock is free again after a refusal
        with pytest.raises(ClockBehindError, match=r"1\.0 hours ahead.*accept_future_store_time=True") as raised:
            flightlog.open(tmp_path, SETTINGS, clock=clock)
        assert (raised.value.newest_store_timestamp_ms, raised.value.now_ms) == (newest, clock.at_ms)
    assert {path: path.read_bytes() for path in before} == before
    with flightlog.open(tmp_path, FORGIVING, clock=clock) as store:
        assert put(store) == newest
        clock.at_ms = newest + 7
        assert put(store) == newest + 7
    assert_clean(tmp_path)


def test_reading_asks_no_clock(clock: ManualClock, tmp_path: Path, assert_clean: AssertClean) -> None:
    clock.at_ms += 1000 * 24 * HOUR_MS
    written(tmp_path, clock, killed=False)
    assert_clean(tmp_path)


def written(root: Path, clock: ManualClock, killed: bool) -> int:
    """A store of three messages, closed or with `abort` put back as a kill would leave it; the newest store time."""
    with flightlog.open(root, SETTINGS, clock=clock) as store:
        put(store)
        clock.at_ms += 5
        put(store)
        newest = put(store)
        store.flush()
        pages = {name: (root / name).read_bytes() for name in ("abort", "flightlog/progress")}
    if killed:
        for name, content in pages.items():
            (root / name).write_bytes(content)
    return newest
