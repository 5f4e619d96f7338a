"""Where RocketMQ's and flightlog's answers to key queries differ, and why: a test for each reason, named after it.

What each test asserts of RocketMQ is what it really does, so that none of these can hide a mistake of flightlog's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.tests.interop import asking
from flightlog.tests.interop.cases import Asked

if TYPE_CHECKING:
    BothWays = Callable[[Asked], AbstractContextManager[list[Any]]]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", ["fresh-clean", "fresh-long", "rocketmq-collisions"])
def test_rocketmq_returns_messages_of_a_colliding_key(
    name: str,
    asked: dict[str, Asked],
) -> None:
    found = asked[name]
    with flightlog.open_read_only(found.case.path) as view:
        wrong = asking.differing([(q, sorted(set(theirs), reverse=True)) for q, theirs in found.pairs["queries"]], view)
        for query, theirs in wrong:
            assert set(theirs) > set(query.ours(view)) == set(found.case.answer(query))
    assert {query.key for query, _ in wrong} >= {"Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB"}


def test_rocketmq_misses_keys_after_an_unclean_exit(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """It throws the last index file away and indexes anew only what lies behind the start of its recovery."""
    found = asked["fresh-late"]
    missed = [q for q, theirs in found.pairs["queries"] if not set(theirs) >= set(found.case.answer(q))]
    assert len(missed) >= 50
    with both_ways(found) as stores:
        for store in stores:
            assert [q.ours(store) for q in missed] == [found.case.answer(q) for q in missed]


@pytest.mark.parametrize("name", ["clean-cqlag", "rocketmq-index-behind"])
def test_rocketmq_misses_keys_of_a_lagging_index(name: str, asked: dict[str, Asked], both_ways: BothWays) -> None:
    """After a clean exit it rebuilds nothing."""
    found = asked[name]
    missed = [q for q, theirs in found.pairs["queries"] if not set(theirs) >= set(found.case.answer(q))]
    assert len(missed) >= 40
    with both_ways(found) as stores:
        for store in stores:
            for query, _ in found.pairs["queries"]:
                assert query.ours(store) == found.case.answer(query), query


def test_rocketmq_answers_a_boundary_message_twice(asked: dict[str, Asked], both_ways: BothWays) -> None:
    """After an unclean exit it indexes the last message of an index file that it kept once more."""
    found = asked["abort-reopen"]
    twice = [(q, theirs) for q, theirs in found.pairs["queries"] if len(set(theirs)) < len(theirs)]
    assert len(twice) >= 2
    with both_ways(found) as stores:
        for store in stores:
            for query, theirs in twice:
                assert query.ours(store) == sorted(set(theirs), reverse=True) == found.case.answer(query)


def test_rocketmq_answers_a_key_twice_that_a_message_has_twice(asked: dict[str, Asked]) -> None:
    found = asked["rocketmq-collisions"]
    twice = [(q, theirs) for q, theirs in found.pairs["queries"] if len(set(theirs)) < len(theirs)]
    assert len(twice) >= 2
    with flightlog.open_read_only(found.case.path) as view:
        for query, _ in twice:
            assert query.ours(view) == found.case.answer(query)


def test_rocketmq_knows_whole_seconds_only(asked: dict[str, Asked]) -> None:
    found = asked["fresh-rolls"]
    times = {line["commitLogOffset"]: line["storeTimestamp"] for line in found.case.lines}
    younger = older = 0
    with flightlog.open_read_only(found.case.path) as view:
        for query, theirs in found.pairs["timed_queries"]:
            ours = query.ours(view)
            assert ours == found.case.answer(query)
            younger += any(times[at] > query.end_ms for at in theirs)
            older += bool(set(ours) - set(theirs) - found.case.first_of_index_files)
    assert younger and older


def test_rocketmq_dates_the_first_key_of_an_index_file_by_the_file_before(asked: dict[str, Asked]) -> None:
    """Two pauses of over a second lie where index files end; the messages behind them are not found at their time."""
    found = asked["fresh-rolls"]
    first = found.pairs["first_keys"]
    assert len(first) >= 6
    assert sum(not theirs for _, theirs in first) >= 2
    with flightlog.open_read_only(found.case.path) as view:
        for query, _ in first:
            assert query.ours(view) == found.case.answer(query)
