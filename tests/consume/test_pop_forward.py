"""A popped message is given up at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import ExpiredHandleError, InvalidArgumentError, Message, PopHandle, Store, StoreSettings
from flightlog.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as opened:
        opened.put(Message("orders", b"poison", tags="t"))
        yield opened


def test_it_goes_to_the_dead_letters_and_does_not_come_again(store: Store) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=1_000)
    store.pop_service.forward_to_dead_letters(popped.handle, popped.attempt)
    [dead] = store.dead_letters("billing")
    assert (dead.body, dead.tags, dead.reconsume_times) == (b"poison", "t", 1)
    assert dead.properties["RETRY_TOPIC"] == "orders"


def test_a_handle_that_expired_is_refused(store: Store, clock: ManualClock) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=1_000)
    clock.advance(1_000)
    with pytest.raises(ExpiredHandleError):
        store.pop_service.forward_to_dead_letters(popped.handle, popped.attempt)
    assert list(store.dead_letters("billing")) == []


def test_a_handle_of_no_message_is_refused(store: Store) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=1_000)
    words = popped.handle.extra_info.rpartition(" ")[0]
    with pytest.raises(InvalidArgumentError, match="still there"):
        handle = PopHandle("billing", "orders", f"{words} 7")
        store.pop_service.forward_to_dead_letters(handle, popped.attempt)
