"""`Stores`: several stores read as one, which come and go and are poisoned while members read them."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, MessageQueue, StartFrom, Stores, StoreSettings, Subscription
from flightlog.consume.deliver.subscription import PULL_RETRY_S
from flightlog.consume.group_coordinator import SAVE_INTERVAL_S
from flightlog.store.errors import (
    DiskError,
    InconsistentGroupError,
    InvalidSettingsError,
    StoreClosedError,
    StorePoisonedError,
)
from flightlog.tests.support import inside
from flightlog.tests.support.clocks import HeldClock

if TYPE_CHECKING:
    from flightlog.tests.consume.conftest import Disks

Bodies = Callable[[Subscription], list[bytes]]
WaitUntil = Callable[[Callable[[], object]], None]
LIMIT_S = 240.0


def stores_of(subscription: Subscription) -> set[str]:
    return {queue.broker_name for queue in subscription.queues}


def test_members_share_the_queues_of_all_stores(disks: Disks, bodies: Bodies) -> None:
    with Stores(disks.open("a", "b")) as stores:
        for number in range(40):
            disks.put("ab"[number % 2], f"{number:02}")
        first, second = stores.subscribe("orders", "g"), stores.subscribe("orders", "g")
        assert [len(first.queues), len(second.queues)] == [4, 4] and not {*first.queues} & {*second.queues}
        found = bodies(first), bodies(second)
        assert sorted([*found[0], *found[1]]) == [b"%02d" % number for number in range(40)]
        assert min(map(len, found)) > 0
        assert sum(first.lag().values()) == sum(second.lag().values()) == 0
        assert stores.group_offsets("g", "orders") == {
            MessageQueue("orders", name, queue_id): 5 for name in "ab" for queue_id in range(4)
        }
    for store in disks.stores.values():
        assert store.group_offsets("g", "orders") == dict.fromkeys(range(4), 5), "each keeps its own"


def test_a_store_that_closes_takes_its_queues_and_is_read_on_when_it_is_back(disks: Disks, bodies: Bodies) -> None:
    stores = Stores(disks.open("a", "b"))
    disks.put("a", *range(8))
    subscription = stores.subscribe("orders", "g")
    held = [subscription.receive(0) for _ in range(8)]
    assert all(held)
    for message in held[:3]:
        assert message is not None and message.ack()
    disks.stores["a"].close()
    assert stores.names == ["b"] and not subscription.queues
    assert held[3] is not None and not held[3].ack(), "it comes again where the store is read next"
    disks.put("b", "x")
    message = subscription.receive(LIMIT_S)
    assert message is not None and message.body == b"x" and message.ack()
    disks.open("a")
    stores.add_store("a", disks.stores["a"])
    assert stores_of(subscription) == {"a", "b"}
    found = bodies(subscription)
    acknowledged = {message.body for message in held[:3] if message is not None}
    assert {*found, *acknowledged} == {b"%d" % number for number in range(8)} and len(found) >= 5
    stores.close()
    assert disks.stores["a"].group_offsets("g", "orders") == dict.fromkeys(range(4), 2)


def test_a_store_is_added_while_a_member_waits(disks: Disks, clock: HeldClock) -> None:
    stores = Stores(disks.open("a"), clock=clock)
    subscription = stores.subscribe("orders", "g")
    found: list[bytes] = []

    def consume() -> None:
        for message in subscription:
            found.append(message.body)
            message.ack()

    thread = threading.Thread(target=consume)
    thread.start()
    disks.open("b")
    disks.put("b", "waits in b")
    stores.add_store("b", disks.stores["b"])
    disks.put("b", "last")
    while len(found) < 2:
        thread.join(0.01)
        assert thread.is_alive()
    stores.remove_store("b")
    assert disks.stores["b"].group_offsets("g", "orders") and stores_of(subscription) <= {"a"}
    with pytest.raises(InvalidSettingsError, match="no store 'b': there are a"):
        stores.remove_store("b")
    stores.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive() and sorted(found) == [b"last", b"waits in b"]
    with pytest.raises(StoreClosedError, match="Stores is closed"):
        stores.subscribe("orders", "g")


def test_a_poisoned_store_is_left_at_once_and_the_others_go_on(
    disks: Disks, clock: HeldClock, bodies: Bodies, wait_until: WaitUntil
) -> None:
    stores = Stores(disks.open("a", "b"), clock=clock)
    disks.put("a", *range(4))
    disks.put("b", *range(10, 14))
    subscription = stores.subscribe("orders", "g")
    held = [subscription.receive(0) for _ in range(8)]
    disks.poison("a")
    wait_until(lambda: stores_of(subscription) == {"b"})
    for message in held:
        assert message is not None and message.ack() is (message.queue.broker_name == "b")
    disks.put("b", 14)
    assert bodies(subscription) == [b"14"]
    disks.poison("b")
    with pytest.raises(StorePoisonedError):
        subscription.receive(LIMIT_S)


def test_whoever_waits_is_told_that_the_only_store_is_poisoned(disks: Disks) -> None:
    subscription = disks.open("a")["a"].subscribe("orders", "g")
    failures: list[BaseException] = []

    def wait() -> None:
        try:
            subscription.receive(LIMIT_S)
        except StorePoisonedError as e:
            failures.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    disks.poison("a")
    thread.join(LIMIT_S / 2)
    assert not thread.is_alive() and len(failures) == 1


def test_a_member_that_nobody_holds_has_left(
    disks: Disks, clock: HeldClock, bodies: Bodies, wait_until: WaitUntil
) -> None:
    store = disks.open("a")["a"]
    stores = Stores({"a": store}, clock=clock)
    disks.put("a", *range(8))
    first, second = stores.subscribe("orders", "g"), stores.subscribe("orders", "g")
    message = first.receive(0)
    assert message is not None and len(second.queues) == 2
    del first
    gc.collect()
    assert message.ack(), "whoever has a message of it holds it"
    del message
    gc.collect()
    wait_until(lambda: len(second.queues) == 4)  # noqa: F821 (ruff takes the `del` below for an earlier one)
    assert len(bodies(second)) == 7
    gone = weakref.ref(second)
    del second
    wait_until(lambda: gc.collect() >= 0 and gone() is None)  # the thread may hold it for a moment
    store.subscribe("orders", "g").close()  # no member is left, so it may be balanced elsewhere


def test_the_thread_ends_with_the_last_member_and_comes_back_with_the_next(
    disks: Disks, clock: HeldClock, bodies: Bodies, wait_until: WaitUntil
) -> None:
    before = set(threading.enumerate())

    def is_balancing() -> bool:
        return "flightlog-rebalance" in {thread.name for thread in set(threading.enumerate()) - before}

    def has_ended() -> bool:
        clock.now_s += SAVE_INTERVAL_S
        return not is_balancing()

    stores = Stores(disks.open("a"), clock=clock)
    disks.put("a", *range(8))
    for count in (8, 0):
        member = stores.subscribe("orders", "g")
        assert is_balancing() and len(bodies(member)) == count
        clock.now_s += SAVE_INTERVAL_S
        del member
        gc.collect()
        wait_until(has_ended)
    assert disks.stores["a"].group_offsets("g", "orders") == dict.fromkeys(range(4), 2)
    member = stores.subscribe("orders", "g")
    other = stores.subscribe("orders", "g")
    del member
    gc.collect()
    wait_until(lambda: len(other.queues) == 4)


def test_a_store_that_nobody_holds_any_more_is_closed_though_it_was_subscribed_to(
    tmp_path: Path, clock: HeldClock, wait_until: WaitUntil
) -> None:
    store = flightlog.open(tmp_path, StoreSettings.small(), clock=clock)
    store.put(Message("orders", b"1"))
    for message in store.subscribe("orders", "g", idle_s=0):
        message.ack()
    del message
    maintenance = inside.maintenance(store)

    def has_ended() -> bool:  # in whichever thread finds it
        clock.now_s += SAVE_INTERVAL_S
        gc.collect()
        return maintenance.is_over

    clock.now_s += SAVE_INTERVAL_S
    gc.collect()
    with pytest.warns(ResourceWarning, match="never closed"):
        del store
        wait_until(has_ended)
    with flightlog.open(tmp_path, StoreSettings.small()) as again:
        assert again.group_offsets("g", "orders")[0] == 1
    with flightlog.open_read_only(tmp_path) as view:
        assert view.verify().is_clean


def test_a_member_whose_thread_has_died_leaves_until_it_is_asked_again(disks: Disks, bodies: Bodies) -> None:
    stores = Stores(disks.open("a"))
    disks.put("a", *range(8))
    first, second = stores.subscribe("orders", "g"), stores.subscribe("orders", "g")
    thread = threading.Thread(target=lambda: first.receive(0))
    thread.start()
    thread.join()
    assert second.receive(0) is not None
    inside.look_after(stores)
    assert len(second.queues) == 4 and first.queues == []
    assert len(bodies(second)) == 7, "with what the dead thread had"
    disks.put("a", *range(10, 14))
    assert len(bodies(first)) == 2 and len(second.queues) == len(first.queues) == 2
    assert len(bodies(second)) == 2


def test_a_group_is_balanced_in_one_place(disks: Disks) -> None:
    disks.open("a", "b")
    stores = Stores(disks.stores)
    alone = disks.stores["a"].subscribe("orders", "g")
    with pytest.raises(InconsistentGroupError, match="that others balance"):
        stores.subscribe("orders", "g")
    other = stores.subscribe("orders", "h")
    with pytest.raises(InconsistentGroupError, match="that others balance"):
        disks.stores["b"].subscribe("orders", "h")
    lonely = disks.open("c")["c"].subscribe("orders", "h")
    with pytest.raises(InconsistentGroupError, match="that others balance"):
        stores.add_store("c", disks.stores["c"])
    assert stores.names == ["a", "b"]
    for each in (alone, other, lonely):
        each.close()
    stores.add_store("c", disks.stores["c"])
    assert len(stores.subscribe("orders", "g").topics) == 1


def test_a_topic_that_is_deleted_in_one_store_goes_on_in_the_other(disks: Disks, bodies: Bodies) -> None:
    stores = Stores(disks.open("a", "b"))
    disks.put("a", *range(3))
    disks.put("b", *range(3, 6))
    subscription = stores.subscribe("orders", "g")
    assert len(bodies(subscription)) == 6
    disks.stores["a"].delete_topic("orders")
    disks.put("a", "new")
    disks.put("b", "next")
    found = [message.body for _ in range(2) if (message := subscription.receive(LIMIT_S)) is not None]
    assert sorted(found) == [b"new", b"next"]


def test_where_a_group_begins_is_told_to_each_store(disks: Disks, bodies: Bodies) -> None:
    stores = Stores(disks.open("a", "b"))
    disks.put("a", *range(8))
    disks.put("b", *range(8))
    subscription = stores.subscribe("orders", "g", start=StartFrom.LAST)
    assert bodies(subscription) == []
    subscription.seek_to_time(0)
    assert len(bodies(subscription)) == 16


def test_offsets_that_cannot_be_written_are_written_once_the_disk_heals(
    disks: Disks, bodies: Bodies, caplog: pytest.LogCaptureFixture
) -> None:
    stores = Stores(disks.open("a", "b"))
    disks.put("a", *range(8))
    disks.put("b", *range(8))
    subscription = stores.subscribe("orders", "g")
    disks.disks["a"].fail("write", "consumerOffset", 28)
    assert len(bodies(subscription)) == 16, "nobody waits for the file"
    for _ in range(3):
        inside.look_after(stores)
    assert caplog.text.count("offsets of consumers are not written yet") == 1, "it is told once"
    assert inside.group_offsets(disks.stores["a"]).is_unsaved and not inside.group_offsets(disks.stores["b"]).is_unsaved
    disks.disks["a"].heal()
    inside.look_after(stores)
    assert not inside.group_offsets(disks.stores["a"]).is_unsaved
    assert SAVE_INTERVAL_S == 5


def test_what_cannot_be_read_is_told_and_comes_when_it_can(disks: Disks, clock: HeldClock, bodies: Bodies) -> None:
    settings = StoreSettings(segment_size=16 << 10, queue_file_entries=20)
    stores = Stores(disks.open("a", "b", settings=settings), clock=clock)
    for name in "ab":
        for number in range(100):
            disks.stores[name].put(Message("orders", b"%s%02d" % (name.encode(), number)))
    disks.stores["a"].close()
    disks.open("a", settings=settings)  # with nothing of its queues in memory
    stores.add_store("a", disks.stores["a"])
    disks.disks["a"].fail("read", "consumequeue/", 5)
    subscription = stores.subscribe("orders", "g")
    found: list[bytes] = []
    failures = 0
    while len(found) < 100:
        try:
            message = subscription.receive(0)
            assert message is not None and message.ack()
            found.append(message.body)
        except DiskError:
            failures += 1
    assert failures and sorted(found) == [b"b%02d" % number for number in range(100)], "the other store goes on"
    disks.disks["a"].heal()
    clock.now_s += PULL_RETRY_S
    assert bodies(subscription) == [b"a%02d" % number for number in range(100)]
