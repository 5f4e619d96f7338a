"""The queue of a message group: vectors of RocketMQ's rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flightlog.produce.queue_hash import SIP_KEY, by_hash_code, by_jump_hash, by_sip_hash, sip_hash_2_4


def test_vectors() -> None:
    assert sip_hash_2_4(b"fifoMessageGroup", SIP_KEY) == 0xB69A671E97415981
    assert sip_hash_2_4(bytes(range(15)), SIP_KEY) == 0xA129CA6149BE45E5  # of the paper's appendix
    assert by_sip_hash("fifoMessageGroup", 8) == 1
    assert [by_jump_hash(group, 8) for group in ("a", "b", "order-1")] == [0, 5, 3]
    assert by_hash_code("polygenelubricants", 7) == (1 << 31) % 7  # the smallest hash code there is


@given(st.text(), st.integers(1, 1000))
def test_a_queue_is_one_that_there_is(group: str, queue_count: int) -> None:
    for rule in (by_hash_code, by_jump_hash, by_sip_hash):
        assert 0 <= rule(group, queue_count) < queue_count


@given(st.text(), st.integers(1, 1000))
def test_where_a_queue_is_added_a_group_stays_or_moves_there(group: str, queue_count: int) -> None:
    before, after = by_jump_hash(group, queue_count), by_jump_hash(group, queue_count + 1)
    assert after in (before, queue_count)
