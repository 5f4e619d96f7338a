"""What a store knows of its consumer groups: computed from offsets, settings and the bounds of queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...store.queue_offsets import QueueKey
from .group_settings import GroupSettings

OF_ROCKETMQ = frozenset(
    {
        *("DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP"),
        *("__MONITOR_CONSUMER", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL"),
    }
)
"""Groups that a broker puts into its files for itself (`MixAll.isPredefinedGroup`)."""
OF_ROCKETMQ_PREFIX = "CID_RMQ_SYS_"


@dataclass(frozen=True, slots=True)
class GroupState:
    """One consumer group, as it was when this was asked for."""

    name: str
    topics: tuple[str, ...]
    """The topics that it has offsets in, or that its members have subscribed to."""
    members: tuple[str, ...]
    """The names of its members in this process."""
    lag: int
    """Messages between its offsets and the ends of their queues. Filtered messages count."""
    is_ordered: bool
    """Whether its members consume in order; without members, what its settings say."""
    is_broadcasting: bool
    """Whether its members broadcast: then they keep the offsets, not the store, and `lag` does not count theirs."""
    settings: GroupSettings
    owners: Mapping[QueueKey, str] = field(default_factory=dict)
    """Topic and queue id -> the member in this process that has the queue; not of members that broadcast, who all have
    every queue."""


def is_system_group(group: str) -> bool:
    """Whether the group is RocketMQ's own."""
    return group in OF_ROCKETMQ or group.startswith(OF_ROCKETMQ_PREFIX)


def lag_of(offsets: Mapping[str, Mapping[int, int]], bounds: Mapping[QueueKey, tuple[int, int]]) -> dict[QueueKey, int]:
    """How many messages of each queue lie behind these offsets (topic -> queue id -> offset), in the topics that have
    any. A queue of such a topic without an offset counts from its first message."""
    lag = {}
    for (topic, queue_id), (first, end) in bounds.items():
        if topic in offsets:
            lag[topic, queue_id] = end - min(max(offsets[topic].get(queue_id, first), first), end)
    return lag
