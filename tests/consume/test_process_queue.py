"""Messages at work: held against a model that keeps everything, over random histories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightlog.consume.deliver.process_queue import FlowLimits, ProcessQueue
from flightlog.store.errors import UsageError

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 3), st.integers(0, 50)),
        st.tuples(st.just("ack"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("pass"), st.integers(0, 40), st.just(0)),
    ),
    max_size=60,
)
LIMITS = st.builds(FlowLimits, st.integers(1, 8), st.integers(1, 120), st.integers(1, 20))


@settings(max_examples=500)
@given(start=st.integers(0, 5), steps=STEPS, limits=LIMITS)
def test_every_history_is_that_of_the_model(start: int, steps: list[tuple[str, int, int]], limits: FlowLimits) -> None:
    queue = ProcessQueue(start)
    sizes: dict[int, int] = {}  # of all that was delivered
    acked: set[int] = set()
    position, commit_before = start, start
    for step, number, size in steps:
        if step == "deliver":
            offset = position + number
            queue.deliver(offset, size)
            sizes[offset], position = size, offset + 1
        elif step == "ack":
            assert queue.ack(number) is (number in sizes and number not in acked)
            acked |= {number} & sizes.keys()
        else:
            queue.pass_to(number)
            position = max(position, number)
        at_work = sorted(sizes.keys() - acked)
        assert queue.at_work() == at_work and len(queue) == len(at_work)
        assert queue.position == position and queue.size == sum(sizes[offset] for offset in at_work)
        commit = at_work[0] if at_work else position
        assert queue.commit_offset == commit >= commit_before, "what was committed is never taken back"
        commit_before = commit
        room = queue.room(limits)
        is_full = (
            len(at_work) >= limits.max_count
            or sum(sizes[offset] for offset in at_work) >= limits.max_size
            or position - commit >= limits.max_span
        )
        assert (room == 0) is is_full
        assert room <= max(0, limits.max_count - len(at_work))
    assert queue.drop() == sorted(sizes.keys() - acked)
    assert not any(queue.ack(offset) for offset in sizes), "somebody else has them now"
    queue.pass_to(position + 9)
    assert queue.commit_offset == commit_before and queue.room(limits) == 0


def test_the_room_is_kept_to_exactly() -> None:
    limits = FlowLimits(max_count=10, max_size=1_000, max_span=15)
    queue = ProcessQueue(0)
    for offset in range(queue.room(limits)):
        queue.deliver(offset, 1)
    assert len(queue) == 10 and queue.room(limits) == 0
    for offset in range(1, 10):
        queue.ack(offset)
    assert (queue.commit_offset, queue.room(limits)) == (0, 5), "the first is stuck: only the span is left"
    queue.deliver(10, 999)
    assert queue.room(limits) == 0
    queue.ack(0)
    assert (queue.commit_offset, queue.room(limits)) == (10, 9)


def test_one_message_may_be_larger_than_the_limit() -> None:
    queue = ProcessQueue(7)
    assert queue.room(FlowLimits(max_size=1)) > 0
    queue.deliver(7, 1 << 30)
    assert queue.room(FlowLimits(max_size=1)) == 0


def test_a_long_life_with_one_straggler_costs_no_search() -> None:
    queue = ProcessQueue(0)
    for offset in range(20_000):
        queue.deliver(offset, 1)
    for offset in range(1, 20_000):
        assert queue.ack(offset) and queue.commit_offset == 0
    assert queue.ack(0) and queue.commit_offset == 20_000


def test_what_cannot_be_is_refused() -> None:
    queue = ProcessQueue(3)
    with pytest.raises(UsageError, match="after 2"):
        queue.deliver(2, 1)
    queue.drop()
    with pytest.raises(UsageError, match="dropped"):
        queue.deliver(3, 1)
    for wrong in ({"max_count": 0}, {"max_size": -1}, {"max_span": True}):
        with pytest.raises(UsageError):
            FlowLimits(**wrong)
