"""One entry of a consume queue."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightlog.index.queue.queue_unit import (
    FILLER,
    UNIT_DTYPE,
    QueueUnit,
    decode_unit,
    decode_units,
    filler_mask,
    same_message,
    valid_mask,
)
from flightlog.schedule.delay_level_table import DelayLevelTable
from flightlog.store.message import tags_code

STORED_MS = 1_700_000_000_123
VECTORS = {
    "0000000000000400 000000ae 000000000027a807": QueueUnit(1024, 174, tags_code("TagA")),
    "0000000000001388 000000c8 ffffffffd11c3206": QueueUnit(5000, 200, tags_code("payment")),
    "0000000000000000 0000005b 0000000000000000": QueueUnit(0, 91, tags_code(None)),
    "0000000000000000 7fffffff 0000000000000000": decode_unit(FILLER),
    "0000000000002000 0000012c 0000018bcfe58f8b": QueueUnit(
        8192, 300, DelayLevelTable.parse().delivery_time_ms(3, STORED_MS)
    ),
}
UNITS = st.builds(
    QueueUnit,
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


@pytest.mark.parametrize("text", VECTORS)
def test_vectors(text: str) -> None:
    raw = bytes.fromhex(text)
    assert VECTORS[text].encode() == raw
    assert decode_unit(raw) == VECTORS[text]
    assert decode_units(raw)[0].item() == VECTORS[text]


@given(st.lists(UNITS))
def test_round_trip(units: list[QueueUnit]) -> None:
    raw = b"".join(unit.encode() for unit in units)
    assert [QueueUnit(*unit) for unit in decode_units(raw).tolist()] == units
    assert np.array(units, UNIT_DTYPE).tobytes() == raw
    assert valid_mask(decode_units(raw)).tolist() == [unit.is_valid for unit in units]
    assert filler_mask(decode_units(raw)).tolist() == [unit.is_filler for unit in units]


@pytest.mark.parametrize(
    ("unit", "is_valid", "is_filler"),
    [
        *((QueueUnit(0, 91, 0), True, False), (QueueUnit(0, 0, 0), False, False), (QueueUnit(1, -1, 0), False, False)),
        *((QueueUnit(-1, 91, 0), False, False), (QueueUnit(0, 0x7FFFFFFF, 0), False, True)),
        *((QueueUnit(1, 0x7FFFFFFF, 0), True, False), (QueueUnit(0, 0x7FFFFFFE, 0), True, False)),
    ],
)
def test_what_points_at_a_record(unit: QueueUnit, is_valid: bool, is_filler: bool) -> None:
    assert (unit.is_valid, unit.is_filler) == (is_valid, is_filler)


def test_a_torn_entry_is_left_out() -> None:
    assert len(decode_units(FILLER + FILLER[:19])) == 1


@pytest.mark.parametrize(
    ("there", "same"),
    [
        *(((1024, 174, 7), True), ((1025, 174, 7), False), ((1024, 175, 7), False), ((1024, 174, 8), False)),
        *(((1024, 174, -(1 << 63)), True), ((1024, 174, -2_147_483_649), True)),  # addresses in an extension
        *(((1024, 174, -2_147_483_648), False), ((0, 174, -(1 << 63)), False)),
    ],
)
def test_an_extension_address_stands_for_any_tags_code(there: tuple[int, int, int], same: bool) -> None:
    units = np.array([(1024, 174, 7)], UNIT_DTYPE)
    assert same_message(np.array([there], UNIT_DTYPE), units).tolist() == [same]
