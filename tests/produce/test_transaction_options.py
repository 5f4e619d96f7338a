"""What a producer promises of its sends holds for its transactions: lag limits, message types and timeouts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NoReturn

import pytest

from flightlog import (
    FlushMode,
    GroupLagError,
    Message,
    MessageTypeError,
    Producer,
    SendTimeoutError,
    Store,
    StoreSettings,
    TransactionChecker,
    TransactionResolution,
)
from flightlog.produce.transaction.half_message import OP_TOPIC
from flightlog.produce.transaction.transactions import Transactions
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.store.errors import DiskFullError

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TOPIC = "orders"
LIMIT_S = 240.0
SYNC = StoreSettings(
    segment_size=1 << 20,
    queue_file_entries=1000,
    flush_mode=FlushMode.SYNC,
    flush_interval_ms=3_600_000,
    sync_flush_timeout_ms=240_000,
    transaction_timeout_ms=1,
)


def message(number: int = 0) -> Message:
    return Message(TOPIC, b"%d" % number)


@pytest.fixture
def lagging(stores: Stores) -> Store:
    """With a group that lags by one message."""
    store = stores.add("a")
    store.create_topic(TOPIC, 1)
    store.commit_offset("g", TOPIC, 0, 0)
    store.put(message())
    return store


def half_count(store: Store) -> int:
    return len(list(store.read(HALF_TOPIC)))


def test_a_transaction_raises_while_a_group_lags_by_more(lagging: Store, clock: ManualClock) -> None:
    producer = Producer(lagging, max_lag={"g": 0}, on_lag="raise", clock=clock)
    with pytest.raises(GroupLagError, match="group 'g' lags by 1 messages, expected 0 at most"):
        producer.transaction(message(1))
    assert half_count(lagging) == 0
    lagging.commit_offset("g", TOPIC, 0, 1)
    producer.transaction(message(1)).commit()
    with pytest.raises(GroupLagError):
        producer.transaction(message(2))


def test_a_transaction_waits_until_the_group_has_caught_up(lagging: Store, clock: ManualClock) -> None:
    """The clock stands still: it cannot time out."""
    producer = Producer(lagging, max_lag={"g": 0}, clock=clock)
    resolutions: list[TransactionResolution | None] = []

    def transact() -> None:
        with producer.transaction(message(1)) as tx:
            pass
        resolutions.append(tx.resolution)

    sending = threading.Thread(target=transact)
    sending.start()
    assert not resolutions
    lagging.commit_offset("g", TOPIC, 0, 1)
    sending.join(LIMIT_S)
    assert resolutions == [TransactionResolution.COMMIT]


def test_a_transaction_waits_for_a_group_no_longer_than_its_timeout(lagging: Store, clock: ManualClock) -> None:
    producer = Producer(lagging, max_lag={"g": 0}, clock=clock)
    with pytest.raises(GroupLagError):
        producer.transaction(message(1), timeout_s=0)
    errors: list[GroupLagError] = []

    def transact() -> None:
        with pytest.raises(GroupLagError) as caught:
            producer.transaction(message(1), timeout_s=100)
        errors.append(caught.value)

    clock.pass_during(transact)
    assert [each.lag for each in errors] == [1] and half_count(lagging) == 0


@pytest.mark.parametrize("message_type", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"])
def test_a_transaction_is_for_topics_of_its_type(message_type: str, stores: Stores) -> None:
    store = stores.add("a")
    store.create_topic(TOPIC, 1, attributes={"message.type": message_type})
    producer = Producer(store, check_message_type=True)
    for group in (None, "g"):
        if message_type in ("TRANSACTION", "MIXED"):
            producer.transaction(message(), group=group).commit()
        else:
            with pytest.raises(MessageTypeError, match=f"found a TRANSACTION message, expected {message_type}"):
                producer.transaction(message(), group=group)
    assert half_count(store) == len(list(store.read(TOPIC))) == (2 if message_type in ("TRANSACTION", "MIXED") else 0)


@pytest.mark.parametrize("of", ["the producer", "the call"])
def test_a_transaction_does_not_wait_for_a_hanging_sync_beyond_its_timeout(of: str, stores: Stores) -> None:
    store = stores.add("a", SYNC)
    producer = Producer(store, timeout_s=0.05 if of == "the producer" else 120)
    producer.transaction(message(), timeout_s=LIMIT_S).commit()
    with stores.disks["a"].held_syncs():
        with pytest.raises(SendTimeoutError, match=r"timeout_s=0.05.*it can be sent again") as caught:
            producer.transaction(message(1), timeout_s=None if of == "the producer" else 0.05)
        assert not caught.value.may_be_stored and "rolled back" in caught.value.__notes__[0]
    asked: list[bytes] = []

    def check(half: object) -> TransactionResolution:
        asked.append(half.body)  # type: ignore[attr-defined]
        return TransactionResolution.COMMIT

    producer.transaction(message(1), timeout_s=LIMIT_S).commit()
    with TransactionChecker(store, producer.producer_group, check) as checker:
        checker.check_now()
    ends = "".join(op.body.decode() for op in store.read(OP_TOPIC)).split(",")
    assert sorted(ends) == ["", "0", "1", "2"] and not asked, "it is over, and the checker is not asked about it"
    found = stores.bodies()
    assert found[b"0"] == 1 + 1 and found[b"1"] == 2 + 1, "halves, and the two that were committed"


@pytest.mark.parametrize(("timeout_s", "tries"), [(None, 2), (1.0, 1), (3.5, 2), (10.0, 3)])
def test_no_try_of_a_transaction_begins_after_the_timeout(
    timeout_s: float | None, tries: int, stores: Stores, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try takes 2 s and fails, as in the test of sends."""
    for name in "abc":
        stores.add(name)
    tried: list[object] = []

    def fail(transactions: Transactions, *_: object) -> NoReturn:
        tried.append(transactions)
        clock.at_s += 2
        raise DiskFullError(stores.open["a"].path, 1, "no room")

    monkeypatch.setattr(Transactions, "begin", fail)
    with pytest.raises((SendTimeoutError, DiskFullError)) as caught:
        Producer(stores.open, clock=clock).transaction(message(), timeout_s=timeout_s)
    assert len(tried) == tries
    assert isinstance(caught.value, DiskFullError if tries == 3 else SendTimeoutError)
