"""Settings: what makes no sense is refused, with the reason. The nonsense is made from the fields of the dataclass."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from flightlog.store import settings as settings_module
from flightlog.store.conf.broker_conf import NAMES
from flightlog.store.errors import InvalidSettingsError, UsageError
from flightlog.store.settings import (
    DEFAULT_QUEUE_FILE_ENTRIES,
    DEFAULT_SEGMENT_SIZE,
    RANGES,
    FlushMode,
    StoreSettings,
)

FIELDS = {field.name: str(field.type) for field in dataclasses.fields(StoreSettings)}

NO_NUMBERS: tuple[Any, ...] = (True, False, 1.0, 1e300, float("nan"), "1", "many", b"1", [], (), ..., 10**30, -(10**30))
NO_SWITCHES: tuple[Any, ...] = (0, 1, "true", "false", "", 1.0, [], ...)
NO_TEXTS: tuple[Any, ...] = (0, True, b"1s", ["1s"], 1.5, ...)

NO_FOLDERS = ("one", ("",), (" ",), ("a", "a"), ["a"], (1,), ("a\0",), (None,), 1, None)
NONSENSE: dict[str, tuple[Any, ...]] = {
    "commit_log_folders": NO_FOLDERS,
    "commit_log_read_only_folders": NO_FOLDERS,
    "unkept_promises": ("aclEnable", ["aclEnable"], (1,), None),
    "segment_size": (4097, 8191, (1 << 31) - 4095),
    "flush_mode": ("SYNC_FLUSH", None, 1, True, FlushMode),
    "store_host": (
        *(("localhost", 10911), ("10.0.0.1", 65536), ("10.0.0.1", -1), ("10.0.0.1",), ("10.0.0.1", 1, 2), ()),
        *("10.0.0.1:10911", None, ("10.0.0.1", "10911"), ("10.0.0.1", True), ("10.0.0.1", 1.0), (None, 1), 0),
        *(("10.0.0.256", 1), ("::1%lo", "x"), [], ("", 10911)),
    ),
    "broker_name": ("", " ", "a b", "a\n", "a/b", "ä", "a" * 128),
    "retention": ("", "Consumed", "consumed ", b"consumed", True),
    "delete_when": ("", ";", "24", "4,5", "-1", "4.5", "004", "٤", "noon", "4 "),
    "delay_levels": ("", " ", "1s 5x", "s", "10", "1s -5s", "1.5s", "1S", "1s,5s", "١s", "9999999999s", "1s\0"),
}
"""What the type and the range alone do not tell. A field that is neither number nor switch needs an entry here."""

CONTRADICTIONS: list[dict[str, Any]] = [
    {"index_slots": 100_000_000, "index_entries": 100_000_000},
]
"""Settings of which each is fine without the others."""


def nonsense() -> Iterator[tuple[str, Any]]:
    for name, kind in FIELDS.items():
        plain = kind.removesuffix(" | None")
        values = list(NONSENSE.get(name, ()))
        if plain == "int":
            low, high = RANGES[name]
            values += [*NO_NUMBERS, low - 1, high + 1, -1 if low >= 0 else low - 2]
        elif plain == "bool":
            values += NO_SWITCHES
        elif plain == "str":
            values += NO_TEXTS
        if plain == kind and None not in values:
            values.append(None)
        for value in values:
            yield name, value


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
    assert (settings.access_memory_percent, settings.get_scan_size) == (40, 16_000)
    assert (settings.auto_create_topics, settings.default_queue_count) == (True, 4)
    assert (settings.max_auto_queue_count, settings.put_adds_queues) == (64, False)
    assert settings.delay_levels == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def test_bounds_of_the_format_and_of_rocketmq() -> None:
    assert RANGES["max_message_size"] == (1, 1 << 30), "sizes and positions of records are Java ints"
    assert RANGES["access_memory_percent"] == (0, 100)
    assert RANGES["clean_batch_count"][0] == 1, "with none, no segment would ever go"


def test_small() -> None:
    assert (StoreSettings.small().segment_size, StoreSettings.small().queue_file_entries) == (1 << 20, 1000)
    changed = StoreSettings.small(segment_size=8192, flush_mode=FlushMode.SYNC)
    assert (changed.segment_size, changed.queue_file_entries, changed.flush_mode) == (8192, 1000, FlushMode.SYNC)


def test_settings_cannot_change_under_an_open_store() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        StoreSettings().segment_size = 8192  # type: ignore[misc]
    for name in FIELDS:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(StoreSettings(), name, None)


def test_every_field_has_its_nonsense() -> None:
    for name, kind in FIELDS.items():
        plain = kind.removesuffix(" | None")
        if plain == "int":
            assert name in RANGES, f"give {name} a range in store/settings.py"
        elif plain != "bool":
            assert NONSENSE.get(name), f"list what {name} must refuse in NONSENSE above"
    assert set(RANGES) | set(NONSENSE) <= set(FIELDS), "what is no field any more"


@pytest.mark.parametrize(("name", "value"), list(nonsense()))
def test_nonsense_is_refused_with_the_reason(name: str, value: Any) -> None:
    with pytest.raises(InvalidSettingsError) as raised:
        StoreSettings(**{name: value})
    text = str(raised.value)
    assert name in text and repr(value) in text
    assert "expected" in text or "0 to 65535" in text
    assert isinstance(raised.value, UsageError) and raised.value.exit_code == 2


@pytest.mark.parametrize("pair", CONTRADICTIONS, ids=lambda pair: " ".join(pair))
def test_settings_that_contradict_each_other_are_refused(pair: dict[str, Any]) -> None:
    for name, value in pair.items():
        assert getattr(StoreSettings(**{name: value}), name) == value, "alone it is fine"
    with pytest.raises(InvalidSettingsError) as raised:
        StoreSettings(**pair)
    for name, value in pair.items():
        assert name in str(raised.value) and str(value) in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, low) for name, (low, _) in RANGES.items()),
        *((name, high) for name, (_, high) in RANGES.items()),
        *((name, value) for name, kind in FIELDS.items() if kind == "bool" for value in (False, True)),
        *((name, None) for name, kind in FIELDS.items() if kind.endswith(" | None")),
        *(("store_host", ("::1", 0)), ("store_host", ("255.255.255.255", 65535)), ("delay_levels", "\t1d  2h ")),
        *(("flush_mode", mode) for mode in FlushMode),
    ],
)
def test_the_edges_are_accepted(name: str, value: Any) -> None:
    assert getattr(StoreSettings(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("disk_max_used_percent", 10, 95),
        ("disk_clean_forcibly_percent", 30, 85),
        ("disk_warning_percent", 35, 90),
        ("access_memory_percent", 0, 100),
    ],
)
def test_ratios_are_within_what_rocketmq_takes(name: str, low: int, high: int) -> None:
    for value in (low, high):
        changes: dict[str, Any] = {name: value}
        assert getattr(StoreSettings(**changes), name) == value
    for value in (low - 1, high + 1):
        changes = {name: value}
        with pytest.raises(InvalidSettingsError, match=name):
            StoreSettings(**changes)


ELSEWHERE = {"store_host", "commit_log_folders", "commit_log_read_only_folders"}
"""What broker_conf.py maps by rules of its own."""
NOT_TAKEN_OVER = {"broker_name"}
"""What a conf says of the broker and not of its store."""


def docstrings() -> dict[str, str]:
    """What stands below each field."""
    tree = ast.parse(inspect.getsource(settings_module))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "StoreSettings"]
    found = {}
    for before, node in itertools.pairwise(body):
        if isinstance(before, ast.AnnAssign) and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert isinstance(before.target, ast.Name)
            found[before.target.id] = str(node.value.value)
    return found


OURS_ALONE = frozenset(
    {
        *("allocate_step_size", "prepare_ahead_size", "index_flush_interval_ms", "accept_future_store_time"),
        *("check_blocks", "deliver_delayed", "max_auto_queue_count", "put_adds_queues", "unkept_promises"),
        *("rebalance_interval_ms", "retention", "retention_bytes", "rocketmq_strict"),
    }
)
"""Settings that RocketMQ has none for."""


def test_every_field_says_what_it_is_and_what_rocketmq_calls_it() -> None:
    told = docstrings()
    assert set(told) == set(FIELDS)
    for name in FIELDS:
        theirs = NAMES.get(name)
        if theirs is not None:
            assert f"`{theirs}`" in told[name], name
        else:
            apart = OURS_ALONE | ELSEWHERE | NOT_TAKEN_OVER
            assert name in apart, f"map {name} in store/conf/broker_conf.py, or say that it is ours"
    assert "`storePathCommitLog`" in told["commit_log_folders"]
    assert "`readOnlyCommitLogStorePaths`" in told["commit_log_read_only_folders"]
    assert "`brokerIP1`" in told["store_host"] and "`listenPort`" in told["store_host"]
    assert "`brokerName`" in told["broker_name"]
    assert set(NAMES) | OURS_ALONE | NOT_TAKEN_OVER <= set(FIELDS)


def test_units_stand_in_the_names() -> None:
    units = ("_ms", "_s", "_hours", "_size", "_bytes", "_entries", "_slots", "_pages", "_count", "_percent")
    for name, kind in FIELDS.items():
        if kind.removesuffix(" | None") in ("int", "float"):
            assert name.endswith(units), name
