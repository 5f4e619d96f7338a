"""Receiving by pop: who gets which message until when, and what comes again."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import (
    CompressionType,
    FlushMode,
    GetResult,
    Message,
    PopHandle,
    PutResult,
    PutStatus,
    StartFrom,
    Store,
    StoreSettings,
)
from flightlog.consume.deliver.subscription import Subscription
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.consume.pop.pop_topics import REVIVE_TOPIC
from flightlog.store.errors import (
    CorruptRecordError,
    InconsistentGroupError,
    StoreClosedError,
    TopicNotFoundError,
    UsageError,
)
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

WAIT_S = process.LIMIT_S
COMES_AGAIN_MS = 4_000
"""After the invisible time at the latest."""


@pytest.fixture
def popped(tmp_path: Path, assert_clean: AssertClean) -> Iterator[PoppedStore]:
    popped = PoppedStore(tmp_path / "store")
    yield popped
    popped.store.close()
    assert_clean(tmp_path / "store")


def test_each_message_goes_to_one_receiver(popped: PoppedStore) -> None:
    popped.put(*range(5))
    assert popped.numbers(2) == [0, 1]
    assert popped.numbers(2) == [2, 3]
    assert popped.numbers() == [4]
    assert popped.numbers() == []
    assert popped.numbers(group="another") == [0, 1, 2, 3, 4]
    assert popped.store.group_offsets("g", "orders")[0] == 5


def test_what_is_not_acknowledged_comes_again_after_its_time(popped: PoppedStore) -> None:
    popped.put(1, 2, 3)
    first, second, third = popped.receive()
    assert popped.store.ack(first.handle, third.handle) is PutStatus.PUT_OK
    popped.pass_time(10_000)
    assert popped.numbers() == []
    popped.pass_time(COMES_AGAIN_MS)
    [again] = popped.receive()
    assert (again.body, again.topic, again.attempt, second.attempt) == (b"2", "orders", 2, 1)
    assert again.message.topic == "%RETRY%g_orders"
    assert int(again.message.properties["1ST_POP_TIME"]) == second.invisible_until_ms - 10_000
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    [third_time] = popped.receive()
    assert third_time.attempt == 3
    assert third_time.message.properties["1ST_POP_TIME"] == again.message.properties["1ST_POP_TIME"]
    popped.store.ack(third_time.handle)
    popped.pass_time(60_000)
    assert popped.numbers() == []


def test_a_message_is_popped_once_while_it_is_invisible_whatever_the_number_of_threads(popped: PoppedStore) -> None:
    popped.put(*range(300))
    got: list[int] = []

    def work() -> None:
        while messages := popped.receive(5):
            popped.store.ack(*(each.handle for each in messages))
            got.extend(numbers_of(messages))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert Counter(got) == Counter(range(300))
    popped.pass_time(30_000)
    assert popped.numbers() == []


@pytest.mark.parametrize("invisible_ms", [3_000, 60_000])
def test_the_invisible_time_can_be_changed(popped: PoppedStore, invisible_ms: int) -> None:
    popped.put(1, 2)
    first, second = popped.receive()
    handle = popped.store.change_invisible(first.handle, invisible_ms)
    popped.store.ack(second.handle)
    changed = first.with_handle(handle)
    assert changed.invisible_until_ms == popped.clock.at_ms + invisible_ms + 1, "pop times of a message differ"
    popped.pass_time(invisible_ms)
    assert popped.numbers() == []
    popped.pass_time(COMES_AGAIN_MS)
    assert popped.numbers() == [1]
    popped.pass_time(60_000)
    assert popped.numbers() == [1], "not once more by the old handle"


def test_the_new_handle_acknowledges_and_the_old_one_has_no_effect(popped: PoppedStore) -> None:
    popped.put(1, 2)
    first, second = popped.receive()
    popped.store.ack(popped.store.change_invisible(first.handle, 20_000))
    popped.store.change_invisible(second.handle, 20_000)
    popped.store.ack(second.handle)
    popped.pass_time(20_000 + COMES_AGAIN_MS)
    assert popped.numbers() == [2]


def test_a_handle_is_refused_from_its_expiry_on(popped: PoppedStore) -> None:
    popped.put(1, 2)
    [first] = popped.receive(1)
    popped.clock.advance(9_999)
    [second] = popped.receive(1)
    popped.clock.advance(1)
    with pytest.raises(ExpiredHandleError, match="1 ms ago|0 ms ago") as refused:
        popped.store.ack(first.handle, second.handle)
    assert refused.value.handles == (first.handle,)
    with pytest.raises(ExpiredHandleError):
        popped.store.change_invisible(first.handle, 60_000)
    popped.pass_time(60_000)
    assert popped.numbers() == [1], "the other one was acknowledged"


def test_an_ack_whose_time_ends_while_it_is_written_is_refused(popped: PoppedStore) -> None:
    popped.put(1)
    [message] = popped.receive()
    putter = inside.engine(popped.store).putter
    park_many = putter.park_many

    def slow(messages: Iterable[Message]) -> list[PutResult]:
        popped.clock.advance(10_000)
        return park_many(messages)

    putter.park_many = slow  # type: ignore[method-assign]
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(message.handle)
    putter.park_many = park_many  # type: ignore[method-assign]


def test_an_ack_in_time_counts_however_late_the_timers_are(popped: PoppedStore) -> None:
    popped.put(1)
    [message] = popped.receive()
    popped.clock.advance(9_999)
    popped.store.ack(message.handle)
    for _ in range(5):  # the thread that delivers stands still
        popped.clock.advance(7_000)
        popped.revive()
    popped.run_timers()
    popped.revive()
    popped.pass_time(20_000)
    assert popped.numbers() == []


def test_check_points_and_acks_are_put_on_the_wheel_together_and_before_they_are_due(popped: PoppedStore) -> None:
    def untaken() -> int:
        state = inside.timers(popped.store).state()
        return 0 if state is None else state.untaken

    popped.put(*range(4))
    popped.run_timers()  # the first round, which a store begins with
    for message in (*popped.receive(1), *popped.receive(1)):
        popped.store.ack(message.handle)
    popped.run_timers()
    assert untaken() == 4
    popped.clock.advance(100)
    popped.run_timers()
    assert untaken() == 0
    popped.clock.advance(1000 - popped.clock.at_ms % 1000 - 10)  # ten milliseconds before a second is over
    popped.receive(1)
    popped.clock.advance(10)
    popped.run_timers()
    assert untaken() == 0


def test_one_record_acknowledges_all_messages_of_a_check_point(popped: PoppedStore) -> None:
    popped.put(*range(5))
    first, second = popped.receive(3), popped.receive(2)
    handles = [each.handle for each in (*second, *first, first[0])]
    assert popped.store.ack(*handles) is PutStatus.PUT_OK
    popped.pass_time(12_000)
    records = [message for queue_id in range(8) for message in popped.store.read(REVIVE_TOPIC, queue_id)]
    assert Counter(message.tags for message in records) == {"ck": 2, "bAck": 2}
    popped.pass_time(20_000)
    assert popped.numbers() == []


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("mode", list(FlushMode))
def test_a_later_life_knows_what_was_popped_and_acknowledged(
    tmp_path: Path, assert_clean: AssertClean, killed: bool, mode: FlushMode
) -> None:
    popped = PoppedStore(
        tmp_path / "store", settings=StoreSettings.small(flush_mode=mode, sync_flush_timeout_ms=240_000)
    )
    popped.put(*range(6))
    first = popped.receive(3)
    popped.store.ack(first[0].handle)
    popped.reopen(killed=killed)
    assert popped.store.group_offsets("g", "orders")[0] == 3
    assert popped.numbers() == [3, 4, 5]
    popped.store.ack(first[1].handle)
    popped.reopen(killed=killed)
    assert popped.numbers() == []
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    popped.reopen(killed=killed)
    again = popped.receive()
    assert sorted(numbers_of(again)) == [2, 3, 4, 5]
    assert {each.attempt for each in again} == {2}
    popped.store.ack(*(each.handle for each in again))
    popped.reopen(killed=killed)
    popped.pass_time(60_000)
    assert popped.numbers() == []
    popped.store.close()
    assert_clean(tmp_path / "store")


def test_check_points_that_the_timers_deliver_again_after_a_kill_bring_nothing_back_again(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    popped.put(1, 2)
    first, _ = popped.receive()
    popped.store.ack(first.handle)
    popped.pass_time(5_000)
    with monkeypatch.context() as patched:
        patched.setattr("flightlog.schedule.timer_wheel_store.SAVE_INTERVAL_MS", 3_600_000)
        popped.pass_time(5_000 + COMES_AGAIN_MS)
        assert popped.numbers() == [2]
        popped.reopen(killed=True)
    popped.pass_time(3_000)
    tags = Counter(m.tags for queue_id in range(8) for m in popped.store.read(REVIVE_TOPIC, queue_id))
    assert tags["ck"] == 2, "it came again"
    assert popped.numbers() == []
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers() == [2]
    assert len(list(popped.store.read("%RETRY%g_orders"))) == 2


def test_an_interrupt_before_the_offset_is_set_leaves_it_to_the_next_life(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    popped.put(1)
    popped.receive()
    popped.put(2)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(inside.engine(popped.store).offsets, "set", interrupted)
        with pytest.raises(KeyboardInterrupt):
            popped.receive()
    popped.reopen()
    assert popped.numbers() == []
    assert popped.store.group_offsets("g", "orders")[0] == 2
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert sorted(popped.numbers()) == [1, 2]


def test_a_reset_that_was_written_outlives_a_kill(popped: PoppedStore) -> None:
    popped.put(*range(4))
    popped.receive()
    offsets = inside.engine(popped.store).offsets
    offsets.set("g", "orders", 0, 1)
    offsets.save()
    popped.reopen(killed=True)
    assert popped.numbers(1) == [1]
    popped.reopen(killed=True)
    assert popped.numbers() == [2, 3]


def test_messages_popped_again_after_a_reset_have_check_points_of_their_own(popped: PoppedStore) -> None:
    popped.put(1)
    [first] = popped.receive()
    inside.engine(popped.store).offsets.set("g", "orders", 0, 0)
    [second] = popped.receive()
    popped.store.ack(first.handle)
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers() == [1], "the second pop was not acknowledged"
    assert second.handle != first.handle


def test_tags_pass_other_messages_over(popped: PoppedStore) -> None:
    for number in range(100):
        popped.put(number, tags="paid" if number % 40 == 39 else "sent")
    assert popped.numbers(tags="paid || gone") == [39, 79]
    assert popped.store.group_offsets("g", "orders")[0] >= 80
    assert popped.numbers(tags="paid") == []
    assert popped.store.group_offsets("g", "orders")[0] == 100
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers(tags="paid") == [39, 79]


def test_a_filter_passes_other_messages_over(popped: PoppedStore) -> None:
    for amount in range(5):
        popped.put(amount, properties={"amount": str(amount)})
    wanted = flightlog.sql("amount > 2")
    assert popped.numbers(filter=wanted) == [3, 4]
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers(filter=wanted) == [3, 4]


def test_a_new_group_begins_where_it_says(popped: PoppedStore) -> None:
    popped.put(1, 2)
    assert popped.numbers(start=StartFrom.LAST) == []
    popped.reopen(killed=True)
    popped.put(3)
    assert popped.numbers(start=StartFrom.LAST) == [3]


def test_a_message_goes_to_the_dead_letters_after_its_attempts(popped: PoppedStore) -> None:
    popped.put(1, tags="paid")
    for attempt in (1, 2):
        [message] = popped.receive(max_attempts=2)
        assert message.attempt == attempt
        popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.receive(max_attempts=2) == []
    [dead] = popped.store.read("%DLQ%g")
    assert (dead.body, dead.tags, dead.properties["RETRY_TOPIC"]) == (b"1", "paid", "orders")
    popped.pass_time(60_000)
    assert popped.receive(max_attempts=2) == []
    assert len(list(popped.store.read("%DLQ%g"))) == 1


def test_the_settings_of_the_group_count(popped: PoppedStore) -> None:
    popped.put(1)
    popped.store.update_group("g", retry_max_times=0)
    assert popped.numbers() == [1]
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers() == []
    assert [message.body for message in popped.store.read("%DLQ%g")] == [b"1"]
    popped.store.update_group("g", is_enabled=False)
    with pytest.raises(UsageError, match="not enabled"):
        popped.receive()


def test_a_receive_waits_for_a_message(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.create_topic("orders", 2)
        got: list[int] = []

        def wait() -> None:
            got.extend(numbers_of(store.receive("g", "orders", wait_s=WAIT_S)))

        waiting = threading.Thread(target=wait)
        waiting.start()
        store.put(Message("orders", b"7", queue_id=1))
        waiting.join(WAIT_S)
        assert got == [7]


def waiting_receive(store: Store, ends_with: type[Exception]) -> tuple[threading.Thread, list[Exception]]:
    """A thread that receives, and the errors of this kind that end it."""
    store.create_topic("orders", 1)
    store.receive("g", "orders")
    errors: list[Exception] = []
    is_waiting = threading.Event()

    def wait() -> None:
        is_waiting.set()
        try:
            store.receive("g", "orders", wait_s=WAIT_S)
        except ends_with as e:
            errors.append(e)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert is_waiting.wait(WAIT_S)
    return waiting, errors


def test_a_waiting_receive_ends_when_the_store_is_closed(tmp_path: Path) -> None:
    store = flightlog.open(tmp_path, StoreSettings.small())
    waiting, errors = waiting_receive(store, StoreClosedError)
    store.close()
    waiting.join(WAIT_S)
    assert len(errors) == 1


def test_queues_that_are_added_and_taken_away(popped: PoppedStore) -> None:
    """What was received from a queue that is there no more comes again, as from a broker."""
    popped.store.create_topic("orders", 2)
    popped.put(1)
    popped.put(2, queue_id=1)
    assert sorted(popped.numbers()) == [1, 2]
    popped.store.update_topic("orders", write_queue_count=4, read_queue_count=4)
    popped.put(3, queue_id=3)
    assert popped.numbers() == [3]
    popped.store.update_topic("orders", write_queue_count=1, read_queue_count=1)
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert sorted(popped.numbers()) == [1, 2, 3]


def test_offsets_are_saved_as_often_as_the_settings_say(tmp_path: Path) -> None:
    popped = PoppedStore(tmp_path / "store", settings=StoreSettings.small(offset_save_interval_ms=400_000))
    popped.put(1)
    [message] = popped.receive()
    popped.store.ack(message.handle)
    offsets, run_due = inside.group_offsets(popped.store), popped.store.pop_service.run_due
    run_due()
    popped.clock.advance(399_000)
    run_due()
    assert offsets.is_unsaved
    popped.clock.advance(1_000)
    run_due()
    assert not offsets.is_unsaved
    popped.store.close()


def test_messages_come_again_by_themselves(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put(Message("orders", b"7"))
        [first] = store.receive("g", "orders", invisible_ms=1)
        [again] = store.receive("g", "orders", wait_s=WAIT_S)
        assert (first.body, again.body, again.attempt) == (b"7", b"7", 2)


def test_one_receive_in_five_looks_at_what_comes_again_first(popped: PoppedStore) -> None:
    popped.put(*range(400))
    popped.receive(32)
    for _ in range(5):
        popped.receive(32)
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    topics = [popped.receive(1)[0].message.topic for _ in range(100)]
    assert 3 <= topics.count("%RETRY%g_orders") <= 50, "about 20"
    assert topics.count("orders") == 100 - topics.count("%RETRY%g_orders")


def test_a_message_that_was_delayed_comes_again_without_its_delay(popped: PoppedStore) -> None:
    popped.store.create_topic("orders", 1)
    popped.put(1, delay_level=10)
    popped.pass_time(7 * 60_000)
    assert popped.numbers() == [1]
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers() == [1]


def test_a_compressed_body_comes_again_as_it_was(popped: PoppedStore) -> None:
    popped.store.put(Message("orders", b"7" * 5000, compress=CompressionType.ZLIB))
    popped.receive()
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    [again] = popped.receive()
    assert again.message.decompressed_body() == b"7" * 5000


def test_check_points_of_a_deleted_topic_are_passed_over(popped: PoppedStore) -> None:
    popped.put(1)
    popped.receive()
    popped.store.delete_topic("orders")
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    popped.put(2)
    assert popped.numbers() == [2]
    assert popped.store.topic("%RETRY%g_orders") is None


def test_a_message_that_cannot_be_read_is_tried_again_later(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    popped.put(1, 2)
    popped.receive()
    store = inside.engine(popped.store)
    get = store.get

    def damaged(topic: str, queue_id: int, queue_offset: int, *rest: Any, **options: Any) -> GetResult:
        if (topic, queue_id, queue_offset) == ("orders", 0, 0):
            raise CorruptRecordError(store.path, 0, "bytes that are no record", "a record")
        return get(topic, queue_id, queue_offset, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(store, "get", damaged)
        popped.pass_time(10_000 + COMES_AGAIN_MS)
        assert popped.numbers() == [2]
    popped.pass_time(10_000)
    assert popped.numbers() == [1]


def test_a_damaged_message_blocks_its_own_queue_alone(popped: PoppedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    popped.put(1)
    popped.put(2, queue_id=1)
    store = inside.engine(popped.store)
    get = store.get

    def damaged(topic: str, queue_id: int, *rest: Any, **options: Any) -> GetResult:
        if (topic, queue_id) == ("orders", 0):
            raise CorruptRecordError(store.path, 0, "bytes that are no record", "a record")
        return get(topic, queue_id, *rest, **options)

    monkeypatch.setattr(store, "get", damaged)
    assert popped.numbers() == [2]
    with pytest.raises(CorruptRecordError):
        popped.receive()


def test_one_group_does_not_both_receive_and_subscribe(popped: PoppedStore) -> None:
    popped.put(1)
    member = popped.store.subscribe("orders", "g")
    with pytest.raises(InconsistentGroupError, match="subscriptions"):
        popped.receive()
    member.close()
    assert popped.numbers() == [1]


def test_a_receive_that_waits_ends_when_the_group_subscribes(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        waiting, errors = waiting_receive(store, InconsistentGroupError)
        with store.subscribe("orders", "g") as member:
            store.put(Message("orders", b"7"))
            got = member.receive(WAIT_S)
            waiting.join(WAIT_S)
        assert got is not None
        assert (got.body, len(errors)) == (b"7", 1)


def test_a_subscription_begins_behind_what_a_receive_under_way_pops(popped: PoppedStore) -> None:
    popped.put(0, 1)
    putter = inside.engine(popped.store).putter
    park_many, is_joining = putter.park_many, threading.Event()
    joined: list[Subscription] = []

    def join() -> None:
        is_joining.set()
        joined.append(popped.store.subscribe("orders", "g"))

    joining = threading.Thread(target=join)

    def joined_meanwhile(messages: Iterable[Message]) -> list[PutResult]:
        joining.start()
        assert is_joining.wait(WAIT_S)
        return park_many(messages)

    putter.park_many = joined_meanwhile  # type: ignore[method-assign]
    assert popped.numbers(1) == [0]
    joining.join(WAIT_S)
    [member] = joined
    with member:
        assert [int(message.body) for message in member.poll(32)] == [1]
        with pytest.raises(InconsistentGroupError):
            popped.receive()
    putter.park_many = park_many  # type: ignore[method-assign]


def test_a_receive_goes_on_where_subscriptions_were(popped: PoppedStore) -> None:
    popped.put(0, 1, 2)
    with popped.store.subscribe("orders", "g") as member:
        for message in member.poll(2):
            if message.body == b"0":
                message.ack()
    assert popped.numbers() == [1, 2]


def test_a_store_that_cannot_pop_says_so(popped: PoppedStore, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFoundError):
        popped.receive()
    with (
        flightlog.open(tmp_path / "parks", StoreSettings.small(deliver_delayed=False)) as store,
        pytest.raises(UsageError, match="deliver_delayed"),
    ):
        store.receive("g", "orders")


def test_a_handle_may_come_from_elsewhere_as_text(popped: PoppedStore) -> None:
    popped.put(1)
    [message] = popped.receive()
    popped.store.ack(PopHandle("g", "orders", message.handle.extra_info))
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers() == []


def test_a_store_that_is_dropped_is_closed(tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]) -> None:
    store = flightlog.open(tmp_path, StoreSettings.small(), clock=ManualClock())
    store.put(Message("orders", b"7"))
    store.receive("g", "orders")
    maintenance = inside.maintenance(store)  # not the engine: what warns of it holds it
    with pytest.warns(ResourceWarning, match="never closed"):
        del store
        wait_until(lambda: gc.collect() >= 0 and maintenance.is_over)
    with flightlog.open(tmp_path, StoreSettings.small(), clock=ManualClock()) as store:
        assert store.receive("g", "orders") == []
