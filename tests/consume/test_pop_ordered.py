"""Receiving in order: what blocks a queue, what comes again, what an attempt id does, and what a later life knows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, PopHandle, PutStatus, StoreSettings
from flightlog.consume.pop.order_table import ORDER_TOPIC
from flightlog.consume.pop.pop_errors import ExpiredHandleError
from flightlog.consume.pop.pop_topics import REVIVE_TOPIC
from flightlog.store.errors import ConfigFileError, InvalidArgumentError
from flightlog.testing.clock import ManualClock
from flightlog.tests.support import inside, process
from flightlog.tests.support.popped_store import PoppedStore, numbers_of

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

WAIT_S = process.LIMIT_S
INVISIBLE_MS = 10_000


@pytest.fixture
def popped(tmp_path: Path, assert_clean: AssertClean) -> Iterator[PoppedStore]:
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=True)
    yield popped
    popped.store.close()
    assert_clean(tmp_path / "store")


def file_of(popped: PoppedStore) -> Path:
    return popped.root / "config" / "consumerOrderInfo.json"


def test_one_queue_goes_in_order(popped: PoppedStore) -> None:
    popped.put(*range(5))
    first, second = popped.receive(2)
    assert popped.numbers() == [], "2 is not received before 0 and 1 are done"
    assert popped.store.ack(first.handle) is PutStatus.PUT_OK
    assert popped.numbers() == []
    assert popped.store.group_offsets("g", "orders")[0] == 1
    popped.store.ack(second.handle)
    assert popped.store.group_offsets("g", "orders")[0] == 2
    assert popped.numbers() == [2, 3, 4]


def test_another_queue_and_another_group_are_not_blocked(popped: PoppedStore) -> None:
    popped.put(1)
    popped.put(2, queue_id=1)
    assert sorted(popped.numbers()) == [1, 2]
    popped.put(3, queue_id=1)
    assert popped.numbers() == []
    assert sorted(popped.numbers(group="unordered")) == [1, 2, 3]
    popped.store.update_group("h", is_ordered=True)
    assert sorted(popped.numbers(group="h")) == [1, 2, 3]


def test_what_is_not_acknowledged_comes_again_in_its_place_at_once_and_alone(popped: PoppedStore) -> None:
    popped.put(*range(4))
    messages = popped.receive(3)
    popped.clock.advance(INVISIBLE_MS - 1)
    assert popped.numbers() == []
    popped.clock.advance(1)
    [again] = popped.receive()
    assert (again.body, again.attempt, again.message.topic) == (b"0", 2, "orders")
    assert popped.numbers() == []
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(messages[0].handle)
    popped.store.ack(again.handle)
    [behind] = popped.receive()
    assert (behind.body, behind.attempt) == (b"1", 2)
    popped.store.ack(behind.handle)
    [last] = popped.receive()
    assert (last.body, last.attempt) == (b"2", 2)
    popped.store.ack(last.handle)
    [new] = popped.receive()
    assert (new.body, new.attempt) == (b"3", 1)
    assert popped.store.topic("%RETRY%g_orders") is None
    assert list(popped.store.read(REVIVE_TOPIC)) == []


def test_what_was_acknowledged_before_an_earlier_message_does_not_come_again(popped: PoppedStore) -> None:
    popped.put(*range(5))
    messages = popped.receive(4)
    popped.store.ack(messages[1].handle, messages[3].handle)
    assert popped.store.group_offsets("g", "orders")[0] == 0
    popped.clock.advance(INVISIBLE_MS)
    came = []
    for _ in range(3):
        [again] = popped.receive()
        came.append((int(again.body), again.attempt))
        popped.store.ack(again.handle)
    assert came == [(0, 2), (2, 2), (4, 1)]


def test_a_new_invisible_time_counts_from_now(popped: PoppedStore) -> None:
    popped.put(1, 2)
    [first] = popped.receive(1)
    longer = popped.store.change_invisible(first.handle, 30_000)
    popped.clock.advance(29_999)
    assert popped.numbers() == []
    shorter = popped.store.change_invisible(longer, 5_000)
    assert first.with_handle(shorter).invisible_until_ms == popped.clock.at_ms + 5_000
    popped.clock.advance(5_000)
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(shorter)
    with pytest.raises(ExpiredHandleError):
        popped.store.change_invisible(shorter, 5_000)
    [again] = popped.receive(1)
    assert (again.body, again.attempt) == (b"1", 2)
    popped.store.ack(popped.store.change_invisible(again.handle, 5_000))
    assert popped.numbers() == [2]


def test_a_handle_that_was_replaced_counts_as_well(popped: PoppedStore) -> None:
    popped.put(1, 2)
    [first] = popped.receive(1)
    popped.store.change_invisible(first.handle, 30_000)
    popped.store.ack(first.handle)
    assert popped.numbers() == [2]


def test_a_queue_waits_for_all_that_were_received_together(popped: PoppedStore) -> None:
    popped.put(1, 2)
    first, second = popped.receive()
    popped.store.change_invisible(first.handle, 1_000)
    popped.clock.advance(1_000)
    assert popped.numbers() == [], "2 is still with its receiver"
    popped.store.ack(second.handle)
    assert popped.numbers() == [1]


def test_the_same_attempt_id_receives_the_same_again(popped: PoppedStore) -> None:
    popped.put(*range(5))
    lost = popped.receive(3, attempt_id="a-1")
    assert popped.numbers(3, attempt_id="a-2") == []
    again = popped.receive(3, attempt_id="a-1")
    assert numbers_of(again) == [0, 1, 2]
    assert {each.attempt for each in again} == {1}
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(lost[0].handle)
    popped.store.ack(*(each.handle for each in again))
    assert popped.numbers(3, attempt_id="a-1") == [3, 4], "nothing was lost"


def test_a_repeated_receive_looks_first_where_it_received(popped: PoppedStore) -> None:
    for number in range(40):
        popped.put(number, queue_id=number % 4)
    for attempt in range(5):
        messages = popped.receive(3, attempt_id=f"a-{attempt}")
        again = popped.receive(3, attempt_id=f"a-{attempt}")
        assert numbers_of(again) == numbers_of(messages)
        popped.store.ack(*(each.handle for each in again))


def test_a_message_goes_to_the_dead_letters_after_its_attempts_and_the_queue_goes_on(popped: PoppedStore) -> None:
    popped.put(1, 2, 3, tags="paid")
    for attempt in (1, 2, 3):
        messages = popped.receive(max_attempts=3)
        assert (numbers_of(messages)[0], messages[0].attempt) == (1, attempt)
        popped.clock.advance(INVISIBLE_MS)
    [second] = popped.receive(max_attempts=3)
    assert (second.body, second.attempt) == (b"2", 2), "it was received once, with the first one"
    [dead] = popped.store.dead_letters("g")
    assert (dead.body, dead.tags, dead.reconsume_times) == (b"1", "paid", 3)
    assert dead.properties["RETRY_TOPIC"] == "orders"
    popped.store.ack(second.handle)
    [third] = popped.receive(max_attempts=3)
    popped.store.ack(third.handle)
    assert popped.numbers() == []
    assert popped.store.group_offsets("g", "orders")[0] == 3
    assert len(list(popped.store.dead_letters("g"))) == 1


def test_a_kill_between_the_dead_letter_and_its_note_makes_no_second_one(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    popped.put(1, 2)
    popped.receive(1, max_attempts=1)
    popped.clock.advance(INVISIBLE_MS)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("flightlog.consume.pop.order_table.OrderTable.set", interrupted)
        with pytest.raises(KeyboardInterrupt):
            popped.receive(max_attempts=1)
    assert len(list(popped.store.dead_letters("g"))) == 1
    popped.reopen(killed=True)
    assert popped.numbers(max_attempts=1) == [2]
    assert len(list(popped.store.dead_letters("g"))) == 1


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("mode", list(FlushMode))
def test_a_later_life_knows_who_has_what(
    tmp_path: Path, assert_clean: AssertClean, killed: bool, mode: FlushMode
) -> None:
    popped = PoppedStore(
        tmp_path / "store", settings=StoreSettings.small(flush_mode=mode, sync_flush_timeout_ms=240_000)
    )
    popped.store.update_group("g", is_ordered=True)
    popped.put(*range(4))
    first, second, third = popped.receive(3)
    popped.store.ack(second.handle)
    popped.reopen(killed=killed)
    assert popped.numbers() == []
    popped.store.ack(first.handle)
    handle = popped.store.change_invisible(third.handle, 20_000)
    popped.reopen(killed=killed)
    assert popped.store.group_offsets("g", "orders")[0] == 2
    popped.clock.advance(15_000)
    assert popped.numbers() == []
    popped.clock.advance(5_000)
    [again] = popped.receive(attempt_id="a")
    assert (again.body, again.attempt) == (b"2", 2)
    popped.reopen(killed=killed)
    [once_more] = popped.receive(attempt_id="a")
    assert (once_more.body, once_more.attempt) == (b"2", 2)
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(handle)
    popped.clock.advance(20_000)
    popped.reopen(killed=killed)
    [third_time] = popped.receive()
    assert (third_time.body, third_time.attempt) == (b"2", 3)
    popped.store.ack(third_time.handle)
    assert popped.numbers() == [3]
    popped.store.close()
    assert_clean(tmp_path / "store")


def test_offsets_are_written_before_the_file_that_relies_on_them(
    popped: PoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash in between would deliver again what was acknowledged: its records are not read again."""
    popped.put(*range(3))
    popped.store.ack(popped.receive(2)[0].handle)
    offsets = inside.group_offsets(popped.store)
    save, written = offsets.save, []

    def note_and_save() -> None:
        written.append(json.loads(file_of(popped).read_text())["flightlogOrderedBefore"])
        save()

    monkeypatch.setattr(offsets, "save", note_and_save)
    popped.store.close()
    assert (written[0], json.loads(file_of(popped).read_text())["flightlogOrderedBefore"]) == (0, 2)
    popped.open()
    assert popped.store.group_offsets("g", "orders")[0] == 1


def test_the_file_is_rocketmqs(popped: PoppedStore) -> None:
    popped.put(*range(5))
    first, second, third, _ = popped.receive(4, attempt_id="a-1")
    popped.store.ack(third.handle)
    handle = popped.store.change_invisible(second.handle, 30_000)
    popped.reopen()
    document = json.loads(file_of(popped).read_text())
    at_ms = popped.clock.at_ms
    assert document["table"] == {
        "orders@g": {
            "0": {
                "a": "a-1",
                "cm": 4,
                "i": INVISIBLE_MS,
                "l": at_ms,
                "o": [0, 1, 2, 3],
                "ot": {"1": at_ms + 30_000},
                "popTime": at_ms,
            }
        }
    }
    assert first.handle.extra_info == f"0 {at_ms} {INVISIBLE_MS} 999 0 store 0 0"
    assert handle.extra_info == f"1 {at_ms} 30000 999 0 store 0 1"


def test_what_a_broker_wrote_last_counts_and_not_the_records_before_it(popped: PoppedStore) -> None:
    popped.put(*range(4))
    popped.receive(2)
    popped.reopen()
    document = json.loads(file_of(popped).read_text())
    info = document["table"]["orders@g"]["0"]
    popped.store.close()
    theirs = {"table": {"orders@g": {"0": {**info, "cm": 1, "oc": {"1": 4}}}}}
    file_of(popped).write_text(json.dumps(theirs))
    popped.open()
    popped.clock.advance(INVISIBLE_MS)
    [again] = popped.receive()
    assert (again.body, again.attempt) == (b"1", 6)


@pytest.mark.parametrize(
    "info",
    [[], {"o": "0"}, {"o": [1, -1]}, {"o": [-1]}, {"o": [1.5]}, {"o": list(range(65))}, {"cm": "1"}, {"ot": {"x": 1}}],
    ids=str,
)
def test_a_file_that_makes_no_sense_is_refused(popped: PoppedStore, info: object) -> None:
    popped.store.close()
    file_of(popped).write_text(json.dumps({"table": {"orders@g": {"0": info}}}))
    with pytest.raises(ConfigFileError, match="consumerOrderInfo"):
        popped.open()
    file_of(popped).unlink()
    popped.open()


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_reset_frees_the_queue(popped: PoppedStore, killed: bool) -> None:
    popped.put(*range(4))
    [first] = popped.receive(1)
    popped.store.ack(first.handle)
    messages = popped.receive(2)
    popped.store.reset_offset("g", "orders", "first")
    popped.reopen(killed=killed)
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(messages[0].handle)
    assert popped.numbers(2) == [0, 1]


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_deleted_group_begins_as_a_new_one(popped: PoppedStore, killed: bool) -> None:
    popped.put(*range(4))
    first, _ = popped.receive(2)
    popped.store.ack(first.handle)
    popped.store.delete_group("g")
    popped.reopen(killed=killed)
    popped.store.update_group("g", is_ordered=True)
    messages = popped.receive(3)
    assert [(int(each.body), each.attempt) for each in messages] == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_topic_that_was_deleted_blocks_nothing(popped: PoppedStore, killed: bool) -> None:
    popped.put(*range(4))
    first, _ = popped.receive(2)
    popped.store.ack(first.handle)
    popped.store.delete_topic("orders")
    popped.put(7, 8)
    popped.reopen(killed=killed)
    assert popped.numbers() == [7, 8]


def test_a_group_that_is_no_longer_ordered_finishes_in_order_first(popped: PoppedStore) -> None:
    popped.put(*range(4))
    messages = popped.receive(2)
    popped.store.update_group("g", is_ordered=False)
    assert popped.numbers() == []
    popped.store.ack(*(each.handle for each in messages))
    assert popped.numbers() == [2, 3]
    popped.put(4)
    assert popped.numbers() == [4], "a pop without order"


def test_a_group_that_becomes_ordered_receives_what_comes_again(popped: PoppedStore) -> None:
    popped.store.update_group("g", is_ordered=False)
    popped.put(1, 2)
    first, _ = popped.receive()
    popped.store.update_group("g", is_ordered=True)
    popped.store.ack(first.handle)
    popped.pass_time(INVISIBLE_MS + 4_000)
    [again] = popped.receive()
    assert (again.body, again.attempt, again.message.topic) == (b"2", 2, "%RETRY%g_orders")
    popped.clock.advance(INVISIBLE_MS)
    [once_more] = popped.receive()
    assert (once_more.body, once_more.attempt) == (b"2", 3)
    popped.store.ack(once_more.handle)
    assert popped.numbers() == []


def test_an_offset_that_was_set_beyond_is_not_undone_by_a_kill(popped: PoppedStore) -> None:
    popped.put(*range(4))
    [first] = popped.receive(1)
    popped.store.ack(first.handle)
    offsets = inside.engine(popped.store).offsets
    offsets.set("g", "orders", 0, 3)  # as a subscription does
    offsets.save()
    popped.reopen(killed=True)
    assert popped.numbers() == [3]


def test_tags_pass_other_messages_over(popped: PoppedStore) -> None:
    for number in range(100):
        popped.put(number, tags="paid" if number % 40 == 39 else "sent")
    messages = popped.receive(tags="paid")
    assert numbers_of(messages) == [39, 79]
    popped.reopen(killed=True)
    popped.store.ack(messages[0].handle)
    popped.clock.advance(INVISIBLE_MS)
    [again] = popped.receive(tags="paid")
    assert again.body == b"79"
    popped.store.ack(again.handle)
    assert popped.numbers(tags="paid") == []
    assert popped.store.group_offsets("g", "orders")[0] == 100


def test_pops_of_the_same_millisecond_have_handles_of_their_own(popped: PoppedStore) -> None:
    popped.put(1)
    [first] = popped.receive()
    popped.store.reset_offset("g", "orders", "first")
    [second] = popped.receive()
    assert first.handle != second.handle
    with pytest.raises(ExpiredHandleError):
        popped.store.ack(first.handle)
    popped.store.ack(second.handle, second.handle)
    popped.store.ack(second.handle)
    assert popped.numbers() == []


def test_one_call_acknowledges_what_it_can(popped: PoppedStore) -> None:
    popped.put(1, 2)
    popped.put(3, queue_id=1)
    messages = popped.receive()
    forged = PopHandle("g", "orders", f"0 {popped.clock.at_ms + 7} 10000 999 0 store 0 1")
    with pytest.raises(ExpiredHandleError) as refused:
        popped.store.ack(messages[0].handle, forged, *(each.handle for each in messages[1:] if each.body != b"2"))
    assert refused.value.handles == (forged,)
    popped.clock.advance(INVISIBLE_MS)
    assert popped.numbers() == [2]


def test_an_attempt_id_is_for_ordered_groups(popped: PoppedStore) -> None:
    popped.put(1)
    with pytest.raises(InvalidArgumentError, match="not ordered"):
        popped.receive(group="another", attempt_id="a")


def test_a_receive_waits_until_the_queue_is_free(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.update_group("g", is_ordered=True)
        for body in b"1", b"2":
            store.put(Message("orders", body))
        [first] = store.receive("g", "orders", 1)
        got: list[int] = []

        def wait() -> None:
            got.extend(numbers_of(store.receive("g", "orders", wait_s=WAIT_S)))

        waiting = threading.Thread(target=wait)
        waiting.start()
        store.ack(first.handle)
        waiting.join(WAIT_S)
        assert got == [2]


def test_a_message_comes_again_by_itself(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.update_group("g", is_ordered=True)
        store.put(Message("orders", b"7"))
        [first] = store.receive("g", "orders", invisible_ms=1)
        [again] = store.receive("g", "orders", wait_s=WAIT_S)
        assert (first.body, again.body, again.attempt) == (b"7", b"7", 2)


def test_many_threads_receive_each_queue_in_order(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(), clock=ManualClock()) as store:
        store.update_group("g", is_ordered=True)
        for number in range(200):
            store.put(Message("orders", b"%d" % number, queue_id=number % 4))
        got: list[tuple[int, int]] = []
        lock = threading.Lock()

        def work() -> None:
            while True:
                messages = store.receive("g", "orders", 7)
                with lock:
                    got.extend((each.message.queue_id, int(each.body)) for each in messages)
                    if len(got) == 200:
                        return
                if messages:
                    store.ack(*(each.handle for each in messages))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        for queue_id in range(4):
            assert [number for found, number in got if found == queue_id] == list(range(queue_id, 200, 4))


def test_the_records_are_in_a_topic_of_the_system(popped: PoppedStore) -> None:
    popped.put(1)
    [message] = popped.receive()
    popped.store.ack(message.handle)
    assert ORDER_TOPIC not in popped.store.topics()
    assert len(list(popped.store.read(ORDER_TOPIC))) == 2
    popped.store.pop_service.close()
    assert json.loads(file_of(popped).read_text())["flightlogOrderedBefore"] == 2
