"""RocketMQ's delay levels, and the times in the queues of parked messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import flightlog
from flightlog.schedule.delay_level_table import DelayLevelTable
from flightlog.store.errors import InvalidSettingsError

STORED_MS = 1_700_000_000_123


def test_the_default_levels() -> None:
    seconds = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
    assert DelayLevelTable.parse().delays_ms == tuple(1000 * s for s in seconds)


def test_times() -> None:
    levels = DelayLevelTable.parse()
    assert levels.delivery_time_ms(3, STORED_MS) == STORED_MS + 10_000 == 0x18BCFE58F8B
    assert levels.delivery_time_ms(18, STORED_MS) == STORED_MS + 7_200_000
    assert levels.delivery_time_ms(19, STORED_MS) == STORED_MS + 7_200_000, "a level above the highest is the highest"
    assert levels.delivery_time_ms(0, STORED_MS) == levels.delivery_time_ms(-4, STORED_MS) == STORED_MS + 1000


def test_other_levels() -> None:
    assert DelayLevelTable.parse("  2s 3m\t1h 2d ").delays_ms == (2000, 180_000, 3_600_000, 172_800_000)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("1s 5x", "5x"),
        ("s", "'s'"),
        ("10", "10"),
        ("1s -5s", "-5s"),
        ("1.5s", "1.5s"),
        ("1S", "1S"),
        ("", "at least one"),
    ],
)
def test_nonsense_names_the_word(text: str, word: str) -> None:
    with pytest.raises(InvalidSettingsError, match=word):
        DelayLevelTable.parse(text)


def test_a_store_is_not_touched_by_nonsensical_levels(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, flightlog.StoreSettings.small()) as store:
        store.put(flightlog.Message("t", b"x"))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}
    for _ in range(2):
        with pytest.raises(InvalidSettingsError, match="5x"):
            flightlog.open(tmp_path, flightlog.StoreSettings.small(delay_levels="5x"))
    assert {path: path.read_bytes() for path in before} == before
    with pytest.raises(InvalidSettingsError, match="5x"):
        flightlog.open_read_only(tmp_path, flightlog.StoreSettings(delay_levels="5x"))
    with flightlog.open(tmp_path) as store:
        assert store.verify().is_clean


def test_a_queue_extension_keeps_times_of_other_levels(tmp_path: Path) -> None:
    settings = {"queue_extension": True, "deliver_delayed": False}
    with flightlog.open(tmp_path, flightlog.StoreSettings.small(delay_levels="3s", **settings)) as store:
        store.put(flightlog.Message("t", b"1", delay_level=1))
    with flightlog.open_read_only(tmp_path) as view:
        report = view.verify()
    assert report.is_clean, [*map(str, report.findings)]
