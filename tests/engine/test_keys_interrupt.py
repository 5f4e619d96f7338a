"""KeyboardInterrupt anywhere in a put, a query or a flush of the index: no key is lost, and none is there twice.

Each call is repeated with the interrupt at its first point, its second, … until it runs through
(tests/support/interrupts.py). Index files hold two keys, so that every call rolls some.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message
from flightlog.tests.support import inside, keyed
from flightlog.tests.support.interrupts import InterruptAt

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale
    from flightlog.tests.engine.conftest import AssertClean

GROUPS = 3


class Ledger:
    """Messages 0, 1, 2, … of one queue, with a uniq key and the key of a group; which of them were acknowledged."""

    def __init__(self) -> None:
        self.offered = 0
        self.acknowledged: set[int] = set()

    def put(self, store: flightlog.Store) -> None:
        i = self.offered
        self.offered += 1
        store.put(Message("t", b"%d" % i, keys=[f"g{i % GROUPS}"], uniq_key=f"u{i}"))
        self.acknowledged.add(i)

    def check(self, store: flightlog.Store | flightlog.ReadOnlyStore) -> int:
        """Every message that is there is found by both keys, once; of those that were offered and are not, none
        is."""
        there = [int(message.body) for message in store.read("t")]
        assert self.acknowledged <= set(there) and len(set(there)) == len(there)
        for group in range(GROUPS):
            result = store.query("t", f"g{group}", max_count=100_000)
            assert [int(m.body) for m in result.messages] == [i for i in reversed(there) if i % GROUPS == group]
        for i in range(self.offered):
            assert [int(m.body) for m in store.query("t", f"u{i}").messages] == [i] * (i in there)
        return len(there)


Call = Callable[[flightlog.Store, Ledger], object]


def put_and_query(store: flightlog.Store, ledger: Ledger) -> None:
    ledger.put(store)
    store.query("t", "g0")


CALLS: dict[str, Call] = {
    "put and query": put_and_query,
    "query": lambda store, ledger: store.query("t", "g1", max_count=1),
    "was_stored": lambda store, ledger: store.was_stored("u0"),
    "flush": lambda store, ledger: inside.maintenance(store).flush_index(),
    "dispatch and flush": lambda store, ledger: keyed.flush_index(store),
}


@pytest.mark.ci
@pytest.mark.parametrize("name", CALLS)
def test_interrupted_anywhere(
    name: str,
    tmp_path: Path,
    scale: Scale,
    interrupt_at: type[InterruptAt],
    copy_as_killed: Callable[[Path, Path], Path],
    assert_clean: AssertClean,
) -> None:
    step = scale.pick(ci=11, full=1)
    settings = keyed.settings(index_entries=3, segment_size=1 << 20)
    point, tried, fired = 1 + sum(map(ord, name)) % step, 0, True
    while fired:  # a query opens every index file: so a store after the other, each with a few
        path, ledger = tmp_path / f"{tried}", Ledger()
        with flightlog.open(path, settings) as store:
            ledger.put(store)
            for _ in range(6):
                ledger.put(store)
                if name == "flush":
                    store.queues()
                with interrupt_at(point) as interrupt:
                    CALLS[name](store, ledger)
                fired = interrupt.fired
                if not fired:
                    break
                point, tried = point + step, tried + 1
                ledger.check(store)
            killed = copy_as_killed(path, tmp_path / "killed")  # with the traces of the interrupts still in place
            there = ledger.check(store)
        report = assert_clean(path)
        assert report.oddities == [], "a key is there twice"
        assert report.index_entries == 2 * there
        with flightlog.open_read_only(killed) as view:
            assert ledger.check(view) == there
        with flightlog.open(killed, settings) as store:
            assert ledger.check(store) == there
        assert assert_clean(killed).oddities == []
        shutil.rmtree(killed)
    assert tried >= scale.pick(ci=5, full=60)


@pytest.mark.ci
def test_an_interrupted_opening_is_taken_up_by_the_next(
    tmp_path: Path,
    scale: Scale,
    interrupt_at: type[InterruptAt],
    copy_as_killed: Callable[[Path, Path], Path],
    assert_clean: AssertClean,
) -> None:
    """While it brings the index of a killed store up to the log, again and again on the same files."""
    ledger, settings = Ledger(), keyed.settings(index_entries=6, segment_size=1 << 20)
    with flightlog.open(tmp_path / "live", settings) as store:
        for _ in range(20):
            ledger.put(store)
        keyed.flush_index(store)
        for _ in range(20):
            ledger.put(store)
        store.queues()
        ledger.put(store)
        path = copy_as_killed(tmp_path / "live", tmp_path / "killed")
    point, tried = 1, 0
    while True:
        with interrupt_at(point) as interrupt:
            flightlog.open(path, settings).close()
        if not interrupt.fired:
            break
        tried += 1
        point += scale.pick(ci=311, full=11)
        with flightlog.open_read_only(path) as view:
            assert ledger.check(view) == 41
    assert tried > 10
    report = assert_clean(path)
    assert report.oddities == [] and report.index_entries == 82
