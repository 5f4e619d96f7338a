"""Interval, least pages, thorough interval: the rule alone, told the time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from flightlog.engine.services.flush_service import FlushRule

INTERVAL_S, LEAST_PAGES, THOROUGH_S = 1.0, 4, 10.0


def pages(count: float) -> Callable[[int], bool]:
    """That many are dirty."""
    return lambda least: count >= least if least else count > 0


@pytest.fixture
def rule() -> FlushRule:
    return FlushRule(INTERVAL_S, LEAST_PAGES, THOROUGH_S)


def test_nothing_dirty_is_never_due(rule: FlushRule) -> None:
    assert rule.due_s(pages(0)) == math.inf
    rule.flushed(100.0)
    assert rule.due_s(pages(0)) == math.inf


@pytest.mark.parametrize("dirty", [0.01, 3.99, 4, 500])
def test_what_comes_first_is_due_at_once(dirty: float, rule: FlushRule) -> None:
    assert rule.due_s(pages(dirty)) == -math.inf


@pytest.mark.parametrize(
    ("dirty", "due_s"), [(0.01, 100 + THOROUGH_S), (3.99, 100 + THOROUGH_S), (4, 100 + INTERVAL_S), (500, 101)]
)
def test_after_a_thorough_flush(dirty: float, due_s: float, rule: FlushRule) -> None:
    rule.flushed(100.0)
    assert rule.due_s(pages(dirty)) == due_s


def test_the_thorough_interval_runs_from_thorough_flushes_alone(rule: FlushRule) -> None:
    rule.flushed(100.0)
    for now_s in (101.0, 103.0, 109.0):  # many pages, again and again
        rule.flushed(now_s)
        assert rule.due_s(pages(0.5)) == 100 + THOROUGH_S
    assert rule.due_s(pages(4)) == 109 + INTERVAL_S
    rule.flushed(110.0)
    assert rule.due_s(pages(0.5)) == 110 + THOROUGH_S


def test_after_a_long_silence_nothing_waits(rule: FlushRule) -> None:
    rule.flushed(100.0)
    assert rule.due_s(pages(0.01)) <= 1000
    rule.flushed(1000.0)
    assert rule.due_s(pages(0.01)) == 1000 + THOROUGH_S


def test_even_a_thorough_flush_keeps_the_interval() -> None:
    rule = FlushRule(interval_s=60.0, least_pages=2, thorough_interval_s=10.0)
    rule.flushed(100.0)
    assert rule.due_s(pages(1)) == rule.due_s(pages(2)) == 160.0


def test_without_least_pages_every_byte_counts() -> None:
    rule = FlushRule(INTERVAL_S, 0, THOROUGH_S)
    rule.flushed(100.0)
    assert rule.due_s(pages(0.01)) == 100 + INTERVAL_S
    assert rule.due_s(pages(0)) == math.inf
