"""Giving a popped message back: after the delay of its group's retry policy, and without counting the attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import CustomizedRetryPolicy, PoppedMessage
from flightlog.consume.pop.pop_topics import REVIVE_TOPIC
from flightlog.store.errors import InvalidArgumentError, WrongTypeError
from flightlog.testing.clock import ManualClock
from flightlog.tests.support.popped_store import PoppedStore

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

COMES_AGAIN_MS = 4_000
DELAYS_MS = (1_000, 5_000, 20_000, 40_000)


@pytest.fixture(params=[False, True], ids=["any order", "ordered"])
def popped(request: pytest.FixtureRequest, tmp_path: Path, assert_clean: AssertClean) -> Iterator[PoppedStore]:
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=request.param, retry_policy=CustomizedRetryPolicy(DELAYS_MS))
    yield popped
    popped.store.close()
    assert_clean(tmp_path / "store")


def only(popped: PoppedStore) -> PoppedMessage:
    [message] = popped.receive()
    return message


def test_an_attempt_that_does_not_count_comes_again_as_the_same(popped: PoppedStore) -> None:
    popped.put(1)
    for _ in range(3):
        message = only(popped)
        assert message.attempt == 1
        popped.store.change_invisible(message.handle, 2_000, count_attempt=False)
        popped.pass_time(2_000 + COMES_AGAIN_MS)
    popped.store.change_invisible(only(popped).handle, 2_000)
    popped.pass_time(2_000 + COMES_AGAIN_MS)
    assert only(popped).attempt == 2
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert only(popped).attempt == 3


def test_the_last_change_says_whether_the_attempt_counts(popped: PoppedStore) -> None:
    popped.put(1)
    handle = only(popped).handle
    for count_attempt in (False, False, True):
        handle = popped.store.change_invisible(handle, 2_000, count_attempt=count_attempt)
    popped.pass_time(2_000 + COMES_AGAIN_MS)
    message = only(popped)
    assert message.attempt == 2
    handle = popped.store.change_invisible(message.handle, 2_000)
    popped.store.change_invisible(handle, 2_000, count_attempt=False)
    popped.pass_time(2_000 + COMES_AGAIN_MS)
    assert only(popped).attempt == 2


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_later_life_knows_that_it_does_not_count(popped: PoppedStore, *, is_killed: bool) -> None:
    popped.put(1)
    popped.store.change_invisible(only(popped).handle, 2_000, count_attempt=False)
    popped.reopen(killed=is_killed)
    popped.pass_time(2_000 + COMES_AGAIN_MS)
    assert only(popped).attempt == 1


def test_a_message_that_never_counts_is_no_dead_letter(popped: PoppedStore) -> None:
    popped.put(1)
    for _ in range(3):
        [message] = popped.receive(max_attempts=1)
        popped.store.change_invisible(message.handle, 1_000, count_attempt=False)
        popped.pass_time(1_000 + COMES_AGAIN_MS)
    popped.receive(max_attempts=1)
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert popped.numbers(max_attempts=1) == []
    assert [letter.body for letter in popped.store.dead_letters("g")] == [b"1"]


def test_the_same_attempt_id_after_a_change_that_does_not_count(tmp_path: Path) -> None:
    popped = PoppedStore(tmp_path / "store")
    popped.store.update_group("g", is_ordered=True)
    popped.put(1)
    [message] = popped.receive(attempt_id="a")
    popped.store.change_invisible(message.handle, 2_000, count_attempt=False)
    [again] = popped.receive(attempt_id="a")
    assert (again.attempt, again.message.reconsume_times) == (1, 0)
    popped.pass_time(10_000 + COMES_AGAIN_MS)
    assert only(popped).attempt == 2, "the last delivery counts"
    popped.store.close()


def test_without_a_time_the_groups_retry_policy_says_when(popped: PoppedStore) -> None:
    popped.put(1)
    for number, delay_ms in enumerate((20_000, 40_000, 40_000)):
        message = only(popped)
        assert message.attempt == number + 1
        changed = message.with_handle(popped.store.change_invisible(message.handle))
        assert 0 <= changed.invisible_until_ms - popped.clock.at_ms - delay_ms <= 1, "pop times of a message differ"
        popped.pass_time(delay_ms + COMES_AGAIN_MS)


def test_a_policy_that_waits_longer_than_a_timer_may(popped: PoppedStore) -> None:
    popped.store.update_group("g", retry_policy=CustomizedRetryPolicy((0,)))
    popped.put(1)
    message = only(popped)
    handle = popped.store.change_invisible(message.handle)
    assert message.with_handle(handle).invisible_until_ms - popped.clock.at_ms <= 2, "at once"
    popped.pass_time(COMES_AGAIN_MS)
    popped.store.update_group("g", retry_policy=CustomizedRetryPolicy((1 << 40,)))
    message = only(popped)
    longest_ms = popped.store.settings.timer_max_delay_s * 1000
    handle = popped.store.change_invisible(message.handle)
    assert message.with_handle(handle).invisible_until_ms - popped.clock.at_ms <= longest_ms + 1


def test_wrong_calls(popped: PoppedStore) -> None:
    popped.put(1)
    handle = only(popped).handle
    with pytest.raises(WrongTypeError, match="count_attempt"):
        popped.store.change_invisible(handle, 1_000, count_attempt=0)  # type: ignore[arg-type]
    gone = type(handle)(handle.group, handle.topic, handle.extra_info[:-1] + "7")
    with pytest.raises(InvalidArgumentError, match="still there"):
        popped.store.change_invisible(gone)
    popped.store.ack(handle)


def test_the_check_point_says_it_in_the_words_of_rocketmq_5_5(tmp_path: Path) -> None:
    popped = PoppedStore(tmp_path / "store", ManualClock())
    popped.put(1)
    popped.store.change_invisible(only(popped).handle, 2_000, count_attempt=False)
    popped.pass_time(2_000)
    points = [json.loads(m.body) for m in popped.store.read(REVIVE_TOPIC) if m.tags == "ck"]
    assert [point.get("sp") for point in points if point["it"] == 2_000] == [True]
    popped.store.close()
