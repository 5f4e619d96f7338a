"""Attempts of concurrent groups: in the retry topic, counted there, and at an end among the dead letters."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Consumer, Message, ReceivedMessage, StartFrom, Store, Stores, StoreSettings, Subscription
from flightlog.consume.deliver.back_off import BackOff
from flightlog.consume.deliver.failures import REFUSED_BACK_OFF_S
from flightlog.store.errors import DiskError, DiskFullError, UsageError
from flightlog.testing.clock import ManualClock
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import inside, process
from flightlog.tests.support.killed_copy import copy_as_killed

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

LIMIT_S = 240.0
LEVELS = " ".join(["10s"] * 18)
HOUR_MS = 3_600_000
Opened = Callable[..., Store]


@pytest.fixture
def time() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(tmp_path: Path, time: ManualClock, assert_clean: AssertClean) -> Iterator[Opened]:
    stores: list[Store] = []

    def opener(name: str = "store", **options: Any) -> Store:
        settings = StoreSettings.small(delay_levels=LEVELS, **options.pop("settings", {}))
        stores.append(flightlog.open(tmp_path / name, settings, clock=time, **options))
        return stores[-1]

    yield opener
    for store in stores:
        store.close()
        assert_clean(store.path)


def fail(member: Subscription, time: ManualClock) -> tuple[bytes, int]:
    """The next message fails; then its delay passes."""
    message = member.receive()
    assert message is not None and message.send_back() and not message.send_back() and not message.ack()
    time.advance(10_000)
    return message.body, message.attempt


def at(store: Store, topic: str) -> dict[int, int]:
    return {queue_id: offset for queue_id, offset in store.group_offsets("g", topic).items() if offset or not queue_id}


def dead(store: Store, group: str = "g") -> list[tuple[bytes, int]]:
    return [(letter.body, letter.reconsume_times) for letter in store.dead_letters(group)]


def test_attempts_are_counted_across_members_and_restarts_until_the_last(opened: Opened, time: ManualClock) -> None:
    with opened() as store:
        store.put(Message("orders", b"bad", "paid", "k"))
        with store.subscribe("orders", "g", tags="paid") as member:
            assert [fail(member, time) for _ in range(5)] == [(b"bad", n) for n in range(1, 6)]
        with store.subscribe("orders", "g", tags="sent", start=StartFrom.LAST) as member:
            assert [fail(member, time) for _ in range(5)] == [(b"bad", n) for n in range(6, 11)]
    with opened() as store:
        with store.subscribe("orders", "g", start=time.now_ms() + HOUR_MS) as member:
            for attempt in range(11, 18):
                message = member.receive()
                assert message is not None and message.attempt == attempt and message.topic == "orders"
                assert (message.tags, message.keys, message.queue.topic) == ("paid", ["k"], "%RETRY%g")
                assert dead(store) == [] and message.send_back()
                time.advance(10_000)
            assert dead(store) == [(b"bad", 17)]
            time.advance(HOUR_MS)
            assert member.receive(0) is None and sum(member.lag().values()) == 0
        assert at(store, "orders") == {0: 1} and at(store, "%RETRY%g") == {0: 16}
    with opened() as store:
        assert dead(store) == [(b"bad", 17)] and dead(store, "other") == []
        with pytest.raises(UsageError):
            store.dead_letters("")


def test_the_maximum_counts_deliveries_and_one_is_the_first(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    store = opened()
    store.put(Message("orders", b"bad"))
    with (
        caplog.at_level(logging.WARNING, "flightlog.consume"),
        store.subscribe("orders", "g", max_attempts=1) as member,
    ):
        message = member.receive()
        assert message is not None and message.send_back()
    assert dead(store) == [(b"bad", 1)] and "dead letter after 1 attempts" in caplog.text
    assert not list(store.read("SCHEDULE_TOPIC_XXXX", 2))


def test_a_group_has_settings_for_its_attempts_and_its_retry_queues(opened: Opened, time: ManualClock) -> None:
    store = opened()
    store.update_group("g", retry_max_times=1, retry_queue_count=2)
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g") as member:
        assert [fail(member, time), fail(member, time)] == [(b"bad", 1), (b"bad", 2)]
    retry = store.topic("%RETRY%g")
    assert dead(store) == [(b"bad", 2)] and retry is not None and retry.read_queue_count == 2


def test_a_consumer_sends_back_what_its_listener_fails_at(opened: Opened, time: ManualClock) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n, queue_id=n % 4) for n in range(100))
    done: set[bytes] = set()
    letters: list[tuple[bytes, int]] = []
    are_over, lock = threading.Event(), threading.Lock()

    def listener(message: ReceivedMessage) -> str | None:
        with lock:
            if int(message.body) % 10 == 3:
                time.advance(10_000)
                raise ValueError("not to my taste")
            if int(message.body) % 10 == 4 and message.attempt < 3:
                time.advance(10_000)
                return "RECONSUME_LATER"
            done.add(message.body)
        return None

    def on_dead_letter(message: ReceivedMessage) -> None:
        with lock:
            letters.append((message.body, message.attempt))
            if len(letters) == 10:
                are_over.set()
        raise RuntimeError("the message is a dead letter all the same")

    with Consumer(store, "orders", "g", listener, threads=2, max_attempts=4, on_dead_letter=on_dead_letter):
        assert are_over.wait(LIMIT_S)
        expected = {b"%d" % n for n in range(100) if n % 10 != 3}
        for _ in range(600):
            if done == expected:
                break
            time.advance(10_000)
            threading.Event().wait(0.1)
    assert done == expected
    assert sorted(letters) == sorted(dead(store)) == sorted((b"%d" % n, 4) for n in range(3, 100, 10))


def test_a_message_goes_back_to_the_store_that_it_came_from(opened: Opened, time: ManualClock) -> None:
    stores = {name: opened(name) for name in ("a", "b")}
    for name, store in stores.items():
        store.put(Message("orders", name.encode()))
    with Stores(stores, clock=time) as both, both.subscribe("orders", "g", max_attempts=2) as member:
        assert {fail(member, time) for _ in range(2)} == {(b"a", 1), (b"b", 1)}
        assert {fail(member, time) for _ in range(2)} == {(b"a", 2), (b"b", 2)}
    assert {name: dead(store) for name, store in stores.items()} == {"a": [(b"a", 2)], "b": [(b"b", 2)]}


@pytest.mark.parametrize(
    ("operation", "error"),
    [("write", errno.ENOSPC), ("write", errno.EIO), ("create", errno.EACCES)],
    ids=["full", "fails", "not permitted"],
)
def test_what_the_store_refuses_stays_with_the_member(
    opened: Opened, time: ManualClock, caplog: pytest.LogCaptureFixture, operation: str, error: int
) -> None:
    disk = FaultyDisk()
    store = opened(disk=disk, settings={"segment_size": 1 << 16})
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g", max_attempts=3) as member:
        message = member.receive()
        assert message is not None
        disk.fail(operation, "topics.json", error)
        with caplog.at_level(logging.WARNING, "flightlog.consume"):
            assert message.send_back(), "it stays, and counts as an attempt"
            assert member.receive(0) is None and at(store, "orders") == {0: 0}
            time.advance(int(REFUSED_BACK_OFF_S * 1000))
            assert member.receive(0) is message and message.attempt == 2 and message.send_back()
        assert caplog.text.count("could not be sent back") == 1
        disk.heal()
        time.advance(int(REFUSED_BACK_OFF_S * 1000))
        assert member.receive(0) is message and message.send_back()
        assert dead(store) == [(b"bad", 3)] and at(store, "orders") == {0: 1}


def test_what_a_full_log_does_not_take_stays_with_the_member(opened: Opened, time: ManualClock) -> None:
    disk = FaultyDisk()
    store = opened(disk=disk, settings={"segment_size": 16 << 10, "allocate_step_size": 4096})
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g") as member:
        message = member.receive()
        for operation in ("allocate", "create", "resize"):
            disk.fail(operation, "commitlog/", errno.ENOSPC)
        with pytest.raises(DiskFullError):
            while True:
                store.put(Message("filler", b"shorter than a retry"))
        assert message is not None and message.send_back(), "it stays"
        assert member.receive(0) is None and at(store, "orders") == {0: 0}
        disk.heal()
        time.advance(int(REFUSED_BACK_OFF_S * 1000))
        assert member.receive(0) is message and message.attempt == 2 and message.send_back()
        assert at(store, "orders") == {0: 1}
        time.advance(10_000)
        again = member.receive()
        assert again is not None and (again.body, again.attempt) == (b"bad", 3) and again.ack()


@pytest.mark.parametrize("most", [1, 17])
def test_what_a_poisoned_store_does_not_take_comes_again_after_the_next_open(
    opened: Opened, time: ManualClock, most: int
) -> None:
    disk = FaultyDisk()
    store = opened(disk=disk)
    inside.groups_without_thread(store)  # it takes the queues of a poisoned store from their members
    store.put(Message("orders", b"bad"))
    member = store.subscribe("orders", "g", max_attempts=most)
    message = member.receive()
    disk.fail_syncs()
    with pytest.raises(DiskError):
        store.flush()
    disk.heal()
    for attempt in (1, 2):
        assert message is not None and message.attempt == attempt and message.send_back()
        assert at(store, "orders") == {0: 0} and dead(store) == []
        time.advance(int(REFUSED_BACK_OFF_S * 1000))
        assert member.receive(0) is message, "with its member"
    with suppress(DiskError):
        store.close()
    with opened() as store, store.subscribe("orders", "g", max_attempts=2) as member:
        assert at(store, "orders") == {0: 0} and fail(member, time) == (b"bad", 1), "no attempt was counted"
        assert fail(member, time) == (b"bad", 2) and dead(store) == [(b"bad", 2)]


@pytest.mark.parametrize("options", [{"settings": {"deliver_delayed": False}}, {"pre_put_hook": copy}], ids=list)
def test_a_store_without_delays_keeps_retries_with_the_member(
    opened: Opened, time: ManualClock, options: dict[str, Any]
) -> None:
    store = opened(**options)
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g", max_attempts=2) as member:
        message = member.receive(0)
        assert message is not None and message.attempt == 1 and message.send_back()
        assert member.receive(0) is None and at(store, "orders") == {0: 0}
        time.advance(int(REFUSED_BACK_OFF_S * 1000))
        assert member.receive(0) is message and message.attempt == 2 and message.send_back()
    assert dead(store) == [(b"bad", 2)] and ("%RETRY%g", 0) not in store.queues()


def test_a_late_message_goes_to_the_retry_topic_and_its_queue_goes_on(opened: Opened, time: ManualClock) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n) for n in range(3))
    with store.subscribe("orders", "g", consume_timeout_s=900.0) as member:
        stuck, fine = member.receive(), member.receive()
        assert stuck is not None and fine is not None and fine.ack()
        member.fail_late()
        assert stuck.is_at_work
        time.advance(900_000)
        late = member.receive()
        member.fail_late()
        assert not stuck.ack() and not stuck.send_back() and late is not None and late.ack()
        assert at(store, "orders") == {0: 3}
        time.advance(10_000)
        again = member.receive()
        assert again is not None and (again.body, again.attempt) == (b"0", 2) and again.ack()


def test_a_stuck_listener_holds_up_nothing_else(opened: Opened, time: ManualClock) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n) for n in range(50))
    done: list[bytes] = []
    is_over, lets_go = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        if message.body == b"7":
            lets_go.wait(LIMIT_S)
            return
        done.append(message.body)

    with Consumer(
        *(store, "orders", "g", listener),
        threads=3,
        max_attempts=2,
        consume_timeout_s=1.0,
        on_dead_letter=lambda message: is_over.set(),
    ) as consumer:
        process.wait_until(lambda: consumer.statistics().consumed == 49)  # else one of them may be late, too
        while not is_over.wait(0.05):
            time.advance(1_000)
        lets_go.set()
    assert dead(store) == [(b"7", 2)] and len(done) == len(set(done)) == 49


def test_a_consumer_gives_its_listener_15_minutes_and_a_subscription_any_time(
    opened: Opened, time: ManualClock
) -> None:
    """RocketMQ's `consumeTimeout`."""
    store = opened()
    store.put(Message("orders", b"slow"))
    has_begun, lets_go = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        has_begun.set()
        lets_go.wait(LIMIT_S)

    with store.subscribe("orders", "patient") as patient, Consumer(store, "orders", "g", listener) as consumer:
        held = patient.receive()
        assert has_begun.wait(LIMIT_S)
        time.advance(15 * 60_000 - 1)
        consumer.subscription.fail_late()
        assert store.topic("%RETRY%g") is None
        time.advance(1)
        consumer.subscription.fail_late()
        process.wait_until(lambda: store.topic("%RETRY%g") is not None)  # the group's thread may have been first
        lets_go.set()
        time.advance(100 * HOUR_MS)
        patient.fail_late()
        assert held is not None and held.ack() and store.topic("%RETRY%patient") is None


def test_a_back_off_keeps_failed_messages_with_the_member(opened: Opened) -> None:
    store = opened()
    store.put(Message("orders", b"bad"))
    is_over = threading.Event()
    attempts: list[int] = []

    def listener(message: ReceivedMessage) -> str:
        attempts.append(message.attempt)
        return "RECONSUME_LATER"

    with Consumer(
        store, "orders", "g", listener, back_off=BackOff(0, 0), max_attempts=5, on_dead_letter=lambda _: is_over.set()
    ):
        assert is_over.wait(LIMIT_S)
    assert attempts == [1, 2, 3, 4, 5] and dead(store) == [(b"bad", 5)] and store.topic("%RETRY%g") is None


def test_an_ordered_message_blocks_its_queue_until_its_last_attempt(opened: Opened, time: ManualClock) -> None:
    store = opened()
    store.put_many(Message("orders", b"%d" % n) for n in range(2))
    for most, name in ((3, "ends"), (None, "endless")):
        with store.subscribe("orders", name, ordered=True, max_attempts=most) as member:
            for attempt in range(1, 4 if most else 40):
                message = member.receive(0)
                assert message is not None and (message.body, message.attempt) == (b"0", attempt)
                assert message.send_back()
                if attempt != most:
                    assert member.poll() == []
                time.advance(1_000)
            message = member.receive(0)
            assert message is not None and message.body == (b"1" if most else b"0")
    assert dead(store, "ends") == [(b"0", 3)] and dead(store, "endless") == []


def test_a_group_that_broadcasts_has_no_retries_that_others_see(
    opened: Opened, time: ManualClock, tmp_path: Path
) -> None:
    store = opened()
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g", broadcast_folder=tmp_path / "own") as member:
        for attempt in range(1, 30):
            message = member.receive(0)
            assert message is not None and message.attempt == attempt and message.send_back()
            time.advance(5_000)
    assert store.topic("%RETRY%g") is None and store.topic("%DLQ%g") is None
    for options in ({"max_attempts": 3}, {"on_dead_letter": print}):
        with pytest.raises(UsageError, match="no dead letters"):
            store.subscribe("orders", "g", broadcast_folder=tmp_path / "own", **options)
        with pytest.raises(UsageError, match="no dead letters"):
            Consumer(store, "orders", "g", print, broadcast_folder=tmp_path / "own", **options)


def test_a_group_may_name_its_retry_topic_itself(opened: Opened, time: ManualClock) -> None:
    with closing(opened()) as store:
        store.put(Message("orders", b"bad"))
        with store.subscribe({"orders": "*", "%RETRY%g": "*"}, "g") as member:
            assert [fail(member, time), fail(member, time)] == [(b"bad", 1), (b"bad", 2)]


@pytest.mark.parametrize("most", [1, 2])
def test_a_kill_before_offsets_are_written_repeats_nothing_that_was_sent_back(
    opened: Opened, time: ManualClock, tmp_path: Path, most: int
) -> None:
    store = opened()
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g", max_attempts=most) as member:
        message = member.receive()
        assert message is not None and message.send_back()
        copy_as_killed(store.path, tmp_path / "killed")  # before any delay has passed: its delivery might be repeated
        copy_as_killed(store.path, tmp_path / "moved")
    (tmp_path / "moved" / "flightlog" / "starts").unlink()
    time.advance(10_000)
    for name in ("killed", "moved"):
        store = opened(name)
        with store.subscribe("orders", "g", max_attempts=most) as member:
            for _ in range(most - 1):
                fail(member, time)
            assert member.receive(0) is None
        assert dead(store) == [(b"bad", most)], "also where the notes are lost: the log tells"


def test_a_kill_after_offsets_were_written_repeats_nothing(opened: Opened, time: ManualClock, tmp_path: Path) -> None:
    store = opened()
    store.put(Message("orders", b"bad"))
    with store.subscribe("orders", "g", max_attempts=2) as member:
        message = member.receive()
        assert message is not None and message.send_back()
    copy_as_killed(store.path, tmp_path / "killed")
    time.advance(10_000)
    store = opened("killed")
    with store.subscribe("orders", "g", max_attempts=2) as member:
        assert fail(member, time) == (b"bad", 2) and member.receive(0) is None
    assert dead(store) == [(b"bad", 2)]
