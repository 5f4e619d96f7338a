"""Settings: what makes no sense is refused, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from flightlog.store.errors import InvalidSettingsError, UsageError
from flightlog.store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, FlushMode, StoreSettings


def test_defaults_are_rocketmqs() -> None:
    settings = StoreSettings()
    assert (DEFAULT_SEGMENT_SIZE, DEFAULT_QUEUE_FILE_ENTRIES) == (1_073_741_824, 300_000)
    assert settings.segment_size is None and settings.queue_file_entries is None
    assert settings.flush_mode is FlushMode.ASYNC
    assert (settings.flush_interval_ms, settings.queue_flush_interval_ms) == (500, 1000)
    assert (settings.flush_least_pages, settings.flush_thorough_interval_ms) == (4, 10_000)
    assert (settings.queue_flush_least_pages, settings.queue_flush_thorough_interval_ms) == (2, 60_000)
    assert (settings.sync_flush_timeout_ms, settings.max_message_size) == (5000, 4_194_304)
    assert (settings.get_memory_max_size, settings.get_memory_max_count) == (262_144, 32)
    assert (settings.get_disk_max_size, settings.get_disk_max_count) == (65_536, 8)
    assert (settings.access_memory_ratio, settings.get_scan_size) == (40, 16_000)
    assert settings.delay_levels == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def test_small() -> None:
    assert (StoreSettings.small().segment_size, StoreSettings.small().queue_file_entries) == (1 << 20, 1000)
    changed = StoreSettings.small(segment_size=8192, flush_mode=FlushMode.SYNC)
    assert (changed.segment_size, changed.queue_file_entries, changed.flush_mode) == (8192, 1000, FlushMode.SYNC)


def test_settings_cannot_change_under_an_open_store() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StoreSettings().segment_size = 8192  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("segment_size", 0), ("segment_size", 4095), ("segment_size", 4097), ("segment_size", -4096)),
        *(("segment_size", 1 << 31), ("segment_size", "1 GiB"), ("segment_size", 8192.0), ("segment_size", True)),
        *(("queue_file_entries", 0), ("queue_file_entries", -1), ("queue_file_entries", 100_000_001)),
        *(("queue_file_entries", "many"), ("flush_mode", "SYNC_FLUSH"), ("flush_mode", None)),
        *(("flush_interval_ms", 0), ("flush_interval_ms", 3_600_001), ("flush_interval_ms", None)),
        *(("queue_flush_interval_ms", 0), ("sync_flush_timeout_ms", 0), ("sync_flush_timeout_ms", -1)),
        *(("flush_least_pages", -1), ("flush_least_pages", 1 << 20), ("queue_flush_least_pages", None)),
        *(("flush_thorough_interval_ms", 0), ("queue_flush_thorough_interval_ms", 3_600_001)),
        *(("max_message_size", 0), ("max_message_size", (1 << 30) + 1), ("max_message_size", 1.5)),
        *(("get_memory_max_size", 0), ("get_memory_max_count", 0), ("get_memory_max_count", 1 << 31)),
        *(("get_disk_max_size", -1), ("get_disk_max_count", None), ("get_disk_max_count", 1.0)),
        *(("access_memory_ratio", -1), ("access_memory_ratio", 101), ("get_scan_size", 0)),
        *(("allocate_step_size", 0), ("allocate_step_size", 4095), ("allocate_step_size", 1 << 31)),
        *(("store_host", ("localhost", 10911)), ("store_host", ("10.0.0.1", 65536)), ("store_host", ("10.0.0.1",))),
        *(("store_host", "10.0.0.1:10911"), ("store_host", None), ("store_host", ("10.0.0.1", "10911"))),
    ],
)
def test_nonsense_is_refused_with_the_reason(name: str, value: Any) -> None:
    with pytest.raises(InvalidSettingsError) as raised:
        StoreSettings(**{name: value})
    text = str(raised.value)
    assert name in text and repr(value).strip("'") in text
    assert "expected" in text or "0 to 65535" in text or "missing" in text or "argument" in text
    assert isinstance(raised.value, UsageError) and raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("segment_size", 4096), ("segment_size", (1 << 31) - 4096), ("queue_file_entries", 1)),
        *(("queue_file_entries", 100_000_000), ("flush_interval_ms", 1), ("max_message_size", 1)),
        *(("flush_least_pages", 0), ("queue_flush_least_pages", 0), ("flush_thorough_interval_ms", 3_600_000)),
        *(("get_memory_max_size", (1 << 31) - 1), ("get_disk_max_count", 1), ("get_scan_size", 1)),
        *(("access_memory_ratio", 0), ("access_memory_ratio", 100)),
        *(("max_message_size", 1 << 30), ("allocate_step_size", 4096), ("store_host", ("::1", 0))),
    ],
)
def test_the_edges_are_accepted(name: str, value: Any) -> None:
    assert getattr(StoreSettings(**{name: value}), name) == value
