"""Gauges: percentiles of the latest measurements, and rates."""

from __future__ import annotations

from flightlog.store.meters import KEPT, NOTE_EVERY_S, NOTES, RATE_WINDOW_S, Distribution, Latest, RateMeter


def test_nothing_measured() -> None:
    assert Latest().distribution() == Distribution(0, 0.0, 0.0, 0.0, 0.0)
    assert RateMeter(5.0).rates(5.0, 0, 0) == (0.0, 0.0)


def test_percentiles() -> None:
    latest = Latest()
    latest.note(7.0)
    assert latest.distribution() == Distribution(1, 7.0, 7.0, 7.0, 7.0)
    latest = Latest()
    for value in reversed(range(1000)):
        latest.note(float(value))
    assert latest.distribution() == Distribution(1000, 500.0, 900.0, 990.0, 999.0)


def test_the_latest_count() -> None:
    latest = Latest()
    for value in [1e9] * 50 + [1.0] * KEPT:
        latest.note(value)
    assert latest.distribution() == Distribution(KEPT, 1.0, 1.0, 1.0, 1.0)


def test_rates_of_a_steady_flow() -> None:
    meter = RateMeter(100.0)
    for tick in range(1, 1000):
        now_s = 100.0 + tick / 2
        meter.note(now_s, tick * 50, tick * 5000)
        assert meter.rates(now_s, tick * 50, tick * 5000) == (100.0, 10_000.0)


def test_a_burst_is_spread_over_the_window_and_then_forgotten() -> None:
    meter = RateMeter(0.0)
    meter.note(500.0, 0, 0)
    meter.note(500.0 + NOTE_EVERY_S / 2, 300, 600)  # too soon for a note of its own
    assert meter.rates(501.0, 300, 600) == (30.0, 60.0)
    assert meter.rates(500.0 + RATE_WINDOW_S + 1, 300, 600) == (0.0, 0.0)


def test_young_stores_are_measured_since_their_beginning() -> None:
    meter = RateMeter(50.0)
    assert meter.rates(52.0, 10, 100) == (5.0, 50.0)


def test_more_notes_than_are_kept() -> None:
    meter = RateMeter(0.0)
    for tick in range(10 * NOTES):
        meter.note(tick * NOTE_EVERY_S, tick, 2 * tick)
    last = 10 * NOTES - 1
    assert meter.rates(last * NOTE_EVERY_S, last, 2 * last) == (1 / NOTE_EVERY_S, 2 / NOTE_EVERY_S)
