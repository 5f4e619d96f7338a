"""The bits of a record's sysFlag."""

from __future__ import annotations

import pytest

from flightlog.store.format import sys_flag


def test_masks() -> None:
    assert (sys_flag.COMPRESSED, sys_flag.MULTI_TAGS, sys_flag.TRANSACTION_MASK) == (1, 2, 0xC)
    assert (sys_flag.BORN_HOST_V6, sys_flag.STORE_HOST_V6) == (0x10, 0x20)
    assert (sys_flag.NEED_UNWRAP, sys_flag.INNER_BATCH, sys_flag.COMPRESSION_MASK) == (0x40, 0x80, 0x700)


@pytest.mark.parametrize(("transaction", "listed"), [(0, True), (4, False), (8, True), (0xC, False)])
@pytest.mark.parametrize("others", [0, 0x1, 0x33, 0x7F3, -0x10])
def test_prepared_and_rollback_records_have_no_queue_entry(transaction: int, listed: bool, others: int) -> None:
    assert sys_flag.has_queue_entry(others & ~0xC | transaction) is listed
