"""The settings of one consumer group: RocketMQ's `SubscriptionGroupConfig`, and its JSON.

The class has what takes effect in flightlog. Every other field of the file is kept as it is, and has RocketMQ's default
in an entry that we make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...store.errors import ConfigFileError, InvalidArgumentError
from ...store.format.record import INT32_MAX
from .retry_policy import DEFAULT_POLICY, CustomizedRetryPolicy, ExponentialRetryPolicy, RetryPolicy

RETRY_MAX_TIMES = 16
CONSUME_TIMEOUT_MINUTES = 15


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of one group, as they were when this was asked for."""

    name: str
    is_enabled: bool = True
    """RocketMQ's `consumeEnable`. If not, members receive no messages; they get them once this is set again."""
    is_broadcast_enabled: bool = True
    """`consumeBroadcastEnable`: whether members may subscribe with a `broadcast_folder`."""
    is_ordered: bool = False
    """`consumeMessageOrderly`: whether `receive` pops in order."""
    retry_queue_count: int = 1
    """`retryQueueNums`: queues of the group's retry topic."""
    retry_max_times: int = RETRY_MAX_TIMES
    """`retryMaxTimes`: redeliveries before a message becomes a dead letter."""
    retry_policy: RetryPolicy = DEFAULT_POLICY
    """`groupRetryPolicy`: how long a redelivery waits."""
    consume_timeout_minutes: int = CONSUME_TIMEOUT_MINUTES
    """`consumeTimeoutMinute`, in minutes."""

    @property
    def max_attempts(self) -> int:
        """Deliveries of a message, the first one included."""
        return max(self.retry_max_times, 0) + 1


FILE_NAMES = {
    "is_enabled": "consumeEnable",
    "is_broadcast_enabled": "consumeBroadcastEnable",
    "is_ordered": "consumeMessageOrderly",
    "retry_queue_count": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
    "consume_timeout_minutes": "consumeTimeoutMinute",
}
"""What a field of GroupSettings is called in the file."""

_FLAGS = ("is_enabled", "is_broadcast_enabled", "is_ordered")
_NUMBERS = ("retry_queue_count", "retry_max_times", "consume_timeout_minutes")
_EXPONENTIAL_NAMES = {"initial_ms": "initial", "max_ms": "max", "multiplier": "multiplier"}


def new_entry(name: str) -> dict[str, Any]:
    """The entry of a group that has none, as RocketMQ makes it."""
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": CONSUME_TIMEOUT_MINUTES,
        "groupName": name,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": RETRY_MAX_TIMES,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def changed_entry(entry: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with other values of these fields of GroupSettings; the rest is kept."""
    changed = dict(entry)
    for field_name, value in changes.items():
        if field_name == "retry_policy":
            before = entry.get("groupRetryPolicy")
            changed["groupRetryPolicy"] = {**(before if isinstance(before, dict) else {}), **policy_to_json(value)}
        else:
            changed[FILE_NAMES[field_name]] = value
    return changed


def policy_to_json(policy: RetryPolicy) -> dict[str, Any]:
    """A `groupRetryPolicy` with this policy."""
    if isinstance(policy, CustomizedRetryPolicy):
        return {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": list(policy.delays_ms)}}
    numbers = {file_name: getattr(policy, name) for name, file_name in _EXPONENTIAL_NAMES.items()}
    return {"type": "EXPONENTIAL", "exponentialRetryPolicy": numbers}


def settings_from_json(name: str, found: object, path: Path) -> GroupSettings:
    """The settings of an entry in the file `path`; a field that is not there has RocketMQ's default. Raises
    ConfigFileError."""

    def wrong(what: str, expected: str) -> ConfigFileError:
        return ConfigFileError(path, f"group {name[:100]!r}: {what}", expected)

    if not isinstance(found, dict):
        raise wrong(f"a {type(found).__name__}", "an object with its settings")
    fields: dict[str, Any] = {}
    for field_name in (*_FLAGS, *_NUMBERS):
        value = found.get(FILE_NAMES[field_name])
        if value is None:
            continue
        is_flag = isinstance(value, bool)
        if is_flag is not (field_name in _FLAGS) or not isinstance(value, int) or not ~INT32_MAX <= value <= INT32_MAX:
            expected = "true or false" if field_name in _FLAGS else "a whole number of 32 bits"
            raise wrong(f"{FILE_NAMES[field_name]}={str(value)[:40]!r}", expected)
        fields[field_name] = value
    try:
        return GroupSettings(name, **fields, retry_policy=policy_from_json(found.get("groupRetryPolicy")))
    except (InvalidArgumentError, TypeError, AttributeError) as e:
        raise wrong(f"its groupRetryPolicy: {e}", "a policy as RocketMQ writes it") from e


def policy_from_json(found: Any) -> RetryPolicy:
    """The policy that RocketMQ's `GroupRetryPolicy.getRetryPolicy` takes: the default one where that of the type is not
    there. Raises InvalidArgumentError, TypeError or AttributeError for what is none."""
    found = found or {}
    if found.get("type") == "EXPONENTIAL":
        numbers = found.get("exponentialRetryPolicy")
        if numbers is not None:
            given = {name: numbers[key] for name, key in _EXPONENTIAL_NAMES.items() if key in numbers}
            return ExponentialRetryPolicy(**given)
    elif (table := found.get("customizedRetryPolicy")) is not None and "next" in table:
        return CustomizedRetryPolicy(table["next"])
    return DEFAULT_POLICY
