"""A group that was received from and subscribes then, or the reverse: what it does not get is told, with counts."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import StartFrom, StoreSettings
from flightlog.consume.pop.debts import PopDebts, pop_debts
from flightlog.testing import kill
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean


def debts(here: PoppedStore, group: str = "g", *topics: str) -> PopDebts:
    return pop_debts(inside.engine(here.store), group, set(topics or ("orders",)))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.name == "flightlog.pop"]
    caplog.clear()
    return found


def subscribed(here: PoppedStore, group: str = "g") -> None:
    here.store.subscribe("orders", group).close()


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_subscription_tells_of_what_was_popped(
    tmp_path: Path, killed: bool, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean
) -> None:
    caplog.set_level(logging.WARNING)
    here = PoppedStore(tmp_path)
    here.put(*range(8))
    here.put(8, topic="bills")
    popped = here.receive(8, start=StartFrom.FIRST)
    here.receive(2, group="other", invisible_ms=600_000, start=StartFrom.FIRST)
    here.store.receive("g", "bills", start=StartFrom.FIRST, invisible_ms=600_000)
    here.store.ack(*(each.handle for each in popped[:3]))
    here.reopen(killed=killed)

    assert debts(here) == PopDebts(5, 0) and debts(here, "other") == PopDebts(2, 0)
    assert debts(here, "g", "orders", "bills") == PopDebts(6, 0)
    assert not debts(here, "nobody") and not debts(here, "g", "none")
    subscribed(here)
    [told] = warnings(caplog)
    assert "5 messages are not acknowledged, 0 wait" in told and "Call receive for 'orders'" in told
    subscribed(here, "nobody")
    assert warnings(caplog) == []
    here.pass_time(20_000)
    assert debts(here) == PopDebts(0, 5)
    subscribed(here)
    assert "0 messages are not acknowledged, 5 wait" in warnings(caplog)[0]
    here.reopen()
    assert debts(here) == PopDebts(0, 5), "what is worked off does not count again"
    again = here.receive(8)
    assert sorted(numbers_of(again)) == [3, 4, 5, 6, 7] and debts(here) == PopDebts(5, 0)
    here.store.ack(*(each.handle for each in again))
    here.reopen(killed=killed)
    subscribed(here)
    assert warnings(caplog) == [] and not debts(here)
    here.store.close()
    assert_clean(tmp_path)


def test_a_killed_writer_leaves_none_that_is_worked_off(tmp_path: Path, assert_clean: AssertClean) -> None:
    """The wheel has the check point again, as far as it was saved; the revive topic says that it is over."""
    here = PoppedStore(tmp_path)
    here.put(1)
    here.receive(start=StartFrom.FIRST)
    here.pass_time(20_000)
    inside.engine(here.store).offsets.save()
    kill(here.store)
    here.open()
    assert debts(here) == PopDebts(0, 1)
    here.store.close()
    assert_clean(tmp_path)


def test_a_receive_tells_of_retries_of_subscriptions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean
) -> None:
    caplog.set_level(logging.WARNING)
    here = PoppedStore(tmp_path, settings=StoreSettings.small(delay_levels=" ".join(["1s"] * 18)))
    here.put(0, 1, 2)
    with here.store.subscribe("orders", "g") as member:
        for message in islice(member, 3):
            assert message.send_back()
    here.pass_time(5_000)
    here.receive()
    [told] = warnings(caplog)
    assert "the 3 messages that its subscriptions sent back, in '%RETRY%g'" in told
    here.receive()
    assert warnings(caplog) == [], "once"
    with here.store.subscribe("orders", "g") as member:
        found = list(islice(member, 3))
        assert sorted(int(each.body) for each in found) == [0, 1, 2] and all(each.ack() for each in found)
    here.reopen()
    here.receive()
    assert warnings(caplog) == []
    here.store.close()
    assert_clean(tmp_path)
