"""Many small things: in turn on a disk of this machine, several at a time where each waits for another one."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from flightlog.store.disk.disk import RealDisk
from flightlog.store.disk.parallel import each
from flightlog.tests.support import process


class FarDisk(RealDisk):
    maps_files = False


def test_a_local_disk_is_asked_in_turn_and_no_further_than_wanted() -> None:
    asked: list[int] = []

    def look(number: int) -> int:
        asked.append(number)
        return threading.get_ident()

    with closing(each(RealDisk(), look, range(10))) as found:
        assert next(found) == threading.get_ident()
    assert asked == [0]


def test_another_machine_is_asked_for_several_at_a_time_and_answers_stay_in_order() -> None:
    together = threading.Barrier(8)

    def wait(number: int) -> int:
        together.wait(timeout=process.LIMIT_S)
        return number

    assert list(each(FarDisk(), wait, range(64))) == list(range(64))


def test_what_goes_wrong_is_raised_in_its_turn() -> None:
    def look(number: int) -> int:
        if number == 2:
            raise ValueError("the third")
        return number

    found = each(FarDisk(), look, range(5))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        next(found)
