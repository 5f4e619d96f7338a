"""Group settings beside RocketMQ's own SubscriptionGroupManager: its subscriptionGroup.json is read by us, ours by it.

So are the delays of retry policies, which its own classes compute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flightlog import CustomizedRetryPolicy, ExponentialRetryPolicy, GroupSettings
from flightlog.consume.group.group_settings import new_entry, settings_from_json
from flightlog.consume.group.group_table import GroupTable
from flightlog.consume.group.retry_policy import RetryPolicy
from flightlog.store.disk.clock import SystemClock
from flightlog.store.disk.disk import RealDisk
from flightlog.tests.interop.harness import Line, RocketMq

pytestmark = pytest.mark.ci

LIMIT_S = 120.0
TIMES = 40
LONG_MAX = (1 << 63) - 1

Ask = Callable[..., list[Line]]


@pytest.fixture
def broker_groups(rocketmq: RocketMq, tmp_path: Path) -> Ask:
    """What a broker's SubscriptionGroupManager reads: a line a group, and a summary. It then takes over the groups in
    `put`, JSON objects, and writes the file."""

    def ask(path: Path, *, put: Sequence[dict[str, Any]] = ()) -> list[Line]:
        arguments: dict[str, object] = {"path": path, "times": TIMES}
        if put:
            arguments["set"] = tmp_path / "set"
            (tmp_path / "set").write_text("".join(json.dumps(each) + "\n" for each in put))
        with rocketmq.run("groups", arguments, LIMIT_S) as output:
            return [json.loads(line) for line in output.read_text().splitlines()]

    return ask


def our_table(path: Path) -> GroupTable:
    table = GroupTable(RealDisk(), path, SystemClock())
    table.load()
    return table


def by_name(lines: list[Line]) -> dict[str, dict[str, Any]]:
    return {line["name"]: json.loads(line["settings"]) for line in lines if line["type"] == "group"}


def delays_of(lines: list[Line], group: str) -> list[int]:
    """After -1, 0, 1, ... redeliveries."""
    (found,) = [line["delays"] for line in lines if line.get("name") == group]
    delays: list[int] = found
    return delays


def our_delays(settings: GroupSettings) -> list[int]:
    return [settings.retry_policy.delay_ms(times) for times in range(-1, TIMES + 1)]


def test_each_reads_what_the_other_wrote(broker_groups: Ask, tmp_path: Path) -> None:
    theirs = [
        {"groupName": "plain"},
        {
            "groupName": "all",
            "consumeEnable": False,
            "consumeBroadcastEnable": False,
            "consumeMessageOrderly": True,
            "retryQueueNums": 3,
            "retryMaxTimes": 5,
            "consumeTimeoutMinute": 7,
            "brokerId": 2,
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 10, "max": 1000, "multiplier": 3},
            },
            "subscriptionDataSet": [{"topic": "t", "expressionType": "TAG", "expression": "*", "version": 9}],
            "attributes": {"a": "b"},
        },
        {
            "groupName": "table",
            "groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 3, 4]}},
        },
        {"groupName": "half", "groupRetryPolicy": {"type": "EXPONENTIAL"}},
    ]
    of_brokers = set(by_name(broker_groups(tmp_path, put=theirs)))
    assert "TOOLS_CONSUMER" in of_brokers, "a broker's own, which it writes too"
    table = our_table(tmp_path)
    assert set(table.names()) == of_brokers | {"plain", "all", "table", "half"}
    assert table.settings("plain") == GroupSettings("plain") == GroupSettings("plain", retry_max_times=16)
    assert table.settings("all") == GroupSettings(
        "all",
        is_enabled=False,
        is_broadcast_enabled=False,
        is_ordered=True,
        retry_queue_count=3,
        retry_max_times=5,
        consume_timeout_minutes=7,
        retry_policy=ExponentialRetryPolicy(10, 1000, 3),
    )
    assert table.settings("table").retry_policy == CustomizedRetryPolicy((1, 2, 3, 4))
    assert table.settings("half").retry_policy == CustomizedRetryPolicy()

    before = by_name(broker_groups(tmp_path))
    table.update("all", retry_max_times=6)
    table.update("new", is_ordered=True, retry_policy=ExponentialRetryPolicy(1, 2, 3))
    lines = broker_groups(tmp_path)
    after = by_name(lines)
    new = after.pop("new")
    assert after == before | {"all": {**before["all"], "retryMaxTimes": 6}}, "what we do not know is kept"
    assert before["all"]["subscriptionDataSet"] and before["all"]["attributes"] == {"a": "b"}
    policy = new.pop("groupRetryPolicy")
    assert policy["exponentialRetryPolicy"] == {"initial": 1, "max": 2, "multiplier": 3}
    expected = new_entry("new") | {"consumeMessageOrderly": True}
    assert policy["type"] == "EXPONENTIAL" and expected.pop("groupRetryPolicy") == {"type": "CUSTOMIZED"}
    assert new == expected
    (summary,) = [line for line in lines if line["type"] == "summary"]
    version = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text())["dataVersion"]
    assert summary["loaded"] and (summary["counter"], summary["timestamp"]) == (
        version["counter"],
        version["timestamp"],
    )
    table.remove("all")
    assert set(by_name(broker_groups(tmp_path))) == set(after) - {"all"} | {"new"}


def test_a_file_that_we_made_is_read_and_a_default_entry_is_the_brokers(broker_groups: Ask, tmp_path: Path) -> None:
    our_table(tmp_path).update("billing", retry_queue_count=1)
    read = by_name(broker_groups(tmp_path, put=[{"groupName": "theirs"}]))["billing"]
    stored = json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text())["subscriptionGroupTable"]
    assert read == stored["billing"] == {**stored["theirs"], "groupName": "billing"} == new_entry("billing")


def test_a_damaged_file_is_read_from_its_copy_by_both(broker_groups: Ask, tmp_path: Path) -> None:
    table = our_table(tmp_path)
    for times in (5, 6):
        table.update("g", retry_max_times=times)
    (tmp_path / "config" / "subscriptionGroup.json").write_bytes(b"")
    assert our_table(tmp_path).settings("g").retry_max_times == 5
    assert by_name(broker_groups(tmp_path))["g"]["retryMaxTimes"] == 5


def test_retry_policies_wait_as_long_as_rocketmqs(broker_groups: Ask, tmp_path: Path) -> None:
    policies: list[RetryPolicy] = [
        CustomizedRetryPolicy(),
        CustomizedRetryPolicy((7,)),
        CustomizedRetryPolicy((1, 2)),
        CustomizedRetryPolicy((1, 2, 3)),
        CustomizedRetryPolicy(tuple(range(0, 3_000, 100))),
        ExponentialRetryPolicy(),
        ExponentialRetryPolicy(0, 10, 5),
        ExponentialRetryPolicy(10, 0, 5),
        ExponentialRetryPolicy(1_000, 60_000, 1),
        ExponentialRetryPolicy(1_000, 60_000, 0),
        ExponentialRetryPolicy(1, LONG_MAX, 3),
        ExponentialRetryPolicy(1_000, LONG_MAX, 2),
        ExponentialRetryPolicy(1_000, 600_000, 10),
    ]
    table = our_table(tmp_path)
    for number, policy in enumerate(policies):
        table.update(f"g{number:02}", retry_policy=policy)
    lines = broker_groups(tmp_path)
    overflowed = 0
    for number, policy in enumerate(policies):
        ours, theirs = our_delays(table.settings(f"g{number:02}")), delays_of(lines, f"g{number:02}")
        for times, (our_delay, their_delay) in enumerate(zip(ours, theirs, strict=True), -1):
            if isinstance(policy, ExponentialRetryPolicy):
                power = policy.multiplier ** max(0, min(times, 32))
                if policy.initial_ms * min(power, LONG_MAX) > LONG_MAX:  # a Java long overflows: anything comes out
                    assert our_delay == policy.max_ms >= their_delay
                    overflowed += 1
                    continue
            assert our_delay == their_delay, (policy, times)
    assert overflowed, "the last policy"


def test_what_a_group_line_says_is_what_we_read(broker_groups: Ask, tmp_path: Path) -> None:
    """Every group that a broker makes for itself has settings that we can read."""
    broker_groups(tmp_path, put=[{"groupName": "g"}])
    for name, entry in by_name(broker_groups(tmp_path)).items():
        assert settings_from_json(name, entry, tmp_path) == GroupSettings(name) == our_table(tmp_path).settings(name)
