"""Messages of a push consumer stay its own while it works on them, and go to others once it is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import ExpiredHandleError, Message, PoppedMessage, Store, StoreSettings
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.brokers.off_loop import OffLoop
from flightlog.serve.calls.renewals import GIVEN_BACK_MS, LONGEST_MS, SLICE_MS, Renewals
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
def renewals(store: Store) -> Iterator[Renewals]:
    off_loop = OffLoop()
    yield Renewals(Broker.of(store), off_loop)
    off_loop.close()


def test_a_message_is_kept_for_its_client(store: Store, renewals: Renewals, clock: ManualClock) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS)
    renewals.add("client", popped.handle)
    for _ in range(5):
        clock.advance(SLICE_MS - 5_000)
        renewals.renew_due()
    with pytest.raises(ExpiredHandleError):
        store.ack(popped.handle)
    store.ack(renewals.take("client", popped.handle))
    assert renewals.take("client", popped.handle) == popped.handle, "it was forgotten"


def test_a_message_is_not_kept_for_ever(store: Store, renewals: Renewals, clock: ManualClock) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS)
    renewals.add("client", popped.handle)
    passed_ms = 0
    while passed_ms <= LONGEST_MS:
        clock.advance(SLICE_MS - 5_000)
        passed_ms += SLICE_MS - 5_000
        renewals.renew_due()
    assert renewals.take("client", popped.handle) == popped.handle, "it was forgotten"


def test_what_a_client_left_is_given_back(store: Store, clock: ManualClock) -> None:
    [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS)
    off_loop = OffLoop()
    renewals = Renewals(Broker.of(store), off_loop)
    renewals.add("client", popped.handle)
    renewals.forget_client("another")
    renewals.forget_client("client")
    off_loop.close()
    assert renewals.take("client", popped.handle) == popped.handle, "it was forgotten"
    clock.advance(GIVEN_BACK_MS + 10_000)
    assert clock.passed_ms < SLICE_MS, "it comes before its time is over"
    found: list[PoppedMessage] = []
    ends_s = deadline()
    while not found:
        assert time.monotonic() < ends_s
        time.sleep(0.02)  # the store's own threads bring it back
        found = store.receive("billing", "orders")
    assert [(each.body, each.attempt) for each in found] == [(b"work", 2)]


def test_a_later_server_does_not_know_what_was_prolonged(store: Store, renewals: Renewals, clock: ManualClock) -> None:
    """As RocketMQ's proxy. The handle of the client lasts as long as its first slice; then the message comes again."""
    [popped] = store.receive("billing", "orders", invisible_ms=SLICE_MS)
    renewals.add("client", popped.handle)
    clock.advance(SLICE_MS - 5_000)
    renewals.renew_due()
    off_loop = OffLoop()
    later = Renewals(Broker.of(store), off_loop)
    off_loop.close()
    assert later.take("client", popped.handle) == popped.handle
    clock.advance(5_000)
    with pytest.raises(ExpiredHandleError):
        store.ack(popped.handle)
    assert store.receive("billing", "orders") == [], "it is invisible until the slice that was prolonged is over"
