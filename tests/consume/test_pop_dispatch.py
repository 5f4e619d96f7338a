"""A receive that has enough in the queues dispatches nothing, and passes over no message for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import StoreSettings
from flightlog.engine.read.dispatched import WAITING_SIZE
from flightlog.tests.support import inside
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

NEVER_MS = 3_600_000
LIST, COUNT = 32, 6_400
RECORDS_SIZE = 700
"""Bytes of the records of a check point and an acknowledgement, at least."""


@pytest.fixture
def popped(tmp_path: Path, assert_clean: AssertClean) -> Iterator[PoppedStore]:
    """Receives alone dispatch."""
    settings = StoreSettings.small(flush_interval_ms=NEVER_MS, segment_size=4 << 20)
    popped = PoppedStore(tmp_path / "store", settings=settings)
    popped.store.create_topic("orders", 2)
    popped.put(*range(COUNT))
    for queue_id in range(2):
        popped.store.commit_offset("g", "orders", queue_id, 0)  # the group has begun
    popped.store.queue_bounds("orders", 0)
    yield popped
    popped.store.close()
    assert_clean(tmp_path / "store")


def receive(popped: PoppedStore) -> list[int]:
    got = popped.receive(LIST)
    popped.store.ack(*(each.handle for each in got))
    return numbers_of(got)


def test_a_receive_that_has_enough_dispatches_nothing(popped: PoppedStore) -> None:
    position = inside.dispatcher(popped.store).position
    for first in range(0, 20 * LIST, LIST):
        assert receive(popped) == [*range(first, first + LIST)]
    assert inside.dispatcher(popped.store).position == position


def test_what_is_put_to_another_queue_comes_meanwhile(popped: PoppedStore) -> None:
    popped.put(COUNT, queue_id=1)
    for _ in range(WAITING_SIZE // RECORDS_SIZE + 20):
        if COUNT in receive(popped):
            break
    else:
        pytest.fail("it is passed over")
    assert popped.store.lag("g")["orders", 0] > LIST, "the first queue had nothing left"


def test_what_is_left_comes_with_what_was_put_just_now(popped: PoppedStore) -> None:
    while receive(popped)[-1] < COUNT - 1:
        pass
    popped.put(*range(COUNT, COUNT + LIST // 2))
    popped.store.queue_bounds("orders", 0)
    popped.put(*range(COUNT + LIST // 2, COUNT + LIST))
    assert receive(popped) == [*range(COUNT, COUNT + LIST)]


def test_a_group_beyond_the_end_of_another_queue_goes_back_to_it(popped: PoppedStore) -> None:
    popped.put(COUNT, queue_id=1)
    popped.store.queue_bounds("orders", 1)
    inside.engine(popped.store).offsets.set("g", "orders", 1, 100)
    for _ in range(20):
        receive(popped)
    assert popped.store.group_offsets("g", "orders")[1] == 1


def test_a_filter_that_takes_nothing_of_a_full_queue_finds_what_was_put_just_now(popped: PoppedStore) -> None:
    popped.put(COUNT, tags="paid")
    assert popped.numbers(LIST, tags="paid") == [COUNT]
    popped.put(COUNT + 1, queue_id=1)
    for by_property in range(4 * LIST):
        popped.put(by_property, queue_id=1, properties={"amount": "1"})
    popped.store.queue_bounds("orders", 1)
    popped.put(COUNT + 2, queue_id=1, properties={"amount": "2"})
    assert popped.numbers(LIST, filter=flightlog.sql("amount > 1")) == [COUNT + 2]


def test_a_queue_that_is_blocked_in_order_hides_no_other(popped: PoppedStore) -> None:
    popped.store.update_group("g", is_ordered=True)
    assert popped.numbers(LIST) == [*range(LIST)]
    popped.put(COUNT, queue_id=1)  # not dispatched yet
    assert popped.numbers(LIST) == [COUNT]
    assert popped.numbers(LIST) == []


def test_an_attempt_that_is_made_again_receives_the_same_beside_much_that_waits(popped: PoppedStore) -> None:
    popped.store.update_group("g", is_ordered=True)
    first = popped.numbers(LIST, attempt_id="a")
    popped.put(*range(COUNT, COUNT + WAITING_SIZE // 100), queue_id=1)  # more than may wait
    assert popped.numbers(LIST, attempt_id="a") == first
