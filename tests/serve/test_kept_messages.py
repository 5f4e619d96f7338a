"""Messages of a push consumer stay its own while it works on them, and go to others once it is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import ExpiredHandleError, Message, PopHandle, PoppedMessage, Store, StoreSettings
from flightlog.consume.pop.renewals import LONGEST_MS
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.brokers.off_loop import OffLoop
from flightlog.serve.calls.kept_messages import GIVEN_BACK_MS, SLICE_MS, KeptMessages
from flightlog.testing import ManualClock
from flightlog.tests.support.rocketmq_server import deadline


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as opened:
        opened.put(Message("orders", b"work"))
        yield opened


@pytest.fixture
def handle(store: Store) -> PopHandle:
    """Handle of a message as a push consumer receives it."""
    [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS, renew=True)
    return popped.handle


def received(store: Store) -> list[PoppedMessage]:
    """What comes again; the store's own threads bring it."""
    found: list[PoppedMessage] = []
    ends_s = deadline()
    while not found:
        assert time.monotonic() < ends_s
        time.sleep(0.02)
        found = store.receive("billing", "orders")
    return found


def test_what_a_client_left_is_given_back(store: Store, handle: PopHandle, clock: ManualClock) -> None:
    off_loop = OffLoop()
    kept = KeptMessages(Broker.of(store), off_loop)
    kept.add("client", [handle])
    kept.forget_client("another")
    assert len(kept) == 1
    clock.advance(SLICE_MS - 5_000)
    store.pop_service.renewals.renew_due()
    clock.advance(10_000)  # beyond the time of the handle that the client has
    kept.forget_client("client")
    off_loop.close()
    assert len(kept) == 0
    clock.advance(GIVEN_BACK_MS + 10_000)
    assert [(each.body, each.attempt) for each in received(store)] == [(b"work", 2)]


def test_what_a_client_has_done_is_not_given_back(store: Store, handle: PopHandle, clock: ManualClock) -> None:
    off_loop = OffLoop()
    kept = KeptMessages(Broker.of(store), off_loop)
    kept.add("client", [handle])
    kept.forget(handle)
    changed = store.change_invisible(handle, 2 * SLICE_MS)
    kept.forget_client("client")
    off_loop.close()
    clock.advance(SLICE_MS)
    store.ack(changed)


def test_what_is_prolonged_no_more_is_forgotten(store: Store, handle: PopHandle, clock: ManualClock) -> None:
    off_loop = OffLoop()
    kept = KeptMessages(Broker.of(store), off_loop)
    kept.add("client", [handle])
    for _ in range(0, LONGEST_MS, SLICE_MS - 5_000):
        clock.advance(SLICE_MS - 5_000)
        store.pop_service.renewals.renew_due()
        kept.sweep()
    clock.advance(SLICE_MS)
    store.pop_service.renewals.renew_due()
    kept.sweep()
    assert len(kept) == 0
    off_loop.close()


def test_a_later_server_does_not_know_what_was_prolonged(tmp_path: Path, clock: ManualClock) -> None:
    """As RocketMQ's proxy. The handle of the client lasts as long as its first slice; then the message comes again."""
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as store:
        store.put(Message("orders", b"work"))
        [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS, renew=True)
        clock.advance(SLICE_MS - 5_000)
        store.pop_service.renewals.renew_due()
    with flightlog.open(tmp_path / "store", StoreSettings.small(), clock=clock) as later:
        clock.advance(5_000)
        with pytest.raises(ExpiredHandleError):
            later.ack(popped.handle)
        assert later.receive("billing", "orders") == [], "invisible until the slice that was prolonged is over"
