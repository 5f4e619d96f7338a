"""Messages that are received with `renew=True`: their time is prolonged until they are done."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flightlog import ExpiredHandleError, InvalidArgumentError, PopHandle
from flightlog.consume.pop.renewals import LONGEST_MS, Renewals
from flightlog.tests.support.popped_store import PoppedStore

SLICE_MS = 20_000


@pytest.fixture(params=[False, True], ids=["spread", "ordered"])
def popped(tmp_path: Path, request: pytest.FixtureRequest) -> PoppedStore:
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=request.param)
    popped.put(1)
    return popped


def work(popped: PoppedStore, slices: int) -> None:
    for _ in range(2 * slices):
        popped.pass_time(SLICE_MS // 2)
        popped.store.pop_service.renewals.renew_due()
        assert popped.receive() == [], "it is received by another"


def test_a_message_is_kept_until_it_is_acknowledged(popped: PoppedStore) -> None:
    [message] = popped.receive(invisible_ms=SLICE_MS, renew=True)
    work(popped, 4)
    popped.store.ack(message.handle)
    popped.pass_time(2 * SLICE_MS)
    assert popped.receive() == [] and not popped.store.pop_service.renewals
    popped.store.close()


def test_a_change_ends_it(popped: PoppedStore) -> None:
    [message] = popped.receive(invisible_ms=SLICE_MS, renew=True)
    work(popped, 2)
    handle = popped.store.change_invisible(message.handle, 1_000)
    popped.store.pop_service.renewals.renew_due()
    popped.pass_time(6_000)
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(handle)
    [again] = popped.receive()
    assert again.attempt == 2
    popped.store.close()


def test_a_change_during_a_renewal_counts(popped: PoppedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two exclude each other, so that the change is the last word."""

    def prolong(handle: PopHandle, invisible_ms: int) -> PopHandle:
        changing.start()
        while renewals:  # until it has taken the handle
            pass
        return popped.store.change_invisible(handle, invisible_ms)

    renewals = Renewals(popped.clock, prolong)
    monkeypatch.setattr(popped.store.pop_service, "renewals", renewals)
    [message] = popped.receive(invisible_ms=SLICE_MS, renew=True)
    changing = threading.Thread(target=popped.store.change_invisible, args=(message.handle, 1_000))
    popped.clock.advance(SLICE_MS // 2)
    renewals.renew_due()
    changing.join()
    popped.pass_time(6_000)
    [again] = popped.receive()
    assert again.attempt == 2
    popped.store.close()


def test_a_message_can_be_given_up_after_its_first_slice(popped: PoppedStore) -> None:
    [message] = popped.receive(invisible_ms=SLICE_MS, renew=True)
    work(popped, 2)
    popped.store.pop_service.forward_to_dead_letters(message.handle, 1)
    popped.pass_time(2 * SLICE_MS)
    assert popped.receive() == []
    assert [letter.body for letter in popped.store.dead_letters("g")] == [b"1"]
    popped.store.close()


def test_what_a_process_left_comes_after_its_last_slice(popped: PoppedStore) -> None:
    popped.receive(invisible_ms=SLICE_MS, renew=True)
    work(popped, 2)
    popped.reopen(killed=True)
    popped.pass_time(2 * SLICE_MS)
    [again] = popped.receive()
    assert again.attempt == 2
    popped.store.close()


def test_a_message_is_not_kept_for_ever(popped: PoppedStore) -> None:
    [message] = popped.receive(invisible_ms=SLICE_MS, renew=True)
    for _ in range(0, LONGEST_MS + SLICE_MS, SLICE_MS // 2):
        popped.clock.advance(SLICE_MS // 2)
        popped.store.pop_service.renewals.renew_due()
    assert not popped.store.pop_service.renewals
    popped.clock.advance(SLICE_MS)
    with pytest.raises(ExpiredHandleError) as refused:
        popped.store.ack(message.handle)
    assert refused.value.handles == (message.handle,)
    popped.store.close()


def test_a_slice_that_is_too_short_is_refused(popped: PoppedStore) -> None:
    with pytest.raises(InvalidArgumentError, match="5000 with renew=True"):
        popped.receive(invisible_ms=1_000, renew=True)
    popped.store.close()
