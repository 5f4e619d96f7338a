"""Retention by consumption: what keeps a segment, until when, and what goes then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import (
    FlushMode,
    Message,
    Producer,
    Store,
    StoreSettings,
    TransactionChecker,
    TransactionResolution,
)
from flightlog.consume import consumption
from flightlog.consume.pop.order_table import ORDER_GROUP, ORDER_TOPIC
from flightlog.consume.pop.pop_topics import REVIVE_TOPIC
from flightlog.engine.services.retention import CleanUpReport, Unread
from flightlog.produce.transaction.half_message import DISCARDED_TOPIC, OP_TOPIC
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.schedule.delivered import HALF_TOPIC
from flightlog.schedule.timer_request import TIMER_TOPIC
from flightlog.store.errors import InvalidTopicError
from flightlog.store.settings import PAGE_SIZE
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process
from flightlog.tests.support.popped_lives import SETTLE_MS, PoppedLives
from flightlog.tests.support.popped_store import PoppedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SEGMENT_SIZE = 8192
SETTINGS = StoreSettings.small(segment_size=SEGMENT_SIZE, queue_file_entries=20, transaction_timeout_ms=1)
COMES_AGAIN_MS = 4_000
WAIT_S = process.LIMIT_S


@pytest.fixture
def popped(tmp_path: Path, assert_clean: AssertClean) -> Iterator[PoppedStore]:
    popped = PoppedStore(tmp_path / "store", settings=SETTINGS)
    yield popped
    popped.store.close()
    assert_clean(tmp_path / "store")


@pytest.fixture
def store(popped: PoppedStore) -> Store:
    return popped.store


def consume(store: Store, topic: str, group: str) -> None:
    """All there is."""
    for (name, queue_id), (_, end) in store.queues().items():
        if name == topic:
            store.commit_offset(group, topic, queue_id, end)


def fill(store: Store) -> None:
    """Begin another segment with messages that are consumed."""
    full = inside.log(store).end // SEGMENT_SIZE
    while inside.log(store).end // SEGMENT_SIZE == full:
        store.put(Message("filler", bytes(500)))
    consume(store, "filler", "filling")


def trim(store: Store, **options: Any) -> CleanUpReport:
    store.flush()
    return store.clean_up(consumed_by_all=True, **options)


def unread(store: Store) -> dict[tuple[str, str | None], int]:
    """What keeps the oldest segment; nothing is removed for it."""
    return {(each.topic, each.group): each.count for each in trim(store, dry_run=True).unread}


def test_what_all_groups_have_consumed_goes_and_no_more(store: Store) -> None:
    store.put_many([Message("t", b"%d" % i, queue_id=i % 2) for i in range(10)])
    fill(store)
    fill(store)
    consume(store, "t", "ahead")
    store.commit_offset("behind", "t", 0, 3)
    store.commit_offset("behind", "t", 1, 5)
    report = trim(store)
    assert (report.segments, report.unread) == ([], (Unread("t", "behind", 2),))
    assert [m.body for m in store.read("t", 0, 3)] == [b"6", b"8"]
    consume(store, "t", "behind")
    report = trim(store)
    assert [path.name for path in report.segments] == [f"{base:020}" for base in (0, SEGMENT_SIZE)]
    assert report.unread == () and report.min_physical_offset == 2 * SEGMENT_SIZE
    assert store.queue_bounds("t", 0) == (5, 5)
    assert trim(store).segments == [], "the last segment stays"


def test_a_group_that_has_begun_in_one_queue_has_read_nothing_of_the_others(store: Store) -> None:
    store.put_many([Message("t", b"%d" % i, queue_id=i % 4) for i in range(8)])
    fill(store)
    store.commit_offset("g", "t", 1, 2)
    assert unread(store) == {("t", "g"): 6}
    consume(store, "t", "g")
    assert len(trim(store).segments) == 1


def test_what_is_popped_in_order_keeps_its_messages_and_the_records_that_are_not_in_the_file(
    popped: PoppedStore,
) -> None:
    store = popped.store
    store.update_group("g", is_ordered=True)
    store.put_many([Message("orders", b"%d" % number) for number in range(3)])
    first, second, third = popped.receive()
    store.ack(first.handle)
    fill(store)
    assert unread(store) == {("orders", "g"): 2, (ORDER_TOPIC, ORDER_GROUP): 2}
    store.ack(second.handle, third.handle)
    inside.save_pops(store)
    assert len(trim(store).segments) == 1
    popped.reopen(killed=True)
    assert popped.receive() == []
    assert popped.store.group_offsets("g", "orders")[0] == 3


def test_a_subscription_counts_by_what_it_acknowledged(store: Store) -> None:
    store.put_many([Message("t", b"%d" % i) for i in range(3)])
    fill(store)
    with store.subscribe("t", "g") as member:
        received = [member.receive(WAIT_S) for _ in range(3)]
        for each in (received[0], received[2]):
            assert each is not None and each.ack()
        assert unread(store) == {("t", "g"): 2}
        assert received[1] is not None and received[1].ack()
    assert len(trim(store).segments) == 1


def test_what_a_filter_passes_over_is_consumed(store: Store) -> None:
    store.put_many([Message("t", b"%d" % i, tags="a" if i == 1 else "b") for i in range(3)])
    fill(store)
    with store.subscribe("t", "g", tags="a") as member:
        received = member.receive(WAIT_S)
        assert unread(store) == {("t", "g"): 2}
        assert received is not None and received.ack()
        assert member.receive(0) is None
        assert len(trim(store).segments) == 1


def test_readers_without_offsets_in_the_store_keep_nothing(store: Store, tmp_path: Path) -> None:
    store.put_many([Message("t", b"%d" % i) for i in range(3)])
    fill(store)
    consume(store, "t", "g")
    with store.subscribe("t", "caches", broadcast_folder=tmp_path / "host") as member:
        assert member.receive(WAIT_S) is not None
        assert len(list(store.read("t"))) == 3 and store.get("t", 0, 0).messages
        assert len(trim(store).segments) == 1


def test_a_topic_that_no_group_consumes_keeps_its_segments_until_it_is_deleted(store: Store) -> None:
    store.put(Message("unread", b"x"))
    store.put(Message("%DLQ%g", b"dead"))
    fill(store)
    assert unread(store) == {("unread", None): 1, ("%DLQ%g", None): 1}
    store.delete_topic("unread")
    assert unread(store) == {("%DLQ%g", None): 1}
    assert trim(store).segments == [] and [m.body for m in store.dead_letters("g")] == [b"dead"]
    store.delete_topic("%DLQ%g")
    assert len(trim(store).segments) == 1


def test_a_deleted_group_keeps_nothing(store: Store) -> None:
    store.put(Message("t", b"x"))
    fill(store)
    consume(store, "t", "ahead")
    store.commit_offset("gone", "t", 0, 0)
    assert unread(store) == {("t", "gone"): 1}
    store.delete_group("gone")
    assert len(trim(store).segments) == 1


@pytest.mark.parametrize("way", ["level", "timer"])
def test_a_delayed_message_stays_until_it_is_delivered(way: str, popped: PoppedStore) -> None:
    store = popped.store
    delay: dict[str, Any] = {"delay_level": 3} if way == "level" else {"properties": {"TIMER_DELAY_SEC": "10"}}
    store.put(Message("t", b"late", **delay))
    fill(store)
    topic = SCHEDULE_TOPIC if way == "level" else TIMER_TOPIC
    for reopen in (False, True):
        if reopen:
            popped.reopen()
            store = popped.store
        popped.run_timers()
        assert unread(store) == {(topic, None): 1}
    popped.pass_time(9_000)
    assert unread(store) == {(topic, None): 1}
    popped.pass_time(4_000)
    assert [m.body for m in store.read("t")] == [b"late"]
    fill(store)
    assert trim(store).segments and unread(store) == {("t", None): 1}, "where it was delivered"
    consume(store, "t", "g")
    assert trim(store).segments and not unread(store)


def test_where_nothing_is_delivered_delayed_messages_stay(tmp_path: Path) -> None:
    settings = StoreSettings.small(segment_size=SEGMENT_SIZE, deliver_delayed=False)
    clock = ManualClock()
    with flightlog.open(tmp_path / "store", settings, clock=clock) as store:
        store.put(Message("t", b"late", delay_level=1))
        store.put(Message("t", b"late", properties={"TIMER_DELAY_SEC": "10"}))
        fill(store)
        clock.advance(3_600_000)
        assert unread(store).keys() == {(SCHEDULE_TOPIC, None), (TIMER_TOPIC, None)}


def test_a_cancelled_timer_keeps_its_segment_until_its_time(popped: PoppedStore) -> None:
    store, at_ms = popped.store, popped.clock.now_ms() + 10_000
    store.put(Message("t", b"never", uniq_key="k").deliver_at_ms(at_ms))
    store.cancel_timer("t", "k", at_ms)
    fill(store)
    for passed_ms in (0, 9_000):
        popped.pass_time(passed_ms)
        assert unread(store) == {(TIMER_TOPIC, None): 2}, "the timer and what cancels it"
    popped.pass_time(4_000)
    assert len(trim(store).segments) == 1 and ("t", 0) not in store.queues()


def test_a_half_message_stays_until_a_round_of_checks_has_passed_it(popped: PoppedStore) -> None:
    store = popped.store
    inside.transactions_by_hand(store)
    producer = Producer(store)
    producer.transaction(Message("t", b"unknown")).unknown()
    producer.transaction(Message("t", b"committed")).commit()
    fill(store)
    consume(store, "t", "g")
    popped.clock.advance(60_000)
    assert unread(store) == {(HALF_TOPIC, None): 2}, "without a checker"
    answers = [TransactionResolution.UNKNOWN, TransactionResolution.COMMIT]
    with TransactionChecker(store, producer.producer_group, lambda _: answers.pop(0)) as checker:
        checker.check_now()
        fill(store)
        assert [path.name for path in trim(store).segments] == ["0" * 20], "it was put back, behind"
        popped.clock.advance(60_000)
        checker.check_now()
        popped.clock.advance(60_000)
        checker.check_now()
        fill(store)
        fill(store)
        consume(store, "t", "g")
        left = unread(store)
        assert not left.keys() & {(HALF_TOPIC, "CID_RMQ_SYS_TRANS"), (OP_TOPIC, "CID_RMQ_SYS_TRANS")}, left
    assert not answers


def test_a_transaction_that_was_given_up_keeps_its_segment_until_a_group_consumes_it(popped: PoppedStore) -> None:
    store = popped.store
    inside.transactions_by_hand(store)
    producer = Producer(store)
    producer.transaction(Message("t", b"never answered")).unknown()
    with TransactionChecker(store, producer.producer_group, lambda _: TransactionResolution.UNKNOWN) as checker:
        while (DISCARDED_TOPIC, 0) not in store.queues():
            popped.clock.advance(60_000)
            checker.check_now()
    while (removed := trim(store).segments) or unread(store).keys() != {(DISCARDED_TOPIC, None)}:
        fill(store)
    assert not removed
    with pytest.raises(InvalidTopicError, match="cannot be deleted"):
        store.delete_topic(DISCARDED_TOPIC)
    with store.subscribe(DISCARDED_TOPIC, "audit") as member:
        given_up = member.receive()
        assert given_up is not None and given_up.body == b"never answered" and given_up.ack()
    assert trim(store).segments


def test_a_popped_message_stays_until_it_is_acknowledged_or_was_put_again(popped: PoppedStore) -> None:
    popped.put(1, 2)
    fill(popped.store)
    [one] = popped.receive(1, invisible_ms=20_000)
    [two] = popped.receive(1, invisible_ms=20_000)
    assert popped.store.group_offsets("g", "orders")[0] == 2
    popped.store.ack(one.handle)
    popped.store.change_invisible(two.handle, 60_000)
    popped.pass_time(20_000 + COMES_AGAIN_MS)
    fill(popped.store)
    for killed in (False, True):
        assert unread(popped.store) == {("orders", "g"): 1}, "of what is in process"
        popped.reopen(killed=killed)
    popped.pass_time(60_000 - 20_000)
    assert trim(popped.store).segments, "it is in the retry topic now"
    for _ in range(3):
        fill(popped.store)
        trim(popped.store)
    assert unread(popped.store) == {("%RETRY%g_orders", "g"): 1}
    assert popped.numbers() == [2]


def test_check_points_in_process_are_found_beyond_what_one_look_reads(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumption, "READ_COUNT", 3)
    popped.put(*range(8))
    fill(popped.store)
    for _ in range(8):
        [each] = popped.receive(1, invisible_ms=100_000)
        popped.store.ack(each.handle)
    fill(popped.store)
    looks = [unread(popped.store) for _ in range(6)]
    assert [(TIMER_TOPIC, None) in look for look in looks] == [True] * 5 + [False], "16 timers, three a look"
    assert looks[5] == {("orders", "g"): 8}
    popped.pass_time(110_000)
    while trim(popped.store).segments:
        pass
    assert popped.store.queue_bounds("orders", 0) == (8, 8)


def test_messages_of_pop_go_in_an_idle_store(popped: PoppedStore) -> None:
    """Acknowledgements behind the last check point keep nothing."""
    popped.put(*range(5))
    popped.store.ack(*(each.handle for each in popped.receive()))
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert sum(end for (topic, _), (_, end) in popped.store.queues().items() if topic == REVIVE_TOPIC) == 2
    fill(popped.store)
    assert len(trim(popped.store).segments) == 1


def test_a_dry_run_removes_nothing(store: Store) -> None:
    fill(store)
    fill(store)
    before = sorted((store.path / "commitlog").iterdir())
    report = trim(store, dry_run=True)
    assert [path.name for path in report.segments] == ["0" * 20, f"{SEGMENT_SIZE:020}"]
    assert report.min_physical_offset == 0 and sorted((store.path / "commitlog").iterdir()) == before
    with flightlog.open_read_only(store.path) as view:
        assert view.queues()
        iterator = store.read("filler")
        next(iterator)
        assert trim(store, dry_run=True).held == before[0] and trim(store).held == before[0]
        del iterator
    assert trim(store).segments == report.segments


def test_a_call_without_it_takes_nothing(store: Store) -> None:
    fill(store)
    assert store.clean_up() == CleanUpReport() == store.clean_up(dry_run=True)
    with pytest.raises(flightlog.InvalidArgumentError, match="consumed_by_all"):
        store.clean_up(consumed_by_all=1)  # type: ignore[arg-type]


def test_who_keeps_a_segment_is_logged_once_when_another_full_one_waits(
    store: Store, caplog: pytest.LogCaptureFixture, told: Callable[[], list[logging.LogRecord]]
) -> None:
    store.put(Message("t", b"x"))
    store.put(Message("unread", b"x"))
    store.commit_offset("behind", "t", 0, 0)
    fill(store)
    with caplog.at_level("WARNING", "flightlog.retention"):
        trim(store)
        assert not told(), "a group that is less than a segment behind"
        fill(store)
        trim(store)
        trim(store)
    keepers = [(r.__dict__["group"], r.__dict__["topic"], r.__dict__["unread"]) for r in told()]
    assert sorted(keepers) == [("", "unread", "1"), ("behind", "t", "1")]
    assert sum("group behind has yet to consume 1 messages of topic t" in message for message in caplog.messages) == 1
    assert sum("no group consumes 1 messages of topic unread" in message for message in caplog.messages) == 1


def test_the_service_does_it_by_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flightlog.engine.services.flush_service.FIRST_CLEAN_UP_S", 0)
    settings = StoreSettings.small(
        segment_size=SEGMENT_SIZE, retention="consumed", clean_interval_ms=1, flush_interval_ms=1
    )
    with flightlog.open(tmp_path / "store", settings) as store:
        removed = inside.segments_removed(store)
        fill(store)
        store.flush()
        assert removed.wait(WAIT_S)


class TrimmedLives(PoppedLives):
    """In small segments, of which those that were consumed go all the time."""

    removed = 0

    def live(self, steps: int) -> None:
        for _ in range(4):
            self.act(steps // 4)
            self.consume_all()
        self.settle()

    def pass_time(self) -> None:
        super().pass_time()
        self.removed += len(trim(self.popped.store).segments)

    def consume_all(self) -> None:
        self.popped.pass_time(SETTLE_MS)
        while self.receive():
            while list(self._held()):
                self.ack()
        self.popped.pass_time(SETTLE_MS)
        self.removed += len(trim(self.popped.store).segments)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.ci), pytest.param(2, marks=pytest.mark.ci)])
def test_nothing_popped_is_lost_while_segments_go(tmp_path: Path, assert_clean: AssertClean, seed: int) -> None:
    settings = StoreSettings.small(
        segment_size=PAGE_SIZE, queue_file_entries=20, flush_mode=FlushMode.SYNC, sync_flush_timeout_ms=240_000
    )
    lives = TrimmedLives(tmp_path / "store", seed, settings=settings)
    lives.live(40)
    assert lives.removed
    assert_clean(tmp_path / "store")
