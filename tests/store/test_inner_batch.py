"""Inner batches: whole messages to the last byte of a body, or none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.store.format.inner_batch import (
    LEAST_SIZE,
    MAX_COUNT,
    InnerMessage,
    NotABatchError,
    encode_inner,
    inner_count,
    inner_messages,
)

MESSAGES = st.lists(st.tuples(st.binary(max_size=30), st.integers(-5, 5), st.binary(max_size=30)), max_size=5)
TWO = encode_inner(b"first", 1, b"a\x01b\x02") + encode_inner(b"second", 2, b"")


def found_in(raw: bytes) -> list[InnerMessage]:
    return list(inner_messages(raw, 0, len(raw)))


@given(MESSAGES, st.binary(max_size=9), st.binary(max_size=9))
def test_round_trip(messages: list[tuple[bytes, int, bytes]], before: bytes, behind: bytes) -> None:
    """Wherever in a buffer the batch lies."""
    raw = before + b"".join(encode_inner(*message) for message in messages) + behind
    found = [
        (
            raw[inner.body_position : inner.body_position + inner.body_size],
            inner.flag,
            raw[inner.properties_position : inner.properties_position + inner.properties_size],
        )
        for inner in inner_messages(raw, len(before), len(raw) - len(behind))
    ]
    assert found == messages


@pytest.mark.parametrize("size", range(1, len(TWO)))
def test_a_body_that_was_cut_is_none(size: int) -> None:
    """But for a cut between two messages: those before it are whole."""
    first = LEAST_SIZE + 5 + 4
    if size == first:
        assert [inner.flag for inner in found_in(TWO[:size])] == [1]
        return
    with pytest.raises(NotABatchError):
        found_in(TWO[:size])


@pytest.mark.parametrize(
    ("position", "value"),
    [
        pytest.param(0, LEAST_SIZE - 1, id="a size below the least"),
        pytest.param(0, len(TWO) + 1, id="a size beyond the end"),
        pytest.param(16, -1, id="a body of less than nothing"),
        pytest.param(16, 10, id="a body that leaves no room for properties"),
        pytest.param(16, 4, id="a body and properties that do not come to the size"),
    ],
)
def test_lengths_that_contradict_each_other(position: int, value: int) -> None:
    raw = bytearray(TWO)
    struct.pack_into(">i", raw, position, value)
    with pytest.raises(NotABatchError):
        found_in(bytes(raw))


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), (str(MAX_COUNT), MAX_COUNT), (str(MAX_COUNT + 1), 0), ("000012", 0), ("-1", 0), ("٣", 0), ("", 0)],
)
def test_how_many_messages_a_batch_says_it_has(text: str, count: int) -> None:
    assert inner_count({"INNER_NUM": text}) == count
    assert inner_count({}) == 0
