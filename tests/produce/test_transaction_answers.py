"""A check that has to ask someone far away answers UNKNOWN, and later what they said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, Producer, Store, StoreSettings, TransactionChecker, TransactionResolution
from flightlog.produce.transaction.checker import transactions_of
from flightlog.store.stored_message import StoredMessage
from flightlog.testing import ManualClock

COMMIT, ROLLBACK, UNKNOWN = TransactionResolution.COMMIT, TransactionResolution.ROLLBACK, TransactionResolution.UNKNOWN


class Asked:
    """A store with half messages that were left, and what its checker was asked."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self._clock = store, clock
        self.halves: list[StoredMessage] = []
        self._checker = TransactionChecker(store, "DEFAULT_PRODUCER", self._check)

    def _check(self, half: StoredMessage) -> TransactionResolution:
        self.halves.append(half)
        return UNKNOWN

    def leave(self, body: bytes) -> None:
        Producer(self.store).transaction(Message("orders", body)).unknown()

    def check(self) -> None:
        self._clock.advance(60_000)
        self._checker.check_now()

    def answer(self, half: StoredMessage, resolution: TransactionResolution) -> None:
        transactions_of(self.store).answer(half, resolution)

    @property
    def seen(self) -> list[bytes]:
        return [each.body for i in range(4) for each in self.store.read("orders", i)]


@pytest.fixture(params=[flightlog.FlushMode.ASYNC, flightlog.FlushMode.SYNC])
def asked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asked]:
    clock = ManualClock()
    # No round but those that a test asks for.
    settings = StoreSettings.small(flush_mode=request.param, transaction_check_interval_ms=3_600_000)
    with flightlog.open(tmp_path / "store", settings, clock=clock) as store:
        yield Asked(store, clock)


def test_what_is_committed_later_is_seen_once(asked: Asked) -> None:
    asked.leave(b"order")
    asked.check()
    [half] = asked.halves
    asked.answer(half, COMMIT)
    asked.store.flush()
    assert asked.seen == [b"order"]
    asked.check()
    assert len(asked.halves) == 1, "it was asked about again"


def test_a_late_answer_to_an_earlier_check_commits_nothing_twice(asked: Asked) -> None:
    asked.leave(b"order")
    asked.check()
    asked.check()
    first, second = asked.halves
    asked.answer(second, COMMIT)
    asked.answer(first, COMMIT)
    asked.store.flush()
    assert asked.seen == [b"order"]


def test_what_is_rolled_back_later_is_never_asked_about_again(asked: Asked) -> None:
    asked.leave(b"order")
    asked.check()
    [half] = asked.halves
    asked.answer(half, ROLLBACK)
    asked.check()
    assert (asked.seen, len(asked.halves)) == ([], 1)


def test_an_answer_to_a_closed_store_is_refused(asked: Asked) -> None:
    asked.leave(b"order")
    asked.check()
    asked.store.close()
    with pytest.raises(flightlog.StoreClosedError):
        asked.answer(asked.halves[0], COMMIT)
