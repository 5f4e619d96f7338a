"""An end of a transaction at the moment at which the server leaves it to the checks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, Producer, StoreSettings, TransactionResolution
from flightlog.serve.brokers.broker import Broker
from flightlog.serve.brokers.off_loop import OffLoop
from flightlog.serve.calls.transactions import ServedTransactions
from flightlog.tests.support.rocketmq_server import PATIENCE_S

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


@pytest.mark.parametrize(("topic", "is_ended"), [("orders", True), ("other", False)])
def test_it_is_found_while_it_is_left(tmp_path: Path, assert_clean: AssertClean, topic: str, is_ended: bool) -> None:
    """It was in neither table for a moment, and its client was told that there is none."""
    leaves, goes_on = threading.Event(), threading.Event()

    async def transactions(store: flightlog.Store) -> ServedTransactions:
        return ServedTransactions(Broker.of(store), OffLoop(), lambda *_: False)

    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small()) as store, ThreadPoolExecutor(2) as threads:
        store.create_topic("orders", 1)
        served = asyncio.run(transactions(store))
        transaction = Producer(store).transaction(Message("orders", b"work"))
        unknown = transaction.unknown

        def slow_unknown() -> None:
            leaves.set()
            assert goes_on.wait(PATIENCE_S)
            unknown()

        transaction.unknown = slow_unknown  # type: ignore[method-assign]
        served.add("orders", transaction, 0)
        leaving = threads.submit(served.leave_due)
        assert leaves.wait(PATIENCE_S)
        ending = threads.submit(served.end, transaction.transaction_id, TransactionResolution.COMMIT, topic)
        wait([ending], 0.1)  # without the mend it has ended by now
        goes_on.set()
        leaving.result(PATIENCE_S)
        assert ending.result(PATIENCE_S) == is_ended
        assert [each.body for each in store.read("orders")] == ([b"work"] if is_ended else [])
    assert_clean(path)
