"""The conf that fits a store: sizes of its files, what it was run with, and back through `from_broker_conf`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flightlog
from flightlog import FlushMode, Message, StoreSettings, handover
from flightlog.store.conf.broker_conf import NAMES, READ_ONLY_LOG, read_broker_conf
from flightlog.store.conf.java_properties import escaped_value, parse_properties
from flightlog.store.errors import GeometryMismatchError, StoreNotFoundError

CHANGED: Mapping[str, Any] = {
    "flush_mode": FlushMode.SYNC,
    "key_index": False,
    "delay_levels": "1s 7s 2h",
    "queue_extension": True,
    "queue_extension_file_size": 4096,
    "retention_hours": 48,
    "delete_when": "03;15",
    "clean_forcibly": False,
    "multi_dispatch": True,
    "auto_create_topics": False,
    "segment_size": 1 << 20,
    "queue_file_entries": 1000,
    "index_slots": 1000,
    "index_entries": 4000,
    "access_memory_percent": 41,
    "disk_max_used_percent": 76,
    "disk_clean_forcibly_percent": 84,
    "disk_warning_percent": 89,
    "check_crc_property": False,
    "append_crc_property": True,
    "timer_slot_max_count": 7,
}
"""Values that are not the defaults; every other setting that a conf can hold gets its default and one."""


def conf_of(path: Path, settings: StoreSettings | None = None, **words: Any) -> dict[str, str]:
    text = handover.broker_conf(path, settings, **words)
    return {found.key: found.value for found in parse_properties(text.encode("ascii"))}


def read_back(path: Path, text: str) -> StoreSettings:
    path.write_text(text)
    return read_broker_conf(path).settings


def test_sizes_are_those_of_the_files_whatever_is_set(small_store: Path) -> None:
    found = conf_of(small_store)
    assert found["mappedFileSizeCommitLog"] == str(1 << 20) and found["mappedFileSizeConsumeQueue"] == "20000"
    assert found["maxHashSlotNum"] == "1000" and found["maxIndexNum"] == "4000"
    assert "mappedFileSizeConsumeQueueExt" not in found
    with pytest.raises(GeometryMismatchError):
        handover.broker_conf(small_store, StoreSettings(segment_size=1 << 21))


def test_nothing_is_deleted_unless_it_was_asked_for(small_store: Path) -> None:
    found = conf_of(small_store)
    assert found["fileReservedTime"] == str(handover.FOR_EVER_HOURS) and found["cleanFileForciblyEnable"] == "false"
    found = conf_of(small_store, StoreSettings(retention_hours=24))
    assert found["fileReservedTime"] == "24" and found["cleanFileForciblyEnable"] == "true"
    text = handover.broker_conf(small_store, StoreSettings(retention_bytes=1 << 30))
    assert "# retention_bytes=1073741824 of flightlog has no counterpart" in text


def test_the_address_is_that_of_the_newest_message(tmp_path: Path) -> None:
    settings = StoreSettings.small(store_host=("10.1.2.3", 20911))
    with flightlog.open(tmp_path / "store", settings) as store:
        store.put(Message("orders", b"x"))
    found = conf_of(tmp_path / "store")
    assert (found["brokerIP1"], found["listenPort"]) == ("10.1.2.3", "20911")
    found = conf_of(tmp_path / "store", address="10.9.9.9", port=10911, broker_name="b", name_server="a:1;b:2")
    assert (found["brokerIP1"], found["brokerIP2"], found["listenPort"]) == ("10.9.9.9", "10.9.9.9", "10911")
    assert (found["brokerName"], found["namesrvAddr"]) == ("b", "a:1;b:2")


def test_a_store_without_a_message_has_the_address_of_its_settings(tmp_path: Path) -> None:
    settings = StoreSettings.small(store_host=("10.1.2.3", 20911))
    flightlog.open(tmp_path / "store", settings).close()
    assert conf_of(tmp_path / "store", settings)["brokerIP1"] == "10.1.2.3"


def test_every_setting_that_both_know_comes_back(tmp_path: Path) -> None:
    usual = StoreSettings()
    changed: dict[str, Any] = dict(CHANGED)
    for name in NAMES:
        value = getattr(usual, name)
        if name not in changed and isinstance(value, int):
            changed[name] = (not value) if isinstance(value, bool) else value + 1
    assert changed.keys() >= NAMES.keys()
    settings = StoreSettings(**changed)
    flightlog.open(tmp_path / "store", settings).close()
    found = read_back(tmp_path / "broker.conf", handover.broker_conf(tmp_path / "store", settings))
    for name in NAMES:
        assert getattr(found, name) == getattr(settings, name), name
    assert found.store_host == settings.store_host


def test_what_is_left_out_is_a_default_of_both(small_store: Path, tmp_path: Path) -> None:
    found = read_back(tmp_path / "broker.conf", handover.broker_conf(small_store))
    expected = dataclasses.replace(StoreSettings.small(), retention_hours=handover.FOR_EVER_HOURS, clean_forcibly=False)
    for name in NAMES:
        assert getattr(found, name) == getattr(expected, name) or name == "queue_extension_file_size", name


def test_folders_of_the_log_are_named(tmp_path: Path) -> None:
    settings = StoreSettings.small(commit_log_folders=("log-a", str(tmp_path / "log-b")))
    with flightlog.open(tmp_path / "store", settings) as store:
        store.put(Message("orders", b"x"))
    found = conf_of(tmp_path / "store", settings)
    assert found["storePathCommitLog"] == f"{tmp_path / 'log-b'},{tmp_path / 'store' / 'log-a'}"
    kept = dataclasses.replace(
        settings, commit_log_folders=("log-a",), commit_log_read_only_folders=(str(tmp_path / "log-b"),)
    )
    found = conf_of(tmp_path / "store", kept)
    assert found[READ_ONLY_LOG] == str(tmp_path / "log-b")
    assert found["storePathRootDir"] == str(tmp_path / "store")


def test_a_store_that_is_open_and_one_that_is_not_there(tmp_path: Path, small_store: Path) -> None:
    with flightlog.open(small_store):
        assert "mappedFileSizeCommitLog=1048576" in handover.broker_conf(small_store)
    with pytest.raises(StoreNotFoundError):
        handover.broker_conf(tmp_path / "nothing")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_java_reads_any_value_back(text: str) -> None:
    [found] = parse_properties(f"key={escaped_value(text)}".encode("ascii"))
    assert found.value == text


def test_the_broker_has_the_name_that_the_store_had(small_store: Path) -> None:
    """What was popped and not acknowledged names it; a broker-a looked for it at a broker "store", and gave up."""
    assert conf_of(small_store)["brokerName"] == StoreSettings().broker_name
    assert conf_of(small_store, StoreSettings(broker_name="orders-1"))["brokerName"] == "orders-1"
