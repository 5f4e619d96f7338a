"""Which names new consumer groups may have."""

from __future__ import annotations

from ...engine.message_store import MessageStore
from ...store.topic import GROUP_MAX_LENGTH, is_client_name
from .group_errors import InvalidGroupError
from .group_table import GroupTable


def check_new_group(store: MessageStore, groups: GroupTable, group: str) -> None:
    """Raises InvalidGroupError for a group that the store has neither offsets nor settings of, if its name is none for
    RocketMQ's clients and the store is strict about that."""
    if not store.settings.rocketmq_strict or is_client_name(group, GROUP_MAX_LENGTH):
        return
    if group not in store.offsets.by_group() and group not in groups.names():
        raise InvalidGroupError(store.path, group)
