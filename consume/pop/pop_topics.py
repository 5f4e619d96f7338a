"""The topics that pop adds to a store, and the group that revives."""

from __future__ import annotations

from typing import Final

from ...store.format.record import RETRY_TOPIC_PREFIX

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"
"""Prefix of RocketMQ's revive topics; the name of the broker's cluster follows."""
REVIVE_TOPIC: Final = f"{REVIVE_PREFIX}DefaultCluster"
REVIVE_QUEUE_COUNT: Final = 8
ORDERED_REVIVE_QUEUE_ID: Final = 999
"""In handles of messages that were popped in order (`POP_ORDER_REVIVE_QUEUE`). It is no queue."""
REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
"""Its offsets in the revive topic are those of the last check point that was worked off, not of the next."""


def retry_topic(group: str, topic: str) -> str:
    """Where messages of a topic go that the group did not acknowledge in time (RocketMQ's retry topic V1)."""
    return f"{RETRY_TOPIC_PREFIX}{group}_{topic}"
