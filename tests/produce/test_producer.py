"""Who writes to which queue: turns, message groups, selectors, and stores that fail."""

from __future__ import annotations

import errno
import itertools
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PutStatus, StoreSettings
from flightlog.produce.faults import FaultRules
from flightlog.produce.hot_spots import WINDOW
from flightlog.produce.producer import Producer, by_key
from flightlog.produce.queue_hash import by_hash_code, by_jump_hash, by_sip_hash
from flightlog.produce.send_errors import NoRouteError
from flightlog.produce.send_result import SendResult
from flightlog.store.errors import (
    DiskError,
    DiskFullError,
    InvalidMessageError,
    InvalidSettingsError,
    StoreClosedError,
    StorePoisonedError,
    SyncFailedError,
)
from flightlog.store.message_queue import MessageQueue
from flightlog.testing.faulty_disk import FaultyDisk

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock, Stores

TOPIC = "orders"
BACK_OFF_S = 10.0
SMALL_STEPS = StoreSettings(segment_size=16 << 10, queue_file_entries=50, allocate_step_size=4096)
SYNC = StoreSettings(
    segment_size=1 << 20, queue_file_entries=1000, flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000
)


def message(number: int = 0, **fields: str) -> Message:
    return Message(TOPIC, b"%d" % number, **fields)  # type: ignore[arg-type]


def fill(producer: Producer, count: int, start: int = 0) -> list[SendResult]:
    return [producer.send(message(start + i)) for i in range(count)]


def run_full(disk: FaultyDisk) -> None:
    """No room for the log any more; what is there can be synced."""
    for operation in ("allocate", "create", "resize"):
        disk.fail(operation, "commitlog/", errno.ENOSPC)


def test_queues_take_turns_from_a_start_by_chance(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    found = fill(producer, 40)
    ids = [result.queue.queue_id for result in found]
    assert ids == [(ids[0] + i) % 4 for i in range(40)]
    assert {result.put.status for result in found} == {PutStatus.PUT_OK}
    assert len({Producer(stores.open["a"]).send(message(i)).queue.queue_id for i in range(100, 150)}) > 1
    assert stores.bodies().total() == 90


def test_threads_have_turns_of_their_own(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    found: list[list[int]] = []

    def send() -> None:
        found.append([producer.send(message(i)).queue.queue_id for i in range(20)])

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ids in found:
        assert ids == [(ids[0] + i) % 4 for i in range(20)]


def test_a_store_with_more_queues_gets_more(stores: Stores, clock: ManualClock) -> None:
    for name, queue_count in (("a", 2), ("b", 6)):
        stores.add(name).create_topic(TOPIC, queue_count)
    producer = Producer(stores.open, clock=clock)  # a send that takes half a second would have its store left alone
    assert [queue.broker_name for queue in producer.queues(TOPIC)] == ["a"] * 2 + ["b"] * 6
    assert Counter(result.queue.broker_name for result in fill(producer, 80)) == {"a": 20, "b": 60}


def test_queues_share_evenly_while_a_store_is_skipped(stores: Stores, clock: ManualClock) -> None:
    """The queue behind a skipped store once got all of that store's turns: 3,331 of 8,000, the others 667."""
    for name in "abc":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    producer.queues(TOPIC)
    stores.open["b"].close()
    found = Counter(result.queue for result in fill(producer, 800))
    assert found == {MessageQueue(TOPIC, name, queue_id): 100 for name in "ac" for queue_id in range(4)}


def test_weights_hold_while_a_store_is_skipped(stores: Stores, clock: ManualClock) -> None:
    for name, queue_count in (("a", 2), ("b", 3), ("c", 6)):
        stores.add(name).create_topic(TOPIC, queue_count)
    producer = Producer(stores.open, clock=clock)
    producer.queues(TOPIC)
    stores.open["b"].close()
    found = Counter(result.queue for result in fill(producer, 400))
    assert found == {queue: 50 for queue in producer.queues(TOPIC) if queue.broker_name != "b"}


class SlowClock:
    """Every reading takes a second, and so does every put."""

    def __init__(self) -> None:
        self._seconds = itertools.count(1)

    def now_ms(self) -> int:
        return next(self._seconds) * 1000

    def monotonic_s(self) -> float:
        return float(next(self._seconds))


def test_queues_take_turns_while_their_only_store_is_to_be_left_alone(stores: Stores) -> None:
    for_ever = FaultRules((1,), (1_000_000_000,))
    producer = Producer(stores.add("a"), clock=SlowClock(), fault_rules=for_ever)
    assert set(Counter(result.queue.queue_id for result in fill(producer, 40)).values()) == {10}


@pytest.mark.parametrize("rule", [by_sip_hash, by_hash_code, by_jump_hash])
def test_a_group_has_one_queue_and_its_order(rule: object, stores: Stores, clock: ManualClock) -> None:
    stores.add("b")
    producer = Producer({"a": stores.add("a"), "b": stores.open["b"]}, rule=rule, clock=clock)  # type: ignore[arg-type]
    for number in range(60):
        group = f"group-{number % 6}"
        result = producer.send(message(number), group=group)
        assert result.queue == producer.queues(TOPIC)[rule(group, 8)]  # type: ignore[operator]
    for name, store in stores.open.items():
        for queue_id in range(4):
            found = list(store.read(TOPIC, queue_id))
            by_group: dict[str, list[int]] = {}
            for each in found:
                by_group.setdefault(each.properties["__SHARDINGKEY"], []).append(int(each.body))
            for group, numbers in by_group.items():
                assert producer.queues(TOPIC)[rule(group, 8)] == (TOPIC, name, queue_id)  # type: ignore[operator]
                assert numbers == list(range(int(group[-1]), 60, 6))


def test_by_key_and_by_own_selectors(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    assert producer.send(message(keys="order-7"), selector=by_key).queue.queue_id == by_hash_code("order-7", 4)
    with pytest.raises(NoRouteError, match="without keys"):
        producer.send(message(), selector=by_key)

    def last(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
        return queues[-1]

    assert producer.send(message(), selector=last).queue.queue_id == 3
    with pytest.raises(InvalidSettingsError, match="the selector chose .*queueId=99"):
        producer.send(message(), selector=lambda queues, _: queues[0]._replace(queue_id=99))
    with pytest.raises(InvalidSettingsError, match="expected one of them"):
        producer.send(message(), selector=last, group="g")


def test_a_message_gets_an_id_and_is_not_changed(stores: Stores) -> None:
    producer = Producer(stores.add("a"))
    given = message()
    ids = [producer.send(given).uniq_key for _ in range(100)]
    assert len(set(ids)) == 100 and {len(each) for each in ids} == {32}
    assert given == message()
    assert all(stores.open["a"].was_stored(each) for each in ids)
    assert producer.send(message(uniq_key="mine")).uniq_key == "mine"


def test_a_full_store_is_left_alone_and_tried_again(stores: Stores, clock: ManualClock) -> None:
    """It is avoided within one send, and used again once it has room."""
    for name in "ab":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    fill(producer, 8)
    run_full(stores.disks["a"])
    tries = []
    for number in range(8, 600):
        result = producer.send(message(number))
        tries.append((result.tries, result.queue.broker_name))
    assert [name for count, name in tries if count == 2] == ["b"], "left alone with the first failure"
    stores.disks["a"].heal()
    clock.at_s += BACK_OFF_S - 0.1
    assert {result.queue.broker_name for result in fill(producer, 8, 600)} == {"b"}
    clock.at_s += 0.2
    assert {result.queue.broker_name for result in fill(producer, 8, 608)} == {"a", "b"}
    assert stores.bodies() == Counter(b"%d" % number for number in range(616))


def test_where_all_fail_the_error_is_the_last_ones(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SMALL_STEPS)
        run_full(stores.disks[name])
    producer = Producer(stores.open, clock=clock)
    stored = 0
    with pytest.raises(DiskFullError):
        for stored in range(1000):
            producer.send(message(stored))
    for disk in stores.disks.values():
        disk.heal()
    producer.send(message(stored))  # both are to be left alone: the one that may be sent to first is taken
    assert stores.bodies() == Counter(b"%d" % number for number in range(stored + 1))


def test_an_ordered_message_never_changes_its_queue(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name, SMALL_STEPS)
    producer = Producer(stores.open, clock=clock)
    home = {group: producer.send(message(i), group=group).queue for i, group in enumerate("pqrstuvw")}
    assert {queue.broker_name for queue in home.values()} == {"a", "b"}
    run_full(stores.disks["a"])
    refused = 0
    for number in range(8, 1000):
        group = "pqrstuvw"[number % 8]
        try:
            assert producer.send(message(number), group=group).queue == home[group]
        except DiskFullError:
            assert home[group].broker_name == "a"
            refused += 1
    assert refused
    stores.open["a"].close()
    clock.at_s += 60
    for group, queue in home.items():
        if queue.broker_name == "a":
            with pytest.raises(StoreClosedError):
                producer.send(message(), group=group)
        else:
            assert producer.send(message(), group=group).queue == queue


def test_of_a_store_that_was_closed_before_nothing_is_known(stores: Stores, clock: ManualClock) -> None:
    stores.add("a")
    stores.add("b").close()
    producer = Producer(stores.open, clock=clock)
    assert producer.send(message()).queue.broker_name == "a"
    with pytest.raises(NoRouteError, match="b closed before it was known"):
        producer.send(message(), group="g")
    producer.remove_store("b")
    assert producer.send(message(), group="g").queue.broker_name == "a"
    with pytest.raises(InvalidSettingsError, match="no store 'b': there are a"):
        producer.remove_store("b")


def test_after_a_failed_sync_the_message_is_not_made_two(stores: Stores, clock: ManualClock) -> None:
    """It is in the log of the store whose sync failed, and may be there tomorrow: no other store gets it."""
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    fill(producer, 8)
    acknowledged = list(range(8))
    stores.disks["a"].fail("sync", "commitlog/", errno.EIO)
    number = 8
    with pytest.raises((SyncFailedError, StorePoisonedError)) as caught:
        for number in range(8, 28):
            producer.send(message(number))
            acknowledged.append(number)
    assert "is in the log of 'a'" in "".join(caught.value.__notes__)
    for later in range(number + 1, number + 20):  # a poisoned store stores nothing: sends go on elsewhere
        assert producer.send(message(later)).queue.broker_name == "b"
        acknowledged.append(later)
        clock.at_s += BACK_OFF_S
    found = stores.bodies()
    assert max(found.values()) == 1
    assert found.keys() >= {b"%d" % each for each in acknowledged}


def test_after_a_failed_sync_a_message_for_later_is_not_made_two(stores: Stores, clock: ManualClock) -> None:
    """It is in the log of the store whose sync failed, where it waits in another topic."""
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    fill(producer, 8)
    for name in "ab":
        stores.disks[name].fail("sync", "commitlog/", errno.EIO)
    with pytest.raises((SyncFailedError, StorePoisonedError)) as caught:
        producer.send(Message("orders", b"later", delay_level=18))
    assert "is in the log of " in "".join(caught.value.__notes__)
    parked = []
    for name, store in stores.open.items():
        stores.disks[name].heal()
        with suppress(DiskError):  # one of them is poisoned
            store.close()
        with flightlog.open(store.path, SYNC) as again:
            parked += [found.body for found in again.read("SCHEDULE_TOPIC_XXXX", 17)]
    assert parked == [b"later"]


def test_a_store_that_was_opened_again_takes_its_place(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    stores.open["a"].close()
    assert {result.queue.broker_name for result in fill(producer, 20)} == {"b"}
    producer.add_store("a", stores.add("a"))
    assert {result.queue.broker_name for result in fill(producer, 20, 20)} == {"a", "b"}


def test_a_store_whose_disk_fails_is_avoided_within_one_send_and_used_again_once_it_is_opened(
    stores: Stores, clock: ManualClock
) -> None:
    for name in "ab":
        stores.add(name, SYNC)
    producer = Producer(stores.open, clock=clock)
    fill(producer, 8)
    stores.disks["a"].fail("sync", "commitlog/", errno.EIO)
    with pytest.raises((SyncFailedError, StorePoisonedError)):
        fill(producer, 8, 8)  # one of them meets it
    assert {result.queue.broker_name for result in fill(producer, 40, 20)} == {"b"}
    stores.disks["a"].heal()
    with suppress(DiskError):  # it is poisoned
        stores.open["a"].close()
    producer.add_store("a", stores.add("a", SYNC))
    assert {result.queue.broker_name for result in fill(producer, 8, 60)} == {"a", "b"}
    found = stores.bodies()
    assert max(found.values()) == 1 and found.keys() >= {b"%d" % number for number in (*range(8), *range(20, 68))}


def test_what_is_wrong_with_a_message_is_no_fault_of_a_store(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name)
    producer = Producer(stores.open, clock=clock)
    with pytest.raises(InvalidMessageError):
        producer.send(message(keys="with space"))
    assert {result.queue.broker_name for result in fill(producer, 8)} == {"a", "b"}


def test_changed_topics_are_seen(stores: Stores, clock: ManualClock) -> None:
    for name in "ab":
        stores.add(name).create_topic(TOPIC, 2)
    producer = Producer(stores.open, clock=clock)
    fill(producer, 8)
    stores.open["a"].update_topic(TOPIC, perm=4)  # believed to take puts still
    assert {result.queue.broker_name for result in fill(producer, 8)} == {"b"}
    stores.open["b"].update_topic(TOPIC, queue_count=5)
    clock.at_s += 1.5
    assert len(producer.queues(TOPIC)) == 5
    stores.open["b"].update_topic(TOPIC, perm=4)
    with pytest.raises(NoRouteError, match=r"none of the stores \(a, b\) takes messages of it"):
        fill(producer, 8)


def test_no_topic_and_none_is_made(stores: Stores) -> None:
    store = stores.add("a", StoreSettings(segment_size=1 << 20, auto_create_topics=False))
    with pytest.raises(NoRouteError, match="topic 'orders': none of the stores"):
        Producer(store).send(message())


def test_a_hot_group_and_a_hot_queue_are_reported(
    stores: Stores, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    store = stores.add("a", StoreSettings(segment_size=16 << 20))
    store.create_topic(TOPIC, 16)
    producer = Producer(store)
    rng = random.Random(1)
    with caplog.at_level(logging.WARNING, "flightlog.produce"):
        for number in range(WINDOW):
            producer.send(message(number), group="hot" if rng.random() < 0.4 else str(rng.randrange(1000)))
    [record] = told()
    assert 0.3 < producer.hot_spots.groups["hot"] < 0.5
    assert [queue.queue_id for queue in producer.hot_spots.queues] == [by_sip_hash("hot", 16)]
    assert "message group 'hot'" in record.getMessage()
    caplog.clear()
    for number in range(WINDOW):
        producer.send(message(number))
    assert not told() and not producer.hot_spots.groups and not producer.hot_spots.queues


@pytest.mark.parametrize("seed", range(12))
def test_whatever_fails_every_acknowledged_message_is_there_once(seed: int, stores: Stores, clock: ManualClock) -> None:
    rng = random.Random(seed)
    for name in "abc":
        stores.add(name, rng.choice((SMALL_STEPS, SYNC)))
    producer = Producer(stores.open, clock=clock)
    acknowledged: set[bytes] = set()
    for number in range(300):
        if rng.random() < 0.05:
            disk = stores.disks[rng.choice("abc")]
            if rng.random() < 0.5:
                disk.heal()
            elif rng.random() < 0.7:
                run_full(disk)
            else:
                disk.fail("sync", "commitlog/", errno.EIO, skip=rng.randrange(3))
        clock.at_s += rng.choice((0.0, 0.1, 5.0))
        group = rng.choice((None, None, "g", "h"))
        try:
            result = producer.send(message(number), group=group)
        except (DiskFullError, SyncFailedError, StorePoisonedError):
            continue
        assert result.put.status is PutStatus.PUT_OK
        acknowledged.add(b"%d" % number)
    found = stores.bodies()
    assert found.keys() >= acknowledged and max(found.values()) == 1
