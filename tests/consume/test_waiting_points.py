"""Check points that wait, packed into bytes."""

from __future__ import annotations

import gc
import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from flightlog.consume.pop.check_point import CheckPoint, CheckPointKey, check_point_message, read_check_point
from flightlog.consume.pop.revive.waiting_points import WaitingPoints

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

BYTES_MAX = 200


def point_of(start: int, *offsets: int, revive_ms: int = 10_000, **fields: Any) -> CheckPoint:
    key = CheckPointKey("orders", "g", 1, start, 4_000, "store")
    return CheckPoint(key, revive_ms - 4_000, offsets or (start,), **fields)


def test_what_was_added_comes_back_in_order() -> None:
    points = WaitingPoints()
    added = [
        point_of(9, 9, 10, 11, revive_offset=1),
        point_of(1, 1, 5, 1 << 40, put_count=3, revive_offset=2, acked_bits=0b101),
        point_of(5, revive_offset=3, acked_bits=0xFFFF_FFFF),
        point_of(6, revive_offset=4),
        point_of(7, revive_offset=5, is_uncounted=True),
    ]
    for each in added:
        points.add(each)
    assert [points.get(name) for name in points.visible_before(10_001)] == added and len(points) == 5
    assert points.visible_before(10_000) == []


def test_times_that_need_more_than_32_bits() -> None:
    points = WaitingPoints()
    long = point_of(1, revive_ms=1 << 33)
    points.add(long)
    [name] = points.visible_before((1 << 33) + 1)
    assert points.get(name) == long


def test_the_first_one_that_is_not_visible_holds_up_the_others() -> None:
    points = WaitingPoints()
    for start, revive_ms in ((1, 10_000), (2, 20_000), (3, 10_000)):
        points.add(point_of(start, revive_ms=revive_ms))
    [name] = points.visible_before(15_000)
    points.remove(name)
    assert len(points) == 2 and points.visible_before(15_000) == []


def test_the_same_one_once_more_is_the_last_and_keeps_its_acks() -> None:
    points = WaitingPoints()
    first = point_of(1, 1, 2, 3, revive_offset=1)
    points.add(first)
    points.add(point_of(7, revive_offset=2))
    points.note_acked(first.key, {2})
    points.add(point_of(1, 1, 2, 3, revive_offset=3))
    found = [points.get(name) for name in points.visible_before(99_999)]
    assert [each.revive_offset for each in found] == [2, 3] and found[1].open_offsets == [1, 3]


def test_an_ack_of_another_check_point_changes_nothing() -> None:
    points = WaitingPoints()
    point = point_of(1)
    points.add(point)
    for other in (point.key._replace(group="h"), point.key._replace(pop_time_ms=4_001)):
        points.note_acked(other, {1})
    assert [points.get(name).open_offsets for name in points.visible_before(99_999)] == [[1]]


def test_numbers_that_no_check_point_has() -> None:
    points = WaitingPoints()
    for wrong in (point_of(1 << 63), point_of(1, put_count=1 << 16), point_of(1, 1, 1 << 64)):
        with pytest.raises(ValueError, match="the numbers"):
            points.add(wrong)
    assert not len(points)


def test_all_bits_of_javas_int() -> None:
    point = point_of(0, *range(32))
    body = check_point_message(point, 0).body.replace(b'"bm":0', b'"bm":-2')
    points = WaitingPoints()
    points.add(read_check_point(body))
    assert [points.get(name).open_offsets for name in points.visible_before(99_999)] == [[0]]


def test_many_that_wait_together_are_small_and_leave_nothing(scale: Scale) -> None:
    points, dice, count = WaitingPoints(), random.Random(1), scale.pick(ci=25_000, full=100_000)
    tracemalloc.start()
    try:
        gc.collect()  # with it, what the interpreter keeps of tuples that are no more
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            points.add(read_check_point(check_point_message(point_of(number + (1 << 33)), dice.randrange(8)).body))
        each = (tracemalloc.get_traced_memory()[0] - before) / count
        for name in points.visible_before(99_999):
            points.remove(name)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert each < BYTES_MAX, f"{each} bytes each"
    assert not len(points) and left < count
