"""`store.pull`: answered at once, by the message that comes, or when its time is over; no message is missed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Container
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, GetResult, GetStatus, Message, StoreSettings
from flightlog.engine.services.arrivals import Arrivals
from flightlog.engine.services.wake_up import WakeUp
from flightlog.store.errors import CorruptRecordError, StoreClosedError, UsageError
from flightlog.store.queue_offsets import QueueKey
from flightlog.tests.support import inside, process

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.engine.conftest import ManualClock

LIMIT_S = 240.0
LONG_S = 30.0


def bodies(answer: Future[GetResult]) -> list[bytes]:
    return [message.body for message in answer.result(LIMIT_S).messages]


def test_what_there_is_is_answered_at_once(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put_many([Message("t", b"%d" % number) for number in range(5)])
        answer = store.pull("t", 0, 1, 3)
        assert answer.done() and bodies(answer) == [b"1", b"2", b"3"] and answer.result().next_queue_offset == 4
        assert store.pull("t", 0, 9).result(0).status is GetStatus.OFFSET_OVERFLOW_BADLY, "nothing to wait for"
        assert store.pull("none", 0, 3).result(0).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert store.pull("none", 0, 0, wait_s=0).result(0) == store.get("none", 0, 0)
        assert not len(inside.long_polls(store)) and not inside.long_polls(store).thread.is_current()
        for wait_s in (-1, 30.1, float("nan")):
            with pytest.raises(UsageError, match="wait_s"):
                store.pull("t", 0, 5, wait_s=wait_s)
        with pytest.raises(UsageError):
            store.pull("t", 0, 0, 0)
    assert_clean(tmp_path)


@pytest.mark.parametrize("mode", FlushMode)
def test_a_put_answers_those_of_its_queue_alone(mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(flush_mode=mode)) as store:
        waiting = {queue_id: store.pull("t", queue_id, 0, wait_s=LONG_S) for queue_id in range(4)}
        other = store.pull("other", 0, 0, wait_s=LONG_S)
        for queue_id in (2, 0):
            store.put(Message("t", b"%d" % queue_id, queue_id=queue_id))
            assert bodies(waiting[queue_id]) == [b"%d" % queue_id]
        assert (
            len(inside.long_polls(store)) == 3 and not waiting[1].done() and not waiting[3].done() and not other.done()
        )
        store.put(Message("t", b"unwaited", wait_store_ok=False, queue_id=1))
        assert bodies(waiting[1]) == [b"unwaited"]
        again = store.pull("t", 2, 1, wait_s=LONG_S)
        store.put_many([Message("t", b"a", queue_id=2), Message("t", b"b", queue_id=2)])
        assert bodies(again) == [b"a", b"b"]
    assert_clean(tmp_path)


def test_a_time_that_is_over_is_answered_as_get_does(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.put(Message("t", b"0", tags="odd"))
        late, early = store.pull("t", 0, 1, wait_s=LONG_S), [store.pull("t", 0, 1, wait_s=0.1) for _ in range(3)]
        for answer in (*early, store.pull("new", 0, 0, wait_s=0.05)):
            assert not answer.result(LONG_S * 0.9).messages, "not when the longest wait is over"
        assert early[0].result() == store.get("t", 0, 1) and not late.done()
        store.put(Message("t", b"1"))
        assert bodies(late) == [b"1"] and not len(inside.long_polls(store))
    assert_clean(tmp_path)


def test_messages_that_the_tags_leave_out_wake_nobody(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, StoreSettings.small(), clock=clock) as store:
        store.put(Message("t", b"0", tags="no"))
        answers = [store.pull("t", 0, 0, tags="yes", wait_s=LONG_S), store.pull("t", 0, 0, tags="yes", wait_s=1.0)]
        beside = store.pull("t", 0, 1, wait_s=LONG_S)
        store.put(Message("t", b"1", tags="no"))
        assert bodies(beside) == [b"1"]
        clock.at_ms += 1100
        over = answers[1].result(LIMIT_S)
        assert over.status is GetStatus.NO_MATCHED_MESSAGE and over.next_queue_offset == 2, "both were looked at"
        store.put(Message("t", b"2", tags="yes"))
        assert bodies(answers[0]) == [b"2"] and answers[0].result().next_queue_offset == 3
    assert_clean(tmp_path)


def test_many_that_wait_for_one_queue_all_get_the_message(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        waiting = [store.pull("t", 0, 0, wait_s=LONG_S) for _ in range(3000)]
        before = process.threads()
        store.put(Message("t", b"news"))
        assert wait(waiting, LIMIT_S).not_done == set()
        assert {tuple(bodies(each)) for each in waiting} == {(b"news",)}
        waiting[0].result().messages.clear()
        assert bodies(waiting[1]) == [b"news"], "each has a list of its own"
        assert process.threads() <= before and not len(inside.long_polls(store))
    assert_clean(tmp_path)


def test_what_is_cancelled_waits_no_longer(tmp_path: Path, assert_clean: AssertClean) -> None:
    async def lose_patience() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(store.pull("t", 0, 0, wait_s=LONG_S)), 0.01)

    async def be_patient() -> GetResult:
        return await asyncio.wrap_future(store.pull("t", 0, 0, wait_s=LONG_S))

    async def both() -> GetResult:
        task = asyncio.ensure_future(be_patient())
        await asyncio.sleep(0)
        await asyncio.to_thread(store.put, Message("t", b"0"))
        return await task

    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        answer = store.pull("t", 0, 0, wait_s=LONG_S)
        assert answer.cancel() and answer.cancel() and not len(inside.long_polls(store))
        with pytest.raises(CancelledError):
            answer.result(0)
        asyncio.run(lose_patience())
        assert not len(inside.long_polls(store))
        assert asyncio.run(both()).messages[0].body == b"0"
        assert wait([answer], 0).done == {answer}
    assert_clean(tmp_path)


def test_close_answers_everybody(tmp_path: Path, assert_clean: AssertClean) -> None:
    store = flightlog.open(tmp_path, StoreSettings.small())
    waiting = [store.pull("t", number % 7, 0, wait_s=LONG_S) for number in range(50)]
    refused: list[BaseException] = []

    def pull_again(answer: Future[GetResult]) -> None:
        try:
            store.pull("t", 0, 0)
        except StoreClosedError as e:
            refused.append(e)

    waiting[0].add_done_callback(pull_again)
    waiting[0].add_done_callback(lambda answer: store.close())  # from here it returns at once
    store.close()
    for answer in waiting:
        assert isinstance(answer.exception(0), StoreClosedError)
    assert len(refused) == 1
    with pytest.raises(StoreClosedError):
        store.pull("t", 0, 0)
    assert_clean(tmp_path)


def test_a_callback_may_close_the_store(tmp_path: Path, assert_clean: AssertClean) -> None:
    store = flightlog.open(tmp_path, StoreSettings.small())
    first, rest = store.pull("t", 0, 0), [store.pull("t", 0, 0, wait_s=LONG_S) for _ in range(5)]
    closed, called_by = WakeUp(), list[threading.Thread]()

    def close(answer: Future[GetResult]) -> None:
        called_by.append(threading.current_thread())
        store.close()
        closed.notify()

    first.add_done_callback(close)
    store.put(Message("t", b"0"))
    assert closed.wait(LIMIT_S) and bodies(first) == [b"0"]
    for answer in rest:  # those that were not answered before
        error = answer.exception(LIMIT_S)
        assert isinstance(error, StoreClosedError) if error else bodies(answer) == [b"0"]
    called_by[0].join(LIMIT_S)
    assert not called_by[0].is_alive(), "the thread of the pulls ends as well"
    assert_clean(tmp_path)


def test_a_callback_that_raises_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, assert_clean: AssertClean
) -> None:
    def leave(answer: Future[GetResult]) -> None:
        raise SystemExit("of a callback")

    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        waiting = [store.pull("t", 0, 0, wait_s=LONG_S) for _ in range(4)]
        for answer in waiting[:2]:
            answer.add_done_callback(leave)
        waiting[3].set_result(store.get("t", 0, 0))  # the application's own doing
        store.put(Message("t", b"0"))
        assert [bodies(answer) for answer in waiting[:3]] == [[b"0"]] * 3
        answer = store.pull("t", 0, 1, wait_s=LONG_S)
        store.put(Message("t", b"1"))
        assert bodies(answer) == [b"1"]
    assert "a callback of a pull's future raised" in caplog.text
    assert_clean(tmp_path)


def test_an_error_of_a_later_look_is_the_futures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    def fail(ask: object) -> GetResult:
        raise CorruptRecordError(tmp_path, 0, "damage", "none")

    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        answer, other = store.pull("t", 0, 0, wait_s=LONG_S), store.pull("t", 1, 0, wait_s=LONG_S)
        with monkeypatch.context() as patch:
            patch.setattr(inside.long_polls(store), "_look", fail)
            store.put(Message("t", b"0"))
            assert isinstance(answer.exception(LIMIT_S), CorruptRecordError)
        store.put(Message("t", b"1", queue_id=1))
        assert bodies(other) == [b"1"]
    assert_clean(tmp_path)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_message_between_the_look_and_the_wait_is_not_missed(
    is_after: bool, reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    expect, is_due = Arrivals.expect, [True]

    def expect_late(self: Arrivals, wake_up: WakeUp, wanted: Container[QueueKey] | None = None) -> None:
        if is_after:
            expect(self, wake_up, wanted)
        if is_due and is_due.pop():
            store.put(Message("t", b"between"))
            if reads:  # and so dispatches
                assert store.get("t", 0, 0).messages
        if not is_after:
            expect(self, wake_up, wanted)

    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        warm = store.pull("another", 0, 0, wait_s=LONG_S)
        monkeypatch.setattr(Arrivals, "expect", expect_late)
        assert bodies(store.pull("t", 0, 0, wait_s=LONG_S)) == [b"between"]
        assert not warm.done()
    assert_clean(tmp_path)


@pytest.mark.parametrize("mode", FlushMode)
def test_no_message_is_missed_under_load(mode: FlushMode, tmp_path: Path, assert_clean: AssertClean) -> None:
    """Each queue is pulled by one after the other, by callbacks; one that was missed would come when its time is over,
    with an answer that has no message."""
    queues, writers, count = 6, 3, 400
    got: dict[int, list[bytes]] = {queue_id: [] for queue_id in range(queues)}
    failures: list[object] = []
    is_done = WakeUp()

    def go_on(queue_id: int, offset: int) -> None:
        store.pull("t", queue_id, offset, wait_s=LONG_S).add_done_callback(lambda answer: take(queue_id, answer))

    def take(queue_id: int, answer: Future[GetResult]) -> None:
        try:
            found = answer.result(0)
        except StoreClosedError:
            return
        if not found.messages:
            failures.append((queue_id, found))
        got[queue_id] += [message.body for message in found.messages]
        if failures or sum(map(len, got.values())) == writers * count:
            is_done.notify()
        # Not from here: what is there already would be answered by a call in a call in a call.
        threading.Thread(target=go_on_unless_closed, args=(queue_id, found.next_queue_offset)).start()

    def go_on_unless_closed(queue_id: int, offset: int) -> None:
        with contextlib.suppress(StoreClosedError):
            go_on(queue_id, offset)

    def write(number: int) -> None:
        dice = random.Random(number)
        for each in range(count):
            store.put(Message("t", b"%d-%d" % (number, each), queue_id=dice.randrange(queues)))
            if mode is FlushMode.ASYNC and not dice.randrange(20):
                store.get("t", dice.randrange(queues), 0)

    with flightlog.open(tmp_path, StoreSettings.small(flush_mode=mode)) as store:
        for queue_id in range(queues):
            go_on(queue_id, 0)
        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert is_done.wait(LIMIT_S) and not failures
        for queue_id, found in got.items():
            assert found == [message.body for message in store.read("t", queue_id)]
    assert_clean(tmp_path)
