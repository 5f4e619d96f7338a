"""`config/subscriptionGroup.json`: what is written, what is kept, what a damaged one answers, and what settings do."""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import (
    ConfigFileError,
    CustomizedRetryPolicy,
    DiskError,
    ExponentialRetryPolicy,
    GroupSettings,
    InvalidArgumentError,
    Message,
    Store,
    StoreSettings,
    Subscription,
    UsageError,
    WrongTypeError,
)
from flightlog.testing.faulty_disk import FaultyDisk
from flightlog.tests.support import process


def groups_file(root: Path) -> Path:
    return root / "config" / "subscriptionGroup.json"


def put_file(root: Path, content: object) -> None:
    groups_file(root).parent.mkdir(parents=True, exist_ok=True)
    groups_file(root).write_text(content if isinstance(content, str) else json.dumps(content))


def stored(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(groups_file(root).read_text())
    return found


def test_a_group_has_rocketmqs_defaults_and_no_file_until_something_is_set(opened: Callable[[], Store]) -> None:
    store = opened()
    found = store.group_settings("billing")
    assert found == GroupSettings("billing") and (found.retry_max_times, found.max_attempts) == (16, 17)
    assert found.is_enabled and found.is_broadcast_enabled and not found.is_ordered
    assert found.retry_policy == CustomizedRetryPolicy() and found.retry_policy.delay_ms(0) == 10_000
    with store.subscribe("orders", "billing", idle_s=0):
        pass
    assert not groups_file(store.path).exists()


def test_what_is_set_is_there_again_and_the_rest_stays(opened: Callable[[], Store]) -> None:
    store = opened()
    policy = ExponentialRetryPolicy(100, 5_000, 3)
    store.update_group("billing", retry_max_times=2, retry_policy=policy)
    found = store.update_group("billing", is_ordered=True)
    expected = GroupSettings("billing", is_ordered=True, retry_max_times=2, retry_policy=policy)
    assert found == store.group_settings("billing") == expected
    store.update_group(17, consume_timeout_minutes=1, retry_queue_count=4)
    store.close()
    store = opened()
    assert store.group_settings("billing") == expected
    assert (
        store.group_settings("17")
        == store.group_settings(17)
        == GroupSettings("17", retry_queue_count=4, consume_timeout_minutes=1)
    )
    assert json.loads(groups_file(store.path).with_name("subscriptionGroup.json.bak").read_text())


def test_what_we_do_not_know_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "store"
    flightlog.open(root, StoreSettings.small()).close()
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3]}, "exponentialRetryPolicy": None}
    billing = {"groupName": "billing", "retryMaxTimes": 3, "newField": {"x": [1]}, "groupRetryPolicy": policy}
    table = {"billing": billing, "other": {"groupName": "other", "brokerId": 5}}
    forbidden = {"billing": {"orders": 1}, "other": {"orders": 2}}
    version = {"counter": 7, "stateVersion": 3, "timestamp": 5}
    put_file(
        root,
        {"dataVersion": version, "forbiddenTable": forbidden, "later": 1, "subscriptionGroupTable": table},
    )
    with flightlog.open(root) as store:
        assert store.group_settings("billing").retry_policy.delay_ms(5) == 3
        store.update_group("billing", retry_max_times=4)
    found = stored(root)
    assert found["dataVersion"].pop("timestamp") > 5
    assert found == {
        "dataVersion": {"counter": 8, "stateVersion": 3},
        "forbiddenTable": forbidden,
        "later": 1,
        "subscriptionGroupTable": {**table, "billing": {**billing, "retryMaxTimes": 4}},
    }


@pytest.mark.parametrize(
    "content",
    [
        "{",
        {"subscriptionGroupTable": []},
        {"subscriptionGroupTable": {"g": 5}},
        {"subscriptionGroupTable": {"g": {"retryMaxTimes": "16"}}},
        {"subscriptionGroupTable": {"g": {"retryMaxTimes": 1 << 31}}},
        {"subscriptionGroupTable": {"g": {"retryMaxTimes": True}}},
        {"subscriptionGroupTable": {"g": {"consumeEnable": 1}}},
        {"subscriptionGroupTable": {"g": {"groupRetryPolicy": 5}}},
        {"subscriptionGroupTable": {"g": {"groupRetryPolicy": {"customizedRetryPolicy": 5}}}},
        {"subscriptionGroupTable": {"g": {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [-1]}}}}},
        {
            "subscriptionGroupTable": {
                "g": {"groupRetryPolicy": {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"max": "1"}}}
            }
        },
    ],
)
def test_a_damaged_file_is_refused_unless_its_copy_is_sound(tmp_path: Path, content: object) -> None:
    root = tmp_path / "store"
    flightlog.open(root, StoreSettings.small()).close()
    put_file(root, content)
    with pytest.raises(ConfigFileError, match=r"subscriptionGroup\.json"):
        flightlog.open(root)
    groups_file(root).unlink()
    with flightlog.open(root) as store:  # it was closed cleanly, and its lock let go
        assert store.group_settings("g") == GroupSettings("g")
        store.update_group("g", retry_max_times=1)
        store.update_group("g", retry_max_times=2)
    put_file(root, "")
    with flightlog.open(root) as store:
        assert store.group_settings("g").retry_max_times == 1


def test_a_disk_that_fails_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with flightlog.open(tmp_path / "store", StoreSettings.small(), disk=disk) as store:
        store.update_group("g", retry_max_times=1)
        disk.fail("sync", "subscriptionGroup", errno.EIO)
        with pytest.raises(DiskError):
            store.update_group("g", retry_max_times=2)
        disk.heal()
        assert store.group_settings("g").retry_max_times == 1
        store.update_group("g", is_ordered=True)
    with flightlog.open(tmp_path / "store") as store:
        assert store.group_settings("g") == GroupSettings("g", retry_max_times=1, is_ordered=True)


def test_a_group_that_is_not_enabled_receives_nothing_until_it_is(
    opened: Callable[[], Store],
    bodies: Callable[[Subscription], list[bytes]],
    caplog: pytest.LogCaptureFixture,
    told: Callable[[], list[logging.LogRecord]],
) -> None:
    store = opened()
    store.put(Message("orders", b"1"))
    before, other = store.subscribe("orders", "billing"), store.subscribe("orders", "mail")
    store.update_group("billing", is_enabled=False)
    with caplog.at_level(logging.WARNING, "flightlog.consume"):
        assert before.receive(0) is None
        before.close()
        after = store.subscribe("orders", "billing")
        assert len(told()) == 1 and "billing is not enabled" in caplog.text
    assert after.receive(0) is None and bodies(other) == [b"1"]
    store.update_group("billing", is_enabled=True)
    assert bodies(after) == [b"1"]


def test_who_waits_is_woken_when_its_group_is_enabled(disks: Any) -> None:
    store = disks.open("a")["a"]
    store.update_group("g", is_enabled=False)
    disks.put("a", "x")
    with flightlog.Stores({"a": store}) as stores:
        subscription = stores.subscribe("orders", "g")
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(subscription.receive(process.LIMIT_S)))
        thread.start()
        store.update_group("g", is_enabled=True)
        thread.join(process.LIMIT_S)
        assert len(found) == 1 and found[0] is not None


def test_a_group_may_not_broadcast_if_its_settings_say_so(opened: Callable[[], Store], tmp_path: Path) -> None:
    store = opened()
    store.update_group("caches", is_broadcast_enabled=False)
    with pytest.raises(UsageError, match=r"'caches' may not broadcast .*is_broadcast_enabled=True"):
        store.subscribe("prices", "caches", broadcast_folder=tmp_path / "host")
    with store.subscribe("prices", "caches"), store.subscribe("prices", "others", broadcast_folder=tmp_path / "host"):
        pass


def test_retry_policies() -> None:
    table = CustomizedRetryPolicy()
    assert [table.delay_ms(times) // 1_000 for times in (-5, 0, 1, 2, 14, 15, 16, 1_000)] == [
        *(10, 10, 30, 60, 3_600, 7_200, 7_200, 7_200)
    ]
    assert CustomizedRetryPolicy([1, 2, 3, 4]).delays_ms == (1, 2, 3, 4)  # type: ignore[arg-type]
    power = ExponentialRetryPolicy()
    assert [power.delay_ms(times) // 1_000 for times in (-1, 0, 1, 10, 11, 1_000)] == [5, 5, 10, 5_120, 7_200, 7_200]
    assert ExponentialRetryPolicy(5, 1 << 62, 10).delay_ms(32) == 1 << 62, "where RocketMQ's long overflows"
    for wrong, error in (((), InvalidArgumentError), ("12", WrongTypeError), (5, WrongTypeError)):
        with pytest.raises(error, match="delays_ms"):
            CustomizedRetryPolicy(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="multiplier=-1"):
        ExponentialRetryPolicy(multiplier=-1)
