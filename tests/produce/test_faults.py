"""How long a store is left alone, and ids that come once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from flightlog.produce.faults import FaultRules, FaultTable
from flightlog.produce.uniq_key import UniqKeys
from flightlog.store.errors import InvalidSettingsError

if TYPE_CHECKING:
    from flightlog.tests.produce.conftest import ManualClock


@pytest.mark.parametrize(
    ("latency_ms", "back_off_ms"),
    [(0, 0), (99, 0), (549.9, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10000), (1e6, 30000)],
)
def test_rocketmqs_latency_classes(latency_ms: float, back_off_ms: int) -> None:
    assert FaultRules().back_off_ms(latency_ms) == back_off_ms


def test_a_slow_store_is_left_alone_and_a_quick_send_ends_that(clock: ManualClock) -> None:
    table = FaultTable(clock, FaultRules())
    table.note("a", 600)
    assert not table.is_available("a") and table.is_available("b")
    table.note("a", 1)
    assert table.is_available("a")
    table.note_failure("a")
    clock.at_s += 9.9
    assert not table.is_available("a")
    clock.at_s += 0.2
    assert table.is_available("a")


def test_rules_that_make_no_sense() -> None:
    for latencies, back_offs in (((1, 2), (1,)), ((2, 1), (1, 2))):
        with pytest.raises(InvalidSettingsError, match="expected as many"):
            FaultRules(latencies, back_offs)


def test_every_id_comes_once() -> None:
    keys = UniqKeys()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: keys.make(1.7e9), range(70_000), chunksize=1000))
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {32} and all(each == each.upper() for each in found[:10])
    assert int(found[0][8:12], 16) == os.getpid() & 0xFFFF


def test_a_child_made_by_fork_has_ids_of_its_own() -> None:
    keys = UniqKeys()
    before = keys.make()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, keys.make().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    with os.fdopen(read) as file:
        os.close(write)
        theirs = file.read()
    assert theirs[12:20] != before[12:20] != ""
